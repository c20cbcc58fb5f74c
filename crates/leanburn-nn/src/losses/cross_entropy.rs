//! Cross-entropy of classes.

use burn::tensor::{Int, Tensor};

use super::classes::{Classes, Graded};

/// `mean -log softmax(logits)` of the voxels' classes, in float32.
///
/// PyTorch's `cross_entropy`. A voxel with a label outside of the classes belongs to none: its logits are pushed down.
///
/// # Shapes
///
/// - `logits`: `[batch_size, classes, depth, height, width]`
/// - `labels`: `[batch_size, depth, height, width]`, from 0 to `classes - 1`
/// - output: `[1]`
///
/// # Memory
///
/// Saved for backward: the gradient of the logits, one volume of theirs in float32; it is made in forward, which needs four of
/// them for three classes, a little more with a Dice loss.
///
/// # Panics
///
/// Panics if there are fewer than two classes, or the labels have another shape.
///
/// # Example
///
/// ```
/// use burn::tensor::{Device, Int, Tensor};
/// use leanburn_nn::losses::cross_entropy_loss;
///
/// let device = Device::flex();
/// let loss = cross_entropy_loss(Tensor::zeros([1, 4, 2, 2, 2], &device), Tensor::<4, Int>::ones([1, 2, 2, 2], &device));
/// assert!((loss.into_scalar::<f32>() - 4f32.ln()).abs() < 1e-6);
/// ```
pub fn cross_entropy_loss(logits: Tensor<5>, labels: Tensor<4, Int>) -> Tensor<1> {
    let (classes, value) = Classes::with_cross_entropy(&logits, labels);
    Graded { value, gradient: classes.cross_entropy_gradient() }.of(logits)
}
