//! What Burn rejects on a recording device, done differently: autodiff put on and taken off, values read.

use burn::backend::Capture;
use burn::backend::autodiff::checkpoint::strategy::NoCheckpointing;
use burn::module::{Module, ModuleMapper, Param};
use burn::tensor::Tensor;

use super::recorder::is_recording;
use crate::autodiff::{AutodiffTensor, has_autodiff, inner, lower_plain, raise};

/// The tensor, of any shape, without autodiff; Burn's `without_autodiff`, and on a recording device as well.
#[must_use]
pub fn without_autodiff<const D: usize>(tensor: Tensor<D>) -> Tensor<D> {
    Tensor::from_dispatch(inner(tensor.into_dispatch()))
}

/// The module without autodiff; Burn's `Module::valid`, and on a recording device as well.
#[must_use]
pub fn valid<M: Module>(module: &M) -> M {
    struct Inner;
    impl ModuleMapper for Inner {
        fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
            param.map(without_autodiff)
        }
    }
    match module.devices().iter().any(is_recording) {
        true => module.clone().map(&mut Inner),
        false => module.valid(),
    }
}

/// The tensor, of any shape and without autodiff, as a constant beside another: under autodiff where that is. Burn's `from_inner`, and on a
/// recording device as well.
#[must_use]
pub fn constant_beside<const D: usize, const E: usize>(tensor: Tensor<D>, other: &Tensor<E>) -> Tensor<D> {
    if !has_autodiff(&other.clone().into_dispatch()) {
        return tensor;
    }
    if !is_recording(&tensor.device()) {
        return Tensor::from_inner(tensor);
    }
    let tensor = <AutodiffTensor<Capture>>::new(lower_plain::<Capture>(tensor.into_dispatch()));
    Tensor::from_dispatch(raise::<Capture, NoCheckpointing>(tensor))
}

/// A recorded tensor without autodiff as one that takes a gradient (Burn's `from_inner` rejects it).
///
/// # Panics
///
/// Panics if the device does not record.
#[must_use]
pub fn require_grad<const D: usize>(tensor: Tensor<D>) -> Tensor<D> {
    let tensor = <AutodiffTensor<Capture>>::new(lower_plain::<Capture>(tensor.into_dispatch())).require_grad();
    Tensor::from_dispatch(raise::<Capture, NoCheckpointing>(tensor))
}

/// The value of a tensor of shape `[1]`; `stand_in` on a recording device, where there are no values.
pub fn value_or(tensor: Tensor<1>, stand_in: f32) -> f32 {
    if is_recording(&tensor.device()) { stand_in } else { tensor.into_scalar() }
}
