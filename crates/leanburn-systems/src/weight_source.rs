//! Weights to start a run from.

use std::path::{Path, PathBuf};

use burn::module::Module;
use leanburn_nn::weights::{Matched, WeightsError};
use leanburn_train::{AnyLearner, CheckpointStore, Learner, trained_weights};

use crate::error::{Result, SystemError};

/// The weights in a run's folder.
pub(crate) const WEIGHTS: &str = "weights.safetensors";

/// The weights at a path: what is there as a file or a checkpoint, or has a name that ends as one of weights, is meant as it is; any other
/// path is a run's folder.
pub fn weights_of(path: &Path) -> PathBuf {
    match path.extension().and_then(|ending| ending.to_str()) {
        Some("safetensors" | "pt" | "pth" | "ckpt" | "bin") => path.to_path_buf(),
        _ if path.is_file() || CheckpointStore::is_checkpoint(path) => path.to_path_buf(),
        _ => path.join(WEIGHTS),
    }
}

/// Weights to start a run from: a file of one model, the folder of a run, or one of its checkpoints.
#[derive(Debug, Clone)]
pub struct WeightSource {
    path: PathBuf,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    File,
    Run,
    Checkpoint,
}

/// What the weights of a model were at the start of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Initialized {
    /// The model, by the name of its learner.
    pub model: &'static str,
    /// The file and what of it fitted; none where the source has no weights of this model, which stay as they were drawn.
    pub weights: Option<(PathBuf, Matched)>,
}

impl WeightSource {
    /// The weights at a path. Those of a checkpoint are read once, to see that they are whole.
    ///
    /// # Errors
    ///
    /// [`SystemError::Input`] if there are none, [`SystemError::Train`] if a checkpoint is damaged.
    pub fn open(path: &Path) -> Result<Self> {
        let kind = if path.is_file() {
            Kind::File
        } else if CheckpointStore::is_checkpoint(path) {
            CheckpointStore::verify(path)?;
            Kind::Checkpoint
        } else if path.join(WEIGHTS).is_file() {
            Kind::Run
        } else {
            return Err(SystemError::Input {
                subject: path.display().to_string(),
                expected: "weights: a file, a run's folder with a weights.safetensors, or a checkpoint".into(),
                found: if path.is_dir() { "a folder without any" } else { "nothing" }.into(),
                remedy: "check the path; checkpoints are the folders in checkpoints/ of a run".into(),
            });
        };
        Ok(Self { path: path.to_path_buf(), kind })
    }

    /// Lets `load` put the weights into the model that is trained, before its first step.
    ///
    /// # Errors
    ///
    /// [`SystemError::Input`] if a checkpoint is of another model, and those of `load`.
    pub(crate) fn initialize<M: Module>(
        &self,
        learner: &mut Learner<M>,
        load: impl FnOnce(&mut M, &Path) -> std::result::Result<Matched, WeightsError>,
    ) -> Result<Initialized> {
        let model = learner.name();
        let file = match self.kind {
            Kind::File => self.path.clone(),
            Kind::Run => self.path.join(WEIGHTS),
            Kind::Checkpoint => trained_weights(&self.path, model).ok_or_else(|| SystemError::Input {
                subject: self.path.display().to_string(),
                expected: format!("a checkpoint of this system, with {model}.weights.bpk"),
                found: "that of another".into(),
                remedy: "give the weights of a run whose configuration has the same section".into(),
            })?,
        };
        from_file(learner, file, load)
    }

    /// The same for a model that is trained beside it, whose file in a run's folder is called `name`. A file of weights has none.
    ///
    /// # Errors
    ///
    /// Those of `load`.
    pub(crate) fn initialize_beside<M: Module>(
        &self,
        learner: &mut Learner<M>,
        name: &Path,
        load: impl FnOnce(&mut M, &Path) -> std::result::Result<Matched, WeightsError>,
    ) -> Result<Initialized> {
        let file = match self.kind {
            Kind::File => None,
            Kind::Run => Some(self.path.join(name)).filter(|path| path.is_file()),
            Kind::Checkpoint => trained_weights(&self.path, learner.name()),
        };
        match file {
            Some(file) => from_file(learner, file, load),
            None => Ok(Initialized { model: learner.name(), weights: None }),
        }
    }
}

fn from_file<M: Module>(
    learner: &mut Learner<M>,
    file: PathBuf,
    load: impl FnOnce(&mut M, &Path) -> std::result::Result<Matched, WeightsError>,
) -> Result<Initialized> {
    let matched = learner.initialize(|model| load(model, &file))?;
    Ok(Initialized { model: learner.name(), weights: Some((file, matched)) })
}

impl Initialized {
    /// In words: a line for the model, and one for each tensor that stays as it was drawn.
    pub fn lines(&self) -> Vec<String> {
        let model = self.model;
        let Some((file, Matched { loaded, left })) = &self.weights else {
            return vec![format!("{model}: no weights there, it starts as it was drawn")];
        };
        let all = loaded + left.missing.len() + left.shapes.len();
        let mut lines = vec![format!("{model}: {loaded} of {all} tensors from {}", file.display())];
        let shapes = left.shapes.iter().map(|shape| {
            format!("  {} starts as it was drawn: {:?} there, {:?} here", shape.name, shape.found, shape.expected)
        });
        lines.extend(shapes);
        lines.extend(left.missing.iter().map(|name| format!("  {name} starts as it was drawn: not there")));
        if let Some(first) = left.unexpected.first() {
            lines.push(format!("  not used of the file: {first} and {} more", left.unexpected.len() - 1));
        }
        lines
    }
}
