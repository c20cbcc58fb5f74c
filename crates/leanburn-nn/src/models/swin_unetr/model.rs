//! Swin UNETR itself.

use burn::module::Module;
use burn::tensor::{Device, Tensor, assert_shape};
use leanburn_common::panic_if_invalid;
use leanburn_ops::ResidencyPolicy;

use super::config::{SwinUnetrConfig, decoders, encoders};
use super::transformer::SwinEncoder;
use crate::blocks::{Conv3d, Conv3dConfig, UnetBlock, UnetBlockConfig, UnetUpBlock, UnetUpBlockConfig};
use crate::models::level_names::{BOTTOM, decoder_name, encoder_name};
use crate::segmented::segmented;

/// A transformer in windows with a convolutional decoder; see [`SwinUnetrConfig`] for an example.
///
/// Equal to MONAI's `SwinUNETR`.
///
/// # Memory
///
/// Saved for backward: of a block of the transformer twelve volumes, of a residual block what its convolutions give and its output.
/// Scores of the attention are never stored. The two levels of the volume's own size cost most. With every segment recomputed, what each segment
/// gives. Segments are `stage_0.entry` (with `use_v2`), `stage_0.block_0`, .., `stage_0.merging`, .., and then `encoder.level_0`,
/// .., `bottom`, `decoder.level_4`, .., `decoder.level_0`.
#[derive(Module, Debug)]
pub struct SwinUnetr {
    swin_vit: SwinEncoder,
    encoders: Vec<UnetBlock>,
    bottom: UnetBlock,
    decoders: Vec<UnetUpBlock>,
    out: Conv3d,
    #[module(skip)]
    config: SwinUnetrConfig,
    #[module(skip)]
    residency: ResidencyPolicy,
}

impl SwinUnetrConfig {
    /// Makes the model, weights distributed as PyTorch's defaults, tables of biases normal with a deviation of 0.02.
    ///
    /// # Panics
    ///
    /// Panics with the [errors](Self::validate) of the configuration if there are any.
    pub fn init(&self, device: &Device) -> SwinUnetr {
        panic_if_invalid("SwinUnetr", &self.validate());
        let size = self.feature_size;
        let block = |channels| UnetBlockConfig::new(channels).with_norm(self.norm);
        SwinUnetr {
            swin_vit: SwinEncoder::new(self, device),
            encoders: encoders(self).into_iter().map(|channels| block(channels).init(device)).collect(),
            bottom: block([16 * size; 2]).init(device),
            decoders: decoders(self)
                .into_iter()
                .map(|channels| UnetUpBlockConfig::new(block(channels)).init(device))
                .collect(),
            out: Conv3dConfig::new([size, self.out_channels], 1).init(device),
            config: self.clone(),
            residency: ResidencyPolicy::default(),
        }
    }
}

segmented!(SwinUnetr, SwinUnetrConfig);

impl SwinUnetr {
    /// Names of the segments in order of execution.
    pub fn segments(&self) -> Vec<String> {
        let encoders = (0..self.encoders.len()).map(encoder_name);
        let decoders = (0..self.decoders.len()).rev().map(decoder_name);
        let behind = encoders.chain([BOTTOM.to_string()]).chain(decoders);
        self.swin_vit.segments().into_iter().chain(behind).collect()
    }

    /// The logits of each class at each voxel.
    ///
    /// # Shapes
    ///
    /// - input: `[batch_size, in_channels, depth, height, width]`
    /// - output: `[batch_size, out_channels, depth, height, width]`
    ///
    /// # Panics
    ///
    /// Panics if the input has other than `in_channels` channels, or an axis that is no multiple of 32;
    /// [`check_input`](SwinUnetrConfig::check_input) says which are.
    pub fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        self.forward_levels(x, 0).swap_remove(0)
    }

    /// The logits, and what the decoder gives at the `coarser` levels below them, for losses at several levels.
    ///
    /// # Shapes
    ///
    /// - input: as [`forward`](Self::forward)
    /// - outputs: the logits, and of each of the [levels](SwinUnetrConfig::decoder_levels), the finest first,
    ///   `[batch_size, channels, ..]`, each axis divided by its `downsampling`
    ///
    /// # Panics
    ///
    /// As [`forward`](Self::forward).
    pub fn forward_levels(&self, x: Tensor<5>, coarser: usize) -> Vec<Tensor<5>> {
        self.check(&x);
        let mut skips = vec![x.clone()];
        skips.extend(self.swin_vit.forward(x, &self.residency));
        let coarsest = skips.pop().expect("what the last stage gives");
        // What the stage before the last gives goes to the decoder as it is.
        for (level, encoder) in self.encoders.iter().enumerate() {
            let skip = skips[level].clone();
            skips[level] = self.residency.run(&encoder_name(level), encoder, skip, UnetBlock::forward);
        }
        let mut h = self.residency.run(BOTTOM, &self.bottom, coarsest, UnetBlock::forward);
        let mut outputs = Vec::new();
        for decoder in &self.decoders {
            let skip = skips.pop().expect("a skip connection for each decoder");
            let up = |decoder: &UnetUpBlock, (below, skip)| decoder.forward(below, skip);
            h = self.residency.run(&decoder_name(skips.len()), decoder, (h, skip), up);
            if (1..=coarser).contains(&skips.len()) {
                outputs.push(h.clone());
            }
        }
        outputs.push(self.out.forward(h));
        outputs.reverse();
        outputs
    }

    /// What the transformer gives, from the patches to the last stage.
    ///
    /// # Shapes
    ///
    /// - input: as [`forward`](Self::forward)
    /// - outputs: of number `i` from 0 to 4, `[batch_size, 2^i feature_size, ..]`, each axis divided by `2^(i + 1)`
    ///
    /// # Panics
    ///
    /// As [`forward`](Self::forward).
    pub fn encode(&self, x: Tensor<5>) -> Vec<Tensor<5>> {
        self.check(&x);
        self.swin_vit.forward(x, &self.residency)
    }

    fn check(&self, x: &Tensor<5>) {
        let in_channels = self.config.in_channels;
        assert_shape!(x, [_, in_channels, ..]);
        if let Err(error) = self.config.check_input(x.dims()) {
            panic!("SwinUnetr: {error}");
        }
    }

    pub(super) fn transformer(&self) -> &SwinEncoder {
        &self.swin_vit
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocks::NormConfig;

    #[test]
    fn segments_are_named_in_order_of_execution() {
        let config = SwinUnetrConfig::new(1, 2).with_feature_size(12).with_depths([1, 2, 1, 1]).with_use_v2(true);
        let segments = config.init(&Device::flex()).segments();
        let stage_1 = ["stage_1.entry", "stage_1.block_0", "stage_1.block_1", "stage_1.merging"];
        assert_eq!(segments[3..7], stage_1);
        assert_eq!(segments[13..16], ["encoder.level_0", "encoder.level_1", "encoder.level_2"]);
        assert_eq!(segments[16..19], ["encoder.level_3", "bottom", "decoder.level_4"]);
        assert_eq!(segments.last().unwrap(), "decoder.level_0");
    }

    #[test]
    fn parameters_are_counted_without_making_them() {
        for norm in [NormConfig::Instance, NormConfig::None, NormConfig::Batch, NormConfig::Group(4)] {
            let config = SwinUnetrConfig::new(2, 3).with_feature_size(12).with_use_v2(true);
            let plain = config.num_parameters();
            let config = config.with_norm(norm);
            // A norm over the batch has as many running estimates as parameters, which Burn counts with them.
            let running = if norm == NormConfig::Batch { config.num_parameters() - plain } else { 0 };
            assert_eq!(config.init(&Device::flex()).num_params(), config.num_parameters() + running, "{norm:?}");
        }
    }

    #[test]
    fn levels_of_the_decoder_are_as_the_configuration_says() {
        let config = SwinUnetrConfig::new(1, 2).with_feature_size(12).with_depths([1; 4]).with_window_size([2; 3]);
        let levels = config.init(&Device::flex()).forward_levels(Tensor::zeros([1, 1, 32, 32, 64], &Device::flex()), 9);
        let found: Vec<_> = levels.iter().map(Tensor::dims).collect();
        assert_eq!(found[..2], [[1, 2, 32, 32, 64], [1, 12, 16, 16, 32]]);
        let of_config = |level: &crate::models::DecoderLevel| {
            let [depth, height, width] = level.downsampling;
            [1, level.channels, 32 / depth, 32 / height, 64 / width]
        };
        assert_eq!(config.decoder_levels().iter().map(of_config).collect::<Vec<_>>(), found[1..]);
    }

    #[test]
    #[should_panic = "pad it to [32, 32, 64] or crop it to [32, 32, 32]"]
    fn volumes_that_do_not_fit_are_rejected() {
        let config = SwinUnetrConfig::new(1, 2).with_feature_size(12);
        config.init(&Device::flex()).forward(Tensor::zeros([1, 1, 32, 32, 40], &Device::flex()));
    }
}
