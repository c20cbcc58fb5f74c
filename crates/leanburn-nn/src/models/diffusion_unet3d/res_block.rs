//! Residual block that knows the time.

use burn::module::Module;
use burn::nn::Initializer;
use burn::tensor::{Device, Tensor};
use leanburn_ops::{
    Activation, AvgPool3d, Convolution, Interpolation, Norm, avg_pool3d, conv3d, group_norm_act, interpolate3d,
    norm_act_conv3d, upsample_conv3d,
};

use super::config::DiffusionUNet3dConfig;
use crate::blocks::{
    Conv3d, Conv3dConfig, Dropout, DropoutConfig, GroupNorm, GroupNormConfig, Linear, LinearConfig, as_one, convolve,
    joined, norm_silu_dropout_conv, with_shift,
};

/// Group norm, SiLU, 3x3x3 convolution, plus a linear map of the embedding; the same again, with dropout, and a convolution that begins as
/// zero; plus the input (through a 1x1x1 convolution where the channels change).
///
/// # Memory
///
/// Saved for backward: the input and the sum in the middle. The two volumes that a block of the decoder joins are not copied into one
/// where no group of the first norm spans both; elsewhere the joined volume is saved too. A block that halves or doubles the volume also
/// saves the small activated one, and dropout saves the activated volume that it gives.
#[derive(Module, Debug)]
pub struct DiffusionResBlock {
    norm1: GroupNorm,
    conv1: Conv3d,
    time_emb_proj: Linear,
    norm2: GroupNorm,
    dropout: Option<Dropout>,
    conv2: Conv3d,
    skip_connection: Option<Conv3d>,
    #[module(skip)]
    resize: Resize,
}

/// What a residual block does to the size of the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Resize {
    /// Nothing.
    Keep,
    /// Means of eight voxels.
    Halve,
    /// Nearest neighbours.
    Double,
}

impl DiffusionResBlock {
    /// A block with so many channels in and out.
    pub(super) fn new(channels: [usize; 2], resize: Resize, config: &DiffusionUNet3dConfig, device: &Device) -> Self {
        let [channels_in, channels_out] = channels;
        let norm = |channels| {
            GroupNormConfig::new(config.norm_num_groups, channels).with_epsilon(config.norm_eps).init(device)
        };
        let conv = |channels| Conv3dConfig::new(channels, 3).with_padding(1);
        Self {
            norm1: norm(channels_in),
            conv1: conv(channels).init(device),
            time_emb_proj: LinearConfig::new(4 * config.channels[0], channels_out).init(device),
            norm2: norm(channels_out),
            dropout: (config.dropout > 0.0).then(|| DropoutConfig::new(config.dropout).init()),
            conv2: conv([channels_out; 2]).with_initializer(Some(Initializer::Zeros)).init(device),
            skip_connection: (channels_in != channels_out).then(|| Conv3dConfig::new(channels, 1).init(device)),
            resize,
        }
    }

    /// Applies the block.
    ///
    /// # Shapes
    ///
    /// - `parts`: one volume or more `[batch_size, .., depth, height, width]`, together with `channels_in` channels
    /// - `embedding`: `[batch_size, features, 1, 1, 1]`
    /// - output: `[batch_size, channels_out, ..]`, each axis of the volume's length, its half or its double
    pub(super) fn forward(&self, parts: Vec<Tensor<5>>, embedding: Tensor<5>) -> Tensor<5> {
        let shift = norm_act_conv3d(embedding, None, Activation::Silu, self.time_emb_proj.convolution(), None);
        let norm = self.norm1.norm();
        let parts = joined(parts, &norm);
        let (h, skip) = with_shift(self.conv1.convolution(), shift, |convolution| match self.resize {
            Resize::Keep => self.first_half(parts, norm, convolution),
            Resize::Halve | Resize::Double => self.first_half_resized(as_one(parts), norm, convolution),
        });
        norm_silu_dropout_conv(h, self.norm2.norm(), self.dropout.as_ref(), self.conv2.convolution(), skip)
    }

    /// The first convolution, and what the block's result is added to.
    fn first_half(&self, parts: Vec<Tensor<5>>, norm: Norm, convolution: Convolution) -> (Tensor<5>, Tensor<5>) {
        let h = convolve(&parts, Some(&norm), Activation::Silu, convolution);
        let skip = match &self.skip_connection {
            Some(layer) => convolve(&parts, None, Activation::None, layer.convolution()),
            None => as_one(parts),
        };
        (h, skip)
    }

    /// The same with another size, which the volume gets in front of the convolution.
    fn first_half_resized(&self, x: Tensor<5>, norm: Norm, convolution: Convolution) -> (Tensor<5>, Tensor<5>) {
        let activated = group_norm_act(x.clone(), norm, Activation::Silu);
        if self.resize == Resize::Halve {
            let halve = |x| avg_pool3d(x, MEANS_OF_EIGHT);
            return (conv3d(halve(activated), convolution), halve(x));
        }
        let [_, _, size @ ..] = x.dims();
        let skip = interpolate3d(x, size.map(|length| 2 * length), Interpolation::Nearest);
        (upsample_conv3d(activated, [2; 3], convolution), skip)
    }
}

const MEANS_OF_EIGHT: AvgPool3d =
    AvgPool3d { kernel_size: [2; 3], stride: [2; 3], padding: [0; 3], count_include_pad: true, ceil_mode: false };

#[cfg(test)]
mod tests {
    use burn::tensor::{Distribution, Tolerance};

    use super::*;

    /// In one batch the shift is a sum of its own, alone it is part of the bias; joined volumes are one, or parts.
    #[test]
    fn items_alone_and_volumes_apart_give_the_same() {
        let device = Device::flex();
        let config = DiffusionUNet3dConfig::new(1, 1, vec![4], vec![1], vec![false]);
        let random = |dims: [usize; 5]| Tensor::<5>::random(dims, Distribution::Normal(0.0, 1.0), &device);
        for (channels, num_groups, is_apart) in [([4, 8], 3, true), ([4, 8], 2, false)] {
            let config = config.clone().with_norm_num_groups(num_groups);
            let mut block = DiffusionResBlock::new([12, 6], Resize::Keep, &config, &device);
            block.conv2 = Conv3dConfig::new([6; 2], 3).with_padding(1).init(&device);
            let parts = channels.map(|channels| random([2, channels, 3, 4, 5]));
            let embedding = random([2, 16, 1, 1, 1]);
            assert_eq!(joined(parts.to_vec(), &block.norm1.norm()).len() == 2, is_apart);
            let whole = block.forward(vec![Tensor::cat(parts.to_vec(), 1)], embedding.clone());
            let item = |item: usize| {
                let of = |volume: &Tensor<5>| volume.clone().narrow(0, item, 1);
                block.forward(parts.iter().map(of).collect(), of(&embedding))
            };
            let items = Tensor::cat(vec![item(0), item(1)], 0).into_data();
            whole.into_data().assert_approx_eq::<f32>(&items, Tolerance::absolute(1e-5));
        }
    }
}
