//! Micro-batches by shape: what plans and measurements make where no data is read.

use std::fmt::Debug;

use burn::tensor::{Device, Distribution, Tensor};
use leanburn_common::Bytes;
use leanburn_ops::Tensors;

/// A micro-batch of one kind: a tensor, or a few that belong together.
///
/// A system whose batches are of another kind (volumes with labels, say) implements this for a type of its own.
pub trait Batch: Tensors + Clone + 'static {
    /// The shapes of its tensors.
    type Shape: Clone + Debug;

    /// A batch of zeros.
    fn zeros(shape: &Self::Shape, device: &Device) -> Self;

    /// A batch of noise, of values that the data could have.
    fn random(shape: &Self::Shape, device: &Device) -> Self;

    /// Its size, as it waits for its step.
    fn size(shape: &Self::Shape) -> Bytes;
}

/// Volumes `[batch_size, channels, depth, height, width]`.
impl Batch for Tensor<5> {
    type Shape = [usize; 5];

    fn zeros(shape: &Self::Shape, device: &Device) -> Self {
        Tensor::zeros(*shape, device)
    }

    fn random(shape: &Self::Shape, device: &Device) -> Self {
        Tensor::random(*shape, Distribution::Uniform(0.0, 1.0), device)
    }

    fn size(shape: &Self::Shape) -> Bytes {
        Bytes(4 * elements(shape))
    }
}

/// Fields `[batch_size, input_days, channels, height, width]` and those that follow, `[batch_size, predict_days, height, width]`.
impl Batch for (Tensor<5>, Tensor<4>) {
    type Shape = ([usize; 5], [usize; 4]);

    fn zeros((input, target): &Self::Shape, device: &Device) -> Self {
        (Tensor::zeros(*input, device), Tensor::zeros(*target, device))
    }

    fn random((input, target): &Self::Shape, device: &Device) -> Self {
        let uniform = Distribution::Uniform(0.0, 1.0);
        (Tensor::random(*input, uniform, device), Tensor::random(*target, uniform, device))
    }

    fn size((input, target): &Self::Shape) -> Bytes {
        Bytes(4 * (elements(input) + elements(target)))
    }
}

/// Numbers in a tensor of a shape.
pub fn elements(shape: &[usize]) -> u64 {
    shape.iter().map(|&length| length as u64).product()
}
