//! Backward on every device, the recording one included.
//!
//! Burn's own `Tensor::backward` rejects a recorded loss; underneath, on primitives, it records like any other
//! operation. The planner records a whole training step with it.

use std::fmt;

use burn::backend::autodiff::{checkpoint::strategy::CheckpointStrategy, grads::Gradients as RawGradients};
use burn::backend::{Backend, DispatchTensor};
use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::GradientsParams;
use burn::tensor::Tensor;

use crate::autodiff::{Reachable, lower, on_backend_of, raise_plain};
use crate::operations::given_gradient;
use crate::recording::{Pass, in_pass};

/// Gradients of a loss, by tensor or by the parameters of a module.
pub struct Gradients {
    raw: RawGradients,
    take: fn(&mut RawGradients, DispatchTensor) -> Option<DispatchTensor>,
}

impl fmt::Debug for Gradients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gradients").finish_non_exhaustive()
    }
}

/// Runs backward from `loss`, of shape `[1]`.
///
/// Like `Tensor::backward`, and on a recording device (`Device::capture()`) as well.
///
/// # Panics
///
/// Panics if `loss` is not an autodiff tensor, or has more than one value: of several, the gradient would be that of their sum.
#[must_use]
pub fn backward(loss: Tensor<1>) -> Gradients {
    let values = loss.dims()[0];
    assert!(values == 1, "backward: expected a loss of 1 value, found {values}; take `.sum()` or `.mean()` of it");
    start(loss)
}

/// Runs backward from `output`, whose gradient is `gradient`, of its shape: that of `(output * gradient).sum()`, without the sum. For
/// measurements of backward alone.
///
/// # Panics
///
/// Panics if `output` is not an autodiff tensor, or `gradient` is not of its shape.
#[must_use]
pub fn backward_from<const D: usize>(output: Tensor<D>, gradient: Tensor<D>) -> Gradients {
    let dims = [output.dims(), gradient.dims()];
    assert!(dims[0] == dims[1], "backward_from: expected a gradient of {:?}, found one of {:?}", dims[0], dims[1]);
    start(given_gradient(output, gradient))
}

fn start<const D: usize>(loss: Tensor<D>) -> Gradients {
    let device = loss.device();
    let loss = loss.into_dispatch();
    in_pass(Pass::Backward, &device, || on_backend_of!(&loss.clone(), backward_on(loss)))
}

fn backward_on<B: Backend, C: CheckpointStrategy>(loss: DispatchTensor) -> Gradients
where
    DispatchTensor: Reachable<B, C>,
{
    let loss = lower::<B, C>(&loss).expect("on_backend_of chose this backend");
    Gradients { raw: loss.backward(), take: take_on::<B, C> }
}

fn take_on<B: Backend, C: CheckpointStrategy>(raw: &mut RawGradients, tensor: DispatchTensor) -> Option<DispatchTensor>
where
    DispatchTensor: Reachable<B, C>,
{
    let tensor = lower::<B, C>(&tensor)?;
    tensor.grad_remove(raw).map(raise_plain::<B>)
}

impl Gradients {
    /// Removes and returns the gradient of a tensor that requires one, if the loss depends on it; of the tensor's shape.
    #[must_use]
    pub fn take<const D: usize>(&mut self, tensor: &Tensor<D>) -> Option<Tensor<D>> {
        (self.take)(&mut self.raw, tensor.clone().into_dispatch()).map(Tensor::from_dispatch)
    }

    /// Removes and returns the gradients of a module's parameters, for an optimizer or an accumulator.
    #[must_use]
    pub fn take_module<M: Module>(&mut self, module: &M) -> GradientsParams {
        struct Take<'a> {
            gradients: &'a mut Gradients,
            taken: GradientsParams,
        }
        impl ModuleVisitor for Take<'_> {
            fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
                if let Some(gradient) = self.gradients.take(&param.val()) {
                    self.taken.register(param.id, gradient);
                }
            }
        }
        let mut take = Take { gradients: self, taken: GradientsParams::new() };
        module.visit(&mut take);
        take.taken
    }
}
