//! What a command can fail with.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use leanburn_data::DataError;
use leanburn_mpi::JoinError;
use leanburn_nn::weights::WeightsError;
use leanburn_systems::SystemError;
use leanburn_systems::metrics::MetricsError;
use leanburn_systems::yaml::ConfigErrors;
use leanburn_train::TrainError;

use crate::report::ReportError;

/// An error of a command; [`help`](Self::help) says what to do about it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CommandError {
    /// What building, planning or training fails with.
    #[error(transparent)]
    System(SystemError),
    /// Arguments that are wrong, missing or contradict each other.
    #[error("{} in the arguments:\n{}", count(errors), lines(errors))]
    Arguments {
        /// Argument and what is wrong with it.
        errors: Vec<(String, String)>,
        /// What to do.
        remedy: &'static str,
    },
    /// Several things are wrong that do not depend on each other.
    #[error("{} things are wrong", .0.len())]
    Several(Vec<CommandError>),
    /// What was asked about does not fit; the command has said so.
    #[error("over the budget")]
    OverBudget,
    /// A signal of this number ended a run between two steps; the command has said so.
    #[error("ended by signal {0}")]
    Interrupted(u8),
    /// Signals cannot be listened to.
    #[error("cannot listen to signals: {0}")]
    Signals(#[source] std::io::Error),
    /// A report cannot be written.
    #[error(transparent)]
    Report(#[from] ReportError),
    /// Several processes were started that do not find each other.
    #[error(transparent)]
    Join(#[from] JoinError),
    /// The processes that were launched ended with this code; they have said why.
    #[error("the processes ended with code {0}")]
    Launched(u8),
    /// The launcher of processes cannot be started.
    #[error("cannot start {program}: {source}")]
    Launcher {
        /// Its name.
        program: String,
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
    /// The exit code: 2 for input that can be corrected before a run, 1 for a run that failed or would not fit, 128 and the number
    /// of the signal that ended it.
    pub fn exit_code(&self) -> u8 {
        let error = match self {
            Self::System(error) => error,
            Self::Interrupted(signal) => return 128 + signal,
            Self::Launched(code) => return *code,
            Self::OverBudget | Self::Report(_) | Self::Signals(_) => return 1,
            _ => return 2,
        };
        match error {
            SystemError::Train(
                TrainError::Schedule { .. }
                | TrainError::CheckpointMismatch { .. }
                | TrainError::UnevenRanks { .. }
                | TrainError::UnevenVolumeRanks { .. }
                | TrainError::WholeVolumes,
            ) => 2,
            SystemError::Data(DataError::Io { action: "write", .. })
            | SystemError::Weights(WeightsError::NotWritten { .. })
            | SystemError::OutOfMemory { .. }
            | SystemError::DoesNotFit { .. }
            | SystemError::Train(_)
            | SystemError::DamagedCheckpoint { .. }
            | SystemError::Metrics(_)
            | SystemError::Picture(_)
            | SystemError::Write { .. } => 1,
            _ => 2,
        }
    }

    /// What to do about it, where the message does not say so itself.
    pub fn help(&self) -> Option<Cow<'_, str>> {
        match self {
            Self::System(error) => error.help(),
            Self::Arguments { remedy, .. } => Some(Cow::Borrowed(remedy)),
            Self::Report(_) => {
                Some("check the file and the free space of its disk; `--resume` then continues the run".into())
            }
            Self::Join(JoinError::NotBuilt { .. }) => {
                Some("build with `cargo build --release --features mpi`, or start one process".into())
            }
            Self::Join(JoinError::OtherLauncher { .. }) => Some(
                "start them with the launcher of that MPI (under Slurm `srun --mpi=list` names what it can be told), or build \
                 with the launcher's MPI: `MPICC=mpicc.mpich cargo build --release --features mpi`"
                    .into(),
            ),
            Self::Launcher { .. } => {
                Some("install an MPI (Debian: openmpi-bin), or name its launcher with --launcher".into())
            }
            Self::Several(_) | Self::OverBudget | Self::Interrupted(_) | Self::Launched(_) | Self::Signals(_) => None,
        }
    }

    /// Whether the command has printed this already, as the result of a fit check or the end of runs: it is no failure to report.
    pub fn is_printed(&self) -> bool {
        matches!(self, Self::OverBudget | Self::Interrupted(_) | Self::Launched(_))
    }

    pub(crate) fn writing(path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path: PathBuf = path.to_path_buf();
        move |source| Self::System(SystemError::Write { path, source })
    }
}

/// An observer of ours fails with an error of ours.
impl From<SystemError> for CommandError {
    fn from(error: SystemError) -> Self {
        match error {
            SystemError::Observer(error) => match error.downcast::<Self>() {
                Ok(error) => *error,
                Err(error) => match error.downcast::<ReportError>() {
                    Ok(error) => Self::Report(*error),
                    Err(error) => Self::System(SystemError::Observer(error)),
                },
            },
            error => Self::System(error),
        }
    }
}

macro_rules! from_system {
    ($($error:ty),*) => {$(
        impl From<$error> for CommandError {
            fn from(error: $error) -> Self {
                Self::System(error.into())
            }
        }
    )*};
}
from_system!(ConfigErrors, DataError, MetricsError, TrainError, WeightsError);

fn count(errors: &[(String, String)]) -> String {
    let plural = if errors.len() == 1 { "" } else { "s" };
    format!("{} error{plural}", errors.len())
}

fn lines(errors: &[(String, String)]) -> String {
    let lines: Vec<String> = errors.iter().map(|(key, text)| format!("  {key}: {text}")).collect();
    lines.join("\n")
}
