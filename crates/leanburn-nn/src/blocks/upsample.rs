//! Doubling of a volume, by nearest neighbour and convolution or by a transposed convolution.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use leanburn_ops::upsample_conv3d;

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
    /// Held for backward: the input. The enlarged volume, 8 times as large, is not kept.
    pub fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        match self {
            Self::Nearest(layer) => upsample_conv3d(x, [2; 3], layer.postconv.convolution()),
            Self::Transposed(layer) => layer.deconv.forward(x),
        }
    }
}
