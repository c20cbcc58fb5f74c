//! What losses of classes have in common: probabilities, labels, and a gradient that is made with the loss.

use burn::tensor::{Int, Tensor};
use leanburn_ops::numerics::{cast_to, widen};

/// Probabilities and labels, both `[batch_size, classes, depth, height, width]` in float32, without a graph.
pub(super) struct Classes {
    /// Softmax of the logits.
    pub(super) probabilities: Tensor<5>,
    /// 1 for the class of a voxel, 0 for the others.
    pub(super) one_hot: Tensor<5>,
}

impl Classes {
    /// Panics unless the labels are those of the logits' voxels and there are at least two classes.
    pub(super) fn of(logits: &Tensor<5>, labels: Tensor<4, Int>) -> Self {
        let (one_hot, logits) = one_hot_and_logits(logits, labels);
        let (probabilities, _) = softmax(logits);
        Self { probabilities, one_hot }
    }

    /// The same, and `-log p` of each voxel's class, one channel. The logits are gone before a gradient is made.
    pub(super) fn with_log_loss(logits: &Tensor<5>, labels: Tensor<4, Int>) -> (Self, Tensor<5>) {
        let (one_hot, logits) = one_hot_and_logits(logits, labels);
        let (probabilities, sums) = softmax(logits.clone());
        let of_class = (logits * one_hot.clone()).sum_dim(1);
        (Self { probabilities, one_hot }, sums.log() - of_class)
    }

    /// The same, and the mean of `-log p`.
    pub(super) fn with_cross_entropy(logits: &Tensor<5>, labels: Tensor<4, Int>) -> (Self, Tensor<1>) {
        let (classes, log_loss) = Self::with_log_loss(logits, labels);
        (classes, log_loss.mean())
    }

    /// The gradient of the cross-entropy with respect to the logits.
    pub(super) fn cross_entropy_gradient(self) -> Tensor<5> {
        let [batch_size, _, depth, height, width] = self.one_hot.dims();
        (self.probabilities - self.one_hot) / (batch_size * depth * height * width) as f64
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

/// Labels as numbers of a class each, and the logits less the largest of their voxel.
fn one_hot_and_logits(logits: &Tensor<5>, labels: Tensor<4, Int>) -> (Tensor<5>, Tensor<5>) {
    let [batch_size, classes, depth, height, width] = logits.dims();
    assert!(classes > 1, "a loss of classes needs logits of at least 2 classes, found {classes}");
    let voxels = [batch_size, depth, height, width];
    assert!(
        labels.dims() == voxels,
        "labels of these logits are [batch_size, depth, height, width] = {voxels:?}, found {:?}",
        labels.dims()
    );
    // a leaf keeps asking for its gradient when it is detached
    let logits = widen(logits.clone().detach().set_require_grad(false));
    let is_class = |class: usize| -> Tensor<5> { labels.clone().equal_elem(class as i64).float().unsqueeze_dim(1) };
    let one_hot = cast_to(Tensor::cat((0..classes).map(is_class).collect(), 1), logits.dtype());
    drop(labels);
    (one_hot, logits.clone() - logits.max_dim(1))
}

/// Softmax of such logits, and the sums of their exponentials, one channel.
fn softmax(logits: Tensor<5>) -> (Tensor<5>, Tensor<5>) {
    let exponentials = logits.exp();
    let sums = exponentials.clone().sum_dim(1);
    (exponentials / sums.clone(), sums)
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

/// Three classes in two items, for tests.
#[cfg(test)]
pub(super) mod samples {
    use burn::tensor::{Device, Distribution, Int, Tensor};

    pub(in crate::losses) fn logits(device: &Device) -> Tensor<5> {
        Tensor::random([2, 3, 2, 3, 4], Distribution::Normal(0.0, 2.0), device)
    }

    pub(in crate::losses) fn labels(device: &Device) -> Tensor<4, Int> {
        Tensor::<1, Int>::arange(0..48, device).remainder_scalar(3).reshape([2, 2, 3, 4])
    }
}
