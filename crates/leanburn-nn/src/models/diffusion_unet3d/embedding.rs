//! The vector that tells every block the time, and the class.

use burn::module::{Module, Param};
use burn::tensor::{Device, Int, Tensor};
use leanburn_ops::numerics::cast_to;
use leanburn_ops::random::Distribution;
use leanburn_ops::{Activation, conv3d, norm_act_conv3d};

use crate::blocks::{Linear, LinearConfig, drawn};

/// The longest period of the sines.
const MAX_PERIOD: f64 = 10_000.0;

/// Two linear layers with SiLU between them, on sines and cosines of the time.
#[derive(Module, Debug)]
pub struct TimeEmbedding {
    first: Linear,
    second: Linear,
}

impl TimeEmbedding {
    /// The layers, from `channels` sines and cosines to four times as many features.
    pub(super) fn new(channels: usize, device: &Device) -> Self {
        let linear = |features_in| LinearConfig::new(features_in, 4 * channels).init(device);
        Self { first: linear(channels), second: linear(4 * channels) }
    }

    /// The embedding `[batch_size, 4 channels, 1, 1, 1]` of sines and cosines `[batch_size, channels, 1, 1, 1]`.
    pub(super) fn forward(&self, waves: Tensor<5>) -> Tensor<5> {
        let h = conv3d(waves, self.first.convolution());
        norm_act_conv3d(h, None, Activation::Silu, self.second.convolution(), None)
    }
}

/// Cosines and sines of times, of half as many frequencies each: `[batch_size, features, 1, 1, 1]`, in float32.
///
/// Frequencies fall from 1 towards `1 / 10,000`; an odd last feature is zero. Source:
/// [Attention Is All You Need](https://arxiv.org/abs/1706.03762), cosines first.
pub(super) fn waves(timesteps: Tensor<1>, features: usize) -> Tensor<5> {
    let (device, batch_size) = (timesteps.device(), timesteps.dims()[0]);
    let phases = phases(timesteps, features / 2);
    let mut parts = vec![phases.clone().cos(), phases.sin()];
    if features % 2 == 1 {
        parts.push(Tensor::zeros([batch_size, 1], &device));
    }
    Tensor::cat(parts, 1).reshape([batch_size, features, 1, 1, 1])
}

/// Times multiplied by so many frequencies, which fall from 1 towards `1 / 10,000`: `[batch_size, frequencies]`.
pub(crate) fn phases(times: Tensor<1>, frequencies: usize) -> Tensor<2> {
    let falling = |index: usize| (-MAX_PERIOD.ln() * index as f64 / frequencies.max(1) as f64).exp() as f32;
    let values: Vec<f32> = (0..frequencies).map(falling).collect();
    let frequencies = Tensor::<1>::from_floats(values.as_slice(), &times.device()).unsqueeze_dim::<2>(0);
    times.unsqueeze_dim::<2>(1) * frequencies
}

/// A vector for each class.
#[derive(Module, Debug)]
pub struct ClassEmbedding {
    weight: Param<Tensor<2>>,
}

impl ClassEmbedding {
    /// Vectors with standard normal features, as PyTorch draws them.
    pub(super) fn new(classes: usize, features: usize, device: &Device) -> Self {
        Self { weight: drawn(Distribution::Normal { mean: 0.0, deviation: 1.0 }, [classes, features], device) }
    }

    /// The embedding of the time plus the vectors of the items' classes.
    pub(super) fn add_to(&self, embedding: Tensor<5>, labels: Tensor<1, Int>) -> Tensor<5> {
        let vectors = self.weight.val().select(0, labels).reshape(embedding.dims());
        embedding.clone() + cast_to(vectors, embedding.dtype())
    }
}
