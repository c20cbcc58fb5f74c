//! What can go wrong with a weight file.

use std::fmt;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// A weight file that could not be loaded or saved. After an error in loading the model is as it was.
#[derive(Debug, Error)]
pub enum WeightsError {
    /// There is no such file.
    #[error("{path}: no such file; check the path", path = path.display())]
    NotFound {
        /// The file.
        path: PathBuf,
    },
    /// The name has no ending of a known format.
    #[error(
        "{path}: expected a name ending in .safetensors, .pt, .pth, .ckpt or .bin, found {found:?}; rename or convert the file",
        path = path.display()
    )]
    UnknownFormat {
        /// The file.
        path: PathBuf,
        /// The ending of its name.
        found: String,
    },
    /// The file is damaged, or holds something other than named tensors.
    #[error(
        "{path}: expected a state dict of named float tensors, found: {reason}; save it with torch.save(model.state_dict(), ..) \
         or safetensors.torch.save_file",
        path = path.display()
    )]
    NotAStateDict {
        /// The file.
        path: PathBuf,
        /// What the reader says.
        reason: String,
    },
    /// The file holds the model more than once, or none under the prefix.
    #[error(
        "{path}: expected one model, found candidates under the prefixes {prefixes:?}; choose one with load_under",
        path = path.display()
    )]
    Ambiguous {
        /// The file.
        path: PathBuf,
        /// The prefixes under which a model lies.
        prefixes: Vec<String>,
    },
    /// Names or shapes differ from the model's.
    #[error(
        "{path}: the weights are not those of this model:{differences}\nset the model's configuration to that of the file",
        path = path.display()
    )]
    Different {
        /// The file.
        path: PathBuf,
        /// All that differs.
        differences: Box<Differences>,
    },
    /// No name and shape of the file is the model's.
    #[error(
        "{path}: no weights of this model in it: expected tensors such as {expected}, found {found}; give the weights of such a \
         model, or set the model's configuration to that of the file",
        path = path.display()
    )]
    NothingMatches {
        /// The file.
        path: PathBuf,
        /// Some of the model's names and shapes.
        expected: String,
        /// Some of those of the file.
        found: String,
    },
    /// Some values are infinite or not a number.
    #[error(
        "{path}: expected finite weights, found others in {count} tensors, such as {first}; the training that made them has \
         diverged: take an earlier checkpoint",
        path = path.display(), count = tensors.len(), first = tensors.first().map_or("", String::as_str)
    )]
    NotFinite {
        /// The file.
        path: PathBuf,
        /// The names of the tensors in the file.
        tensors: Vec<String>,
    },
    /// The file could not be written; what was there before is still there.
    #[error("{path}: could not be written: {reason}; check the folder and its free space", path = path.display())]
    NotWritten {
        /// The file.
        path: PathBuf,
        /// What the system says.
        reason: String,
    },
}

impl WeightsError {
    /// Whether the file is fine but belongs to another model or configuration.
    pub fn is_different(&self) -> bool {
        matches!(self, Self::Different { .. } | Self::NothingMatches { .. })
    }

    /// The error of a file that has nothing of a model, with the first names and shapes of both.
    pub(super) fn nothing_matches<'a>(
        path: &Path,
        expected: impl Iterator<Item = (&'a str, &'a [usize])>,
        found: impl Iterator<Item = (&'a str, &'a [usize])>,
    ) -> Self {
        Self::NothingMatches { path: path.to_path_buf(), expected: first_of(expected), found: first_of(found) }
    }
}

/// The first few of many tensors.
fn first_of<'a>(tensors: impl Iterator<Item = (&'a str, &'a [usize])>) -> String {
    tensors.take(3).map(|(name, shape)| format!("{name} {shape:?}")).collect::<Vec<_>>().join(", ")
}

/// How a file differs from a model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Differences {
    /// Names that the model has and the file lacks.
    pub missing: Vec<String>,
    /// Names that the file has and the model lacks.
    pub unexpected: Vec<String>,
    /// Names that both have, in different shapes.
    pub shapes: Vec<ShapeDifference>,
}

/// A tensor whose shape in the file is not that in the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShapeDifference {
    /// Name in the file.
    pub name: String,
    /// Shape in the model.
    pub expected: Vec<usize>,
    /// Shape in the file.
    pub found: Vec<usize>,
}

impl Differences {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.missing.is_empty() && self.unexpected.is_empty() && self.shapes.is_empty()
    }
}

impl fmt::Display for Differences {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for name in &self.missing {
            write!(f, "\n  missing: {name}")?;
        }
        for name in &self.unexpected {
            write!(f, "\n  unexpected: {name}")?;
        }
        for ShapeDifference { name, expected, found } in &self.shapes {
            write!(f, "\n  shape: {name} is {found:?}, the model has {expected:?}")?;
        }
        Ok(())
    }
}
