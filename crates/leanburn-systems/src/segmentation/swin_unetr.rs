//! Swin UNETR: keys of the `segmentation` section where its `model` is `swin_unetr`.

use leanburn_nn::models::{Merging, SwinUnetrConfig};
use serde::Serialize;

use super::norm::NormName;
use crate::shared::with_methods;
use crate::yaml::{MANY, PerAxis, Section};

/// Swin UNETR: MONAI's `SwinUNETR` in three dimensions, without dropout.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct SwinUnetrSection {
    /// Channels of the finest level, a multiple of 12; each of the four stages doubles them. Default: 24.
    pub feature_size: usize,
    /// Blocks of each stage. Default: [2, 2, 2, 2].
    pub depths: [usize; 4],
    /// Heads of each stage, divisors of its channels. Default: [3, 6, 12, 24].
    pub num_heads: [usize; 4],
    /// Depth, height and width of a window. Default: 7.
    pub window_size: [usize; 3],
    /// Channels inside of a block's two linear layers, as a multiple of its own. Default: 4.
    pub mlp_ratio: usize,
    /// The norm of the residual blocks of convolutions. Default: instance, which takes the intensity of a patch out of it.
    pub norm_name: NormName,
    /// Whether what a stage gives to the decoder is normalised. Default: true.
    pub normalize: bool,
    /// How patches are merged: `merging` or `mergingv2`. Default: merging.
    pub downsample: Merging,
    /// Whether a residual block of convolutions stands before each stage. Default: false.
    pub use_v2: bool,
}

impl Default for SwinUnetrSection {
    fn default() -> Self {
        let SwinUnetrConfig {
            feature_size,
            depths,
            num_heads,
            window_size,
            mlp_ratio,
            normalize,
            downsample,
            use_v2,
            ..
        } = SwinUnetrConfig::new(1, 2);
        let norm_name = NormName::Instance;
        Self { feature_size, depths, num_heads, window_size, mlp_ratio, norm_name, normalize, downsample, use_v2 }
    }
}

with_methods! { SwinUnetrSection {
    with_feature_size => feature_size: usize,
    with_depths => depths: [usize; 4],
    with_num_heads => num_heads: [usize; 4],
    with_window_size => window_size: [usize; 3],
    with_mlp_ratio => mlp_ratio: usize,
    with_norm_name => norm_name: NormName,
    with_normalize => normalize: bool,
    with_downsample => downsample: Merging,
    with_use_v2 => use_v2: bool,
} }

impl SwinUnetrSection {
    pub(super) fn read(section: &mut Section<'_>) -> Self {
        let default = Self::default();
        let PerAxis(window_size) = section.number("window_size", PerAxis(default.window_size), 1..=MANY);
        Self {
            feature_size: section.number("feature_size", default.feature_size, 1..=MANY),
            depths: section.number("depths", default.depths, 1..=MANY),
            num_heads: section.number("num_heads", default.num_heads, 1..=MANY),
            window_size,
            mlp_ratio: section.number("mlp_ratio", default.mlp_ratio, 1..=MANY),
            norm_name: section.choice("norm_name", default.norm_name),
            normalize: section.get("normalize", default.normalize),
            downsample: section.choice("downsample", default.downsample),
            use_v2: section.get("use_v2", default.use_v2),
        }
    }

    /// The configuration of the model, from so many channels to so many classes.
    pub fn model(&self, in_channels: usize, num_classes: usize) -> SwinUnetrConfig {
        SwinUnetrConfig::new(in_channels, num_classes)
            .with_feature_size(self.feature_size)
            .with_depths(self.depths)
            .with_num_heads(self.num_heads)
            .with_window_size(self.window_size)
            .with_mlp_ratio(self.mlp_ratio)
            .with_norm(self.norm_name.config())
            .with_normalize(self.normalize)
            .with_downsample(self.downsample)
            .with_use_v2(self.use_v2)
    }
}
