//! The U-Net itself.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use leanburn_common::panic_if_invalid;
use leanburn_ops::{Interpolation, MaxPool3d, ResidencyPolicy, conv3d, interpolate3d, max_pool3d};

use super::config::{LEVELS, UNet2dConfig};
use crate::blocks::{BatchNorm, BatchNormConfig, Conv2d, Conv2dConfig, ConvTranspose2d, ConvTranspose2dConfig};
use crate::segmented::{apart, segmented};

/// U-Net of planes that are enlarged first; see [`UNet2dConfig`] for an example.
///
/// # Memory
///
/// Saved for backward: of each block five volumes of its level. Segments are the enlarging with the first block (`encoder_0`), the other
/// blocks of the way down with the pooling in front (`encoder_1`, .., `bottleneck`), those of the way up with what enlarges (`decoder_3`,
/// .., `decoder_0`), and `out`.
#[derive(Module, Debug)]
pub struct UNet2d {
    /// The finest first, the coarsest level last.
    encoders: Vec<UNet2dBlock>,
    /// The finest first.
    decoders: Vec<UNet2dUp>,
    out: Conv2d,
    #[module(skip)]
    config: UNet2dConfig,
    #[module(skip)]
    residency: ResidencyPolicy,
}

/// Convolution, batch norm, tanh, and the same again.
#[derive(Module, Debug)]
pub struct UNet2dBlock {
    conv1: Conv2d,
    norm1: BatchNorm,
    conv2: Conv2d,
    norm2: BatchNorm,
}

/// What enlarges the level below, and the block behind it.
#[derive(Module, Debug)]
pub struct UNet2dUp {
    upconv: ConvTranspose2d,
    block: UNet2dBlock,
}

impl UNet2dConfig {
    /// Makes the model, weights distributed as PyTorch's defaults.
    ///
    /// # Panics
    ///
    /// Panics with the [errors](Self::validate) of the configuration if there are any.
    pub fn init(&self, device: &Device) -> UNet2d {
        panic_if_invalid("UNet2d", &self.validate());
        let block = |channels| UNet2dBlock::new(channels, device);
        let encoder = |level: usize| match level {
            0 => block([self.in_channels, self.channels(0)]),
            _ => block([self.channels(level - 1), self.channels(level)]),
        };
        let decoder = |level: usize| {
            let (channels, below) = (self.channels(level), self.channels(level + 1));
            let upconv = ConvTranspose2dConfig::new([below, channels], 2, 2).init(device);
            UNet2dUp { upconv, block: block([2 * channels, channels]) }
        };
        UNet2d {
            encoders: (0..=LEVELS).map(encoder).collect(),
            decoders: (0..LEVELS).map(decoder).collect(),
            out: Conv2dConfig::new([self.channels(0), self.out_channels], 1).init(device),
            config: self.clone(),
            residency: ResidencyPolicy::default(),
        }
    }
}

segmented!(UNet2d, UNet2dConfig);

impl UNet2d {
    /// Names of the segments in order of execution.
    pub fn segments(&self) -> Vec<String> {
        let up = (0..LEVELS).rev().map(decoder_name);
        (0..=LEVELS).map(encoder_name).chain(up).chain([OUT.to_string()]).collect()
    }

    /// The fine field of a coarse one.
    ///
    /// # Shapes
    ///
    /// - input: `[batch_size, in_channels, 1, height, width]`
    /// - output: `[batch_size, out_channels, 1, ..]`, height and width times `upscale_factor`
    ///
    /// # Panics
    ///
    /// Panics if the input does not fit; [`check_input`](UNet2dConfig::check_input) says why.
    pub fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        if let Err(error) = self.config.check_input(x.dims()) {
            panic!("UNet2d: {error}");
        }
        let [_, _, _, height, width] = x.dims();
        let fine = [height, width].map(|length| length * self.config.upscale_factor);
        let x = interpolate3d(x, [1, fine[0], fine[1]], Interpolation::Nearest);
        let mut skips = vec![self.residency.run(&encoder_name(0), &self.encoders[0], x, UNet2dBlock::forward)];
        for level in 1..=LEVELS {
            let finer = skips[level - 1].clone();
            let down = |block: &UNet2dBlock, x| block.forward(max_pool3d(apart(x), MaxPool3d::new([1, 2, 2])));
            skips.push(self.residency.run(&encoder_name(level), &self.encoders[level], finer, down));
        }
        let h = skips.pop().expect("that of the coarsest level");
        let h = skips.into_iter().zip(&self.decoders).enumerate().rev().fold(h, |h, (level, (skip, layer))| {
            self.residency.run(&decoder_name(level), layer, (h, skip), UNet2dUp::forward)
        });
        self.residency.run(OUT, &self.out, h, Conv2d::forward)
    }
}

impl UNet2dBlock {
    fn new([channels_in, channels]: [usize; 2], device: &Device) -> Self {
        let conv = |channels| Conv2dConfig::new(channels, 3).with_padding(1).with_bias(false).init(device);
        let norm = || BatchNormConfig::new(channels).init(device);
        Self { conv1: conv([channels_in, channels]), norm1: norm(), conv2: conv([channels; 2]), norm2: norm() }
    }

    fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        let h = self.norm1.forward(conv3d(x, self.conv1.convolution())).tanh();
        self.norm2.forward(conv3d(h, self.conv2.convolution())).tanh()
    }
}

impl UNet2dUp {
    fn forward(&self, (h, skip): (Tensor<5>, Tensor<5>)) -> Tensor<5> {
        self.block.forward(Tensor::cat(vec![self.upconv.forward(apart(h)), apart(skip)], 1))
    }
}

const OUT: &str = "out";

fn encoder_name(level: usize) -> String {
    if level == LEVELS { "bottleneck".to_string() } else { format!("encoder_{level}") }
}

fn decoder_name(level: usize) -> String {
    format!("decoder_{level}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_named_in_order_of_execution() {
        let config = UNet2dConfig::new(2, 1, 2).with_init_features(2);
        let segments = config.init(&Device::flex()).segments();
        assert_eq!((segments.len(), segments[4].as_str(), segments[5].as_str()), (10, "bottleneck", "decoder_3"));
    }
}
