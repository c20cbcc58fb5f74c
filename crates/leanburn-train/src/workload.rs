//! What is trained: the seam between models and trainers.

use burn::module::Module;
use burn::tensor::Tensor;
use leanburn_ops::recording::without_autodiff;

use crate::{AnyLearner, Learner};

/// Where a micro-batch stands in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepPosition {
    /// The run's seed.
    pub seed: u64,
    /// Optimizer step, counted from 0.
    pub step: u64,
    /// Micro-batch within the step, counted from 0.
    pub micro_batch: u64,
}

/// The loss of one learner, and what it is made of.
#[derive(Clone, Debug)]
pub struct Losses {
    /// What backward starts from.
    pub total: Tensor<1>,
    /// Its parts by name, unweighted, without autodiff: for people to read.
    pub parts: Vec<(&'static str, Tensor<1>)>,
}

impl Losses {
    /// A loss and its parts, which are taken off autodiff.
    pub fn of(total: Tensor<1>, parts: Vec<(&'static str, Tensor<1>)>) -> Self {
        let parts = parts.into_iter().map(|(name, part)| (name, without_autodiff(part))).collect();
        Self { total, parts }
    }
}

/// Modules with their optimizers, and what a batch means to them.
///
/// Each micro-batch gives a loss for each learner, in order: an adversarial workload has two, the generator and the
/// discriminator. A workload says nothing about how it is trained; the planner records the same one.
pub trait Workload {
    /// A micro-batch on the device.
    type Batch;

    /// The learners in the order in which they take a micro-batch.
    fn learners(&mut self) -> Vec<&mut dyn AnyLearner>;

    /// The loss of the learner of this index; `None` if it does not take part in this micro-batch.
    fn loss(&mut self, learner: usize, batch: &Self::Batch, position: StepPosition) -> Option<Losses>;

    /// This process's planes of a micro-batch that [several processes](leanburn_ops::with_volume_ranks) hold together; `None` where the losses
    /// are not the means of what each makes of its own.
    fn own_planes(&self, _batch: &Self::Batch) -> Option<Self::Batch> {
        None
    }
}

/// A workload that is there for one model: the one whose weights are wanted in the end. Others, such as a discriminator, help it.
pub trait MainModel: Workload {
    /// The model.
    type Model: Module;

    /// Its learner.
    fn model(&self) -> &Learner<Self::Model>;

    /// Its learner, to change.
    fn model_mut(&mut self) -> &mut Learner<Self::Model>;
}
