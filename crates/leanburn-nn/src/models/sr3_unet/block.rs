//! Blocks of the U-Net: residual blocks that know the noise, and attention behind them.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use leanburn_ops::{Activation, Convolution, norm_act_conv3d};

use super::config::{Sr3Condition, Sr3UNetConfig};
use crate::blocks::{
    ConvNd, Dropout, DropoutConfig, GroupNorm, GroupNormConfig, Linear, LinearConfig, as_one, attend, convolve, joined,
    norm_silu_dropout_conv, parts_of, with_shift,
};
use crate::segmented::apart;

/// Group norm, SiLU, convolution.
#[derive(Module, Debug)]
pub struct Sr3NormConv {
    norm: GroupNorm,
    last: ConvNd,
}

impl Sr3NormConv {
    pub(super) fn new(channels: [usize; 2], config: &Sr3UNetConfig, device: &Device) -> Self {
        Self { norm: norm(channels[0], config, device), last: ConvNd::new(config.axes, channels, 3, 1, device) }
    }

    pub(super) fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        norm_act_conv3d(x, Some(self.norm.norm()), Activation::Silu, self.last.convolution(), None)
    }
}

/// Group norm with PyTorch's epsilon.
fn norm(channels: usize, config: &Sr3UNetConfig, device: &Device) -> GroupNorm {
    GroupNormConfig::new(config.norm_num_groups, channels).init(device)
}

/// Group norm, SiLU, convolution; shifted by a linear map of the noise's embedding, and scaled too where the configuration says so; the same
/// again, with dropout; plus the input, through a linear map where the channels change.
///
/// # Memory
///
/// Saved for backward: the input and the sum in the middle; with dropout another volume, with scales the unscaled one. The two volumes that
/// a block of the way up joins are not copied into one where no group of the first norm spans both.
#[derive(Module, Debug)]
pub struct Sr3ResBlock {
    noise_func: Linear,
    block1: Sr3NormConv,
    block2: Sr3NormConv,
    dropout: Option<Dropout>,
    res_conv: Option<ConvNd>,
    #[module(skip)]
    use_affine_level: bool,
    #[module(skip)]
    condition: Sr3Condition,
}

impl Sr3ResBlock {
    fn new(channels: [usize; 2], config: &Sr3UNetConfig, device: &Device) -> Self {
        let [channels_in, channels_out] = channels;
        let of_noise = if config.use_affine_level { 2 * channels_out } else { channels_out };
        Self {
            noise_func: LinearConfig::new(config.inner_channels, of_noise).init(device),
            block1: Sr3NormConv::new(channels, config, device),
            block2: Sr3NormConv::new([channels_out; 2], config, device),
            dropout: (config.dropout > 0.0).then(|| DropoutConfig::new(config.dropout).init()),
            res_conv: (channels_in != channels_out).then(|| ConvNd::pointwise(config.axes, channels, true, device)),
            use_affine_level: config.use_affine_level,
            condition: config.condition,
        }
    }

    fn forward(&self, parts: Vec<Tensor<5>>, embedding: Tensor<5>) -> Tensor<5> {
        let entry = match self.condition {
            Sr3Condition::NoiseLevel => Activation::None,
            Sr3Condition::Time => Activation::Silu,
        };
        let shift = norm_act_conv3d(embedding, None, entry, self.noise_func.convolution(), None);
        let (h, skip) = match self.use_affine_level {
            false => with_shift(self.block1.last.convolution(), shift, |first| self.first_half(parts, first)),
            true => {
                let channels = shift.dims()[1] / 2;
                let (h, skip) = self.first_half(parts, self.block1.last.convolution());
                let scale = shift.clone().narrow(1, 0, channels) + 1.0;
                (h * scale + shift.narrow(1, channels, channels), skip)
            }
        };
        let (norm, convolution) = (self.block2.norm.norm(), self.block2.last.convolution());
        norm_silu_dropout_conv(h, norm, self.dropout.as_ref(), convolution, skip)
    }

    /// What the first convolution gives, and what the block's result is added to.
    fn first_half(&self, parts: Vec<Tensor<5>>, first: Convolution) -> (Tensor<5>, Tensor<5>) {
        let norm = self.block1.norm.norm();
        let parts = joined(parts, &norm);
        let h = convolve(&parts, Some(&norm), Activation::Silu, first);
        let skip = match &self.res_conv {
            Some(layer) => convolve(&parts, None, Activation::None, layer.convolution()),
            None => as_one(parts),
        };
        (h, skip)
    }
}

/// Group norm, attention of all positions to each other with one head, plus the input. Scores are never stored.
#[derive(Module, Debug)]
pub struct Sr3Attention {
    norm: GroupNorm,
    qkv: ConvNd,
    out: ConvNd,
}

impl Sr3Attention {
    fn new(channels: usize, config: &Sr3UNetConfig, device: &Device) -> Self {
        Self {
            norm: norm(channels, config, device),
            qkv: ConvNd::pointwise(config.axes, [channels, 3 * channels], false, device),
            out: ConvNd::pointwise(config.axes, [channels; 2], true, device),
        }
    }

    fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        let projections = parts_of::<3>(self.qkv.convolution())
            .map(|projection| norm_act_conv3d(x.clone(), Some(self.norm.norm()), Activation::None, projection, None));
        let attended = attend(projections, 1, None);
        norm_act_conv3d(attended, None, Activation::None, self.out.convolution(), Some(x))
    }
}

/// A residual block, and attention behind it or none.
#[derive(Module, Debug)]
pub struct Sr3Block {
    res_block: Sr3ResBlock,
    attn: Option<Sr3Attention>,
}

impl Sr3Block {
    pub(super) fn new(channels: [usize; 2], attends: bool, config: &Sr3UNetConfig, device: &Device) -> Self {
        Self {
            res_block: Sr3ResBlock::new(channels, config, device),
            attn: attends.then(|| Sr3Attention::new(channels[1], config, device)),
        }
    }

    /// Applies the block.
    ///
    /// # Shapes
    ///
    /// - `parts`: one volume or two `[batch_size, .., depth, height, width]`, together with `channels_in` channels
    /// - `embedding`: `[batch_size, inner_channels, 1, 1, 1]`
    /// - output: `[batch_size, channels_out, depth, height, width]`
    pub(super) fn forward(&self, parts: Vec<Tensor<5>>, embedding: Tensor<5>) -> Tensor<5> {
        let h = self.res_block.forward(parts, embedding);
        match &self.attn {
            Some(attention) => attention.forward(apart(h)),
            None => h,
        }
    }
}
