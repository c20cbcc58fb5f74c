//! Doubling of a volume, by nearest neighbour and convolution or by a transposed convolution.

use burn::module::Module;
use burn::tensor::{Device, Tensor};

use super::{Conv3d, Conv3dConfig, ConvTranspose3d, ConvTranspose3dConfig};

/// Doubles each axis and keeps the number of channels.
#[derive(Module, Debug)]
pub enum Upsample {
    /// Nearest neighbour, then a 3x3x3 convolution.
    Nearest(NearestUpsample),
    /// Transposed convolution with a 2x2x2 kernel and stride two.
    Transposed(TransposedUpsample),
}

/// Nearest neighbour, then a 3x3x3 convolution.
#[derive(Module, Debug)]
pub struct NearestUpsample {
    postconv: Conv3d,
}

/// Transposed convolution with a 2x2x2 kernel and stride two.
#[derive(Module, Debug)]
pub struct TransposedUpsample {
    deconv: ConvTranspose3d,
}

impl Upsample {
    /// Makes a [`Nearest`](Self::Nearest) layer.
    pub fn nearest(channels: usize, device: &Device) -> Self {
        let postconv = Conv3dConfig::new([channels; 2], 3).with_padding(1).init(device);
        Self::Nearest(NearestUpsample { postconv })
    }

    /// Makes a [`Transposed`](Self::Transposed) layer.
    pub fn transposed(channels: usize, device: &Device) -> Self {
        let deconv = ConvTranspose3dConfig::new([channels; 2], 2, 2).init(device);
        Self::Transposed(TransposedUpsample { deconv })
    }

    /// Applies the layer.
    ///
    /// # Shapes
    ///
    /// - input: `[batch_size, channels, depth, height, width]`
    /// - output: `[batch_size, channels, 2 depth, 2 height, 2 width]`
    ///
    /// # Memory
    ///
    /// Held for backward: the enlarged volume (8 times the input) for [`Nearest`](Self::Nearest), the input for
    /// [`Transposed`](Self::Transposed).
    pub fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        match self {
            Self::Nearest(layer) => layer.postconv.forward(nearest_by_two(x)),
            Self::Transposed(layer) => layer.deconv.forward(x),
        }
    }
}

/// Repeats each element twice along depth, height and width.
///
/// # Shapes
///
/// - input: `[batch_size, channels, depth, height, width]`
/// - output: `[batch_size, channels, 2 depth, 2 height, 2 width]`
///
/// # Memory
///
/// Writes the output once (the repetition is a view until then) and holds nothing for backward, which sums one axis
/// after the other: half the output's size beside the gradient.
pub fn nearest_by_two(x: Tensor<5>) -> Tensor<5> {
    let [batch_size, channels, depth, height, width] = x.dims();
    let items = batch_size * channels;
    let apart: Tensor<7> = x.reshape([items, depth, 1, height, 1, width, 1]);
    apart.expand([items, depth, 2, height, 2, width, 2]).reshape([
        batch_size,
        channels,
        2 * depth,
        2 * height,
        2 * width,
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_element_is_repeated_and_each_gradient_summed() {
        let device = Device::flex().autodiff();
        let [channels, depth, height, width] = [2, 2, 1, 3];
        let x = Tensor::<1>::from_floats([0., 1., 2., 3., 4., 5., 6., 7., 8., 9., 10., 11.], &device);
        let x = x.reshape([1, channels, depth, height, width]).detach().require_grad();
        let y = nearest_by_two(x.clone());
        assert_eq!(y.dims(), [1, 2, 4, 2, 6]);
        let values = y.to_data().try_to_vec::<f32>().unwrap();
        for (at, value) in values.iter().enumerate() {
            let (w, h, d, c) = (at % 6, at / 6 % 2, at / 12 % 4, at / 48);
            let source = ((c * depth + d / 2) * height + h / 2) * width + w / 2;
            assert_eq!(*value, source as f32, "{c} {d} {h} {w}");
        }
        let gradient = x.grad(&(y.clone() * y).sum().backward()).unwrap();
        let expected: Vec<f32> = (0..12).map(|value| 16.0 * value as f32).collect();
        assert_eq!(gradient.into_data().try_to_vec::<f32>().unwrap(), expected);
    }
}
