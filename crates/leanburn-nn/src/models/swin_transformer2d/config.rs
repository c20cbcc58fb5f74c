//! Configuration of the Swin transformer, and what can be wrong with it.

use burn::config::Config;
use leanburn_common::{Validation, ValidationError};

use crate::blocks::{PatchMerging, SwinBlockConfig, WindowAttentionConfig};
use crate::validation::Rules;

/// Voxels of a patch that is merged: two rows of two.
pub(super) const MERGED: [usize; 3] = [1, 2, 2];

/// Configuration of [`SwinTransformer2d`](super::SwinTransformer2d); the defaults are Swin-T, 27,519,354 parameters.
///
/// # Example
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use leanburn_nn::models::SwinTransformer2dConfig;
///
/// let config = SwinTransformer2dConfig::new().with_embed_dim(12).with_depths(vec![2, 2]).with_num_heads(vec![3, 6]);
/// let features = config.init(&Device::flex()).forward(Tensor::zeros([1, 3, 64, 60], &Device::flex()));
/// assert_eq!(features.dims(), [1, 24, 8, 8]);
/// ```
#[derive(Config, Debug, PartialEq)]
pub struct SwinTransformer2dConfig {
    /// Channels of the images.
    #[config(default = 3)]
    pub in_channels: usize,
    /// Channels of the first stage; each stage doubles them.
    #[config(default = 96)]
    pub embed_dim: usize,
    /// Blocks of each stage.
    #[config(default = "vec![2, 2, 6, 2]")]
    pub depths: Vec<usize>,
    /// Heads of each stage, divisors of its channels.
    #[config(default = "vec![3, 6, 12, 24]")]
    pub num_heads: Vec<usize>,
    /// Height and width of a window.
    #[config(default = "[7; 2]")]
    pub window_size: [usize; 2],
    /// Height and width of the patches that the first stage has as positions.
    #[config(default = 4)]
    pub patch_size: usize,
    /// Channels inside of a block's two linear layers, as a multiple of its own.
    #[config(default = 4)]
    pub mlp_ratio: usize,
}

impl SwinTransformer2dConfig {
    /// Everything that is wrong with the configuration.
    #[must_use]
    pub fn validate(&self) -> Vec<ValidationError> {
        let mut validation = Validation::default();
        validation.counts([
            ("in_channels", self.in_channels),
            ("embed_dim", self.embed_dim),
            ("patch_size", self.patch_size),
            ("mlp_ratio", self.mlp_ratio),
        ]);
        validation.levels("depths", &self.depths);
        validation.one_per_level("num_heads", self.num_heads.len(), "depths", self.depths.len());
        validation.window("window_size", self.window());
        for (stage, heads) in self.num_heads.iter().enumerate() {
            validation.groups("num_heads", *heads, "embed_dim", &[self.channels(stage)]);
        }
        validation.errors()
    }

    /// Channels of a stage.
    pub fn channels(&self, stage: usize) -> usize {
        self.embed_dim.saturating_mul(1 << stage.min(32))
    }

    /// Number of parameters, without making them.
    pub fn num_parameters(&self) -> usize {
        let stages = self.depths.len();
        let patches = (self.patch_size.pow(2) * self.in_channels + 3) * self.embed_dim;
        let blocks: usize = (0..stages).map(|stage| self.depths[stage] * self.block(stage, 0).num_parameters()).sum();
        let voxels = MERGED.iter().product();
        let merging = |stage| PatchMerging::num_parameters(self.channels(stage), voxels);
        let mergings: usize = (0..stages.saturating_sub(1)).map(merging).sum();
        patches + blocks + mergings + 2 * self.channels(stages.saturating_sub(1))
    }

    /// The block of a number in a stage: those of odd numbers have shifted windows.
    pub(super) fn block(&self, stage: usize, number: usize) -> SwinBlockConfig {
        let attention = WindowAttentionConfig::new(self.channels(stage), self.num_heads[stage], self.window());
        SwinBlockConfig::new(attention.with_is_shifted(number % 2 == 1)).with_mlp_ratio(self.mlp_ratio)
    }

    fn window(&self) -> [usize; 3] {
        let [height, width] = self.window_size;
        [1, height, width]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::keys;

    #[test]
    fn each_error_is_found() {
        let fields = |config: SwinTransformer2dConfig| keys(config.validate());
        let valid = SwinTransformer2dConfig::new;
        assert!(fields(valid()).is_empty());
        assert_eq!(fields(valid().with_in_channels(0).with_patch_size(0)), ["in_channels", "patch_size"]);
        assert_eq!(fields(valid().with_depths(vec![2, 0, 2, 2])), ["depths"]);
        assert_eq!(fields(valid().with_num_heads(vec![3, 6, 12])), ["num_heads"]);
        assert_eq!(fields(valid().with_num_heads(vec![3, 6, 12, 25])), ["num_heads"]);
        assert_eq!(fields(valid().with_window_size([7, 0])), ["window_size"]);
        assert_eq!(fields(valid().with_mlp_ratio(0)), ["mlp_ratio"]);
    }

    /// torchvision's `swin_t`, `swin_s` and `swin_b` without their heads for 1,000 classes.
    #[test]
    fn models_are_as_large_as_torchvisions() {
        let tiny = SwinTransformer2dConfig::new();
        assert_eq!(tiny.num_parameters(), 28_288_354 - 769_000);
        let small = tiny.with_depths(vec![2, 2, 18, 2]);
        assert_eq!(small.num_parameters(), 49_606_258 - 769_000);
        let base = small.with_embed_dim(128).with_num_heads(vec![4, 8, 16, 32]);
        assert_eq!(base.num_parameters(), 87_768_224 - 1_025_000);
    }
}
