//! Instance normalisation with float32 statistics.

use burn::module::Module;
use burn::tensor::Tensor;
use leanburn_ops::{Norm, group_norm_act};

/// Normalises each channel of each item to mean zero and variance one; has no parameters.
///
/// Source: [Instance Normalization](https://arxiv.org/abs/1607.08022). Memory and numerics as
/// [`GroupNorm`](super::GroupNorm).
#[derive(Module, Debug)]
pub struct InstanceNorm {
    epsilon: f64,
}

impl InstanceNorm {
    /// Makes the layer; `epsilon` is added to the variance.
    pub fn new(epsilon: f64) -> Self {
        Self { epsilon }
    }

    /// Applies the normalisation to `[batch_size, channels, depth, height, width]`.
    pub fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        let norm = self.norm(x.dims()[1]);
        group_norm_act(x, norm, leanburn_ops::Activation::None)
    }

    /// The norm of a number of channels for an operation that it is folded into.
    pub fn norm(&self, num_channels: usize) -> Norm {
        Norm { num_groups: num_channels, epsilon: self.epsilon, weight: None, bias: None }
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Device, Distribution, Tolerance};

    use super::*;

    #[test]
    fn each_channel_of_each_item_has_mean_zero_and_variance_one() {
        let x = Tensor::random([2, 3, 4, 4, 4], Distribution::Normal(5.0, 3.0), &Device::flex());
        let y: Tensor<2> = InstanceNorm::new(1e-5).forward(x).reshape([6, 64]);
        let (variance, mean) = y.var_mean_bias(1);
        mean.into_data().assert_approx_eq::<f32>(
            &Tensor::<2>::zeros([6, 1], &Device::flex()).into_data(),
            Tolerance::absolute(1e-5),
        );
        variance.into_data().assert_approx_eq::<f32>(
            &Tensor::<2>::ones([6, 1], &Device::flex()).into_data(),
            Tolerance::absolute(1e-4),
        );
    }
}
