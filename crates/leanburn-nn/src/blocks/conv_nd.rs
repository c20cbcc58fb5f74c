//! Convolution of planes or of volumes, as a model's number of axes says.

use burn::module::Module;
use burn::tensor::Device;
use leanburn_ops::Convolution;

use super::conv::{Conv3d, Conv3dConfig};
use super::conv2d::{Conv2d, Conv2dConfig};

/// A convolution with an odd kernel and zeros around, so that without a stride the size stays; with one of 2 each axis is halved, rounded
/// up.
///
/// Planes are volumes `[batch_size, channels, 1, height, width]`, whose kernels have two axes, as those of weight files do.
#[derive(Module, Debug)]
pub enum ConvNd {
    /// Of two axes.
    Plane(Conv2d),
    /// Of three.
    Volume(Conv3d),
}

impl ConvNd {
    /// A convolution of `axes` axes, 2 or 3, with a kernel of so many elements along each.
    pub(crate) fn new(axes: usize, channels: [usize; 2], kernel_size: usize, stride: usize, device: &Device) -> Self {
        let padding = kernel_size / 2;
        match axes {
            2 => Self::Plane(
                Conv2dConfig::new(channels, kernel_size).with_stride(stride).with_padding(padding).init(device),
            ),
            _ => Self::Volume(
                Conv3dConfig::new(channels, kernel_size).with_stride(stride).with_padding(padding).init(device),
            ),
        }
    }

    /// A linear map of each position.
    pub(crate) fn pointwise(axes: usize, channels: [usize; 2], bias: bool, device: &Device) -> Self {
        match axes {
            2 => Self::Plane(Conv2dConfig::new(channels, 1).with_bias(bias).init(device)),
            _ => Self::Volume(Conv3dConfig::new(channels, 1).with_bias(bias).init(device)),
        }
    }

    /// The convolution for an operation that it is folded into.
    pub fn convolution(&self) -> Convolution {
        match self {
            Self::Plane(layer) => layer.convolution(),
            Self::Volume(layer) => layer.convolution(),
        }
    }
}

/// As many output channels of a convolution after the other, as `N` convolutions of their own.
pub(crate) fn parts_of<const N: usize>(Convolution { weight, bias, options }: Convolution) -> [Convolution; N] {
    let each = weight.dims()[0] / N;
    std::array::from_fn(|part| Convolution {
        weight: weight.clone().narrow(0, part * each, each),
        bias: bias.clone().map(|bias| bias.narrow(0, part * each, each)),
        options: options.clone(),
    })
}
