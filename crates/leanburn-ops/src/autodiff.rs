//! From a `Tensor` to the autodiff primitive underneath and back, for every backend the project runs on.

use burn::backend::autodiff::checkpoint::strategy::{BalancedCheckpointing, CheckpointStrategy, NoCheckpointing};
use burn::backend::{
    Autodiff, Backend, BackendTensor, DispatchAutodiffContext, DispatchKindConversion, DispatchTensor, TensorMetadata,
    tensor::FloatTensor,
};

/// A backend's float tensor under autodiff, regardless of the checkpointing strategy.
pub(crate) type AutodiffTensor<B> = FloatTensor<Autodiff<B>>;

/// A backend whose tensors travel through Burn's dispatch, plain and under autodiff.
pub(crate) trait Reachable<B: Backend, C: CheckpointStrategy>:
    DispatchKindConversion<B> + DispatchKindConversion<Autodiff<B, C>>
{
}

impl<B, C, T> Reachable<B, C> for T
where
    B: Backend,
    C: CheckpointStrategy,
    T: DispatchKindConversion<B> + DispatchKindConversion<Autodiff<B, C>>,
{
}

/// Whether it is a float tensor under autodiff.
pub(crate) fn has_autodiff(tensor: &DispatchTensor) -> bool {
    tensor.autodiff != DispatchAutodiffContext::Disabled && tensor.dtype().is_float()
}

/// The autodiff primitive of a tensor, if it is a float tensor of `Autodiff<B, C>`.
pub(crate) fn lower<B: Backend, C: CheckpointStrategy>(tensor: &DispatchTensor) -> Option<AutodiffTensor<B>>
where
    DispatchTensor: Reachable<B, C>,
{
    match <DispatchTensor as DispatchKindConversion<Autodiff<B, C>>>::try_into_backend(tensor.clone()) {
        Ok(BackendTensor::Float(primitive)) => Some(primitive),
        _ => None,
    }
}

/// The tensor of an autodiff primitive.
pub(crate) fn raise<B: Backend, C: CheckpointStrategy>(primitive: AutodiffTensor<B>) -> DispatchTensor
where
    DispatchTensor: Reachable<B, C>,
{
    <DispatchTensor as DispatchKindConversion<Autodiff<B, C>>>::from_backend(BackendTensor::Float(primitive))
}

/// The tensor, without autodiff, of a primitive.
pub(crate) fn raise_plain<B: Backend>(primitive: FloatTensor<B>) -> DispatchTensor
where
    DispatchTensor: DispatchKindConversion<B>,
{
    <DispatchTensor as DispatchKindConversion<B>>::from_backend(BackendTensor::Float(primitive))
}

/// The primitive of a tensor without autodiff.
///
/// # Panics
///
/// Panics if the tensor is not a float tensor of the backend.
pub(crate) fn lower_plain<B: Backend>(tensor: DispatchTensor) -> FloatTensor<B>
where
    DispatchTensor: DispatchKindConversion<B>,
{
    match <DispatchTensor as DispatchKindConversion<B>>::try_into_backend(tensor) {
        Ok(BackendTensor::Float(primitive)) => primitive,
        _ => panic!("leanburn-ops: the tensors of one operation are float tensors of one device"),
    }
}

/// The primitive of an integer or Boolean tensor of the backend, with autodiff (which has nothing to do with it) or without.
pub(crate) fn lower_discrete<B: Backend>(tensor: &DispatchTensor) -> Option<BackendTensor<B>>
where
    DispatchTensor: Reachable<B, NoCheckpointing> + Reachable<B, BalancedCheckpointing>,
{
    if tensor.dtype().is_float() {
        return None;
    }
    if tensor.autodiff == DispatchAutodiffContext::Disabled {
        return <DispatchTensor as DispatchKindConversion<B>>::try_into_backend(tensor.clone()).ok();
    }
    lower_discrete_on::<B, NoCheckpointing>(tensor).or_else(|| lower_discrete_on::<B, BalancedCheckpointing>(tensor))
}

fn lower_discrete_on<B: Backend, C: CheckpointStrategy>(tensor: &DispatchTensor) -> Option<BackendTensor<B>>
where
    DispatchTensor: Reachable<B, C>,
{
    match <DispatchTensor as DispatchKindConversion<Autodiff<B, C>>>::try_into_backend(tensor.clone()) {
        Ok(BackendTensor::Int(primitive)) => Some(BackendTensor::Int(primitive)),
        Ok(BackendTensor::Bool(primitive)) => Some(BackendTensor::Bool(primitive)),
        _ => None,
    }
}

/// The tensor without autodiff, on the recording device as well (which rejects Burn's own `inner`).
pub(crate) fn inner(tensor: DispatchTensor) -> DispatchTensor {
    if tensor.autodiff == DispatchAutodiffContext::Disabled {
        return tensor;
    }
    on_backend_of!(&tensor, inner_on(&tensor))
}

fn inner_on<B: Backend, C: CheckpointStrategy>(tensor: &DispatchTensor) -> DispatchTensor
where
    DispatchTensor: Reachable<B, C>,
{
    raise_plain::<B>(lower::<B, C>(tensor).expect("on_backend_of chose this backend").into_primitive())
}

/// Calls `$function::<B, C>($arguments)` with the backend and the checkpointing strategy of the autodiff tensor `$tensor`;
/// `$function [X, Y] (..)` for a function with more generics, `$function::<B, C, X, Y>`.
///
/// This is the one list of backends; a tensor of any other is a panic that says so.
macro_rules! on_backend_of {
    ($tensor:expr, $function:ident $arguments:tt) => {
        $crate::autodiff::on_backend_of!($tensor, $function [] $arguments)
    };
    ($tensor:expr, $function:ident [$($generic:ident),*] $arguments:tt) => {
        $crate::autodiff::on_backend_of!(
            @try $tensor, $function [$(, $generic)*] $arguments,
            [burn::backend::Flex, burn::backend::Capture, #[cfg(feature = "cube")] burn::backend::Cube]
        )
    };
    (@try $tensor:expr, $function:ident $generics:tt $arguments:tt, [$($(#[$cfg:meta])* $backend:ty),*]) => {{
        use burn::backend::autodiff::checkpoint::strategy::{BalancedCheckpointing, NoCheckpointing};
        let tensor: &burn::backend::DispatchTensor = $tensor;
        'found: {
            $(
                $(#[$cfg])*
                {
                    if $crate::autodiff::lower::<$backend, NoCheckpointing>(tensor).is_some() {
                        break 'found $crate::autodiff::on_backend_of!(
                            @call $function, $backend, NoCheckpointing, $generics $arguments
                        );
                    }
                    if $crate::autodiff::lower::<$backend, BalancedCheckpointing>(tensor).is_some() {
                        break 'found $crate::autodiff::on_backend_of!(
                            @call $function, $backend, BalancedCheckpointing, $generics $arguments
                        );
                    }
                }
            )*
            let device = burn::backend::TensorMetadata::device(tensor);
            panic!("leanburn-ops: expected an autodiff tensor of a supported backend (Flex, Capture, CubeCL); found one on {device:?}")
        }
    }};
    (@call $function:ident, $backend:ty, $strategy:ty, [$($generics:tt)*] $arguments:tt) => {
        $function::<$backend, $strategy $($generics)*>$arguments
    };
}
pub(crate) use on_backend_of;

#[cfg(test)]
mod tests {
    use burn::backend::{Capture, DispatchTensor};
    use burn::tensor::{Device, Tensor};

    fn never<B, C>(_: &DispatchTensor) {}

    #[test]
    #[should_panic(
        expected = "expected an autodiff tensor of a supported backend (Flex, Capture, CubeCL); found one on"
    )]
    fn a_tensor_of_another_backend_is_named() {
        let tensor = Tensor::<1>::zeros([1 << 10], &Device::flex().autodiff()).into_dispatch();
        on_backend_of!(@try &tensor, never [] (&tensor), [Capture]) // as if Flex were none of ours
    }
}
