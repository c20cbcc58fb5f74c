//! nnU-Net's U-Net itself.

use burn::module::Module;
use burn::nn::Initializer;
use burn::tensor::{Device, Tensor, assert_shape};
use leanburn_common::panic_if_invalid;
use leanburn_ops::{ResidencyPolicy, Stages, Unstreamable};

use super::config::DynUnetConfig;
use crate::blocks::{Conv3d, NormAct, UnetBlock, UnetBlockConfig, UnetUpBlock, UnetUpBlockConfig};
use crate::models::level_names::{BOTTOM, decoder_name, encoder_name, names_of_levels};
use crate::segmented::{apart, segmented};

/// nnU-Net's U-Net; see [`DynUnetConfig`] for an example.
///
/// Equal to MONAI's `DynUNet`.
///
/// # Memory
///
/// Saved for backward: of each block what its two convolutions give (with residuals or a norm over the batch also their sum, or the normalised volume); of a decoder's also
/// what the transposed convolution takes and gives, and never the joined volume. The last norm and activation of a block are part of the operations behind it. With every segment recomputed, what each segment gives. The finest level costs by far the
/// most. Segments are `encoder.level_0`, .., `bottom`, .., `decoder.level_0`.
#[derive(Module, Debug)]
pub struct DynUnet {
    input_block: UnetBlock,
    downsamples: Vec<UnetBlock>,
    bottleneck: UnetBlock,
    /// The coarsest first.
    upsamples: Vec<UnetUpBlock>,
    output_block: Conv3d,
    #[module(skip)]
    config: DynUnetConfig,
    #[module(skip)]
    residency: ResidencyPolicy,
}

impl DynUnetConfig {
    /// Makes the model, weights distributed as MONAI's: Kaiming's normal distribution for a leaky ReLU of slope 0.01, biases zero.
    ///
    /// # Panics
    ///
    /// Panics with the [errors](Self::validate) of the configuration if there are any.
    pub fn init(&self, device: &Device) -> DynUnet {
        panic_if_invalid("DynUnet", &self.validate());
        let initializer =
            Initializer::KaimingNormal { gain: (2.0 / (1.0 + SLOPE * SLOPE)).sqrt(), fan_out_only: false };
        let block = |channels, level: usize| {
            UnetBlockConfig::new(channels)
                .with_kernel_size(self.kernel_size[level])
                .with_norm(self.norm)
                .with_initializer(Some(initializer.clone()))
        };
        let (filters, bottom) = (&self.filters, self.filters.len() - 1);
        let encoder = |level: usize| {
            let finer = if level == 0 { self.in_channels } else { filters[level - 1] };
            let block = block([finer, filters[level]], level).with_stride(self.strides[level]);
            block.with_is_residual(self.res_block).init(device)
        };
        // from the level below, whose kernels and strides are those of the way up
        let decoder = |level: usize| {
            let block = block([filters[level + 1], filters[level]], level + 1).with_is_residual(false);
            let up = UnetUpBlockConfig::new(block).with_factors(self.strides[level + 1]);
            up.with_bias(self.trans_bias).init(device)
        };
        let output = burn::nn::conv::Conv3dConfig::new([filters[0], self.out_channels], [1; 3]);
        DynUnet {
            input_block: encoder(0),
            downsamples: (1..bottom).map(encoder).collect(),
            bottleneck: encoder(bottom),
            upsamples: (0..bottom).rev().map(decoder).collect(),
            output_block: Conv3d::drawn(&output, [0; 3], Some(&initializer), device),
            config: self.clone(),
            residency: ResidencyPolicy::default(),
        }
    }
}

/// Slope of the activations below zero.
const SLOPE: f64 = 0.01;

segmented!(DynUnet, DynUnetConfig);

impl DynUnet {
    /// Names of the segments in order of execution.
    pub fn segments(&self) -> Vec<String> {
        names_of_levels(self.upsamples.len())
    }

    /// What stands against streaming each segment, if anything does.
    pub fn unstreamable(&self) -> Vec<(String, Option<Unstreamable>)> {
        let mut stages = Vec::new();
        let (mut left, mut skips) = (NormAct::identity(), Vec::new());
        for encoder in self.encoders() {
            stages.push(encoder.stages(&left));
            left = encoder.left();
            skips.push(left.clone());
        }
        stages.push(self.bottleneck.stages(&left));
        left = self.bottleneck.left();
        for (decoder, skip) in self.upsamples.iter().zip(skips.iter().rev()) {
            stages.push(decoder.stages([&left, skip]));
            left = decoder.left();
        }
        let reasons = stages.into_iter().map(|stages| stages.and_then(Stages::streamable).err());
        self.segments().into_iter().zip(reasons).collect()
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
    /// [downsampling](DynUnetConfig::downsampling); [`check_input`](DynUnetConfig::check_input) says which are.
    pub fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        self.forward_levels(x, 0).swap_remove(0)
    }

    /// The logits, and what the decoder gives at the `coarser` levels below them, for losses at several levels.
    ///
    /// # Shapes
    ///
    /// - input: as [`forward`](Self::forward)
    /// - outputs: the logits, and of each of the [levels](DynUnetConfig::decoder_levels), the finest first,
    ///   `[batch_size, channels, ..]`, each axis divided by its `downsampling`
    ///
    /// # Panics
    ///
    /// As [`forward`](Self::forward).
    pub fn forward_levels(&self, x: Tensor<5>, coarser: usize) -> Vec<Tensor<5>> {
        let in_channels = self.config.in_channels;
        assert_shape!(x, [_, in_channels, ..]);
        if let Err(error) = self.config.check_input(x.dims()) {
            panic!("DynUnet: {error}");
        }
        let encode = |name: &str, block: &UnetBlock, (h, left): (Tensor<5>, NormAct)| {
            let open = |(block, left): &(UnetBlock, NormAct), h| block.open(vec![apart(h)], std::slice::from_ref(left));
            let stages = |(block, left): &(UnetBlock, NormAct)| block.stages(left);
            (self.residency.run_stages(name, &(block.clone(), left), h, open, stages), block.left())
        };
        let (mut h, mut skips) = ((x, NormAct::identity()), Vec::with_capacity(self.upsamples.len()));
        for (level, encoder) in self.encoders().enumerate() {
            h = encode(&encoder_name(level), encoder, h);
            skips.push(h.clone());
        }
        h = encode(BOTTOM, &self.bottleneck, h);
        let mut outputs = Vec::new();
        for decoder in &self.upsamples {
            let ((below, of_below), (skip, of_skip)) = (h, skips.pop().expect("a skip connection for each decoder"));
            let open = |(decoder, of_below, of_skip): &(UnetUpBlock, NormAct, NormAct), (below, skip)| {
                decoder.open([below, skip], [of_below, of_skip])
            };
            let stages =
                |(decoder, of_below, of_skip): &(UnetUpBlock, NormAct, NormAct)| decoder.stages([of_below, of_skip]);
            let module = (decoder.clone(), of_below, of_skip);
            let up = self.residency.run_stages(&decoder_name(skips.len()), &module, (below, skip), open, stages);
            h = (up, decoder.left());
            if (1..=coarser).contains(&skips.len()) {
                outputs.push(h.1.forward(h.0.clone()));
            }
        }
        outputs.push(h.1.then_conv3d(h.0, self.output_block.convolution(), None));
        outputs.reverse();
        outputs
    }

    /// The levels of the encoder but the coarsest, the finest first.
    fn encoders(&self) -> impl Iterator<Item = &UnetBlock> {
        [&self.input_block].into_iter().chain(&self.downsamples)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::DecoderLevel;

    fn config() -> DynUnetConfig {
        let strides = vec![[1; 3], [1, 2, 2], [2; 3], [2; 3]];
        DynUnetConfig::new(1, 2, vec![2, 4, 6, 8], vec![[1, 3, 3], [3; 3], [3; 3], [3; 3]], strides)
    }

    #[test]
    fn segments_are_named_in_order_of_execution() {
        let expected = ["encoder.level_0", "encoder.level_1", "encoder.level_2", "bottom"];
        let segments = config().init(&Device::flex()).segments();
        assert_eq!(segments[..4], expected);
        assert_eq!(segments[4..], ["decoder.level_2", "decoder.level_1", "decoder.level_0"]);
    }

    #[test]
    fn levels_of_the_decoder_are_as_the_configuration_says() {
        let levels =
            config().init(&Device::flex()).forward_levels(Tensor::zeros([1, 1, 8, 16, 16], &Device::flex()), 9);
        let found: Vec<_> = levels.iter().map(Tensor::dims).collect();
        assert_eq!(found, [[1, 2, 8, 16, 16], [1, 4, 8, 8, 8], [1, 6, 4, 4, 4]]);
        let of_config = |level: &DecoderLevel| {
            let [depth, height, width] = level.downsampling;
            [1, level.channels, 8 / depth, 16 / height, 16 / width]
        };
        assert_eq!(config().decoder_levels().iter().map(of_config).collect::<Vec<_>>(), found[1..]);
    }

    #[test]
    #[should_panic = "pad it to [4, 8, 16] or crop it to [4, 8, 8]"]
    fn volumes_that_do_not_fit_are_rejected() {
        config().init(&Device::flex()).forward(Tensor::zeros([1, 1, 4, 8, 12], &Device::flex()));
    }
}
