//! The training step on a recording device: what the planner reads.

use burn::tensor::Device;
use leanburn_common::ValidationError;
use leanburn_ops::Tensors;
use leanburn_ops::recording::{TensorRole, is_recording, mark_step, tag_tensors};
use leanburn_plan::{RecordError, Recording, Target, record};

use crate::error::{TrainError, listed};
use crate::trainer::Trainer;
use crate::workload::Workload;

/// Records a step of the trainer that `build` makes, with micro-batches that `batch` makes, both on the device they are given.
///
/// It is the second step, of AMSGrad the third: those before it make the states of the optimizers. The trainer's own code runs, so that every setting
/// of it (accumulation, precision, residency, an average of weights) is in the recording. Its memory limit is not: what
/// recording takes is not what the step takes. Where a workload has a learner that begins later in a run, build it so that it
/// begins at once.
///
/// # Errors
///
/// What `build` gives; [`RecordStepError::Record`] with what to write instead if the step does what [cannot be
/// recorded](leanburn_plan::Obstacle).
pub fn record_step<W, E>(
    target: Target,
    build: impl FnOnce(&Device) -> Result<Trainer<W>, E>,
    batch: impl Fn(&Device) -> W::Batch,
) -> Result<Recording, RecordStepError<E>>
where
    W: Workload,
    W::Batch: Tensors + Clone,
{
    record_at_most(u64::MAX, target, build, batch).map(|recorded| recorded.recording)
}

/// A recorded step and how much of it was recorded.
pub(crate) struct RecordedStep {
    pub recording: Recording,
    /// Micro-batches of the step.
    pub micro_batches: u64,
    /// Micro-batches in the recording.
    pub recorded: u64,
}

/// The same with `at_most` so many micro-batches: the second meets the gradients of the first, the others are like it.
pub(crate) fn record_at_most<W, E>(
    at_most: u64,
    target: Target,
    build: impl FnOnce(&Device) -> Result<Trainer<W>, E>,
    batch: impl Fn(&Device) -> W::Batch,
) -> Result<RecordedStep, RecordStepError<E>>
where
    W: Workload,
    W::Batch: Tensors + Clone,
{
    let (recording, outcome) = record(target, |device| {
        let mut trainer = build(device).map_err(RecordStepError::Build)?;
        if let Some(learner) = trainer.learner_elsewhere(is_recording) {
            return Err(RecordError::of_other_device(format_args!("the module of the learner `{learner}`")).into());
        }
        trainer.plan_shard();
        let micro_batches = trainer.config().accumulation_steps;
        let recorded = micro_batches.min(at_most);
        trainer.configure(|config| (config.accumulation_steps, config.memory_limit) = (recorded, None));
        let (mut last, mut is_elsewhere): (Option<W::Batch>, bool) = (None, false);
        for _ in 0..=trainer.steps_to_settle() {
            mark_step(device);
            let mut batches = std::iter::from_fn(|| {
                last.take().into_iter().for_each(tag_batch); // alive until the next one is asked for
                last = Some(batch(device)).filter(|batch| batch.device().is_none_or(|device| is_recording(&device)));
                is_elsewhere |= last.is_none();
                last.iter().cloned().for_each(tag_batch);
                last.clone().map(Ok::<_, TrainError>)
            });
            let taken = trainer.step(&mut batches);
            if is_elsewhere {
                return Err(RecordError::of_other_device("the micro-batch").into());
            }
            taken.map_err(RecordStepError::Step)?;
            last.take().into_iter().for_each(tag_batch);
        }
        Ok((micro_batches, recorded))
    })?;
    outcome.map(|(micro_batches, recorded)| RecordedStep { recording, micro_batches, recorded })
}

fn tag_batch(batch: impl Tensors) {
    let mut tensors = Vec::new();
    batch.flatten(&mut tensors);
    tag_tensors(TensorRole::Batch, tensors);
}

/// A step that cannot be recorded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordStepError<E> {
    /// The trainer cannot be built.
    #[error(transparent)]
    Build(E),
    /// It does what cannot be recorded.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// Rules of a residency policy match none of the step's segments.
    #[error("the residency policy cannot be used: {}", listed(errors))]
    Residency {
        /// Each of them.
        errors: Vec<ValidationError>,
    },
    /// The step failed.
    #[error(transparent)]
    Step(TrainError),
}
