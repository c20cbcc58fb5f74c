//! An optimizer's step on a recording device.

use std::collections::HashMap;
use std::fmt;

use burn::module::{Module, ModuleMapper, Param, ParamId};
use burn::optim::{DynOptimizer, DynState, GradientsParams};
use burn::tensor::Tensor;
use leanburn_ops::recording::{require_grad, without_autodiff};

use crate::OptimizerConfig;

/// Does to each parameter what Burn's `ModuleOptimizer` does, which a recording device rejects.
pub(crate) struct RecordedOptimizer {
    optimizer: Box<dyn DynOptimizer>,
    states: HashMap<ParamId, DynState>,
}

impl fmt::Debug for RecordedOptimizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordedOptimizer").finish_non_exhaustive()
    }
}

impl RecordedOptimizer {
    pub fn new(config: &OptimizerConfig) -> Self {
        Self { optimizer: config.build(), states: HashMap::new() }
    }

    /// The module with new weights.
    pub fn step<M: Module>(&mut self, learning_rate: f64, module: M, gradients: GradientsParams) -> M {
        module.map(&mut Step { optimizer: self, learning_rate, gradients })
    }
}

struct Step<'a> {
    optimizer: &'a mut RecordedOptimizer,
    learning_rate: f64,
    gradients: GradientsParams,
}

impl ModuleMapper for Step<'_> {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let (id, tensor, mapper) = param.consume();
        let Some(gradient) = self.gradients.remove::<D>(id) else {
            return Param::from_mapped_value(id, tensor, mapper);
        };
        let RecordedOptimizer { optimizer, states } = &mut *self.optimizer;
        let (tensor, state) = optimizer.step_dyn(
            D,
            self.learning_rate,
            without_autodiff(tensor).into_bridge(),
            gradient.into_bridge(),
            states.remove(&id),
        );
        states.extend(state.map(|state| (id, state)));
        Param::from_mapped_value(id, require_grad(Tensor::<D>::from_bridge(tensor)), mapper)
    }
}
