//! Configuration of the U-Net, and what can be wrong with it.

use burn::config::Config;
use leanburn_common::{Validation, ValidationError};
use serde::{Deserialize, Serialize};

use crate::models::shape_error::ShapeError;
use crate::validation::Rules;

/// What the network is told of the noise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sr3Condition {
    /// The root of the share of the variance that the sample has, from 0 to 1: SR3.
    #[default]
    NoiseLevel,
    /// The time, with an activation in front of the map in each block: DDPM.
    Time,
}

/// Configuration of [`Sr3UNet`](super::Sr3UNet).
///
/// # Example
///
/// ```
/// use burn::tensor::{Device, Distribution, Tensor};
/// use leanburn_nn::models::Sr3UNetConfig;
///
/// let device = Device::flex();
/// let model = Sr3UNetConfig::new(2, 1, 8, vec![8, 16], vec![false, true]).with_norm_num_groups(4).init(&device);
/// // The enlarged field and the noisy one.
/// let x = Tensor::random([1, 2, 1, 8, 12], Distribution::Default, &device);
/// let noise = model.forward(x, Tensor::from_floats([0.7], &device));
/// assert_eq!(noise.dims(), [1, 1, 1, 8, 12]);
/// ```
#[derive(Config, Debug, PartialEq)]
pub struct Sr3UNetConfig {
    /// Channels of the input: those of the condition and those of the noisy sample.
    pub in_channels: usize,
    /// Channels of the prediction, those of the sample.
    pub out_channels: usize,
    /// Channels in front of the first block, and waves of the noise level.
    pub inner_channels: usize,
    /// Channels of each level, the finest first. Each axis is halved between levels.
    pub channels: Vec<usize>,
    /// Whether each block of a level ends with attention. The first block of the middle always does.
    pub attention_levels: Vec<bool>,
    /// Axes of the fields: 2 for planes, which have a depth of one, or 3.
    #[config(default = 2)]
    pub axes: usize,
    /// Blocks of each level on the way down; there is one more on the way up.
    #[config(default = 2)]
    pub num_res_blocks: usize,
    /// Groups of the norms; divides `inner_channels` and every number in `channels`.
    #[config(default = 32)]
    pub norm_num_groups: usize,
    /// Probability of a value in front of the second convolution of a block to be dropped.
    #[config(default = 0.0)]
    pub dropout: f64,
    /// Whether the noise scales the values of a block too, rather than shift them alone.
    #[config(default = false)]
    pub use_affine_level: bool,
    /// What the network is told of the noise.
    #[config(default = "Sr3Condition::NoiseLevel")]
    pub condition: Sr3Condition,
}

impl Sr3UNetConfig {
    /// Everything that is wrong with the configuration.
    #[must_use]
    pub fn validate(&self) -> Vec<ValidationError> {
        let mut validation = Validation::default();
        validation.counts([
            ("in_channels", self.in_channels),
            ("out_channels", self.out_channels),
            ("inner_channels", self.inner_channels),
            ("num_res_blocks", self.num_res_blocks),
        ]);
        let even = self.inner_channels.is_multiple_of(2);
        let help = "half of the waves are sines, half cosines: use 64";
        validation.check(even, "inner_channels", "an even number", self.inner_channels, help);
        validation.levels("channels", &self.channels);
        let levels = self.channels.len();
        validation.one_per_level("attention_levels", self.attention_levels.len(), "channels", levels);
        let channels: Vec<usize> = [self.inner_channels].into_iter().chain(self.channels.iter().copied()).collect();
        validation.groups("norm_num_groups", self.norm_num_groups, "channels", &channels);
        validation.below_one("dropout", self.dropout);
        let axes = self.axes;
        validation.check((2..=3).contains(&axes), "axes", "2 (planes) or 3 (volumes)", axes, "use 2");
        validation.errors()
    }

    /// By how much depth, height and width are smaller at the coarsest level.
    ///
    /// # Panics
    ///
    /// Panics if there are more levels than `usize` has bits; [`validate`](Self::validate) finds that.
    pub fn downsampling(&self) -> [usize; 3] {
        let factor = 1 << self.channels.len().saturating_sub(1);
        [if self.axes == 2 { 1 } else { factor }, factor, factor]
    }

    /// Whether an input `[batch_size, channels, depth, height, width]` can be taken.
    ///
    /// # Errors
    ///
    /// [`ShapeError`] says what is wrong and which fields fit.
    pub fn check_input(&self, shape: [usize; 5]) -> Result<(), ShapeError> {
        let [_, _, found @ ..] = shape;
        if self.axes == 2 && found[0] != 1 {
            return Err(ShapeError::Axes { found, axes: 2 });
        }
        ShapeError::unless_multiples(shape, self.in_channels, self.downsampling())
    }

    /// Numbers that are trained.
    pub fn num_parameters(&self) -> usize {
        let (inner, taps) = (self.inner_channels, 3usize.pow(self.axes as u32));
        let conv = |[channels_in, channels_out]: [usize; 2]| (taps * channels_in + 1) * channels_out;
        let norm_conv = |channels: [usize; 2]| 2 * channels[0] + conv(channels);
        let of_noise = if self.use_affine_level { 2 } else { 1 };
        let block = |[channels_in, channels_out]: [usize; 2], attends: bool| {
            let skip = if channels_in == channels_out { 0 } else { (channels_in + 1) * channels_out };
            let attention = if attends { (4 * channels_out + 3) * channels_out } else { 0 };
            let noise = (inner + 1) * of_noise * channels_out;
            norm_conv([channels_in, channels_out]) + norm_conv([channels_out; 2]) + noise + skip + attention
        };
        let blocks = self.blocks();
        let (down, up) = (blocks.down.iter().flatten(), blocks.up.iter().flatten());
        let levels: usize = down.chain(up).map(|(channels, attends)| block(*channels, *attends)).sum();
        let resampled: usize = self.channels.windows(2).map(|pair| conv([pair[0]; 2]) + conv([pair[1]; 2])).sum();
        let last = *self.channels.last().unwrap_or(&0);
        let middle = block([last; 2], true) + block([last; 2], false);
        let embedding = (inner + 1) * 4 * inner + (4 * inner + 1) * inner;
        let entry = conv([self.in_channels, inner]);
        entry + levels + resampled + middle + embedding + norm_conv([self.channels[0], self.out_channels])
    }

    /// Channels in and out of each block and whether it attends, level by level in the order in which they run.
    pub(super) fn blocks(&self) -> Blocks {
        let mut skips = vec![self.inner_channels];
        let mut before = self.inner_channels;
        let mut down = Vec::new();
        for (level, (channels, attends)) in self.channels.iter().zip(&self.attention_levels).enumerate() {
            let mut blocks = Vec::new();
            for _ in 0..self.num_res_blocks {
                blocks.push(([before, *channels], *attends));
                skips.push(*channels);
                before = *channels;
            }
            if level + 1 < self.channels.len() {
                skips.push(*channels);
            }
            down.push(blocks);
        }
        let mut up = Vec::new();
        for (channels, attends) in self.channels.iter().zip(&self.attention_levels).rev() {
            let mut blocks = Vec::new();
            for _ in 0..=self.num_res_blocks {
                let skip = skips.pop().expect("one for each block of the way up");
                blocks.push(([before + skip, *channels], *attends));
                before = *channels;
            }
            up.push(blocks);
        }
        Blocks { down, up }
    }
}

/// Of each level of both ways the channels of its blocks, and whether they attend.
pub(super) struct Blocks {
    /// The finest level first.
    pub down: Vec<Vec<([usize; 2], bool)>>,
    /// The coarsest level first.
    pub up: Vec<Vec<([usize; 2], bool)>>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::keys;

    fn valid() -> Sr3UNetConfig {
        Sr3UNetConfig::new(2, 1, 8, vec![8, 16], vec![false, true]).with_norm_num_groups(4)
    }

    #[test]
    fn each_error_is_found() {
        let fields = |change: fn(&mut Sr3UNetConfig)| {
            let mut config = valid();
            change(&mut config);
            keys(config.validate())
        };
        assert!(valid().validate().is_empty());
        assert_eq!(fields(|config| config.in_channels = 0), ["in_channels"]);
        assert_eq!(fields(|config| config.out_channels = 0), ["out_channels"]);
        assert_eq!(fields(|config| config.num_res_blocks = 0), ["num_res_blocks"]);
        assert_eq!(
            fields(|config| (config.inner_channels, config.norm_num_groups) = (7, 1)),
            ["inner_channels"],
            "an odd number of waves"
        );
        assert_eq!(fields(|config| config.attention_levels = vec![true]), ["attention_levels"]);
        assert_eq!(fields(|config| config.norm_num_groups = 16), ["norm_num_groups"]);
        assert_eq!(fields(|config| config.inner_channels = 6), ["norm_num_groups"]);
        assert_eq!(fields(|config| config.dropout = 1.0), ["dropout"]);
        assert_eq!(fields(|config| config.axes = 1), ["axes"]);
    }

    #[test]
    fn fields_that_fit_are_suggested() {
        let error = valid().check_input([1, 2, 1, 7, 8]).unwrap_err().to_string();
        assert!(error.contains("pad it to [1, 8, 8] or crop it to [1, 6, 8]"), "{error}");
        let error = valid().check_input([1, 2, 4, 8, 8]).unwrap_err().to_string();
        assert!(error.contains("the model's have 2 axes"), "{error}");
        assert!(valid().with_axes(3).check_input([1, 2, 4, 8, 8]).is_ok());
        assert!(valid().with_axes(3).check_input([1, 2, 1, 8, 8]).is_err());
    }

    /// Those of `ns2d/sr3.yaml` and `ns2d/ddpm.yaml` of DiffSR.
    #[test]
    fn the_guides_networks_have_their_numbers_of_parameters() {
        let of = |multiples: &[usize], level: usize| {
            let channels: Vec<usize> = multiples.iter().map(|multiple| 64 * multiple).collect();
            let attention = (0..channels.len()).map(|at| at == level).collect();
            Sr3UNetConfig::new(2, 1, 64, channels, attention).with_dropout(0.2)
        };
        assert_eq!(of(&[1, 2, 4, 8, 8], 2).num_parameters(), 93_868_033);
        assert_eq!(of(&[1, 1, 2, 2, 4, 4], 2).num_parameters(), 26_448_129);
    }
}
