//! What the states of an optimizer cost.

use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::{DynState, RmsPropState};
use burn::tensor::Tensor;
use leanburn_common::Bytes;

use super::config::OptimizerConfig;
use super::kind::OptimizerKind;

impl OptimizerConfig {
    /// Size of the states for the weights of a module that take a gradient.
    pub fn state_bytes<M: Module>(&self, module: &M) -> Bytes {
        struct Count<'a>(&'a OptimizerConfig, usize);
        impl ModuleVisitor for Count<'_> {
            fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
                let weight = param.val();
                if weight.is_require_grad() {
                    self.1 += self.0.state_values(&weight.dims()) * weight.dtype().size();
                }
            }
        }
        let mut count = Count(self, 0);
        module.visit(&mut count);
        Bytes(count.1 as u64)
    }

    /// Steps after which the states no longer change their size.
    pub(crate) fn steps_to_settle(&self) -> u64 {
        // The largest moment of the first step is that moment itself; from the second on it is a tensor of its own.
        if self.constants.amsgrad() { 2 } else { 1 }
    }

    /// The tensor of a state that the optimizer keeps and never reads again, without which a recording does not know of it.
    pub(crate) fn unread_state<const D: usize>(&self, state: &DynState) -> Option<Tensor<D>> {
        let is_unread = self.kind == OptimizerKind::RmsProp && self.constants.centered();
        is_unread.then(|| state.downcast_ref::<RmsPropState<D>>().centered.avg.clone())
    }

    /// Values of the states for a weight of these dimensions.
    pub(crate) fn state_values(&self, dims: &[usize]) -> usize {
        let values: usize = dims.iter().product();
        let has_momentum = usize::from(self.constants.momentum() > 0.0);
        let (has_largest, is_centered) =
            (usize::from(self.constants.amsgrad()), usize::from(self.constants.centered()));
        match (self.kind, dims) {
            (OptimizerKind::Adam | OptimizerKind::AdamW | OptimizerKind::Lamb, _) => (2 + has_largest) * values,
            (OptimizerKind::Sgd, _) => has_momentum * values,
            // centered: means of squares and of gradients, and the difference
            (OptimizerKind::RmsProp, _) => (1 + 2 * is_centered + has_momentum) * values,
            (OptimizerKind::AdaGrad | OptimizerKind::Lion, _) => values,
            // means over the rows and over the columns of each matrix
            (OptimizerKind::Adafactor, [.., rows, columns]) => values / columns + values / rows,
            (OptimizerKind::Adafactor, _) => values,
            (OptimizerKind::Adan, _) => 4 * values,
        }
    }
}
