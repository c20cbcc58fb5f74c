//! What can go wrong in training.

use std::convert::Infallible;
use std::path::PathBuf;

use leanburn_common::{Bytes, ValidationError};
use leanburn_ops::StorageError;

/// An error of training, with its remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrainError {
    /// Numbers of a configuration that cannot be used.
    #[error("{subject} cannot be trained: {}", listed(errors))]
    Config {
        /// What was to be trained.
        subject: String,
        /// Everything that is wrong.
        errors: Vec<ValidationError>,
    },
    /// There is a limit of the memory, and nothing that counts it.
    #[error(
        "memory_limit is {limit}, and nothing counts the heap: install leanburn's CountingAllocator as the \
         #[global_allocator] of the program, or leave the limit out"
    )]
    Uncounted {
        /// The limit.
        limit: Bytes,
    },
    /// The learning rate cannot be scheduled.
    #[error("learning rate {learning_rate} cannot be used: {reason}; choose one above 0 and at most 1")]
    Schedule {
        /// The learning rate at its highest.
        learning_rate: f64,
        /// What is wrong with it.
        reason: String,
    },
    /// Too many steps in a row had infinite or undefined gradients.
    #[error(
        "stopped at step {step}: the gradients of {learner} were infinite or undefined for {bad_steps} steps in a row; \
         lower the learning rate, use bf16 or f32, or go on from an earlier checkpoint"
    )]
    Diverged {
        /// Step that gave up.
        step: u64,
        /// Whose gradients.
        learner: String,
        /// How many steps in a row.
        bad_steps: u64,
    },
    /// The device has no more memory, or the run has taken more than it may.
    #[error("out of memory in the {phase} pass of step {step}: {reason}; {}", if *state_is_intact {
        "the step was not taken and the weights are those before it"
    } else {
        "the weights are lost: go on from the last checkpoint"
    })]
    OutOfMemory {
        /// The step that did not fit.
        step: u64,
        /// Where in it: "forward", "backward" or "update"; "forward or backward" where a device runs late and said so after
        /// both.
        phase: &'static str,
        /// What was asked for and what there was.
        reason: String,
        /// Whether the learners are as they were before the step.
        state_is_intact: bool,
    },
    /// What a step saves for backward could not be written to a file, or read back.
    #[error("step {step}: {error}; the step was not taken and the weights are those before it")]
    Storage {
        /// The step.
        step: u64,
        /// What went wrong, and what to do.
        error: StorageError,
    },
    /// An evaluation of the models between steps had no more memory, or took more than it may.
    #[error("out of memory in {evaluation} after step {step}: {reason}; the run is as it was")]
    EvaluationOutOfMemory {
        /// What it was: "validation", "pictures".
        evaluation: &'static str,
        /// Steps taken before it.
        step: u64,
        /// What was asked for and what there was.
        reason: String,
    },
    /// One of Burn's operations met tensors of several dtypes.
    #[error(
        "one of Burn's operations met tensors of several dtypes ({reason}): Burn's layers take an input of their weights' dtype, which is \
         float32; write the layers of the same name of leanburn::nn::blocks, which take any (`Conv3d::try_from` and its like take the \
         weights), or give Burn's `x.cast(DType::F32)`"
    )]
    MixedDtypes {
        /// What Burn says.
        reason: String,
    },
    /// A file of a checkpoint cannot be read or written.
    #[error("cannot {action} {}: {reason}; {}", path.display(), remedy(action))]
    Checkpoint {
        /// "read" or "write".
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What the system or the format says.
        reason: String,
    },
    /// The checkpoint belongs to another model or another setting.
    #[error("checkpoint {} does not fit this run: {reason}; resume with the configuration it was made with", path.display())]
    CheckpointMismatch {
        /// The checkpoint.
        path: PathBuf,
        /// What differs.
        reason: String,
    },
    /// The data ran out or cannot be read.
    #[error(transparent)]
    Data(#[from] leanburn_data::DataError),
    /// Another process of the group could not take the step.
    #[error("step {step}: rank {rank} says: {reason}")]
    Rank {
        /// The step.
        step: u64,
        /// Whose error it is.
        rank: usize,
        /// The error there.
        reason: String,
    },
    /// The micro-batches of a step cannot be dealt out to the processes of the group.
    #[error(
        "a step has {accumulation_steps} micro-batches, and there are {ranks} processes, of which each takes as many: set \
         gradient_accumulation_steps to a multiple of {ranks} (its micro-batches are those of all processes together)"
    )]
    UnevenRanks {
        /// Micro-batches of a step.
        accumulation_steps: u64,
        /// Processes.
        ranks: usize,
    },
    /// The processes of the group cannot be divided among volumes.
    #[error(
        "each volume is held by {volume_ranks} processes, and there are {ranks}: start a multiple of {volume_ranks}, or change volume_ranks"
    )]
    UnevenVolumeRanks {
        /// Processes that hold a volume together.
        volume_ranks: usize,
        /// All processes.
        ranks: usize,
    },
    /// What is computed of a volume needs the whole volume.
    #[error(
        "the volumes cannot be held by several processes each: the workload needs whole ones; set volume_ranks to 1"
    )]
    WholeVolumes,
    /// The data stopped before the run did.
    #[error("the batches ended at step {step}; give the run a data source that repeats")]
    OutOfBatches {
        /// Step that found none.
        step: u64,
    },
}

/// The phase of a step in which weights change.
pub(crate) const UPDATE: &str = "update";

/// A source of batches that cannot fail.
impl From<Infallible> for TrainError {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

/// Errors of a configuration with what to do about each.
pub(crate) fn listed(errors: &[ValidationError]) -> String {
    errors.iter().map(|error| format!("{error} ({})", error.help)).collect::<Vec<_>>().join("; ")
}

/// What to do where a file of a checkpoint cannot be read or written.
fn remedy(action: &str) -> &'static str {
    match action {
        "write" => "give a folder on a disk with space that may be written to",
        _ => "go on from another checkpoint",
    }
}

impl TrainError {
    /// Whether a step did not fit into memory.
    pub fn is_out_of_memory(&self) -> bool {
        matches!(self, Self::OutOfMemory { .. })
    }

    /// Whether a step with this error was not taken and the learners are as they were before it, so that a run can be saved and go on from
    /// there. All ranks of a group answer alike.
    pub fn is_before_step(&self) -> bool {
        !matches!(self, Self::OutOfMemory { state_is_intact: false, .. } | Self::Diverged { .. })
    }

    /// Whether training diverged.
    pub fn is_diverged(&self) -> bool {
        matches!(self, Self::Diverged { .. })
    }

    /// A step that did not fit. Until the update the learners are as they were.
    pub(crate) fn out_of_memory(step: u64, phase: &'static str, reason: String) -> Self {
        Self::OutOfMemory { step, phase, reason, state_is_intact: phase != UPDATE }
    }

    /// An error if there are errors in the configuration of what is to be trained.
    pub(crate) fn reject(subject: &str, errors: Vec<ValidationError>) -> Result<(), Self> {
        match errors.is_empty() {
            true => Ok(()),
            false => Err(Self::Config { subject: subject.to_string(), errors }),
        }
    }

    pub(crate) fn mismatch(path: &std::path::Path, reason: impl std::fmt::Display) -> Self {
        Self::CheckpointMismatch { path: path.to_path_buf(), reason: reason.to_string() }
    }

    pub(crate) fn writing(path: &std::path::Path, reason: impl std::fmt::Display) -> Self {
        Self::Checkpoint { action: "write", path: path.to_path_buf(), reason: reason.to_string() }
    }

    pub(crate) fn reading(path: &std::path::Path, reason: impl std::fmt::Display) -> Self {
        Self::Checkpoint { action: "read", path: path.to_path_buf(), reason: reason.to_string() }
    }
}
