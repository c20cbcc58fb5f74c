//! Models of volumes.

use burn::module::Module;
use burn::nn::conv::{Conv3d, Conv3dConfig, ConvTranspose3d, ConvTranspose3dConfig};
use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::{GroupNorm, GroupNormConfig, PaddingConfig3d};
use burn::prelude::*;
use burn::tensor::activation::leaky_relu;

use super::{Foreign, classes, numbers};

/// A small U-Net with integer labels.
#[derive(Module, Debug)]
pub struct UNet {
    fine: Conv3d,
    norm: GroupNorm,
    coarse: Conv3d,
    up: ConvTranspose3d,
    output: Conv3d,
}

impl Foreign for UNet {
    type Batch = (Tensor<5>, Tensor<4, Int>);
    const SIZES: [usize; 2] = [1, 2];

    fn new(device: &Device) -> Self {
        let convolution = |channels, stride: usize| {
            let config = Conv3dConfig::new(channels, [3; 3]).with_stride([stride; 3]);
            config.with_padding(PaddingConfig3d::Explicit(1, 1, 1)).init(device)
        };
        Self {
            fine: convolution([1, 8], 1),
            norm: GroupNormConfig::new(2, 8).init(device),
            coarse: convolution([8, 16], 2),
            up: ConvTranspose3dConfig::new([16, 8], [2; 3]).with_stride([2; 3]).init(device),
            output: convolution([16, 3], 1),
        }
    }

    fn batch(size: usize, device: &Device) -> Self::Batch {
        (numbers([size, 1, 20, 24, 20], device), classes([size, 20, 24, 20], 3, device))
    }

    fn loss(&self, (scans, labels): Self::Batch) -> Tensor<1> {
        let fine = leaky_relu(self.norm.forward(self.fine.forward(scans)), 0.01);
        let coarse = leaky_relu(self.coarse.forward(fine.clone()), 0.01);
        let logits = self.output.forward(Tensor::cat(vec![fine, self.up.forward(coarse)], 1));
        let voxels: Tensor<2> = logits.permute([0, 2, 3, 4, 1]).flatten::<2>(0, 3);
        CrossEntropyLossConfig::new().init(&voxels.device()).forward(voxels, labels.flatten(0, 3))
    }
}
