//! Configuration of Swin UNETR, and what can be wrong with it.

use burn::config::Config;
use leanburn_common::{Validation, ValidationError};
use serde::{Deserialize, Serialize};

use crate::blocks::{NormConfig, PatchMerging, SwinBlockConfig, WindowAttentionConfig};
use crate::models::decoder_level::DecoderLevel;
use crate::models::shape_error::ShapeError;
use crate::validation::Rules;

/// Stages of the transformer.
pub(super) const STAGES: usize = 4;

/// Length of a patch, and of the steps between stages.
pub(super) const PATCH: usize = 2;

/// Order in which the eight voxels of a patch are merged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Merging {
    /// MONAI's first version, which its published weights are trained with.
    #[default]
    Merging,
    /// Depth, height and width, the last fastest.
    MergingV2,
}

impl Merging {
    /// Where parameters in this order have the voxels 000, 001, 010, .. 111 of depth, height and width; empty if in that order.
    pub(super) fn places(self) -> &'static [i64] {
        match self {
            Self::Merging => &[0, 3, 2, 6, 1, 5, 4, 7],
            Self::MergingV2 => &[],
        }
    }
}

/// Configuration of [`SwinUnetr`](super::SwinUnetr), the options of MONAI's `SwinUNETR` in three dimensions, without dropout.
///
/// # Example
///
/// ```
/// use burn::tensor::{Device, Distribution, Tensor};
/// use leanburn_nn::models::SwinUnetrConfig;
///
/// let device = Device::flex();
/// let config = SwinUnetrConfig::new(1, 2).with_feature_size(12).with_num_heads([1, 2, 2, 4]).with_window_size([3; 3]);
/// let x = Tensor::random([1, 1, 32, 32, 64], Distribution::Default, &device);
/// assert_eq!(config.init(&device).forward(x).dims(), [1, 2, 32, 32, 64]);
/// assert!(config.check_input([1, 1, 32, 48, 64]).is_err());
/// ```
#[derive(Config, Debug, PartialEq)]
pub struct SwinUnetrConfig {
    /// Channels of the input.
    pub in_channels: usize,
    /// Channels of the output: classes.
    pub out_channels: usize,
    /// Channels of the finest level, a multiple of 12; each stage doubles them.
    #[config(default = 24)]
    pub feature_size: usize,
    /// Blocks of each stage.
    #[config(default = "[2; 4]")]
    pub depths: [usize; STAGES],
    /// Heads of each stage, divisors of its channels.
    #[config(default = "[3, 6, 12, 24]")]
    pub num_heads: [usize; STAGES],
    /// Depth, height and width of a window.
    #[config(default = "[7; 3]")]
    pub window_size: [usize; 3],
    /// Channels inside of a block's two linear layers, as a multiple of its own.
    #[config(default = 4)]
    pub mlp_ratio: usize,
    /// The norm of the residual blocks of convolutions; those before a stage (`use_v2`) have instance norms always.
    ///
    /// An instance norm takes the intensity of a patch out of it: where intensities separate classes and patches are small, use none.
    #[config(default = "NormConfig::Instance")]
    pub norm: NormConfig,
    /// Whether what a stage gives to the decoder is normalised.
    #[config(default = true)]
    pub normalize: bool,
    /// How patches are merged.
    #[config(default = "Merging::Merging")]
    pub downsample: Merging,
    /// Whether a residual block of convolutions stands before each stage.
    #[config(default = false)]
    pub use_v2: bool,
}

impl SwinUnetrConfig {
    /// Everything that is wrong with the configuration.
    #[must_use]
    pub fn validate(&self) -> Vec<ValidationError> {
        let mut validation = Validation::default();
        validation.counts([
            ("in_channels", self.in_channels),
            ("out_channels", self.out_channels),
            ("feature_size", self.feature_size),
            ("mlp_ratio", self.mlp_ratio),
        ]);
        let is_multiple = self.feature_size.is_multiple_of(12);
        validation.check(is_multiple, "feature_size", "a multiple of 12", self.feature_size, "use 24 or 48");
        self.depths.iter().for_each(|depth| validation.count("depths", *depth));
        for (stage, heads) in self.num_heads.into_iter().enumerate() {
            validation.count("num_heads", heads);
            let channels = self.feature_size.saturating_mul(1 << stage);
            validation.check_together(
                heads == 0 || channels.is_multiple_of(heads),
                &["feature_size"],
                "num_heads",
                &format!("a divisor of {channels}, the channels of stage {stage}"),
                heads,
                "heads of [3, 6, 12, 24] divide every feature size",
            );
        }
        validation.window("window_size", self.window_size);
        if let NormConfig::Group(groups) = self.norm {
            validation.groups("norm", groups, "feature_size", &[self.feature_size]);
        }
        validation.errors()
    }

    /// Number of parameters, without making them.
    pub fn num_parameters(&self) -> usize {
        let size = self.feature_size;
        let residual = |[channels_in, channels_out]: [usize; 2]| {
            let is_changed = channels_in != channels_out;
            let change = if is_changed { channels_in * channels_out } else { 0 };
            27 * (channels_in + channels_out) * channels_out + change
        };
        let normed = |channels: [usize; 2]| {
            let norms = if channels[0] == channels[1] { 2 } else { 3 };
            residual(channels) + norms * self.norm.num_parameters(channels[1])
        };
        let stage = |stage: usize| {
            let channels = size << stage;
            let entry = if self.use_v2 { residual([channels; 2]) } else { 0 };
            let merging = PatchMerging::num_parameters(channels, PATCH.pow(3));
            self.depths[stage] * self.block(stage, 0).num_parameters() + merging + entry
        };
        let up = |[channels_in, channels_out]: [usize; 2]| {
            8 * channels_in * channels_out + normed([2 * channels_out, channels_out])
        };
        let encoders = encoders(self).map(normed).iter().sum::<usize>();
        let decoders = decoders(self).map(up).iter().sum::<usize>();
        let patches = (8 * self.in_channels + 1) * size;
        let out = (size + 1) * self.out_channels;
        patches + (0..STAGES).map(stage).sum::<usize>() + encoders + normed([16 * size; 2]) + decoders + out
    }

    /// The block of a number in a stage: those of odd numbers have shifted windows.
    pub(super) fn block(&self, stage: usize, number: usize) -> SwinBlockConfig {
        let channels = self.feature_size << stage;
        let attention = WindowAttentionConfig::new(channels, self.num_heads[stage], self.window_size);
        SwinBlockConfig::new(attention.with_is_shifted(number % 2 == 1)).with_mlp_ratio(self.mlp_ratio)
    }

    /// By how much depth, height and width of the coarsest level are smaller than those of the volume.
    pub fn downsampling(&self) -> [usize; 3] {
        [PATCH.pow(STAGES as u32 + 1); 3]
    }

    /// The levels of the decoder below the one that gives the logits, the finest first.
    pub fn decoder_levels(&self) -> Vec<DecoderLevel> {
        let channels = decoders(self).into_iter().rev().skip(1).map(|[_, channels_out]| channels_out);
        let level = |(level, channels)| DecoderLevel { channels, downsampling: [PATCH.pow(level as u32 + 1); 3] };
        channels.enumerate().map(level).collect()
    }

    /// Whether patches and stages divide an input `[batch_size, channels, depth, height, width]`.
    ///
    /// # Errors
    ///
    /// [`ShapeError`] says what is wrong and which volumes fit.
    pub fn check_input(&self, shape: [usize; 5]) -> Result<(), ShapeError> {
        ShapeError::unless_multiples(shape, self.in_channels, self.downsampling())
    }
}

/// Channels that each encoder takes and gives, from the volume down.
pub(super) fn encoders(config: &SwinUnetrConfig) -> [[usize; 2]; 4] {
    let size = config.feature_size;
    [[config.in_channels, size], [size; 2], [2 * size; 2], [4 * size; 2]]
}

/// Channels that each decoder takes and gives, from the coarsest up.
pub(super) fn decoders(config: &SwinUnetrConfig) -> [[usize; 2]; 5] {
    [[16, 8], [8, 4], [4, 2], [2, 1], [1, 1]]
        .map(|factors: [usize; 2]| factors.map(|factor| factor * config.feature_size))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::keys;

    #[test]
    fn each_error_is_found() {
        let fields = |config: SwinUnetrConfig| keys(config.validate());
        let valid = || SwinUnetrConfig::new(1, 3);
        assert!(fields(valid()).is_empty());
        assert_eq!(fields(SwinUnetrConfig::new(0, 0)), ["in_channels", "out_channels"]);
        assert_eq!(
            fields(valid().with_feature_size(26)),
            ["feature_size", "num_heads", "num_heads", "num_heads", "num_heads"]
        );
        assert_eq!(fields(valid().with_depths([2, 0, 2, 2])), ["depths"]);
        assert_eq!(fields(valid().with_num_heads([3, 6, 12, 18])), ["num_heads"]);
        assert_eq!(fields(valid().with_window_size([7, 0, 7])), ["window_size"]);
        assert_eq!(fields(valid().with_mlp_ratio(0)), ["mlp_ratio"]);
        assert!(fields(valid().with_norm(NormConfig::Group(8))).is_empty());
        assert_eq!(fields(valid().with_norm(NormConfig::Group(7))), ["norm"]);
    }

    #[test]
    fn a_volume_is_a_multiple_of_thirty_two() {
        let config = SwinUnetrConfig::new(1, 3);
        assert_eq!(config.check_input([1, 1, 32, 64, 96]), Ok(()));
        let error = config.check_input([1, 1, 32, 48, 96]).unwrap_err();
        assert_eq!(error, ShapeError::Volume { found: [32, 48, 96], multiples: [32; 3] });
    }
}
