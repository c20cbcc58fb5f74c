//! A learner of any module, as a trainer sees it: accumulate, prepare, update.

use std::path::Path;

use burn::tensor::{Device, Tensor};
use leanburn_common::Bytes;
use serde::{Deserialize, Serialize};

use crate::error::TrainError;
use crate::prepared_step::PreparedStep;
use crate::ranks::Group;

/// What a learner holds between steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LearnerMemory {
    /// Weights and buffers.
    pub weights: Bytes,
    /// Gradients while they are accumulated.
    pub gradients: Bytes,
    /// States of the optimizer.
    pub optimizer: Bytes,
    /// Average of the weights.
    pub average: Bytes,
    /// Average of the weights that the loss compares with.
    pub target: Bytes,
    /// Weights of the teacher.
    pub teacher: Bytes,
}

/// Puts in place what was read from a checkpoint, so that several learners change all or none.
pub type Restore<'a> = Box<dyn FnOnce() + 'a>;

/// A learner of any module, as a trainer sees it. [`Learner`](crate::Learner) is the one there is.
///
/// A step has three parts: [`accumulate`](Self::accumulate) for each micro-batch, [`prepare`](Self::prepare), and
/// [`PreparedStep::update`]; several processes [`join`](Self::join) after the first. Several learners are all prepared before the first of them is updated.
///
/// # Example
///
/// ```
/// use burn::nn::{Linear, LinearConfig};
/// use burn::tensor::{Device, Tensor};
/// use leanburn_train::{AnyLearner, Learner, LearnerConfig};
///
/// let device = Device::flex().autodiff();
/// let layer: Linear = LinearConfig::new(4, 1).init(&device);
/// let mut learner = Learner::new("layer", layer, LearnerConfig::default())?;
/// for step in 0..2 {
///     let loss = learner.module().forward(Tensor::<2>::ones([8, 4], &device)).mean();
///     learner.accumulate(loss, 1.0);
///     let report = learner.prepare().update(step).expect("a loss was accumulated");
///     assert!(report.gradient_norm > 0.0 && !report.skipped);
/// }
/// # Ok::<(), leanburn_train::TrainError>(())
/// ```
///
/// There is no update of gradients that were not prepared:
///
/// ```compile_fail,E0599
/// # use leanburn_train::AnyLearner;
/// fn step(learner: &mut dyn AnyLearner) {
///     learner.update(0);
/// }
/// ```
///
/// and nothing is accumulated between the two:
///
/// ```compile_fail,E0499
/// # use burn::tensor::Tensor;
/// # use leanburn_train::AnyLearner;
/// fn step(learner: &mut dyn AnyLearner, late: Tensor<1>) {
///     let prepared = learner.prepare();
///     learner.accumulate(late, 1.0);
///     prepared.update(0);
/// }
/// ```
pub trait AnyLearner {
    /// Name for reports and checkpoint files.
    fn name(&self) -> &'static str;

    /// The devices of its weights; none where it has no weights.
    fn devices(&self) -> Vec<Device>;

    /// Steps after which the states of its optimizer no longer change their size.
    fn steps_to_settle(&self) -> u64;

    /// Tags on a recording device the tensors that are weights, their averages and a teacher's; does nothing elsewhere.
    fn tag_tensors(&self);

    /// Runs backward from `share * loss`, scaled, and adds the gradients to those already there.
    ///
    /// With `share = 1 / steps`, the sum over `steps` micro-batches is the gradient of the mean loss of the large batch.
    fn accumulate(&mut self, loss: Tensor<1>, share: f64);

    /// Replaces what was accumulated by its sums over the ranks of a group, which all do this at once, and running statistics by those of the
    /// leading one. Nothing where there is one rank. If more micro-batches follow, the leading rank alone holds the sums, to add to.
    fn join(&mut self, group: &Group, more_follow: bool);

    /// From here on this rank updates its share of the parameters alone, and has the states of its optimizer for them alone: after
    /// [`join`](Self::join) it has the sums of their gradients, after [`PreparedStep::update`] the weights that all ranks have updated. All
    /// ranks do this at once. Parameters are dealt out whole, the largest first: a rank's share is at most an even one and
    /// `1 - 1 / ranks` of the largest parameter.
    fn shard(&mut self, group: &Group);

    /// The same for a recording: the largest share of so many ranks, without the others.
    fn plan_shard(&mut self, ranks: usize);

    /// Gathers the states of all ranks on the leading one, for its next [`save`](Self::save); all ranks do this at once. Nothing where
    /// states are not [split](Self::shard).
    fn gather_states(&mut self);

    /// Takes the accumulated gradients, readies them for the optimizer, and reads their norm. A GPU runs late: what it had no
    /// memory for since the step began shows here, before anything is changed.
    fn prepare(&mut self) -> PreparedStep<'_>;

    /// Breaks a step off before its update: forgets its gradients, and puts running statistics back.
    fn abandon(&mut self);

    /// What it holds.
    fn memory(&self) -> LearnerMemory;

    /// Writes everything that training needs to go on into files of `folder`. States that are split over ranks are to be
    /// [gathered](Self::gather_states) before.
    ///
    /// # Errors
    ///
    /// [`TrainError::Checkpoint`].
    fn save(&mut self, folder: &Path) -> Result<(), TrainError>;

    /// Reads what [`save`](Self::save) wrote. Nothing changes before the result is called.
    ///
    /// # Errors
    ///
    /// [`TrainError::Checkpoint`], [`TrainError::CheckpointMismatch`].
    fn load<'a>(&'a mut self, folder: &Path) -> Result<Restore<'a>, TrainError>;
}
