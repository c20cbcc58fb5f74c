//! Layer normalisation of a volume: over the channels of each position.

use burn::tensor::Tensor;

use super::check::{assert_not_empty, assert_per_channel};
use super::operation::{AnyTensor, Operation, apply};
use crate::numerics::{cast_to, widen};

/// Normalises the channels of each position to mean zero and variance one, then scales and shifts each channel: layer norm of tokens
/// that are stored channels first.
///
/// `y = (x - mean) / sqrt(variance + epsilon) * weight + bias`, mean and variance over the channels. Source:
/// [Layer Normalization](https://arxiv.org/abs/1607.06450).
///
/// # Shapes
///
/// - input and output: `[batch_size, channels, depth, height, width]`, no axis empty
/// - weight and bias: `[channels]`
///
/// # Memory
///
/// Saved for backward: the input, shared with its producer. Workspace: two volumes in forward, four in backward, in float32.
///
/// # Numerics
///
/// In float32 regardless of the dtype; the result in the dtype of the input.
///
/// # Panics
///
/// Panics if an axis is empty (an empty batch too), weight or bias do not have one value for each channel, or are float64 and the input
/// is not.
#[must_use]
pub fn channel_norm(x: Tensor<5>, weight: Tensor<1>, bias: Tensor<1>, epsilon: f64) -> Tensor<5> {
    const OPERATION: &str = "channel_norm";
    assert_not_empty(OPERATION, "input", &x);
    for (name, vector) in [("weight", &weight), ("bias", &bias)] {
        assert_per_channel(OPERATION, name, Some(vector), x.dims()[1], x.dtype());
    }
    apply([x.into(), weight.into(), bias.into()], |[x, weight, bias], _| {
        let (x, weight) = (x.given::<5>(), weight.given());
        let (normalised, _) = normalised(x.clone(), epsilon);
        let output = normalised.clone() * per_channel(&weight, &normalised) + per_channel(&bias.given(), &normalised);
        (cast_to(output, x.dtype()), ChannelNorm { x, weight, epsilon })
    })
}

/// What [`channel_norm`] saves.
#[derive(Clone, Debug)]
struct ChannelNorm {
    x: Tensor<5>,
    weight: Tensor<1>,
    epsilon: f64,
}

impl Operation<3> for ChannelNorm {
    fn backward(self, gradient: Tensor<5>, [for_x, for_weight, for_bias]: [bool; 3]) -> [AnyTensor; 3] {
        let Self { x, weight, epsilon } = self;
        let dtype = x.dtype();
        let gradient = widen(gradient);
        let bias = for_bias.then(|| cast_to(channel_sums(gradient.clone()), weight.dtype()));
        let (normalised, inverse) = normalised(x, epsilon);
        let weight_gradient =
            for_weight.then(|| cast_to(channel_sums(gradient.clone() * normalised.clone()), weight.dtype()));
        let x_gradient = for_x.then(|| {
            let gradient = gradient * per_channel(&weight, &normalised);
            let mean = gradient.clone().mean_dim(1);
            let along = (gradient.clone() * normalised.clone()).mean_dim(1);
            cast_to((gradient - mean - normalised * along) * inverse, dtype)
        });
        [x_gradient.into(), weight_gradient.into(), bias.into()]
    }

    fn exchange(&mut self, exchange: &mut dyn FnMut(&mut Tensor<5>)) {
        exchange(&mut self.x);
    }
}

/// The normalised volume, and the inverse deviation of each position; at least in float32.
fn normalised(x: Tensor<5>, epsilon: f64) -> (Tensor<5>, Tensor<5>) {
    let x = widen(x);
    let centered = x.clone() - x.mean_dim(1);
    let inverse = ((centered.clone() * centered.clone()).mean_dim(1) + epsilon).sqrt().recip();
    (centered * inverse.clone(), inverse)
}

/// A value for each channel, to be broadcast over a volume of the dtype of `like`.
fn per_channel(vector: &Tensor<1>, like: &Tensor<5>) -> Tensor<5> {
    cast_to(vector.clone(), like.dtype()).reshape([1, -1, 1, 1, 1])
}

/// The sum over items and positions of each channel.
fn channel_sums(x: Tensor<5>) -> Tensor<1> {
    let [batch_size, channels, depth, height, width] = x.dims();
    x.reshape([batch_size, channels, depth * height * width]).sum_dim(2).sum_dim(0).reshape([channels])
}
