//! Configuration of the voxel autoencoder, and what can be wrong with it.

use burn::config::Config;
use leanburn_common::{Validation, ValidationError};

use crate::blocks::VectorQuantizerConfig;
use crate::models::shape_error::ShapeError;
use crate::validation::Rules;

/// More residual blocks a level are taken for a typing error.
const MOST_BLOCKS: usize = 1 << 10;

/// Configuration of [`Vae3d`](super::Vae3d).
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
    /// Residual blocks of each level of the encoder; the decoder has one more. Without any, the convolutions between the encoder's levels change
    /// the channels.
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
    /// The deviation of the latent that training starts from, or nearly; `None` for what random weights give, about 1.
    pub initial_deviation: Option<f64>,
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

    /// Channels 16, 32, 32, one residual block a level, no attention: 694,788 parameters; 465,236 without the encoder's blocks (`num_res_blocks` 0).
    pub fn ultra_lightweight() -> Self {
        Self::new(16, vec![1, 2, 2], 1)
    }

    /// Everything that is wrong with the configuration.
    #[must_use]
    pub fn validate(&self) -> Vec<ValidationError> {
        let mut validation = Validation::default();
        validation.counts([
            ("base_channels", self.base_channels),
            ("in_channels", self.in_channels),
            ("latent_channels", self.latent_channels),
        ]);
        let is_sound = self.num_res_blocks <= MOST_BLOCKS;
        let expected = format!("an integer from 0 to {MOST_BLOCKS}");
        validation.check(is_sound, "num_res_blocks", &expected, self.num_res_blocks, "correct this number");
        self.validate_levels(&mut validation);
        validation.positive("norm_eps", self.norm_eps, "use 1e-5");
        if let Some(deviation) = self.initial_deviation {
            validation.positive("initial_deviation", deviation, "use 0.1");
            validation.check(
                self.codebook.is_none(),
                "initial_deviation",
                "a Gaussian latent",
                "a codebook",
                "remove `initial_deviation` or `codebook`",
            );
        }
        if let Some(codebook) = &self.codebook {
            validation.extend_below("codebook", codebook.validate());
            validation.check_together(
                codebook.embedding_dim == self.latent_channels,
                &["latent_channels"],
                "codebook.embedding_dim",
                "as many channels as the latent has",
                format!("{} for {} latent channels", codebook.embedding_dim, self.latent_channels),
                format!("set `embedding_dim` to {}", self.latent_channels),
            );
        }
        validation.errors()
    }

    fn validate_levels(&self, validation: &mut Validation) {
        validation.levels("channel_mult", &self.channel_mult);
        let multiplied = |mult: &usize| self.base_channels.saturating_mul(*mult);
        let channels: Vec<usize> = self.channel_mult.iter().map(multiplied).collect();
        validation.groups("norm_num_groups", self.norm_num_groups, "channel_mult", &channels);
        let levels = self.channel_mult.len();
        validation.check_together(
            levels == 0 || self.strides.len() == levels - 1,
            &["channel_mult"],
            "strides",
            "one entry less than `channel_mult` has",
            format!("{} entries for {levels} levels", self.strides.len()),
            "give the strides between each level and the next, as in [[1, 2, 2], [2, 2, 2]]",
        );
        let sound = self.strides.iter().flatten().all(|stride| *stride > 0) && self.downsampling().is_some();
        validation.check(sound, "strides", "small positive numbers", format!("{:?}", self.strides), "use 1 or 2");
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
        let multiples = self.downsampling().unwrap_or([usize::MAX; 3]).map(|multiple| multiple.max(1));
        ShapeError::unless_multiples(shape, self.in_channels, multiples)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::keys;

    fn valid() -> Vae3dConfig {
        Vae3dConfig::ultra_lightweight()
    }

    #[test]
    fn each_error_is_found() {
        let fields = |config: Vae3dConfig| keys(config.validate());
        for preset in [valid(), Vae3dConfig::lightweight(), Vae3dConfig::standard()] {
            assert!(fields(preset).is_empty());
        }
        assert_eq!(fields(valid().with_in_channels(0)), ["in_channels"]);
        assert_eq!(fields(valid().with_latent_channels(0)), ["latent_channels"]);
        assert_eq!(fields(valid().with_norm_num_groups(0)), ["norm_num_groups"]);
        assert_eq!(fields(valid().with_norm_num_groups(32)), ["norm_num_groups"]);
        assert_eq!(fields(valid().with_norm_eps(-1.0)), ["norm_eps"]);
        assert!(fields(valid().with_initial_deviation(Some(0.1))).is_empty());
        assert_eq!(fields(valid().with_initial_deviation(Some(0.0))), ["initial_deviation"]);
        assert_eq!(fields(valid().with_strides(vec![[1, 2, 2]])), ["strides"]);
        assert_eq!(fields(valid().with_strides(vec![[1, 0, 2], [2; 3]])), ["strides"]);
        assert_eq!(fields(valid().with_strides(vec![[usize::MAX; 3], [2; 3]])), ["strides"]);
        let codebook = |channels| valid().with_codebook(Some(VectorQuantizerConfig::new(16, channels)));
        assert!(fields(codebook(4)).is_empty());
        assert_eq!(fields(codebook(4).with_initial_deviation(Some(0.1))), ["initial_deviation"]);
        assert_eq!(fields(codebook(3)), ["codebook.embedding_dim"]);
        assert_eq!(fields(codebook(0)), ["codebook.embedding_dim"; 2]);
        assert_eq!(fields(Vae3dConfig::new(8, vec![], 1)), ["channel_mult"]);
        assert_eq!(fields(Vae3dConfig::new(8, vec![1, 0, 1], 1)), ["channel_mult"]);
        assert_eq!(fields(Vae3dConfig::new(8, vec![1, usize::MAX, 1], 1)), ["channel_mult", "norm_num_groups"]);
        assert!(fields(Vae3dConfig::new(8, vec![1, 1, 1], 0)).is_empty());
        assert_eq!(fields(Vae3dConfig::new(8, vec![1, 1, 1], usize::MAX)), ["num_res_blocks"]);
        assert_eq!(fields(Vae3dConfig::new(0, vec![1; 3], 1)), ["base_channels"]);
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
        assert_eq!(error, ShapeError::Volume { found: [3, 4, 0], multiples: [2, 4, 4] });
        assert!(error.to_string().contains("pad it to [4, 4, 4] or crop it to [2, 4, 4]"), "{error}");
    }
}
