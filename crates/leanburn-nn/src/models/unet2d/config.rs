//! Configuration of the U-Net, and what can be wrong with it.

use burn::config::Config;
use leanburn_common::{Validation, ValidationError};

use crate::models::shape_error::ShapeError;
use crate::validation::Rules;

/// Levels above the coarsest: each halves the fine field, and doubles the channels.
pub(super) const LEVELS: usize = 4;

/// Configuration of [`UNet2d`](super::UNet2d).
///
/// # Example
///
/// ```
/// use burn::tensor::{Device, Distribution, Tensor};
/// use leanburn_nn::models::UNet2dConfig;
///
/// let device = Device::flex();
/// let model = UNet2dConfig::new(1, 1, 2).with_init_features(4).init(&device);
/// let coarse = Tensor::random([1, 1, 1, 8, 16], Distribution::Default, &device);
/// assert_eq!(model.forward(coarse).dims(), [1, 1, 1, 16, 32]);
/// ```
#[derive(Config, Debug, PartialEq)]
pub struct UNet2dConfig {
    /// Channels of the coarse field.
    pub in_channels: usize,
    /// Channels of the fine field.
    pub out_channels: usize,
    /// How many times finer it is.
    pub upscale_factor: usize,
    /// Channels of the finest level; each of the four below has twice as many.
    #[config(default = 32)]
    pub init_features: usize,
}

impl UNet2dConfig {
    /// Everything that is wrong with the configuration.
    #[must_use]
    pub fn validate(&self) -> Vec<ValidationError> {
        let mut validation = Validation::default();
        validation.counts([
            ("in_channels", self.in_channels),
            ("out_channels", self.out_channels),
            ("init_features", self.init_features),
            ("upscale_factor", self.upscale_factor),
        ]);
        validation.errors()
    }

    /// By how much the levels divide depth, height and width of the fine field.
    pub fn downsampling(&self) -> [usize; 3] {
        [1, 1 << LEVELS, 1 << LEVELS]
    }

    /// Whether an input `[batch_size, channels, 1, height, width]` can be taken: the coarse field, enlarged, must be such that the levels
    /// can halve it.
    ///
    /// # Errors
    ///
    /// [`ShapeError`] says what is wrong, of the enlarged field.
    pub fn check_input(&self, shape: [usize; 5]) -> Result<(), ShapeError> {
        let [batch_size, channels, depth, height, width] = shape;
        if depth != 1 {
            return Err(ShapeError::Axes { found: [depth, height, width], axes: 2 });
        }
        let fine = [height, width].map(|length| length.saturating_mul(self.upscale_factor));
        let fine = [batch_size, channels, 1, fine[0], fine[1]];
        ShapeError::unless_multiples(fine, self.in_channels, self.downsampling())
    }

    /// Channels of a level, the finest first.
    pub(super) fn channels(&self, level: usize) -> usize {
        self.init_features << level
    }

    /// Numbers that are trained.
    pub fn num_parameters(&self) -> usize {
        let block = |channels_in: usize, channels: usize| (9 * (channels_in + channels) + 4) * channels;
        let level = |level: usize| {
            let (channels, below) = (self.channels(level), self.channels(level + 1));
            let before = if level == 0 { self.in_channels } else { channels / 2 };
            block(before, channels) + (4 * below + 1) * channels + block(2 * channels, channels)
        };
        let bottom = block(self.channels(LEVELS - 1), self.channels(LEVELS));
        (0..LEVELS).map(level).sum::<usize>() + bottom + (self.init_features + 1) * self.out_channels
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::keys;

    #[test]
    fn each_error_is_found() {
        let fields = |change: fn(&mut UNet2dConfig)| {
            let mut config = UNet2dConfig::new(1, 1, 2);
            change(&mut config);
            keys(config.validate())
        };
        assert!(fields(|_| {}).is_empty());
        assert_eq!(fields(|config| config.out_channels = 0), ["out_channels"]);
        assert_eq!(fields(|config| config.init_features = 0), ["init_features"]);
        assert_eq!(fields(|config| config.upscale_factor = 0), ["upscale_factor"]);
        let error = UNet2dConfig::new(1, 1, 2).check_input([1, 1, 1, 8, 12]).unwrap_err().to_string();
        assert!(error.contains("pad it to [1, 16, 32]"), "{error}");
        assert!(UNet2dConfig::new(1, 1, 2).check_input([1, 1, 2, 8, 8]).is_err());
    }
}
