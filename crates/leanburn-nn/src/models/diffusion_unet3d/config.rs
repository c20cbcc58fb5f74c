//! Configuration of the U-Net, and what can be wrong with it.

use burn::config::Config;
use leanburn_common::{Validation, ValidationError};

use crate::models::shape_error::ShapeError;
use crate::validation::Rules;

/// Configuration of [`DiffusionUNet3d`](super::DiffusionUNet3d), the options of MONAI's `DiffusionModelUNet`.
///
/// Three of MONAI's options have nothing to decide here: attention never stores its scores (`use_flash_attention`), its softmax is always
/// in float32 (`upcast_attention`), and `dropout_cattn`, a dropout of scores, would need them in memory. `with_conditioning` is that there
/// is a `cross_attention_dim`.
///
/// # Example
///
/// ```
/// use burn::tensor::{Device, Distribution, Tensor};
/// use leanburn_nn::models::{DiffusionConditions, DiffusionUNet3dConfig};
///
/// let device = Device::flex();
/// let model = DiffusionUNet3dConfig::new(3, 3, vec![8, 16], vec![1, 1], vec![false, true])
///     .with_norm_num_groups(4)
///     .init(&device);
/// let x = Tensor::random([1, 3, 4, 4, 4], Distribution::Default, &device);
/// let noise = model.forward(x, Tensor::from_floats([500.0], &device), DiffusionConditions::default());
/// assert_eq!(noise.dims(), [1, 3, 4, 4, 4]);
/// ```
#[derive(Config, Debug, PartialEq)]
pub struct DiffusionUNet3dConfig {
    /// Channels of the input.
    pub in_channels: usize,
    /// Channels of the prediction.
    pub out_channels: usize,
    /// Channels of each level, the finest first. The volume is halved between levels.
    pub channels: Vec<usize>,
    /// Residual blocks of each level on the way down; there is one more on the way up.
    pub num_res_blocks: Vec<usize>,
    /// Whether each residual block of a level is followed by attention. The middle always has attention.
    pub attention_levels: Vec<bool>,
    /// Groups of the norms; divides every number in `channels`.
    #[config(default = 32)]
    pub norm_num_groups: usize,
    /// Added to the variance in the norms.
    #[config(default = 1e-6)]
    pub norm_eps: f64,
    /// Whether levels are divided by residual blocks with pooling, and enlarged by ones with nearest neighbours, rather than by
    /// convolutions.
    #[config(default = false)]
    pub resblock_updown: bool,
    /// Channels of an attention head: of each level, or one number for all of them.
    #[config(default = "vec![8]")]
    pub num_head_channels: Vec<usize>,
    /// Features of the context that attention looks at. With one, attention is a transformer: to itself, to the context, and gated
    /// layers.
    pub cross_attention_dim: Option<usize>,
    /// Blocks of each such transformer.
    #[config(default = 1)]
    pub transformer_num_layers: usize,
    /// Classes, if the prediction depends on one.
    pub num_class_embeds: Option<usize>,
    /// Whether attention to itself ends with a linear layer.
    #[config(default = true)]
    pub include_fc: bool,
    /// Whether attention to itself has one linear layer for queries, keys and values.
    #[config(default = false)]
    pub use_combined_linear: bool,
    /// The most queries that attention takes at a time; see [`attention3d_in_blocks`](leanburn_ops::attention3d_in_blocks).
    /// As many as are fastest if none.
    pub attention_block: Option<usize>,
    /// Probability of a value to be dropped in front of the second convolution of each residual block, in training. MONAI's has none;
    /// it is that of [EDM](https://arxiv.org/abs/2206.00364).
    #[config(default = 0.0)]
    pub dropout: f64,
}

impl DiffusionUNet3dConfig {
    /// Everything that is wrong with the configuration.
    #[must_use]
    pub fn validate(&self) -> Vec<ValidationError> {
        let mut validation = Validation::default();
        validation.counts([("in_channels", self.in_channels), ("out_channels", self.out_channels)]);
        let levels = self.channels.len();
        validation.levels("channels", &self.channels);
        validation.one_per_level("num_res_blocks", self.num_res_blocks.len(), "channels", levels);
        self.num_res_blocks.iter().for_each(|blocks| validation.count("num_res_blocks", *blocks));
        validation.one_per_level("attention_levels", self.attention_levels.len(), "channels", levels);
        validation.groups("norm_num_groups", self.norm_num_groups, "channels", &self.channels);
        validation.positive("norm_eps", self.norm_eps, "use 1e-6");
        validation.below_one("dropout", self.dropout);
        self.validate_heads(&mut validation);
        for (key, count) in [
            ("cross_attention_dim", self.cross_attention_dim),
            ("num_class_embeds", self.num_class_embeds),
            ("transformer_num_layers", Some(self.transformer_num_layers)),
        ] {
            validation.count(key, count.unwrap_or(1));
        }
        validation.at_least_one("attention_block", self.attention_block.unwrap_or(1));
        validation.errors()
    }

    /// The channels of a head divide those of every level with attention, and of the last one, which the middle is at.
    fn validate_heads(&self, validation: &mut Validation) {
        const KEY: &str = "num_head_channels";
        let (levels, given) = (self.channels.len(), self.num_head_channels.len());
        if given != 1 {
            validation.one_per_level(KEY, given, "channels", levels);
        }
        for (level, channels) in self.channels.iter().copied().enumerate() {
            let Some(head) = self.head_channels(level).filter(|_| self.attends(level)) else { continue };
            validation.check_together(
                head > 0 && channels.is_multiple_of(head),
                &["channels"],
                KEY,
                "a divisor of the channels of each level with attention, and of the last level",
                format!("{head} for the {channels} channels of level {level}"),
                format!("set it to {}", largest_divisor(channels, head)),
            );
        }
    }

    /// Whether there is attention with the channels of a level.
    pub(super) fn attends(&self, level: usize) -> bool {
        level + 1 == self.channels.len() || self.attention_levels.get(level) == Some(&true)
    }

    /// Channels of a head at a level.
    pub(super) fn head_channels(&self, level: usize) -> Option<usize> {
        if self.num_head_channels.len() == 1 {
            Some(self.num_head_channels[0])
        } else {
            self.num_head_channels.get(level).copied()
        }
    }

    /// By how much each axis of the coarsest level is smaller than that of the volume.
    ///
    /// # Panics
    ///
    /// Panics if there are more levels than `usize` has bits; [`validate`](Self::validate) finds that.
    pub fn downsampling(&self) -> usize {
        1 << self.channels.len().saturating_sub(1)
    }

    /// Whether an input `[batch_size, channels, depth, height, width]` can be taken.
    ///
    /// # Errors
    ///
    /// [`ShapeError`] says what is wrong and which volumes fit.
    pub fn check_input(&self, shape: [usize; 5]) -> Result<(), ShapeError> {
        ShapeError::unless_multiples(shape, self.in_channels, [self.downsampling(); 3])
    }
}

/// The largest divisor of `number` that is not above `most`, at least 1.
fn largest_divisor(number: usize, most: usize) -> usize {
    (1..=most.min(number)).rev().find(|divisor| number.is_multiple_of(*divisor)).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::keys;

    fn valid() -> DiffusionUNet3dConfig {
        DiffusionUNet3dConfig::new(3, 3, vec![8, 16], vec![1, 1], vec![false, true]).with_norm_num_groups(4)
    }

    #[test]
    fn a_valid_configuration_has_no_errors() {
        assert_eq!(valid().validate(), []);
        assert_eq!(valid().with_num_head_channels(vec![3, 4]).validate(), [], "there is no attention at level 0");
    }

    #[test]
    fn each_error_is_found() {
        let fields = |change: fn(&mut DiffusionUNet3dConfig)| {
            let mut config = valid();
            change(&mut config);
            keys(config.validate())
        };
        assert_eq!(fields(|config| config.in_channels = 0), ["in_channels"]);
        assert_eq!(fields(|config| config.out_channels = 0), ["out_channels"]);
        assert_eq!(fields(|config| config.num_res_blocks = vec![1]), ["num_res_blocks"]);
        assert_eq!(fields(|config| config.num_res_blocks = vec![1, 0]), ["num_res_blocks"]);
        assert_eq!(fields(|config| config.attention_levels = vec![true; 3]), ["attention_levels"]);
        assert_eq!(fields(|config| config.norm_num_groups = 16), ["norm_num_groups"]);
        assert_eq!(fields(|config| config.norm_eps = 0.0), ["norm_eps"]);
        assert_eq!(fields(|config| config.num_head_channels = vec![]), ["num_head_channels"]);
        assert_eq!(fields(|config| config.num_head_channels = vec![8; 3]), ["num_head_channels"]);
        assert_eq!(fields(|config| config.num_head_channels = vec![0]), ["num_head_channels"]);
        assert_eq!(fields(|config| config.cross_attention_dim = Some(0)), ["cross_attention_dim"]);
        assert_eq!(fields(|config| config.transformer_num_layers = 0), ["transformer_num_layers"]);
        assert_eq!(fields(|config| config.num_class_embeds = Some(0)), ["num_class_embeds"]);
        assert_eq!(fields(|config| config.attention_block = Some(0)), ["attention_block"]);
        assert_eq!(fields(|config| config.dropout = 1.0), ["dropout"]);
        assert_eq!(fields(|config| config.channels = vec![]).first().map(String::as_str), Some("channels"));
    }

    #[test]
    fn what_does_not_divide_is_answered_with_what_does() {
        let config = DiffusionUNet3dConfig::new(3, 3, vec![16, 32, 64], vec![1; 3], vec![false, false, true]);
        let errors = config.with_num_head_channels(vec![48]).validate();
        let help: Vec<&str> = errors.iter().map(|error| error.help.as_str()).collect();
        assert_eq!(help, ["set `norm_num_groups` to 16 or a divisor of it", "set it to 32"]);
    }

    #[test]
    fn volumes_that_fit_are_suggested() {
        let error = valid().check_input([1, 3, 7, 8, 8]).unwrap_err().to_string();
        assert!(error.contains("pad it to [8, 8, 8] or crop it to [6, 8, 8]"), "{error}");
    }
}
