//! An optimizer's step on a recording device, and the tags of its gradients.

use std::collections::HashMap;
use std::fmt;

use burn::backend::DispatchTensor;
use burn::module::{Module, ModuleMapper, ModuleVisitor, Param, ParamId};
use burn::optim::{DynOptimizer, DynState, GradientsParams};
use burn::tensor::Tensor;
use leanburn_ops::recording::{TensorRole, is_recording, require_grad, tag_tensors, without_autodiff};

use crate::OptimizerConfig;

/// Does to each parameter what Burn's `ModuleOptimizer` does, which a recording device rejects.
pub(crate) struct RecordedOptimizer {
    config: OptimizerConfig,
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
        Self { config: config.clone(), optimizer: config.build(), states: HashMap::new() }
    }

    /// The module with new weights.
    pub fn step<M: Module>(&mut self, learning_rate: f64, module: M, gradients: GradientsParams) -> M {
        let module = module.map(&mut Step { optimizer: self, learning_rate, gradients });
        module.visit(&mut Unread(self));
        module
    }
}

impl RecordedOptimizer {
    /// Says that the part of a weight's state that nothing reads is there until now.
    fn mention_unread<const D: usize>(&self, id: ParamId) {
        let unread = self.states.get(&id).and_then(|state| self.config.unread_state::<D>(state));
        tag_tensors(TensorRole::Optimizer, unread.map(Tensor::into_dispatch).into_iter().collect());
    }
}

/// Mentions what is there after the step.
struct Unread<'a>(&'a RecordedOptimizer);

impl ModuleVisitor for Unread<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.0.mention_unread::<D>(param.id);
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
        self.optimizer.mention_unread::<D>(id);
        let RecordedOptimizer { optimizer, states, .. } = &mut *self.optimizer;
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

/// Whether the module is on a recording device.
pub(crate) fn is_recorded<M: Module>(module: &M) -> bool {
    module.devices().iter().any(is_recording)
}

/// Tags on a recording device the tensors that are gradients of weights.
pub(crate) fn tag_gradients<M: Module>(module: &M, gradients: &GradientsParams) {
    struct Collect<'a>(&'a GradientsParams, Vec<DispatchTensor>);
    impl ModuleVisitor for Collect<'_> {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            self.1.extend(self.0.get::<D>(param.id).map(Tensor::into_dispatch));
        }
    }
    if is_recorded(module) {
        let mut collect = Collect(gradients, Vec::new());
        module.visit(&mut collect);
        tag_tensors(TensorRole::Gradients, collect.1);
    }
}
