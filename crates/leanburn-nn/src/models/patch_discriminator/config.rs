//! Configuration of the patch discriminator, and what can be wrong with it.

use burn::config::Config;
use leanburn_common::{Validation, ValidationError};

use crate::blocks::{Activation, NormConfig};
use crate::models::shape_error::ShapeError;
use crate::validation::{MAX_LEVELS, Rules};

/// The largest kernel that makes sense.
const MAX_KERNEL_SIZE: usize = 32;

/// Configuration of [`PatchDiscriminator`](super::PatchDiscriminator), the options of MONAI's.
///
/// # Example
///
/// ```
/// use burn::tensor::{Device, Distribution, Tensor};
/// use leanburn_nn::models::PatchDiscriminatorConfig;
///
/// let device = Device::flex();
/// let model = PatchDiscriminatorConfig::new(1, 8).with_num_layers_d(2).init(&device);
/// let features = model.forward(Tensor::random([1, 1, 24, 24, 16], Distribution::Default, &device));
/// assert_eq!(features.last().unwrap().dims(), [1, 1, 4, 4, 2]);
/// ```
#[derive(Config, Debug, PartialEq)]
pub struct PatchDiscriminatorConfig {
    /// Channels of the input.
    pub in_channels: usize,
    /// Channels of the first convolution; doubled by each layer.
    pub channels: usize,
    /// Channels of the logits.
    #[config(default = 1)]
    pub out_channels: usize,
    /// Layers after the first convolution. All halve the volume but the last.
    #[config(default = 3)]
    pub num_layers_d: usize,
    /// Size of the kernels.
    #[config(default = 4)]
    pub kernel_size: usize,
    /// Zeros at both ends of each axis.
    #[config(default = 1)]
    pub padding: usize,
    /// Size of the last kernel; `None` for `kernel_size`.
    #[config(default = "None")]
    pub last_conv_kernel_size: Option<usize>,
    /// The norm of the layers after the first convolution.
    #[config(default = "NormConfig::Batch")]
    pub norm: NormConfig,
    /// The activation after each norm.
    #[config(default = "Activation::LeakyRelu(0.2)")]
    pub activation: Activation,
    /// Whether the layers after the first convolution have a bias.
    #[config(default = false)]
    pub bias: bool,
    /// Probability with which an element is dropped before each activation.
    #[config(default = 0.0)]
    pub dropout: f64,
}

impl PatchDiscriminatorConfig {
    /// Everything that is wrong with the configuration.
    #[must_use]
    pub fn validate(&self) -> Vec<ValidationError> {
        let mut validation = Validation::default();
        validation.counts([
            ("in_channels", self.in_channels),
            ("channels", self.channels),
            ("out_channels", self.out_channels),
        ]);
        let range = |validation: &mut Validation, key: &str, most: usize, found: usize| {
            let expected = format!("an integer from 1 to {most}");
            validation.check((1..=most).contains(&found), key, &expected, found, "correct this number");
        };
        range(&mut validation, "num_layers_d", MAX_LEVELS, self.num_layers_d);
        range(&mut validation, "kernel_size", MAX_KERNEL_SIZE, self.kernel_size);
        range(&mut validation, "last_conv_kernel_size", MAX_KERNEL_SIZE, self.last_conv_kernel_size.unwrap_or(1));
        validation.below_one("dropout", self.dropout);
        if let NormConfig::Group(groups) = self.norm {
            validation.groups("norm", groups, "channels", &[self.channels.saturating_mul(2)]);
        }
        validation.errors()
    }

    /// Whether the convolutions leave something of an input `[batch_size, channels, depth, height, width]`.
    ///
    /// # Errors
    ///
    /// [`ShapeError`] says what is wrong and which volumes fit.
    pub fn check_input(&self, shape: [usize; 5]) -> Result<(), ShapeError> {
        ShapeError::unless_large_enough(shape, self.in_channels, |length| self.length_of_logits(length).is_some())
    }

    /// What the convolutions leave of an axis; `None` for nothing.
    pub(super) fn length_of_logits(&self, length: usize) -> Option<usize> {
        let convolve = |length: usize, kernel: usize, padding: usize, stride: usize| {
            let free = length.checked_add(2 * padding)?.checked_sub(kernel)?;
            Some(free / stride + 1)
        };
        // the first convolution and all layers but the last have a stride of two
        let halve = |length, _| convolve(length, self.kernel_size, self.padding, 2);
        let halved = (0..self.num_layers_d).try_fold(length, halve)?;
        let features = convolve(halved, self.kernel_size, self.padding, 1)?;
        let last = self.last_kernel_size();
        convolve(features, last, (last - 1) / 2, 1)
    }

    pub(super) fn last_kernel_size(&self) -> usize {
        self.last_conv_kernel_size.unwrap_or(self.kernel_size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::keys;

    #[test]
    fn each_error_is_found() {
        let valid = || PatchDiscriminatorConfig::new(1, 8);
        let fields = |config: PatchDiscriminatorConfig| keys(config.validate());
        assert!(fields(valid()).is_empty());
        assert_eq!(fields(PatchDiscriminatorConfig::new(0, 0)), ["in_channels", "channels"]);
        assert_eq!(fields(valid().with_out_channels(0)), ["out_channels"]);
        assert_eq!(fields(valid().with_num_layers_d(0)), ["num_layers_d"]);
        assert_eq!(fields(valid().with_num_layers_d(17)), ["num_layers_d"]);
        assert_eq!(fields(valid().with_kernel_size(0)), ["kernel_size"]);
        assert_eq!(fields(valid().with_last_conv_kernel_size(Some(0))), ["last_conv_kernel_size"]);
        assert_eq!(fields(valid().with_dropout(1.0)), ["dropout"]);
        assert_eq!(fields(valid().with_norm(NormConfig::Group(3))), ["norm"]);
        assert_eq!(fields(valid().with_norm(NormConfig::Group(0))), ["norm"]);
    }

    #[test]
    fn the_smallest_volume_that_fits_leaves_one_voxel() {
        let config = PatchDiscriminatorConfig::new(1, 2).with_num_layers_d(2);
        let error = config.check_input([1, 1, 4, 64, 64]).unwrap_err();
        let ShapeError::TooSmall { least, .. } = error else { panic!("{error}") };
        let device = burn::tensor::Device::flex();
        let volume = burn::tensor::Tensor::zeros([1, 1, least, least, least], &device);
        assert_eq!(config.init(&device).forward(volume).pop().unwrap().dims(), [1; 5]);
        assert_eq!(config.check_input([1, 1, least, 64, 64]), Ok(()));
        assert!(config.check_input([1, 1, least - 1, 64, 64]).is_err());
    }
}
