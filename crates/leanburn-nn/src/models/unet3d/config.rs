//! Configuration of the U-Net, and what can be wrong with it.

use burn::config::Config;
use leanburn_common::{Validation, ValidationError};

use crate::blocks::{ActivationConfig, NormConfig};
use crate::models::decoder_level::DecoderLevel;
use crate::models::shape_error::ShapeError;
use crate::validation::Rules;

/// Configuration of [`UNet3d`](super::UNet3d), the options of MONAI's `UNet` in three dimensions.
///
/// # Example
///
/// ```
/// use burn::tensor::{Device, Distribution, Tensor};
/// use leanburn_nn::models::UNet3dConfig;
///
/// let device = Device::flex();
/// let config = UNet3dConfig::new(1, 3, vec![4, 8, 16], vec![[2; 3], [1, 2, 2]]).with_num_res_units(2);
/// let x = Tensor::random([1, 1, 4, 8, 8], Distribution::Default, &device);
/// assert_eq!(config.init(&device).forward(x).dims(), [1, 3, 4, 8, 8]);
/// assert!(config.check_input([1, 1, 4, 8, 10]).is_err());
/// ```
#[derive(Config, Debug, PartialEq)]
pub struct UNet3dConfig {
    /// Channels of the input.
    pub in_channels: usize,
    /// Channels of the output: classes.
    pub out_channels: usize,
    /// Channels of each level, the finest first.
    pub channels: Vec<usize>,
    /// By what depth, height and width are divided between levels, one entry less than levels.
    pub strides: Vec<[usize; 3]>,
    /// Size of the kernels, an odd number.
    #[config(default = 3)]
    pub kernel_size: usize,
    /// Size of the kernels of the transposed convolutions, an odd number.
    #[config(default = 3)]
    pub up_kernel_size: usize,
    /// Convolutions of the residual unit of each level of the encoder; the decoder has one. With 0, a level is one
    /// convolution in the encoder and one in the decoder, without a residual.
    #[config(default = 0)]
    pub num_res_units: usize,
    /// The activation behind each convolution.
    #[config(default = "ActivationConfig::Prelu")]
    pub activation: ActivationConfig,
    /// The norm between a convolution and its activation.
    #[config(default = "NormConfig::Instance")]
    pub norm: NormConfig,
    /// Probability with which an element is dropped between norm and activation.
    #[config(default = 0.0)]
    pub dropout: f64,
    /// Whether convolutions have a bias.
    #[config(default = true)]
    pub bias: bool,
}

impl UNet3dConfig {
    /// Everything that is wrong with the configuration.
    #[must_use]
    pub fn validate(&self) -> Vec<ValidationError> {
        let mut validation = Validation::default();
        validation.counts([("in_channels", self.in_channels), ("out_channels", self.out_channels)]);
        self.validate_levels(&mut validation);
        validation.odd("kernel_size", self.kernel_size);
        validation.odd("up_kernel_size", self.up_kernel_size);
        let sound = self.num_res_units <= MAX_RES_UNITS;
        let expected = format!("an integer from 0 to {MAX_RES_UNITS}");
        validation.check(sound, "num_res_units", &expected, self.num_res_units, "use 2");
        if let ActivationConfig::LeakyRelu(slope) = self.activation {
            validation.check(slope.is_finite(), "activation", "a finite slope", slope, "use 0.01");
        }
        if let NormConfig::Group(groups) = self.norm {
            validation.groups("norm", groups, "channels", &self.normalized_channels());
        }
        validation.below_one("dropout", self.dropout);
        validation.errors()
    }

    fn validate_levels(&self, validation: &mut Validation) {
        let levels = self.channels.len();
        validation.levels("channels", &self.channels);
        let help = "list the channels of each level, as in [16, 32, 64]";
        validation.check(levels != 1, "channels", "at least 2 levels", "1 level", help);
        validation.check_together(
            levels == 0 || self.strides.len() == levels - 1,
            &["channels"],
            "strides",
            "one entry less than `channels` has",
            format!("{} entries for {levels} levels", self.strides.len()),
            "give the strides between each level and the next, as in [2, 2]",
        );
        let sound = self.strides.iter().flatten().all(|stride| *stride > 0) && self.downsampling().is_some();
        validation.check(sound, "strides", "small positive numbers", format!("{:?}", self.strides), "use 1 or 2");
    }

    /// Channels of everything that is normalised: the levels, and the output unless it comes from a bare convolution.
    fn normalized_channels(&self) -> Vec<usize> {
        let output = (self.num_res_units > 0).then_some(self.out_channels);
        self.channels.iter().copied().chain(output).collect()
    }

    /// By how much depth, height and width of the coarsest level are smaller than those of the volume; `None` if that is no
    /// number.
    pub fn downsampling(&self) -> Option<[usize; 3]> {
        let divide = |product: [usize; 3], stride: &[usize; 3]| {
            let [depth, height, width] = stride;
            Some([product[0].checked_mul(*depth)?, product[1].checked_mul(*height)?, product[2].checked_mul(*width)?])
        };
        self.strides.iter().try_fold([1; 3], divide)
    }

    /// The levels of the decoder below the one that gives the logits, the finest first.
    pub fn decoder_levels(&self) -> Vec<DecoderLevel> {
        let level = |(level, channels): (usize, &usize)| {
            let finer = Self { strides: self.strides[..=level].to_vec(), ..self.clone() };
            Some(DecoderLevel { channels: *channels, downsampling: finer.downsampling()? })
        };
        let decoders = self.strides.len().min(self.channels.len().saturating_sub(1));
        self.channels[..decoders.saturating_sub(1)].iter().enumerate().filter_map(level).collect()
    }

    /// Whether the levels of an input `[batch_size, channels, depth, height, width]` fit together.
    ///
    /// # Errors
    ///
    /// [`ShapeError`] says what is wrong and which volumes fit.
    pub fn check_input(&self, shape: [usize; 5]) -> Result<(), ShapeError> {
        let multiples = self.downsampling().unwrap_or([usize::MAX; 3]).map(|multiple| multiple.max(1));
        ShapeError::unless_multiples(shape, self.in_channels, multiples)
    }
}

/// More convolutions in a residual unit than anybody has.
const MAX_RES_UNITS: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::keys;

    fn valid() -> UNet3dConfig {
        UNet3dConfig::new(1, 3, vec![4, 8, 16], vec![[2; 3], [1, 2, 2]])
    }

    #[test]
    fn each_error_is_found() {
        let fields = |config: UNet3dConfig| keys(config.validate());
        assert!(fields(valid()).is_empty());
        let levels = |channels, strides| fields(UNet3dConfig::new(1, 3, channels, strides));
        assert_eq!(fields(UNet3dConfig::new(0, 0, vec![4, 8], vec![[2; 3]])), ["in_channels", "out_channels"]);
        assert_eq!(levels(vec![], vec![]), ["channels"]);
        assert_eq!(levels(vec![4], vec![]), ["channels"]);
        assert_eq!(levels(vec![4, 0], vec![[2; 3]]), ["channels"]);
        assert_eq!(levels(vec![4, 8], vec![]), ["strides"]);
        assert_eq!(levels(vec![4, 8], vec![[2, 0, 2]]), ["strides"]);
        assert_eq!(levels(vec![4, 8, 8], vec![[usize::MAX; 3], [2; 3]]), ["strides"]);
        assert_eq!(fields(valid().with_kernel_size(2)), ["kernel_size"]);
        assert_eq!(fields(valid().with_up_kernel_size(0)), ["up_kernel_size"]);
        assert_eq!(fields(valid().with_num_res_units(17)), ["num_res_units"]);
        assert_eq!(fields(valid().with_dropout(1.0)), ["dropout"]);
        assert_eq!(fields(valid().with_activation(ActivationConfig::LeakyRelu(f64::INFINITY))), ["activation"]);
        let groups = valid().with_norm(NormConfig::Group(4));
        assert!(fields(groups.clone()).is_empty(), "the output is not normalised");
        assert_eq!(fields(groups.with_num_res_units(1)), ["norm"]);
    }

    #[test]
    fn each_axis_has_its_own_multiple() {
        assert_eq!(valid().check_input([1, 1, 2, 4, 8]), Ok(()));
        assert_eq!(valid().check_input([1, 2, 2, 4, 8]), Err(ShapeError::Channels { expected: 1, found: 2 }));
        let error = valid().check_input([1, 1, 2, 6, 8]).unwrap_err();
        assert_eq!(error, ShapeError::Volume { found: [2, 6, 8], multiples: [2, 4, 4] });
    }
}
