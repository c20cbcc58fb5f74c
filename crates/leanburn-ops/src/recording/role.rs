//! The roles of tensors: weights, gradients, states of an optimizer, an average, frozen weights, a batch.

use burn::backend::{DispatchTensor, TensorMetadata};
use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{Device, Tensor};

use super::recorder::{Recorder, recorded};

const ROLE: &str = "leanburn:role:";
pub(super) const HELD: &str = "leanburn:held";

/// The role of a tensor in a training step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TensorRole {
    /// Trained weights and running statistics.
    Weights,
    /// Gradients of weights.
    Gradients,
    /// States of an optimizer.
    Optimizer,
    /// An average of weights.
    Average,
    /// Weights of a network that is not trained.
    Frozen,
    /// A micro-batch.
    Batch,
}

impl TensorRole {
    const ALL: [(Self, &'static str); 6] = [
        (Self::Weights, "weights"),
        (Self::Gradients, "gradients"),
        (Self::Optimizer, "optimizer"),
        (Self::Average, "average"),
        (Self::Frozen, "frozen"),
        (Self::Batch, "batch"),
    ];

    fn id(self) -> String {
        let (_, name) = Self::ALL.iter().find(|(role, _)| *role == self).expect("all are listed");
        format!("{ROLE}{name}")
    }

    pub(super) fn of_id(id: &str) -> Option<Self> {
        let name = id.strip_prefix(ROLE)?;
        Self::ALL.iter().find(|(_, role)| *role == name).map(|(role, _)| *role)
    }
}

/// Tags the tensors of a module with their role, and marks that they are alive; does nothing on a device that computes.
pub fn tag_module<M: Module>(role: TensorRole, module: &M) {
    struct Collect(Vec<DispatchTensor>);
    impl ModuleVisitor for Collect {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            self.0.push(param.val().into_dispatch());
        }
    }
    let mut collect = Collect(Vec::new());
    module.visit(&mut collect);
    tag_tensors(role, collect.0);
}

/// As [`tag_module`], for tensors.
pub fn tag_tensors(role: TensorRole, tensors: Vec<DispatchTensor>) {
    let Some(recorder) = tensors.first().and_then(|tensor| Recorder::of(&Device::new(tensor.device()))) else { return };
    recorder.mark(role.id(), tensors.into_iter().map(recorded).collect());
}

/// Marks that tensors are alive until here, although no operation reads them any more; does nothing on a device that computes.
pub(crate) fn held_until_here(tensors: Vec<DispatchTensor>) {
    let Some(recorder) = tensors.first().and_then(|tensor| Recorder::of(&Device::new(tensor.device()))) else { return };
    recorder.mark(HELD, tensors.into_iter().map(recorded).collect());
}
