//! The encoder: four stages of blocks.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use leanburn_ops::{ResidencyPolicy, layer_norm3d};

use super::config::{PATCH, STAGES, SwinUnetrConfig};
use crate::blocks::{Conv3d, Conv3dConfig, PatchMerging, SwinBlock, UnetBlock, UnetBlockConfig};

/// Added to the variance where what a stage gives is normalised.
const EPSILON: f64 = 1e-5;

/// Patches, and stages of blocks that attend inside windows, each followed by a merging of patches.
#[derive(Module, Debug)]
pub struct SwinEncoder {
    patch_embed: Conv3d,
    stages: Vec<SwinEncoderStage>,
    normalize: bool,
}

/// One stage.
#[derive(Module, Debug)]
pub struct SwinEncoderStage {
    entry: Option<UnetBlock>,
    blocks: Vec<SwinBlock>,
    downsample: PatchMerging,
}

impl SwinEncoder {
    pub(super) fn new(config: &SwinUnetrConfig, device: &Device) -> Self {
        let patches = Conv3dConfig::new([config.in_channels, config.feature_size], PATCH).with_stride(PATCH);
        let stage = |stage: usize| {
            let channels = config.feature_size << stage;
            SwinEncoderStage {
                entry: config.use_v2.then(|| UnetBlockConfig::new([channels; 2]).init(device)),
                blocks: (0..config.depths[stage]).map(|block| config.block(stage, block).init(device)).collect(),
                downsample: PatchMerging::new(channels, [PATCH; 3], config.downsample.places(), device),
            }
        };
        Self {
            patch_embed: patches.init(device),
            stages: (0..STAGES).map(stage).collect(),
            normalize: config.normalize,
        }
    }

    /// Names of the segments in order of execution.
    pub(super) fn segments(&self) -> Vec<String> {
        let of_stage = |(index, stage): (usize, &SwinEncoderStage)| {
            let blocks = (0..stage.blocks.len()).map(move |block| block_name(index, block));
            let entry = stage.entry.is_some().then(|| entry_name(index));
            entry.into_iter().chain(blocks).chain([merging_name(index)]).collect::<Vec<_>>()
        };
        self.stages.iter().enumerate().flat_map(of_stage).collect()
    }

    /// The patches, and what each stage gives.
    ///
    /// # Shapes
    ///
    /// - input: `[batch_size, in_channels, depth, height, width]`
    /// - outputs: of number `i`, `[batch_size, 2^i feature_size, ..]`, each axis divided by `2^(i + 1)`
    pub(super) fn forward(&self, x: Tensor<5>, residency: &ResidencyPolicy) -> Vec<Tensor<5>> {
        let mut x = self.patch_embed.forward(x);
        let mut outputs = vec![self.output(&x)];
        for (index, stage) in self.stages.iter().enumerate() {
            if let Some(entry) = &stage.entry {
                x = residency.run(&entry_name(index), entry, x, UnetBlock::forward);
            }
            for (number, block) in stage.blocks.iter().enumerate() {
                x = residency.run(&block_name(index, number), block, x, SwinBlock::forward);
            }
            x = residency.run(&merging_name(index), &stage.downsample, x, PatchMerging::forward);
            outputs.push(self.output(&x));
        }
        outputs
    }

    /// What a stage gives to the decoder.
    fn output(&self, x: &Tensor<5>) -> Tensor<5> {
        if self.normalize { layer_norm3d(x.clone(), None, None, EPSILON) } else { x.clone() }
    }

    /// The blocks, each with its name in the model.
    pub(super) fn blocks(&self) -> impl Iterator<Item = (String, &SwinBlock)> {
        self.stages.iter().enumerate().flat_map(|(index, stage)| {
            let named = move |(number, block)| (format!("stages.{index}.blocks.{number}"), block);
            stage.blocks.iter().enumerate().map(named)
        })
    }
}

fn entry_name(stage: usize) -> String {
    format!("stage_{stage}.entry")
}

fn block_name(stage: usize, block: usize) -> String {
    format!("stage_{stage}.block_{block}")
}

fn merging_name(stage: usize) -> String {
    format!("stage_{stage}.merging")
}
