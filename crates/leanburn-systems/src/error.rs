//! What building, planning and training a system can fail with.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use leanburn_common::Bytes;
use leanburn_data::DataError;
use leanburn_nn::losses::LpipsError;
use leanburn_nn::models::ShapeError;
use leanburn_nn::weights::WeightsError;
use leanburn_plan::Class;
use leanburn_train::TrainError;

use crate::metrics::MetricsError;
use crate::picture::PictureError;
use crate::yaml::ConfigErrors;

/// An error of a system; [`help`](Self::help) says what to do about it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SystemError {
    /// Validation errors of a configuration.
    #[error(transparent)]
    Config(#[from] ConfigErrors),
    /// A device that is not there.
    #[error("device `{name}`: {reason}")]
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
    /// Volumes cannot be read or written.
    #[error(transparent)]
    Data(#[from] DataError),
    /// Weights cannot be read or written.
    #[error(transparent)]
    Weights(#[from] WeightsError),
    /// The perceptual loss has no weights.
    #[error("{key}: {}", reason.source)]
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
    Shape {
        /// Name of the volume.
        volume: String,
        /// What is wrong with it.
        reason: ShapeError,
    },
    /// No step fits into memory any more.
    #[error("{reason}")]
    OutOfMemory {
        /// What was asked for and what there was.
        reason: String,
        /// What to do.
        remedy: String,
    },
    /// Even the smallest plan needs more than the budget.
    #[error("{budget} is less than the {} of the smallest plan with {allowed} changes", smallest.rounded_up())]
    DoesNotFit {
        /// What there is.
        budget: Bytes,
        /// What the smallest plan needs.
        smallest: Bytes,
        /// What might be changed.
        allowed: Class,
    },
    /// There is no budget to fit into.
    #[error("there is no budget to fit into")]
    NoBudget,
    /// Training cannot go on.
    #[error(transparent)]
    Train(#[from] TrainError),
    /// The checkpoint that a run was to go on from is damaged.
    #[error("{damage}")]
    DamagedCheckpoint {
        /// What is wrong with it.
        damage: TrainError,
        /// The newest one before it that is whole.
        before: Option<PathBuf>,
    },
    /// The metrics of a run cannot be read or written.
    #[error(transparent)]
    Metrics(#[from] MetricsError),
    /// A picture cannot be drawn.
    #[error(transparent)]
    Picture(#[from] PictureError),
    /// Whoever observes a session failed, and the session with it.
    #[error(transparent)]
    Observer(Box<dyn std::error::Error + Send + Sync>),
    /// A file cannot be written.
    #[error("cannot write {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
}

/// What this crate's functions give.
pub type Result<T> = std::result::Result<T, SystemError>;

impl SystemError {
    /// What to do about it, where the message does not say so itself.
    pub fn help(&self) -> Option<Cow<'_, str>> {
        match self {
            Self::Device { remedy, .. }
            | Self::RunFolder { remedy, .. }
            | Self::Input { remedy, .. }
            | Self::Lpips { remedy, .. }
            | Self::OutOfMemory { remedy, .. } => Some(Cow::Borrowed(remedy)),
            Self::Shape { .. } => {
                Some("data.voxel_size resizes the volumes, data.patch_size cuts patches out of them".into())
            }
            Self::Metrics(_) | Self::Picture(_) => {
                Some("check the file and the free space of its disk; `--resume` then continues the run".into())
            }
            Self::Write { .. } => {
                Some("check that the folder is there and may be written to, and that the disk has space".into())
            }
            Self::DoesNotFit { .. } => {
                Some("allow half precision or a smaller model (`Planner::allow`), or train on smaller patches".into())
            }
            Self::DamagedCheckpoint { before: Some(before), .. } => Some(
                format!(
                    "`train --resume-from {}` goes on from the newest one before it that is whole; `--resume --skip-damaged` finds \
                     that by itself",
                    before.display()
                )
                .into(),
            ),
            Self::DamagedCheckpoint { before: None, .. } => {
                Some("no checkpoint before it is whole: train anew in another folder with --out".into())
            }
            Self::NoBudget => Some("give one with `Planner::within`".into()),
            _ => None,
        }
    }

    /// Whether a step had no memory left.
    pub fn is_out_of_memory(&self) -> bool {
        matches!(self, Self::OutOfMemory { .. }) || matches!(self, Self::Train(error) if error.is_out_of_memory())
    }

    /// An error of the file system while `path` was written.
    pub fn writing(path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self::Write { path, source }
    }
}
