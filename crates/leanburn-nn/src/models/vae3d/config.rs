//! Configuration of the voxel autoencoder, and what can be wrong with it.

use burn::config::Config;
use burn::tensor::Device;

use super::Vae3d;
use crate::blocks::VectorQuantizerConfig;
use crate::models::{ShapeError, refuse};

/// Configuration of [`Vae3d`].
///
/// # Example
///
/// ```
/// use burn::tensor::{Device, Distribution, Tensor};
/// use leanburn_nn::models::Vae3dConfig;
///
/// let device = Device::flex();
/// let model = Vae3dConfig::ultra_lightweight().init(&device);
/// let x = Tensor::random([1, 4, 4, 8, 8], Distribution::Default, &device);
/// let (mean, sigma) = model.encode(x);
/// assert_eq!(mean.dims(), [1, 4, 2, 2, 2]);
/// assert_eq!(model.decode(model.sample(mean, sigma)).dims(), [1, 4, 4, 8, 8]);
/// ```
#[derive(Config, Debug, PartialEq)]
pub struct Vae3dConfig {
    /// Channels of the finest level.
    pub base_channels: usize,
    /// By what the channels of each level are multiplied, the finest first.
    pub channel_mult: Vec<usize>,
    /// Residual blocks of each level of the encoder; the decoder has one more.
    pub num_res_blocks: usize,
    /// Whether attention follows each residual block of the coarsest level and stands in the middle.
    #[config(default = false)]
    pub attention: bool,
    /// Channels of input and reconstruction.
    #[config(default = 4)]
    pub in_channels: usize,
    /// Channels of the latent.
    #[config(default = 4)]
    pub latent_channels: usize,
    /// By what depth, height and width are divided between levels, one entry less than levels. The decoder multiplies by
    /// them in the same order.
    #[config(default = "vec![[1, 2, 2], [2, 2, 2]]")]
    pub strides: Vec<[usize; 3]>,
    /// Groups of the norms; divides the channels of every level.
    #[config(default = 8)]
    pub norm_num_groups: usize,
    /// Added to the variance in the norms.
    #[config(default = 1e-5)]
    pub norm_eps: f64,
    /// A codebook of `latent_channels` channels in the place of the Gaussian latent; `None` for the Gaussian.
    #[config(default = "None")]
    pub codebook: Option<VectorQuantizerConfig>,
}

impl Vae3dConfig {
    /// Channels 64, 128, 256, two residual blocks a level, attention: 41,638,132 parameters.
    pub fn standard() -> Self {
        Self::new(64, vec![1, 2, 4], 2).with_attention(true)
    }

    /// Channels 32, 64, 128, one residual block a level, no attention: 7,652,628 parameters.
    pub fn lightweight() -> Self {
        Self::new(32, vec![1, 2, 4], 1)
    }

    /// Channels 16, 32, 32, one residual block a level, no attention: 694,788 parameters.
    pub fn ultra_lightweight() -> Self {
        Self::new(16, vec![1, 2, 2], 1)
    }

    /// Everything that is wrong with the configuration: the field, and what to do about it.
    pub fn mistakes(&self) -> Vec<(&'static str, String)> {
        let counts = [
            ("base_channels", self.base_channels),
            ("num_res_blocks", self.num_res_blocks),
            ("in_channels", self.in_channels),
            ("latent_channels", self.latent_channels),
            ("norm_num_groups", self.norm_num_groups),
        ];
        let zeros = counts.into_iter().filter(|(_, count)| *count == 0);
        let mut mistakes: Vec<_> = zeros.map(|(field, _)| (field, "is 0; give at least 1".to_string())).collect();
        if !(self.norm_eps.is_finite() && self.norm_eps > 0.0) {
            mistakes.push(("norm_eps", format!("is {}; give a small positive number, say 1e-5", self.norm_eps)));
        }
        self.mistakes_of_levels(&mut mistakes);
        if let Some(codebook) = &self.codebook {
            mistakes.extend(codebook.mistakes());
            if codebook.embedding_dim != self.latent_channels {
                let (found, expected) = (codebook.embedding_dim, self.latent_channels);
                mistakes
                    .push(("codebook", format!("has {found} channels; latent_channels is {expected}, give as many")));
            }
        }
        mistakes
    }

    fn mistakes_of_levels(&self, mistakes: &mut Vec<(&'static str, String)>) {
        let levels = self.channel_mult.len();
        if levels == 0 {
            mistakes.push(("channel_mult", "is empty; give at least one level".to_string()));
        }
        let groups = self.norm_num_groups.max(1);
        for (level, mult) in self.channel_mult.iter().enumerate() {
            let channels = self.base_channels.checked_mul(*mult).filter(|channels| *channels > 0);
            if channels.is_none_or(|channels| !channels.is_multiple_of(groups)) {
                let message = format!(
                    "level {level} has {} x {mult} channels; norm_num_groups = {groups} must divide it",
                    self.base_channels
                );
                mistakes.push(("channel_mult", message));
            }
        }
        if levels > 0 && self.strides.len() != levels - 1 {
            let message = format!("has {} entries for {levels} levels; give {}", self.strides.len(), levels - 1);
            mistakes.push(("strides", message));
        }
        if self.strides.iter().flatten().any(|stride| *stride == 0) || self.downsampling().is_none() {
            mistakes.push(("strides", format!("are {:?}; give small positive numbers", self.strides)));
        }
    }

    /// By how much depth, height and width of the latent are smaller than those of the volume; `None` if that is no number.
    pub fn downsampling(&self) -> Option<[usize; 3]> {
        self.strides.iter().try_fold([1usize; 3], |product, stride| {
            let [depth, height, width] = stride;
            Some([product[0].checked_mul(*depth)?, product[1].checked_mul(*height)?, product[2].checked_mul(*width)?])
        })
    }

    /// Channels of a level.
    pub(super) fn channels(&self, level: usize) -> usize {
        self.base_channels * self.channel_mult[level]
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
        let multiples = self.downsampling().unwrap_or([usize::MAX; 3]).map(|multiple| multiple.max(1));
        let fits = |axis: usize| volume[axis] > 0 && volume[axis].is_multiple_of(multiples[axis]);
        if (0..3).all(fits) {
            return Ok(());
        }
        Err(ShapeError::Axes { found: volume, multiples })
    }

    /// Makes the model, weights distributed as PyTorch's defaults.
    ///
    /// # Panics
    ///
    /// Panics with the [mistakes](Self::mistakes) if there are any.
    pub fn init(&self, device: &Device) -> Vae3d {
        refuse("Vae3d", &self.mistakes());
        Vae3d::new(self, device)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn valid() -> Vae3dConfig {
        Vae3dConfig::ultra_lightweight()
    }

    #[test]
    fn each_mistake_is_found() {
        let fields =
            |config: Vae3dConfig| -> Vec<_> { config.mistakes().into_iter().map(|(field, _)| field).collect() };
        for preset in [valid(), Vae3dConfig::lightweight(), Vae3dConfig::standard()] {
            assert!(fields(preset).is_empty());
        }
        assert_eq!(fields(valid().with_in_channels(0)), ["in_channels"]);
        assert_eq!(fields(valid().with_latent_channels(0)), ["latent_channels"]);
        assert_eq!(fields(valid().with_norm_num_groups(0)), ["norm_num_groups"]);
        assert_eq!(fields(valid().with_norm_num_groups(32)), ["channel_mult"]);
        assert_eq!(fields(valid().with_norm_eps(-1.0)), ["norm_eps"]);
        assert_eq!(fields(valid().with_strides(vec![[1, 2, 2]])), ["strides"]);
        assert_eq!(fields(valid().with_strides(vec![[1, 0, 2], [2; 3]])), ["strides"]);
        assert_eq!(fields(valid().with_strides(vec![[usize::MAX; 3], [2; 3]])), ["strides"]);
        let codebook = |channels| valid().with_codebook(Some(VectorQuantizerConfig::new(16, channels)));
        assert!(fields(codebook(4)).is_empty());
        assert_eq!(fields(codebook(3)), ["codebook"]);
        assert_eq!(fields(codebook(0)), ["embedding_dim", "codebook"]);
        assert_eq!(fields(Vae3dConfig::new(8, vec![], 1)), ["channel_mult"]);
        assert_eq!(fields(Vae3dConfig::new(8, vec![1, 0, 1], 1)), ["channel_mult"]);
        assert_eq!(fields(Vae3dConfig::new(8, vec![1, usize::MAX, 1], 1)), ["channel_mult"]);
        assert_eq!(fields(Vae3dConfig::new(8, vec![1, 1, 1], 0)), ["num_res_blocks"]);
        assert_eq!(
            fields(Vae3dConfig::new(0, vec![1; 3], 1)),
            ["base_channels", "channel_mult", "channel_mult", "channel_mult"]
        );
    }

    #[test]
    fn each_axis_has_its_own_multiple() {
        assert_eq!(valid().check_input([1, 4, 2, 4, 8]), Ok(()));
        assert_eq!(valid().check_input([1, 1, 2, 4, 4]), Err(ShapeError::Channels { expected: 4, found: 1 }));
        for volume in [[3, 4, 4], [2, 6, 4], [2, 4, 6]] {
            let [depth, height, width] = volume;
            assert!(valid().check_input([1, 4, depth, height, width]).is_err());
        }
        let error = valid().check_input([1, 4, 3, 4, 0]).unwrap_err();
        assert_eq!(error, ShapeError::Axes { found: [3, 4, 0], multiples: [2, 4, 4] });
        assert!(error.to_string().contains("pad it to [4, 4, 4] or crop it to [2, 4, 4]"), "{error}");
    }
}
