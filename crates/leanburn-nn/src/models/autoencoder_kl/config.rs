//! Configuration of the autoencoder, and what can be wrong with it.

use burn::config::Config;
use burn::tensor::Device;

use super::AutoencoderKl;
use crate::models::refuse;

/// Configuration of [`AutoencoderKl`], the options of MONAI's `AutoencoderKL`.
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
    /// The most queries that attention takes at a time; see [`attention3d_in_blocks`](leanburn_ops::attention3d_in_blocks).
    /// As many as are fastest if none.
    pub attention_block: Option<usize>,
}

impl AutoencoderKlConfig {
    /// Everything that is wrong with the configuration: the field, and what to do about it.
    pub fn mistakes(&self) -> Vec<(&'static str, String)> {
        let mut mistakes = Vec::new();
        let counts = [
            ("in_channels", self.in_channels),
            ("out_channels", self.out_channels),
            ("latent_channels", self.latent_channels),
            ("norm_num_groups", self.norm_num_groups),
            ("attention_block", self.attention_block.unwrap_or(1)),
        ];
        for (field, _) in counts.into_iter().filter(|(_, count)| *count == 0) {
            mistakes.push((field, "is 0; give at least 1".to_string()));
        }
        if !(self.norm_eps.is_finite() && self.norm_eps > 0.0) {
            mistakes.push(("norm_eps", format!("is {}; give a small positive number, say 1e-6", self.norm_eps)));
        }
        self.mistakes_of_levels(&mut mistakes);
        mistakes
    }

    fn mistakes_of_levels(&self, mistakes: &mut Vec<(&'static str, String)>) {
        let levels = self.channels.len();
        if levels == 0 {
            mistakes.push(("channels", "is empty; give the channels of at least one level".to_string()));
        }
        if levels > 16 {
            mistakes.push(("channels", format!("has {levels} levels; each halves the volume, 16 are the most")));
        }
        for (level, channels) in self.channels.iter().enumerate() {
            let groups = self.norm_num_groups.max(1);
            if *channels == 0 || !channels.is_multiple_of(groups) {
                let message = format!("level {level} has {channels}; norm_num_groups = {groups} must divide it");
                mistakes.push(("channels", message));
            }
        }
        for (field, length) in
            [("num_res_blocks", self.num_res_blocks.len()), ("attention_levels", self.attention_levels.len())]
        {
            if length != levels {
                mistakes.push((field, format!("has {length} entries; channels has {levels}, give one for each")));
            }
        }
        for (level, _) in self.num_res_blocks.iter().enumerate().filter(|(_, count)| **count == 0) {
            mistakes.push(("num_res_blocks", format!("level {level} has 0; give at least 1")));
        }
    }

    /// By how much each axis of the latent is smaller than that of the volume.
    ///
    /// # Panics
    ///
    /// Panics if there are more levels than `usize` has bits; [`mistakes`](Self::mistakes) reports that.
    pub fn downsampling(&self) -> usize {
        1 << self.channels.len().saturating_sub(1)
    }

    /// Makes the model, weights distributed as PyTorch's defaults.
    ///
    /// # Panics
    ///
    /// Panics with the [mistakes](Self::mistakes) if there are any.
    pub fn init(&self, device: &Device) -> AutoencoderKl {
        refuse("AutoencoderKl", &self.mistakes());
        AutoencoderKl::new(self, device)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn valid() -> AutoencoderKlConfig {
        AutoencoderKlConfig::new(vec![8, 16], vec![1, 1], vec![false, true]).with_norm_num_groups(4)
    }

    fn fields(config: AutoencoderKlConfig) -> Vec<&'static str> {
        config.mistakes().into_iter().map(|(field, _)| field).collect()
    }

    #[test]
    fn a_valid_configuration_has_no_mistakes() {
        assert_eq!(valid().mistakes(), []);
    }

    #[test]
    fn each_mistake_is_found() {
        assert_eq!(fields(valid().with_in_channels(0)), ["in_channels"]);
        assert_eq!(fields(valid().with_out_channels(0)), ["out_channels"]);
        assert_eq!(fields(valid().with_latent_channels(0)), ["latent_channels"]);
        assert_eq!(fields(valid().with_norm_num_groups(0)), ["norm_num_groups"]);
        assert_eq!(fields(valid().with_norm_num_groups(16)), ["channels"]);
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
    fn all_mistakes_are_reported_at_once() {
        let config =
            AutoencoderKlConfig::new(vec![8, 9], vec![0], vec![true]).with_latent_channels(0).with_norm_num_groups(4);
        assert_eq!(
            fields(config),
            ["latent_channels", "channels", "num_res_blocks", "attention_levels", "num_res_blocks"]
        );
    }

    #[test]
    #[should_panic = "channels: level 1 has 9; norm_num_groups = 4 must divide it"]
    fn init_panics_with_the_mistakes() {
        AutoencoderKlConfig::new(vec![8, 9], vec![1, 1], vec![false; 2]).with_norm_num_groups(4).init(&Device::flex());
    }
}
