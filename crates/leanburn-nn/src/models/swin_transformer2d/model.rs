//! The Swin transformer itself.

use burn::module::Module;
use burn::tensor::{Device, Tensor, assert_shape};
use leanburn_common::panic_if_invalid;
use leanburn_ops::ResidencyPolicy;

use super::config::{MERGED, SwinTransformer2dConfig};
use crate::blocks::{Conv2d, Conv2dConfig, LayerNorm, LayerNormConfig, PatchMerging, SwinBlock};
use crate::segmented::segmented;

/// Where the parameters of a merging have the positions 00, 01, 10, 11 of height and width.
const PLACES: &[i64] = &[0, 2, 1, 3];

/// Features of images by attention in shifted windows; see [`SwinTransformer2dConfig`] for an example.
///
/// Equal to torchvision's `SwinTransformer` without its classifier and without stochastic depth, as long as an axis of a stage has at
/// least as many positions as a window; a shorter one has smaller windows here, as in MONAI, where torchvision pads it.
///
/// # Memory
///
/// Saved for backward: of a block twelve times its input. Scores of the attention are never stored. With every segment recomputed,
/// what each segment gives. Segments are `stage_0.block_0`, .., `stage_0.merging`, `stage_1.block_0` and so on.
#[derive(Module, Debug)]
pub struct SwinTransformer2d {
    patch_embed: Conv2d,
    patch_norm: LayerNorm,
    stages: Vec<SwinStage2d>,
    norm: LayerNorm,
    #[module(skip)]
    config: SwinTransformer2dConfig,
    #[module(skip)]
    residency: ResidencyPolicy,
}

/// One stage, and the merging that follows all but the last.
#[derive(Module, Debug)]
pub struct SwinStage2d {
    blocks: Vec<SwinBlock>,
    merging: Option<PatchMerging>,
}

impl SwinTransformer2dConfig {
    /// Makes the model, weights distributed as PyTorch's defaults, tables of biases normal with a deviation of 0.02.
    ///
    /// # Panics
    ///
    /// Panics with the [errors](Self::validate) of the configuration if there are any.
    pub fn init(&self, device: &Device) -> SwinTransformer2d {
        panic_if_invalid("SwinTransformer2d", &self.validate());
        let last = self.depths.len() - 1;
        let stage = |stage: usize| SwinStage2d {
            blocks: (0..self.depths[stage]).map(|block| self.block(stage, block).init(device)).collect(),
            merging: (stage < last).then(|| PatchMerging::new(self.channels(stage), MERGED, PLACES, device)),
        };
        let patches = Conv2dConfig::new([self.in_channels, self.embed_dim], self.patch_size);
        SwinTransformer2d {
            patch_embed: patches.with_stride(self.patch_size).init(device),
            patch_norm: LayerNormConfig::new(self.embed_dim).init(device),
            stages: (0..=last).map(stage).collect(),
            norm: LayerNormConfig::new(self.channels(last)).init(device),
            config: self.clone(),
            residency: ResidencyPolicy::default(),
        }
    }
}

segmented!(SwinTransformer2d, SwinTransformer2dConfig);

impl SwinTransformer2d {
    /// Names of the segments in order of execution.
    pub fn segments(&self) -> Vec<String> {
        let of_stage = |(index, stage): (usize, &SwinStage2d)| {
            let blocks = (0..stage.blocks.len()).map(move |block| block_name(index, block));
            blocks.chain(stage.merging.is_some().then(|| merging_name(index))).collect::<Vec<_>>()
        };
        self.stages.iter().enumerate().flat_map(of_stage).collect()
    }

    /// The features that the last stage gives, normalised.
    ///
    /// # Shapes
    ///
    /// - input: `[batch_size, in_channels, height, width]`; rows and columns behind the last whole patch are left out
    /// - output: `[batch_size, channels, ..]` with the [channels](SwinTransformer2dConfig::channels) of the last stage; height and width
    ///   are divided by the length of a patch, and by two, rounded up, for each further stage
    ///
    /// # Panics
    ///
    /// Panics if the input has other than `in_channels` channels, or no whole patch.
    pub fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        self.forward_within(x, "", &self.residency)
    }

    /// The same as a part of a model with a policy of its own, in which the names of the segments begin with `prefix`.
    pub(crate) fn forward_within(&self, x: Tensor<4>, prefix: &str, residency: &ResidencyPolicy) -> Tensor<4> {
        let SwinTransformer2dConfig { in_channels, patch_size, .. } = self.config;
        assert_shape!(x, [_, in_channels, ..]);
        let [_, _, height, width] = x.dims();
        assert!(
            height.min(width) >= patch_size,
            "SwinTransformer2d: expected an image of at least {patch_size} x {patch_size} pixels, a patch, found {height} x {width}"
        );
        let mut h = self.patch_norm.forward(self.patch_embed.forward(x.unsqueeze_dim(2)));
        for (index, stage) in self.stages.iter().enumerate() {
            for (number, block) in stage.blocks.iter().enumerate() {
                let name = format!("{prefix}{}", block_name(index, number));
                h = residency.run(&name, block, h, SwinBlock::forward);
            }
            if let Some(merging) = &stage.merging {
                let name = format!("{prefix}{}", merging_name(index));
                h = residency.run(&name, merging, h, PatchMerging::forward);
            }
        }
        self.norm.forward(h).squeeze_dim(2)
    }

    /// The blocks, each with its path in the model.
    pub(super) fn blocks(&self) -> impl Iterator<Item = (String, &SwinBlock)> {
        self.stages.iter().enumerate().flat_map(|(index, stage)| {
            let named = move |(number, block)| (format!("stages.{index}.blocks.{number}"), block);
            stage.blocks.iter().enumerate().map(named)
        })
    }
}

fn block_name(stage: usize, block: usize) -> String {
    format!("stage_{stage}.block_{block}")
}

fn merging_name(stage: usize) -> String {
    format!("stage_{stage}.merging")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small() -> SwinTransformer2dConfig {
        SwinTransformer2dConfig::new().with_embed_dim(6).with_depths(vec![1, 2]).with_num_heads(vec![1, 2])
    }

    #[test]
    fn segments_are_named_in_order_of_execution() {
        let segments = small().init(&Device::flex()).segments();
        assert_eq!(segments, ["stage_0.block_0", "stage_0.merging", "stage_1.block_0", "stage_1.block_1"]);
    }

    #[test]
    #[should_panic = "an image of at least 4 x 4 pixels, a patch, found 8 x 3"]
    fn images_without_a_patch_are_rejected() {
        small().init(&Device::flex()).forward(Tensor::zeros([1, 3, 8, 3], &Device::flex()));
    }
}
