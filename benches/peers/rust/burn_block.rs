//! The residual block of Burn's own layers, for comparison.

use burn::module::Module;
use burn::nn::conv::{Conv3d, Conv3dConfig};
use burn::nn::{GroupNorm, GroupNormConfig, PaddingConfig3d};
use burn::tensor::{Device, Tensor, activation::silu};

/// Group norm, SiLU, 3x3x3 convolution, twice, plus the input (through a 1x1x1 convolution where the channels change).
#[derive(Module, Debug)]
pub struct BurnBlock {
    norms: [GroupNorm; 2],
    convs: [Conv3d; 2],
    shortcut: Option<Conv3d>,
}

impl BurnBlock {
    /// Makes the block for channels of input and output.
    pub fn new(channels: [usize; 2], num_groups: usize, device: &Device) -> Self {
        let [channels_in, channels_out] = channels;
        let norm = |channels| GroupNormConfig::new(num_groups, channels).with_epsilon(1e-6).init(device);
        let conv = |channels| Conv3dConfig::new(channels, [3; 3]).with_padding(PaddingConfig3d::Same).init(device);
        Self {
            norms: [norm(channels_in), norm(channels_out)],
            convs: [conv(channels), conv([channels_out; 2])],
            shortcut: (channels_in != channels_out).then(|| Conv3dConfig::new(channels, [1; 3]).init(device)),
        }
    }

    /// Applies the block to `[batch_size, channels_in, depth, height, width]`.
    pub fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        let halves = self.norms.iter().zip(&self.convs);
        let h = halves.fold(x.clone(), |h, (norm, conv)| conv.forward(silu(norm.forward(h))));
        match &self.shortcut {
            Some(shortcut) => shortcut.forward(x) + h,
            None => x + h,
        }
    }
}
