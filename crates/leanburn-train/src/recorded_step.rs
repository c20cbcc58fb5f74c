//! The training step on a recording device: what the planner reads.

use burn::tensor::Device;
use leanburn_ops::Tensors;
use leanburn_ops::recording::{Purpose, step_begins, tensors_serve};
use leanburn_plan::{RecordError, Recording, Target, record};

use crate::{TrainError, Trainer, Workload};

/// Records a step of the trainer that `build` makes, with micro-batches that `batch` makes, both on the device they are given.
///
/// It is the second step: the first makes the states of the optimizers. The trainer's own code runs, so that whatever
/// it is told (accumulation, precision, residency, an average of weights) is in the recording. Where a workload has a turn
/// that begins later in a run, build it so that it begins at once.
///
/// # Errors
///
/// What `build` gives; [`RecordStepError::Record`] if something leaves the device.
pub fn record_step<W, E>(
    target: Target,
    build: impl FnOnce(&Device) -> Result<Trainer<W>, E>,
    batch: impl Fn(&Device) -> W::Batch,
) -> Result<Recording, RecordStepError<E>>
where
    W: Workload,
    W::Batch: Tensors + Clone,
{
    let (recording, outcome) = record(target, |device| {
        let mut trainer = build(device).map_err(RecordStepError::Build)?;
        let mut last: Option<W::Batch> = None;
        for _ in 0..2 {
            step_begins(device);
            let mut batches = std::iter::from_fn(|| {
                last.take().into_iter().for_each(serve); // alive until the next one is asked for
                last = Some(batch(device));
                last.iter().cloned().for_each(serve);
                last.clone().map(Ok::<_, TrainError>)
            });
            trainer.step(&mut batches).map_err(RecordStepError::Step)?;
            last.take().into_iter().for_each(serve);
        }
        Ok(())
    })?;
    outcome.map(|()| recording)
}

fn serve(batch: impl Tensors) {
    let mut tensors = Vec::new();
    batch.flatten(&mut tensors);
    tensors_serve(Purpose::Batch, tensors);
}

/// A step that cannot be recorded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordStepError<E> {
    /// The trainer cannot be built.
    #[error(transparent)]
    Build(E),
    /// Something leaves the device.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The step failed.
    #[error(transparent)]
    Step(TrainError),
}
