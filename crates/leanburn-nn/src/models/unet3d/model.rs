//! The U-Net itself.

use burn::module::Module;
use burn::tensor::{Device, Tensor, assert_shape};
use leanburn_common::panic_if_invalid;
use leanburn_ops::{ResidencyPolicy, Stages, Unstreamable};

use super::config::UNet3dConfig;
use super::decoder::UNetDecoder;
use super::unit::UNetUnit;
use crate::blocks::stages_of;
use crate::models::level_names::{BOTTOM, decoder_name, encoder_name, names_of_levels};
use crate::segmented::segmented;

/// U-Net with residual units; see [`UNet3dConfig`] for an example.
///
/// Equal to MONAI's `UNet`.
///
/// # Memory
///
/// Saved for backward: of a residual unit its input and what each convolution gives; of a transposed convolution what it
/// gives. With every segment recomputed, what each segment gives. The finest level costs by far the most. Segments are
/// `encoder.level_0`, .., `bottom`, .., `decoder.level_0`.
#[derive(Module, Debug)]
pub struct UNet3d {
    levels: Vec<UNetLevel>,
    #[module(skip)]
    config: UNet3dConfig,
    #[module(skip)]
    residency: ResidencyPolicy,
}

/// One level.
#[derive(Module, Debug)]
#[expect(clippy::large_enum_variant, reason = "handles to parameters, small next to the parameters")]
pub enum UNetLevel {
    /// Every level but the coarsest.
    Sides(UNetSides),
    /// The coarsest level.
    Bottom(UNetBottom),
}

/// Encoder and decoder of a level.
#[derive(Module, Debug)]
pub struct UNetSides {
    encoder: UNetUnit,
    decoder: UNetDecoder,
}

/// The coarsest level.
#[derive(Module, Debug)]
pub struct UNetBottom {
    bottom: UNetUnit,
}

impl UNet3dConfig {
    /// Makes the model, weights distributed as PyTorch's defaults.
    ///
    /// # Panics
    ///
    /// Panics with the [errors](Self::validate) of the configuration if there are any.
    pub fn init(&self, device: &Device) -> UNet3d {
        panic_if_invalid("UNet3d", &self.validate());
        let last = self.channels.len() - 1;
        let levels = (0..=last).map(|level| {
            let width = self.channels[level];
            let finer = if level == 0 { self.in_channels } else { self.channels[level - 1] };
            if level == last {
                let bottom = UNetUnit::new([finer, width], [1; 3], self, device);
                return UNetLevel::Bottom(UNetBottom { bottom });
            }
            // the levels in between give as many channels upwards as they got from above
            let below = if level + 1 == last { self.channels[last] } else { width };
            let channels_out = if level == 0 { self.out_channels } else { finer };
            UNetLevel::Sides(UNetSides {
                encoder: UNetUnit::new([finer, width], self.strides[level], self, device),
                decoder: UNetDecoder::new([width + below, channels_out], level, self, device),
            })
        });
        UNet3d { levels: levels.collect(), config: self.clone(), residency: ResidencyPolicy::default() }
    }
}

segmented!(UNet3d, UNet3dConfig);

impl UNet3d {
    /// Names of the segments in order of execution.
    pub fn segments(&self) -> Vec<String> {
        names_of_levels(self.levels.len() - 1)
    }

    /// What stands against streaming each segment, if anything does.
    pub fn unstreamable(&self) -> Vec<(String, Option<Unstreamable>)> {
        let (mut down, mut up) = (Vec::new(), Vec::new());
        for (index, level) in self.levels.iter().enumerate() {
            match level {
                UNetLevel::Sides(UNetSides { encoder, decoder }) => {
                    down.push((encoder_name(index), stages_of([encoder])));
                    up.push((decoder_name(index), decoder.stages(self.config.channels[index])));
                }
                UNetLevel::Bottom(UNetBottom { bottom }) => down.push((BOTTOM.to_string(), stages_of([bottom]))),
            }
        }
        let segments = down.into_iter().chain(up.into_iter().rev());
        segments.map(|(name, stages)| (name, stages.and_then(Stages::streamable).err())).collect()
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
    /// Panics if the input has other than `in_channels` channels, or an axis that is no multiple of its
    /// [downsampling](UNet3dConfig::downsampling); [`check_input`](UNet3dConfig::check_input) says which are.
    pub fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        self.forward_levels(x, 0).swap_remove(0)
    }

    /// The logits, and what the decoder gives at the `coarser` levels below them, for losses at several levels.
    ///
    /// # Shapes
    ///
    /// - input: as [`forward`](Self::forward)
    /// - outputs: the logits, and of each of the [levels](UNet3dConfig::decoder_levels), the finest first,
    ///   `[batch_size, channels, ..]`, each axis divided by its `downsampling`
    ///
    /// # Panics
    ///
    /// As [`forward`](Self::forward).
    pub fn forward_levels(&self, x: Tensor<5>, coarser: usize) -> Vec<Tensor<5>> {
        let in_channels = self.config.in_channels;
        assert_shape!(x, [_, in_channels, ..]);
        if let Err(error) = self.config.check_input(x.dims()) {
            panic!("UNet3d: {error}");
        }
        let (mut h, mut skips) = (x, Vec::with_capacity(self.levels.len()));
        for (index, level) in self.levels.iter().enumerate() {
            match level {
                UNetLevel::Sides(UNetSides { encoder, decoder }) => {
                    let name = encoder_name(index);
                    h = self.residency.run_stages(&name, encoder, h, UNetUnit::forward, |unit| stages_of([unit]));
                    skips.push((decoder, h.clone()));
                }
                UNetLevel::Bottom(UNetBottom { bottom }) => {
                    h = self.residency.run_stages(BOTTOM, bottom, h, UNetUnit::forward, |unit| stages_of([unit]));
                }
            }
        }
        let mut outputs = Vec::new();
        while let Some((decoder, skip)) = skips.pop() {
            let up = |decoder: &UNetDecoder, (skip, below)| decoder.forward(skip, below);
            let (name, channels) = (decoder_name(skips.len()), skip.dims()[1]);
            h = self.residency.run_stages(&name, decoder, (skip, h), up, |decoder| decoder.stages(channels));
            if (1..=coarser).contains(&skips.len()) {
                outputs.push(h.clone());
            }
        }
        outputs.push(h);
        outputs.reverse();
        outputs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_named_in_order_of_execution() {
        let model = UNet3dConfig::new(1, 2, vec![2, 4, 4], vec![[2; 3]; 2]).init(&Device::flex());
        let expected = ["encoder.level_0", "encoder.level_1", "bottom", "decoder.level_1", "decoder.level_0"];
        assert_eq!(model.segments(), expected);
    }

    #[test]
    fn levels_of_the_decoder_are_as_the_configuration_says() {
        let config = UNet3dConfig::new(1, 2, vec![2, 4, 6, 8], vec![[2; 3], [1, 2, 2], [2; 3]]).with_num_res_units(1);
        let levels = config.init(&Device::flex()).forward_levels(Tensor::zeros([1, 1, 4, 8, 16], &Device::flex()), 9);
        let found: Vec<_> = levels.iter().map(Tensor::dims).collect();
        assert_eq!(found, [[1, 2, 4, 8, 16], [1, 2, 2, 4, 8], [1, 4, 2, 2, 4]]);
        let of_config = |level: &crate::models::DecoderLevel| {
            let [depth, height, width] = level.downsampling;
            [1, level.channels, 4 / depth, 8 / height, 16 / width]
        };
        assert_eq!(config.decoder_levels().iter().map(of_config).collect::<Vec<_>>(), found[1..]);
    }

    #[test]
    #[should_panic = "pad it to [4, 4, 8] or crop it to [4, 4, 4]"]
    fn volumes_that_do_not_fit_are_rejected() {
        let model = UNet3dConfig::new(1, 2, vec![2, 4, 4], vec![[2; 3]; 2]).init(&Device::flex());
        model.forward(Tensor::zeros([1, 1, 4, 4, 6], &Device::flex()));
    }
}
