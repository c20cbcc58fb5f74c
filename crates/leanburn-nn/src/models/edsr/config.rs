//! Configuration of EDSR, and what can be wrong with it.

use burn::config::Config;
use leanburn_common::{Validation, ValidationError};

use crate::models::shape_error::ShapeError;
use crate::validation::Rules;

/// Configuration of [`Edsr`](super::Edsr).
///
/// # Example
///
/// ```
/// use burn::tensor::{Device, Distribution, Tensor};
/// use leanburn_nn::models::EdsrConfig;
///
/// let device = Device::flex();
/// let model = EdsrConfig::new(1, 1, 4).with_hidden_channels(8).with_num_res_blocks(2).init(&device);
/// let coarse = Tensor::random([1, 1, 1, 5, 6], Distribution::Default, &device);
/// assert_eq!(model.forward(coarse).dims(), [1, 1, 1, 20, 24]);
/// ```
#[derive(Config, Debug, PartialEq)]
pub struct EdsrConfig {
    /// Channels of the coarse field.
    pub in_channels: usize,
    /// Channels of the fine field.
    pub out_channels: usize,
    /// How many times finer it is: 3, or a power of two.
    pub upscale_factor: usize,
    /// Channels inside.
    #[config(default = 64)]
    pub hidden_channels: usize,
    /// Residual blocks.
    #[config(default = 16)]
    pub num_res_blocks: usize,
    /// What a block's convolutions are multiplied by before its input is added.
    #[config(default = 0.1)]
    pub res_scale: f64,
}

impl EdsrConfig {
    /// Everything that is wrong with the configuration.
    #[must_use]
    pub fn validate(&self) -> Vec<ValidationError> {
        let mut validation = Validation::default();
        validation.counts([
            ("in_channels", self.in_channels),
            ("out_channels", self.out_channels),
            ("hidden_channels", self.hidden_channels),
            ("num_res_blocks", self.num_res_blocks),
        ]);
        let factor = self.upscale_factor;
        let sound = factor == 3 || (factor.is_power_of_two() && factor <= 64);
        validation.check(sound, "upscale_factor", "3, or a power of two up to 64", factor, "use 4");
        let scale = self.res_scale;
        validation.check(scale.is_finite(), "res_scale", "a number", scale, "use 0.1");
        validation.errors()
    }

    /// Whether an input `[batch_size, channels, 1, height, width]` can be taken.
    ///
    /// # Errors
    ///
    /// [`ShapeError`] says what is wrong.
    pub fn check_input(&self, shape: [usize; 5]) -> Result<(), ShapeError> {
        let [_, _, found @ ..] = shape;
        if found[0] != 1 {
            return Err(ShapeError::Axes { found, axes: 2 });
        }
        ShapeError::unless_multiples(shape, self.in_channels, [1; 3])
    }

    /// The factors by which the grid is refined, one after the other.
    pub(super) fn factors(&self) -> Vec<usize> {
        match self.upscale_factor {
            3 => vec![3],
            factor => vec![2; factor.ilog2() as usize],
        }
    }

    /// Numbers that are trained.
    pub fn num_parameters(&self) -> usize {
        let hidden = self.hidden_channels;
        let conv = |channels_in: usize, channels_out: usize| (9 * channels_in + 1) * channels_out;
        let refined: usize = self.factors().iter().map(|factor| conv(hidden, factor * factor * hidden)).sum();
        conv(self.in_channels, hidden)
            + (2 * self.num_res_blocks + 1) * conv(hidden, hidden)
            + refined
            + conv(hidden, self.out_channels)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::keys;

    #[test]
    fn each_error_is_found() {
        let fields = |change: fn(&mut EdsrConfig)| {
            let mut config = EdsrConfig::new(1, 1, 4);
            change(&mut config);
            keys(config.validate())
        };
        assert!(fields(|_| {}).is_empty() && fields(|config| config.upscale_factor = 3).is_empty());
        assert_eq!(fields(|config| config.in_channels = 0), ["in_channels"]);
        assert_eq!(fields(|config| config.hidden_channels = 0), ["hidden_channels"]);
        assert_eq!(fields(|config| config.num_res_blocks = 0), ["num_res_blocks"]);
        assert_eq!(fields(|config| config.upscale_factor = 6), ["upscale_factor"]);
        assert_eq!(fields(|config| config.res_scale = f64::NAN), ["res_scale"]);
        assert!(EdsrConfig::new(1, 1, 4).check_input([1, 2, 1, 4, 4]).is_err());
        assert!(EdsrConfig::new(1, 1, 4).check_input([1, 1, 2, 4, 4]).is_err());
    }
}
