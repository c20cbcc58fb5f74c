//! Configuration of the autoencoder, and what can be wrong with it.

use burn::config::Config;
use leanburn_common::{Validation, ValidationError};

use crate::models::shape_error::ShapeError;
use crate::validation::Rules;

/// Configuration of [`AutoencoderKl`](super::AutoencoderKl), the options of MONAI's `AutoencoderKL`.
///
/// # Example
///
/// ```
/// use burn::tensor::{Device, Distribution, Tensor};
/// use leanburn_nn::models::AutoencoderKlConfig;
///
/// let device = Device::flex();
/// let model = AutoencoderKlConfig::new(vec![8, 16], vec![1, 1], vec![false, true])
///     .with_norm_num_groups(4)
///     .init(&device);
/// let x = Tensor::random([1, 1, 8, 8, 4], Distribution::Default, &device);
/// let (mean, sigma) = model.encode(x);
/// assert_eq!(mean.dims(), [1, 3, 4, 4, 2]);
/// assert_eq!(model.decode(model.sample(mean, sigma)).dims(), [1, 1, 8, 8, 4]);
/// ```
#[derive(Config, Debug, PartialEq)]
pub struct AutoencoderKlConfig {
    /// Channels of each level, the finest first. The volume is halved between levels.
    pub channels: Vec<usize>,
    /// Residual blocks of each level.
    pub num_res_blocks: Vec<usize>,
    /// Whether each residual block of a level is followed by attention.
    pub attention_levels: Vec<bool>,
    /// Channels of the input.
    #[config(default = 1)]
    pub in_channels: usize,
    /// Channels of the reconstruction.
    #[config(default = 1)]
    pub out_channels: usize,
    /// Channels of the latent.
    #[config(default = 3)]
    pub latent_channels: usize,
    /// Groups of the norms; divides every number in `channels`.
    #[config(default = 32)]
    pub norm_num_groups: usize,
    /// Added to the variance in the norms.
    #[config(default = 1e-6)]
    pub norm_eps: f64,
    /// Whether the encoder ends with residual block, attention, residual block at its coarsest level.
    #[config(default = true)]
    pub encoder_nonlocal_attn: bool,
    /// Whether the decoder begins with them.
    #[config(default = true)]
    pub decoder_nonlocal_attn: bool,
    /// Whether the decoder enlarges by transposed convolutions rather than by nearest neighbour and convolution.
    #[config(default = false)]
    pub use_convtranspose: bool,
    /// Whether attention ends with a linear layer.
    #[config(default = true)]
    pub include_fc: bool,
    /// Whether attention has one linear layer for queries, keys and values.
    #[config(default = false)]
    pub use_combined_linear: bool,
    /// The deviation of the latent that training starts from, or nearly; what random weights give, about 1, if none. From 1 the decoder
    /// learns for long from little but noise.
    pub initial_deviation: Option<f64>,
    /// The most queries that attention takes at a time; see [`attention3d_in_blocks`](leanburn_ops::attention3d_in_blocks).
    /// As many as are fastest if none.
    pub attention_block: Option<usize>,
}

impl AutoencoderKlConfig {
    /// Everything that is wrong with the configuration.
    #[must_use]
    pub fn validate(&self) -> Vec<ValidationError> {
        let mut validation = Validation::default();
        validation.counts([
            ("in_channels", self.in_channels),
            ("out_channels", self.out_channels),
            ("latent_channels", self.latent_channels),
        ]);
        let levels = self.channels.len();
        validation.levels("channels", &self.channels);
        validation.one_per_level("num_res_blocks", self.num_res_blocks.len(), "channels", levels);
        self.num_res_blocks.iter().for_each(|blocks| validation.count("num_res_blocks", *blocks));
        validation.one_per_level("attention_levels", self.attention_levels.len(), "channels", levels);
        validation.groups("norm_num_groups", self.norm_num_groups, "channels", &self.channels);
        validation.positive("norm_eps", self.norm_eps, "use 1e-6");
        validation.positive("initial_deviation", self.initial_deviation.unwrap_or(1.0), "use 0.1");
        validation.at_least_one("attention_block", self.attention_block.unwrap_or(1));
        validation.errors()
    }

    /// By how much each axis of the latent is smaller than that of the volume.
    ///
    /// # Panics
    ///
    /// Panics if there are more levels than `usize` has bits; [`validate`](Self::validate) finds that.
    pub fn downsampling(&self) -> usize {
        1 << self.channels.len().saturating_sub(1)
    }

    /// Whether an input `[batch_size, channels, depth, height, width]` comes back in its own shape.
    ///
    /// # Errors
    ///
    /// [`ShapeError`] says what is wrong and which volumes fit.
    pub fn check_input(&self, shape: [usize; 5]) -> Result<(), ShapeError> {
        ShapeError::unless_multiples(shape, self.in_channels, [self.downsampling(); 3])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::keys;

    fn valid() -> AutoencoderKlConfig {
        AutoencoderKlConfig::new(vec![8, 16], vec![1, 1], vec![false, true]).with_norm_num_groups(4)
    }

    fn fields(config: AutoencoderKlConfig) -> Vec<String> {
        keys(config.validate())
    }

    #[test]
    fn a_valid_configuration_has_no_errors() {
        assert_eq!(valid().validate(), []);
    }

    #[test]
    fn each_error_is_found() {
        assert_eq!(fields(valid().with_in_channels(0)), ["in_channels"]);
        assert_eq!(fields(valid().with_out_channels(0)), ["out_channels"]);
        assert_eq!(fields(valid().with_latent_channels(0)), ["latent_channels"]);
        assert_eq!(fields(valid().with_norm_num_groups(0)), ["norm_num_groups"]);
        assert_eq!(fields(valid().with_norm_num_groups(16)), ["norm_num_groups"]);
        assert_eq!(fields(valid().with_attention_block(Some(0))), ["attention_block"]);
        assert_eq!(fields(valid().with_norm_eps(0.0)), ["norm_eps"]);
        assert_eq!(fields(valid().with_norm_eps(f64::NAN)), ["norm_eps"]);
        let lists = |channels, blocks, attention| fields(AutoencoderKlConfig::new(channels, blocks, attention));
        assert_eq!(lists(vec![32, 0], vec![1, 1], vec![true; 2]), ["channels"]);
        assert_eq!(lists(vec![32, 64], vec![1], vec![true; 2]), ["num_res_blocks"]);
        assert_eq!(lists(vec![32, 64], vec![1, 0], vec![true; 2]), ["num_res_blocks"]);
        assert_eq!(lists(vec![32, 64], vec![1, 1], vec![true; 3]), ["attention_levels"]);
        assert_eq!(lists(vec![], vec![], vec![]), ["channels"]);
        assert_eq!(lists(vec![32; 17], vec![1; 17], vec![true; 17]), ["channels"]);
    }

    #[test]
    fn all_errors_are_reported_at_once() {
        let config =
            AutoencoderKlConfig::new(vec![8, 9], vec![0], vec![true]).with_latent_channels(0).with_norm_num_groups(4);
        let expected = ["latent_channels", "num_res_blocks", "num_res_blocks", "attention_levels", "norm_num_groups"];
        assert_eq!(fields(config), expected);
    }

    #[test]
    fn volumes_must_be_halved_between_levels() {
        let config = AutoencoderKlConfig::new(vec![32, 64, 64], vec![1; 3], vec![false; 3]);
        assert_eq!(config.check_input([1, 1, 4, 8, 16]), Ok(()));
        assert!(config.check_input([1, 1, 10, 8, 4]).is_err());
        let error = config.check_input([1, 1, 10, 8, 0]).unwrap_err();
        assert_eq!(error, ShapeError::Volume { found: [10, 8, 0], multiples: [4; 3] });
        assert!(error.to_string().contains("pad it to [12, 8, 4] or crop it to [8, 8, 4]"), "{error}");
    }

    #[test]
    fn channels_must_be_those_of_the_model() {
        let config = AutoencoderKlConfig::new(vec![32], vec![1], vec![false]).with_in_channels(2);
        assert_eq!(config.check_input([1, 1, 8, 8, 8]), Err(ShapeError::Channels { expected: 2, found: 1 }));
    }
}
