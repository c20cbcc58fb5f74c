//! Enlargement of a volume, by interpolation and convolution or by a transposed convolution.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use leanburn_ops::{Interpolation, Stages, Unstreamable, Volume, conv3d, interpolate3d, upsample_conv3d};

use super::conv::{Conv3d, Conv3dConfig};
use super::conv_transpose::{ConvTranspose3d, ConvTranspose3dConfig};
use super::in_stages::InStages;

/// Enlarges a volume and keeps the number of channels.
#[derive(Module, Debug)]
pub enum Upsample {
    /// Nearest neighbour, then a 3x3x3 convolution.
    Nearest(NearestUpsample),
    /// Transposed convolution with a 2x2x2 kernel and stride two.
    Transposed(TransposedUpsample),
    /// Trilinear interpolation by a factor for each axis, then a 3x3x3 convolution.
    Trilinear(TrilinearUpsample),
}

/// Nearest neighbour, then a 3x3x3 convolution.
#[derive(Module, Debug)]
pub struct NearestUpsample {
    postconv: Conv3d,
}

/// Trilinear interpolation by a factor for each axis, then a 3x3x3 convolution.
#[derive(Module, Debug)]
pub struct TrilinearUpsample {
    postconv: Conv3d,
    factors: [usize; 3],
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

    /// Makes a [`Trilinear`](Self::Trilinear) layer.
    pub fn trilinear(channels: usize, factors: [usize; 3], device: &Device) -> Self {
        let postconv = Conv3dConfig::new([channels; 2], 3).with_padding(1).init(device);
        Self::Trilinear(TrilinearUpsample { postconv, factors })
    }

    /// Applies the layer.
    ///
    /// # Shapes
    ///
    /// - input: `[batch_size, channels, depth, height, width]`
    /// - output: `[batch_size, channels, 2 depth, 2 height, 2 width]`, or each axis times its factor
    ///
    /// # Memory
    ///
    /// Saved for backward: the input; the enlarged volume, 8 times as large, is not kept. Of a trilinear layer the
    /// enlarged volume.
    pub fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        match self {
            Self::Nearest(layer) => upsample_conv3d(x, [2; 3], layer.postconv.convolution()),
            Self::Transposed(layer) => layer.deconv.forward(x),
            Self::Trilinear(TrilinearUpsample { postconv, factors }) => {
                let [_, _, volume @ ..] = x.dims();
                let size = std::array::from_fn(|axis| volume[axis] * factors[axis]);
                let enlarged = interpolate3d(x, size, Interpolation::Trilinear { align_corners: false });
                conv3d(enlarged, postconv.convolution())
            }
        }
    }
}

impl InStages for Upsample {
    fn append_to(&self, stages: &mut Stages, x: Volume) -> Result<Volume, Unstreamable> {
        match self {
            Self::Nearest(layer) => Ok(stages.upsample_conv3d(x, [2; 3], layer.postconv.convolution())),
            Self::Transposed(layer) => {
                let (weight, bias, options) = layer.deconv.parameters();
                Ok(stages.conv_transpose3d(x, weight, bias, options, None))
            }
            Self::Trilinear(TrilinearUpsample { postconv, factors }) => {
                let enlarged = stages.trilinear(x, *factors);
                Ok(stages.conv3d(enlarged, postconv.convolution()))
            }
        }
    }
}
