//! What a command can fail with.

use std::path::{Path, PathBuf};

use leanburn_data::DataError;
use leanburn_nn::losses::LpipsError;
use leanburn_nn::models::ShapeError;
use leanburn_nn::weights::WeightsError;
use leanburn_train::TrainError;
use miette::Diagnostic;

use crate::config::ConfigErrors;
use crate::report::ReportError;

/// An error of a command; its message says what to do.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[non_exhaustive]
pub enum CommandError {
    /// Mistakes in the configuration.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Config(#[from] ConfigErrors),
    /// The configuration cannot be built into a model.
    #[error("{path}: the model cannot be built:\n{}", lines(mistakes))]
    Model {
        /// Where the configuration is from.
        path: String,
        /// Key and what is wrong with it.
        mistakes: Vec<(String, String)>,
    },
    /// A device that is not there.
    #[error("device `{name}`: {reason}")]
    #[diagnostic(help("{remedy}"))]
    Device {
        /// The name that was given.
        name: String,
        /// What is wrong with it.
        reason: String,
        /// What to do.
        remedy: String,
    },
    /// A run folder that cannot be used.
    #[error("{}: {reason}", path.display())]
    #[diagnostic(help("{remedy}"))]
    RunFolder {
        /// The folder.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
        /// What to do.
        remedy: String,
    },
    /// A file or an argument that cannot be used.
    #[error("{subject}: expected {expected}, found {found}")]
    #[diagnostic(help("{remedy}"))]
    Input {
        /// The file or the argument.
        subject: String,
        /// What was expected.
        expected: String,
        /// What was found.
        found: String,
        /// What to do.
        remedy: String,
    },
    /// Arguments that are wrong, missing or contradict each other.
    #[error("{} in the arguments:\n{}", count(mistakes), lines(mistakes))]
    #[diagnostic(help("{remedy}"))]
    Arguments {
        /// Argument and what is wrong with it.
        mistakes: Vec<(String, String)>,
        /// What to do.
        remedy: &'static str,
    },
    /// Several things are wrong that do not depend on each other.
    #[error("{} things are wrong", .0.len())]
    Several(#[related] Vec<CommandError>),
    /// What was asked about does not fit; the command has said so.
    #[error("over the budget")]
    OverBudget,
    /// Volumes cannot be read or written.
    #[error(transparent)]
    Data(#[from] DataError),
    /// Weights cannot be read or written.
    #[error(transparent)]
    Weights(#[from] WeightsError),
    /// The perceptual loss has no weights.
    #[error("{key}: {}", reason.source)]
    #[diagnostic(help("{remedy}"))]
    Lpips {
        /// The key that names the file.
        key: String,
        /// What is wrong with the file.
        reason: LpipsError,
        /// Where to get it.
        remedy: String,
    },
    /// A volume of a shape that the model cannot take.
    #[error("{volume}: {reason}")]
    #[diagnostic(help("data.voxel_size resizes the volumes, data.patch_size cuts patches out of them"))]
    Shape {
        /// Name of the volume.
        volume: String,
        /// What is wrong with it.
        reason: ShapeError,
    },
    /// No step fits into memory any more.
    #[error("{reason}")]
    #[diagnostic(help("{remedy}"))]
    OutOfMemory {
        /// What was asked for and what there was.
        reason: String,
        /// What to do.
        remedy: String,
    },
    /// Training cannot go on.
    #[error(transparent)]
    Train(#[from] TrainError),
    /// A report cannot be written.
    #[error(transparent)]
    #[diagnostic(help("check the file and the free space of its disk; `--resume` then goes on with the run"))]
    Report(#[from] ReportError),
    /// A file cannot be written.
    #[error("cannot write {}", path.display())]
    #[diagnostic(help("check that the folder is there and may be written to, and that the disk has space"))]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
}

/// Both values, or everything that is wrong.
///
/// # Errors
///
/// The one there is, or [`CommandError::Several`].
pub fn both<A, B>(one: Result<A>, other: Result<B>) -> Result<(A, B)> {
    match (one, other) {
        (Ok(one), Ok(other)) => Ok((one, other)),
        (Err(one), Err(other)) => Err(CommandError::Several(vec![one, other])),
        (Err(error), _) | (_, Err(error)) => Err(error),
    }
}

/// What a command gives.
pub type Result<T> = std::result::Result<T, CommandError>;

impl CommandError {
    /// The exit code: 2 for input that can be corrected before a run, 1 for a run that failed or would not fit.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Train(TrainError::Schedule { .. } | TrainError::CheckpointMismatch { .. }) => 2,
            Self::Data(DataError::Io { action: "write", .. }) | Self::Weights(WeightsError::NotWritten { .. }) => 1,
            Self::OutOfMemory { .. } | Self::Train(_) | Self::Report(_) | Self::Write { .. } | Self::OverBudget => 1,
            _ => 2,
        }
    }

    /// Whether this is a verdict that the command has printed already, rather than a failure to report.
    pub fn is_over_budget(&self) -> bool {
        matches!(self, Self::OverBudget)
    }

    pub(crate) fn writing(path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self::Write { path, source }
    }
}

fn count(mistakes: &[(String, String)]) -> String {
    let plural = if mistakes.len() == 1 { "" } else { "s" };
    format!("{} mistake{plural}", mistakes.len())
}

fn lines(mistakes: &[(String, String)]) -> String {
    let lines: Vec<String> = mistakes.iter().map(|(key, text)| format!("  {key}: {text}")).collect();
    lines.join("\n")
}
