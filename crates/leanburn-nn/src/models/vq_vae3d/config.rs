//! Configuration of the discrete autoencoder, and what can be wrong with it.

use burn::config::Config;
use leanburn_common::{Validation, ValidationError};

use crate::blocks::VectorQuantizerConfig;
use crate::models::shape_error::ShapeError;
use crate::validation::Rules;

/// Configuration of [`VqVae3d`](super::VqVae3d), the options of MONAI's `VQVAE` without dropout.
///
/// # Example
///
/// ```
/// use burn::tensor::{Device, Distribution, Tensor};
/// use leanburn_nn::blocks::VectorQuantizerConfig;
/// use leanburn_nn::models::VqVae3dConfig;
///
/// let device = Device::flex();
/// let model = VqVae3dConfig::new(vec![4, 8], vec![4, 8], VectorQuantizerConfig::new(16, 8)).init(&device);
/// let (reconstruction, loss) = model.forward(Tensor::random([1, 1, 8, 8, 4], Distribution::Default, &device));
/// assert_eq!(reconstruction.dims(), [1, 1, 8, 8, 4]);
/// assert_eq!(loss.dims(), [1]);
/// ```
#[derive(Config, Debug, PartialEq)]
pub struct VqVae3dConfig {
    /// Channels of each level, the finest first.
    pub channels: Vec<usize>,
    /// Channels between the two convolutions of the residual units of each level.
    pub num_res_channels: Vec<usize>,
    /// The codebook.
    pub quantizer: VectorQuantizerConfig,
    /// Residual units of each level.
    #[config(default = 1)]
    pub num_res_layers: usize,
    /// Channels of the input.
    #[config(default = 1)]
    pub in_channels: usize,
    /// Channels of the reconstruction.
    #[config(default = 1)]
    pub out_channels: usize,
    /// Stride, kernel size, dilation and padding with which every level begins.
    #[config(default = "[2, 4, 1, 1]")]
    pub downsample: [usize; 4],
    /// Stride, kernel size, dilation, padding and output padding of the transposed convolutions that go back.
    #[config(default = "[2, 4, 1, 1, 0]")]
    pub upsample: [usize; 5],
}

impl VqVae3dConfig {
    /// Everything that is wrong with the configuration.
    #[must_use]
    pub fn validate(&self) -> Vec<ValidationError> {
        let mut validation = Validation::default();
        validation.counts([("in_channels", self.in_channels), ("out_channels", self.out_channels)]);
        validation.levels("channels", &self.channels);
        let levels = self.channels.len();
        validation.one_per_level("num_res_channels", self.num_res_channels.len(), "channels", levels);
        self.num_res_channels.iter().for_each(|channels| validation.count("num_res_channels", *channels));
        self.downsample[..3].iter().for_each(|option| validation.count("downsample", *option));
        self.upsample[..3].iter().for_each(|option| validation.count("upsample", *option));
        let [stride, .., padding_out] = self.upsample;
        let found = format!("an output padding of {padding_out} with a stride of {stride}");
        let expected = "an output padding below the stride";
        validation.check(padding_out < stride.max(1), "upsample", expected, found, "use an output padding of 0");
        validation.extend_below("quantizer", self.quantizer.validate());
        validation.errors()
    }

    /// By how much each axis of the latent is smaller than that of the volume; `None` if that is no number.
    pub fn downsampling(&self) -> Option<usize> {
        self.downsample[0].checked_pow(u32::try_from(self.channels.len()).ok()?)
    }

    /// Whether an input `[batch_size, channels, depth, height, width]` comes back in its own shape.
    ///
    /// # Errors
    ///
    /// [`ShapeError`] says what is wrong and which volumes fit.
    pub fn check_input(&self, shape: [usize; 5]) -> Result<(), ShapeError> {
        let [_, found, volume @ ..] = shape;
        if found != self.in_channels {
            return Err(ShapeError::Channels { expected: self.in_channels, found });
        }
        match volume.iter().all(|&length| self.comes_back(length)) {
            true => Ok(()),
            false => {
                let multiple = self.downsampling().unwrap_or(usize::MAX).max(1);
                Err(ShapeError::Volume { found: volume, multiples: [multiple; 3] })
            }
        }
    }

    /// Whether an axis is as long after all convolutions as before.
    fn comes_back(&self, length: usize) -> bool {
        let [stride, kernel, dilation, padding] = self.downsample;
        let down = |length: usize| {
            let free = length.checked_add(2 * padding)?.checked_sub(dilation * (kernel - 1) + 1)?;
            Some(free / stride + 1)
        };
        let [stride, kernel, dilation, padding, padding_out] = self.upsample;
        let up = |length: usize| {
            let covered = length.checked_sub(1)?.checked_mul(stride)? + dilation * (kernel - 1) + padding_out + 1;
            covered.checked_sub(2 * padding)
        };
        let levels = || 0..self.channels.len();
        let latent = levels().try_fold(length, |length, _| down(length));
        latent.and_then(|latent| levels().try_fold(latent, |length, _| up(length))) == Some(length)
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;

    use super::*;
    use crate::validation::keys;

    #[test]
    fn volumes_come_back_in_their_own_shape_or_are_rejected() {
        let config = VqVae3dConfig::new(vec![4, 4], vec![4, 4], VectorQuantizerConfig::new(4, 4));
        for length in 0..17 {
            assert_eq!(config.check_input([1, 1, 8, 8, length]).is_ok(), length > 0 && length % 4 == 0, "{length}");
        }
        let model = config.init(&Device::flex());
        let shape = |length| model.forward(burn::tensor::Tensor::zeros([1, 1, 8, 8, length], &Device::flex())).0.dims();
        assert_eq!(shape(12), [1, 1, 8, 8, 12]);
        assert_ne!(shape(10), [1, 1, 8, 8, 10]);
        let error = config.check_input([1, 2, 8, 8, 8]).unwrap_err();
        assert_eq!(error, ShapeError::Channels { expected: 1, found: 2 });
    }

    #[test]
    fn each_error_is_found() {
        let codebook = || VectorQuantizerConfig::new(16, 8);
        let valid = || VqVae3dConfig::new(vec![4, 8], vec![4, 8], codebook());
        let fields = |config: VqVae3dConfig| keys(config.validate());
        assert!(fields(valid()).is_empty());
        assert_eq!(fields(valid().with_in_channels(0).with_out_channels(0)), ["in_channels", "out_channels"]);
        assert_eq!(fields(valid().with_downsample([0, 4, 1, 1])), ["downsample"]);
        assert_eq!(fields(valid().with_upsample([2, 0, 1, 1, 0])), ["upsample"]);
        assert_eq!(fields(valid().with_upsample([2, 4, 1, 1, 2])), ["upsample"]);
        assert_eq!(fields(VqVae3dConfig::new(vec![], vec![], codebook())), ["channels"]);
        assert_eq!(fields(VqVae3dConfig::new(vec![4; 17], vec![4; 17], codebook())), ["channels"]);
        assert_eq!(fields(VqVae3dConfig::new(vec![4, 0], vec![4, 0], codebook())), ["channels", "num_res_channels"]);
        assert_eq!(fields(VqVae3dConfig::new(vec![4, 8], vec![4], codebook())), ["num_res_channels"]);
        let none = VectorQuantizerConfig::new(0, 8);
        assert_eq!(fields(VqVae3dConfig::new(vec![4, 8], vec![4, 8], none)), ["quantizer.num_embeddings"]);
    }
}
