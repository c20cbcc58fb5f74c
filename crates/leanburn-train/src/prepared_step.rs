//! Gradients that are ready for the optimizer: the only way to an update.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::gradients::Prepared;

/// What an optimizer step did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LearnerReport {
    /// Name of the learner.
    pub learner: String,
    /// Learning rate of the step.
    pub learning_rate: f64,
    /// Global norm of the gradients before clipping.
    pub gradient_norm: f64,
    /// Loss scale of the step.
    pub loss_scale: f64,
    /// Whether the step was left out because gradients were infinite or undefined.
    pub skipped: bool,
}

/// How a step of a learner ends.
pub(crate) trait EndStep {
    /// Takes the optimizer's step; nothing but the end of the step if there are no gradients.
    fn take(&mut self, gradients: Option<Prepared>, step: u64) -> Option<LearnerReport>;

    /// Forgets the step.
    fn abandon(&mut self);
}

/// The gradients of a learner's step, unscaled and clipped; made by [`AnyLearner::prepare`](crate::AnyLearner::prepare).
///
/// [`update`](Self::update) takes the optimizer's step. Where it is dropped instead, the step is abandoned: its gradients are
/// forgotten and running statistics are put back. While it lives, its learner is borrowed, so that nothing can be
/// accumulated behind its back.
///
/// # Memory
///
/// The gradients; a clipped or unscaled one replaces the accumulated one.
#[must_use = "`update` takes the optimizer's step; dropped, the step is abandoned"]
pub struct PreparedStep<'a> {
    learner: &'a mut dyn EndStep,
    gradients: Option<Prepared>,
    is_open: bool,
}

impl fmt::Debug for PreparedStep<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PreparedStep").field("gradients", &self.gradients).finish_non_exhaustive()
    }
}

impl<'a> PreparedStep<'a> {
    pub(crate) fn new(learner: &'a mut dyn EndStep, gradients: Option<Prepared>) -> Self {
        Self { learner, gradients, is_open: true }
    }

    /// The gradients with their norm; `None` if no loss was accumulated since the last step.
    pub fn gradients(&self) -> Option<&Prepared> {
        self.gradients.as_ref()
    }

    /// Takes the optimizer's step number `step`, counted from 0; `None` if no loss was accumulated since the last one.
    ///
    /// Where the gradients are infinite or undefined, weights, running statistics and the average of weights are those of the
    /// step's beginning, and the report says so.
    pub fn update(mut self, step: u64) -> Option<LearnerReport> {
        self.is_open = false;
        let gradients = self.gradients.take();
        self.learner.take(gradients, step)
    }
}

impl Drop for PreparedStep<'_> {
    fn drop(&mut self) {
        if self.is_open {
            self.learner.abandon();
        }
    }
}

#[cfg(test)]
mod tests {
    use burn::module::{Module, ModuleVisitor, Param};
    use burn::nn::{BatchNorm, BatchNormConfig};
    use burn::tensor::{Device, Tensor};

    use crate::any_learner::AnyLearner;
    use crate::learner::Learner;
    use crate::learner_config::LearnerConfig;

    fn learner() -> Learner<BatchNorm> {
        let norm = BatchNormConfig::new(1).init(&Device::flex().autodiff());
        Learner::new("norm", norm, LearnerConfig::default()).unwrap()
    }

    /// Scale, shift, running mean and variance.
    fn values(learner: &Learner<BatchNorm>) -> Vec<f32> {
        struct Read(Vec<f32>);
        impl ModuleVisitor for Read {
            fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
                self.0.push(param.val().into_scalar());
            }
        }
        let mut read = Read(Vec::new());
        learner.module().valid().visit(&mut read);
        read.0
    }

    /// A micro-batch that moves the running statistics and has a gradient.
    fn accumulate(learner: &mut Learner<BatchNorm>, factor: f32) {
        let x = Tensor::<1>::from_floats([1.0, 2.0, 3.0, 6.0], &Device::flex().autodiff()).reshape([4, 1, 1]);
        let loss = (learner.module().forward::<3>(x) - 1.0).powi_scalar(2).mean() * factor;
        learner.accumulate(loss, 1.0);
    }

    #[test]
    fn an_update_moves_weights_and_statistics() {
        let mut learner = learner();
        let before = values(&learner);
        accumulate(&mut learner, 1.0);
        let prepared = learner.prepare();
        let norm = prepared.gradients().unwrap().norm;
        let report = prepared.update(0).unwrap();
        assert_eq!((report.gradient_norm, report.skipped), (norm, false));
        let after = values(&learner);
        assert!(norm > 0.1 && after.iter().zip(&before).all(|(after, before)| after != before), "{before:?} {after:?}");
    }

    #[test]
    fn a_prepared_step_that_is_dropped_leaves_no_trace() {
        let (mut learner, mut straight) = (learner(), learner());
        let before = values(&learner);
        accumulate(&mut learner, 3.0);
        assert_ne!(values(&learner), before, "statistics have moved");
        drop(learner.prepare());
        assert_eq!(values(&learner), before);
        for learner in [&mut learner, &mut straight] {
            accumulate(learner, 1.0);
            assert!(learner.prepare().update(0).is_some());
        }
        assert_eq!(values(&learner), values(&straight), "its gradients are forgotten");
    }

    #[test]
    fn a_step_with_undefined_gradients_is_left_out() {
        let mut learner = learner();
        accumulate(&mut learner, 1.0);
        assert!(learner.prepare().update(0).is_some());
        let before = values(&learner);
        accumulate(&mut learner, f32::NAN);
        assert!(learner.prepare().update(1).unwrap().skipped);
        assert_eq!(values(&learner), before);
    }

    #[test]
    fn a_step_without_a_loss_says_so() {
        let mut learner = learner();
        assert!(learner.prepare().gradients().is_none());
        assert_eq!(learner.prepare().update(0), None);
    }
}
