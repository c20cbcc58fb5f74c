//! What losses of classes have in common: probabilities, labels, and a gradient that is made with the loss.

use burn::tensor::{Int, Tensor};
use leanburn_ops::numerics::{cast_to, widen};

/// Logits without their graph, and the labels, all `[batch_size, classes, depth, height, width]` in float32.
pub(super) struct Classes {
    /// Logits less the largest of their voxel.
    logits: Tensor<5>,
    /// Sums of the exponentials of those, one channel.
    sums: Tensor<5>,
    /// Softmax of the logits.
    pub(super) probabilities: Tensor<5>,
    /// 1 for the class of a voxel, 0 for the others.
    pub(super) one_hot: Tensor<5>,
}

impl Classes {
    /// Panics unless the labels are those of the logits' voxels and there are at least two classes.
    pub(super) fn of(logits: &Tensor<5>, labels: Tensor<4, Int>) -> Self {
        let [batch_size, classes, depth, height, width] = logits.dims();
        assert!(classes > 1, "a loss of classes needs logits of at least 2 classes, found {classes}");
        let voxels = [batch_size, depth, height, width];
        assert!(
            labels.dims() == voxels,
            "labels of these logits are [batch_size, depth, height, width] = {voxels:?}, found {:?}",
            labels.dims()
        );
        let logits = widen(logits.clone().detach());
        let is_class = |class: usize| -> Tensor<5> { labels.clone().equal_elem(class as i64).float().unsqueeze_dim(1) };
        let one_hot = cast_to(Tensor::cat((0..classes).map(is_class).collect(), 1), logits.dtype());
        let logits = logits.clone() - logits.max_dim(1);
        let exponentials = logits.clone().exp();
        let sums = exponentials.clone().sum_dim(1);
        Self { probabilities: exponentials / sums.clone(), logits, sums, one_hot }
    }

    /// The mean of `-log p` of the voxels' classes, and its gradient.
    pub(super) fn cross_entropy(&self) -> Graded {
        let voxels = self.sums.shape().num_elements() as f64;
        let of_class = (self.logits.clone() * self.one_hot.clone()).sum_dim(1);
        let value = (self.sums.clone().log() - of_class).mean();
        Graded { value, gradient: (self.probabilities.clone() - self.one_hot.clone()) / voxels }
    }

    /// The gradient of the logits, from that of the probabilities.
    pub(super) fn through_softmax(&self, gradient: Tensor<5>) -> Tensor<5> {
        let weighted = gradient * self.probabilities.clone();
        weighted.clone() - self.probabilities.clone() * weighted.sum_dim(1)
    }

    /// Sums over the volume, `[batch_size, classes, 1, 1, 1]`.
    pub(super) fn over_volume(&self, values: Tensor<5>) -> Tensor<5> {
        let [batch_size, classes, ..] = values.dims();
        let rows: Tensor<3> = values.reshape([batch_size as i64, classes as i64, -1]);
        rows.sum_dim(2).reshape([batch_size, classes, 1, 1, 1])
    }
}

/// A loss of logits, and its gradient with respect to them.
pub(super) struct Graded {
    pub(super) value: Tensor<1>,
    pub(super) gradient: Tensor<5>,
}

impl Graded {
    /// `weight` times the loss.
    pub(super) fn scale(self, weight: f64) -> Self {
        Self { value: self.value * weight, gradient: self.gradient * weight }
    }

    /// The sum of two losses.
    pub(super) fn plus(self, other: Self) -> Self {
        Self { value: self.value + other.value, gradient: self.gradient + other.gradient }
    }

    /// The loss as a function of the logits, for autodiff.
    ///
    /// A linear function that has the gradient, less its own value. Autodiff holds the gradient and nothing else.
    pub(super) fn of(self, logits: Tensor<5>) -> Tensor<1> {
        let linear = (widen(logits) * self.gradient).sum();
        linear.clone() - linear.detach() + self.value
    }
}
