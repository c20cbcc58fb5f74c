//! The levels of the U-Net. A level is a segment, and so is each of its blocks.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use leanburn_ops::ResidencyPolicy;

use super::attention::DiffusionAttention;
use super::config::DiffusionUNet3dConfig;
use super::res_block::{DiffusionResBlock, Resize};
use crate::blocks::{Downsample, Upsample};
use crate::segmented::apart;

/// What every block of the model is given: the embedding `[batch_size, features, 1, 1, 1]`, and the context
/// `[batch_size, features, tokens, 1, 1]` if there is one.
pub(super) type Shared = (Tensor<5>, Option<Tensor<5>>);

/// Both as nodes of their own in the graph.
pub(super) fn shared_apart((embedding, context): Shared) -> Shared {
    (apart(embedding), context.map(apart))
}

/// What the next user of `shared` is given; the user after it takes from a node of its own. So gradients are added up along a chain, two at
/// a time, which has one order whether segments are kept or recomputed.
pub(super) fn take(shared: &mut Shared) -> Shared {
    let taken = shared.clone();
    *shared = shared_apart(taken.clone());
    taken
}

/// Residual blocks on the way down, attention behind each or none, and what halves the volume.
#[derive(Module, Debug)]
pub struct DiffusionDownBlock {
    resnets: Vec<DiffusionResBlock>,
    attentions: Vec<DiffusionAttention>,
    downsampler: Option<DiffusionDownsampler>,
}

/// What halves the volume.
#[derive(Module, Debug)]
#[expect(clippy::large_enum_variant, reason = "handles to parameters, small next to the parameters")]
pub enum DiffusionDownsampler {
    /// A convolution with strides.
    Conv(Downsample),
    /// A residual block with pooling.
    Res(DiffusionResBlock),
}

/// Residual block, attention, residual block at the coarsest level.
#[derive(Module, Debug)]
pub struct DiffusionMiddleBlock {
    resnet_1: DiffusionResBlock,
    attention: DiffusionAttention,
    resnet_2: DiffusionResBlock,
}

/// Residual blocks on the way up, attention behind each or none, and what doubles the volume.
#[derive(Module, Debug)]
pub struct DiffusionUpBlock {
    resnets: Vec<DiffusionResBlock>,
    attentions: Vec<DiffusionAttention>,
    upsampler: Option<DiffusionUpsampler>,
}

/// What doubles the volume.
#[derive(Module, Debug)]
#[expect(clippy::large_enum_variant, reason = "handles to parameters, small next to the parameters")]
pub enum DiffusionUpsampler {
    /// Nearest neighbours and a convolution.
    Conv(Upsample),
    /// A residual block with nearest neighbours.
    Res(DiffusionResBlock),
}

/// Names and residencies of the segments inside a level.
#[derive(Clone, Debug)]
pub(super) struct Inside {
    name: String,
    policy: ResidencyPolicy,
}

impl Inside {
    /// Those inside the level called `name`.
    pub(super) fn new(name: &str, policy: &ResidencyPolicy) -> Self {
        Self { name: name.to_string(), policy: policy.inside(name) }
    }

    fn res(&self, name: &str, block: &DiffusionResBlock, parts: Vec<Tensor<5>>, embedding: &Tensor<5>) -> Tensor<5> {
        self.policy.run(&self.segment(name), block, (parts, embedding.clone()), |block, (parts, embedding)| {
            block.forward(parts.into_iter().map(apart).collect(), embedding)
        })
    }

    /// The attention of an index, if there is one.
    fn attention(
        &self,
        index: usize,
        blocks: &[DiffusionAttention],
        x: Tensor<5>,
        context: &Option<Tensor<5>>,
    ) -> Tensor<5> {
        let Some(block) = blocks.get(index) else { return x };
        self.policy.run(
            &self.segment(&format!("attention_{index}")),
            block,
            (x, context.clone()),
            |block, (x, context)| block.forward(apart(x), context.map(apart)),
        )
    }

    fn segment(&self, name: &str) -> String {
        format!("{}.{name}", self.name)
    }
}

/// Names of the blocks of a level.
fn names(blocks: usize, attentions: usize) -> Vec<String> {
    let of = |block: usize| {
        let attention = (block < attentions).then(|| format!("attention_{block}"));
        [format!("res_{block}")].into_iter().chain(attention)
    };
    (0..blocks).flat_map(of).collect()
}

/// The attentions of so many blocks of a level.
fn attentions(blocks: usize, level: usize, config: &DiffusionUNet3dConfig, device: &Device) -> Vec<DiffusionAttention> {
    let blocks = if config.attention_levels[level] { blocks } else { 0 };
    (0..blocks).map(|_| DiffusionAttention::new(level, config, device)).collect()
}

impl DiffusionDownBlock {
    pub(super) fn new(level: usize, config: &DiffusionUNet3dConfig, device: &Device) -> Self {
        let (width, blocks) = (config.channels[level], config.num_res_blocks[level]);
        let before = config.channels[level.saturating_sub(1)];
        let res = |block: usize| {
            let channels = [if block == 0 { before } else { width }, width];
            DiffusionResBlock::new(channels, Resize::Keep, config, device)
        };
        let downsampler = || match config.resblock_updown {
            true => DiffusionDownsampler::Res(DiffusionResBlock::new([width; 2], Resize::Halve, config, device)),
            false => DiffusionDownsampler::Conv(Downsample::strided([width; 2], [2; 3], device)),
        };
        Self {
            resnets: (0..blocks).map(res).collect(),
            attentions: attentions(blocks, level, config, device),
            downsampler: (level + 1 < config.channels.len()).then(downsampler),
        }
    }

    /// What the blocks give, for the way up; the last of it goes on.
    pub(super) fn forward(&self, h: Tensor<5>, mut shared: Shared, inside: &Inside) -> Vec<Tensor<5>> {
        let mut given: Vec<Tensor<5>> = Vec::new();
        let mut h = apart(h);
        for (index, block) in self.resnets.iter().enumerate() {
            let (embedding, context) = take(&mut shared);
            h = inside.res(&format!("res_{index}"), block, vec![h], &embedding);
            h = inside.attention(index, &self.attentions, h, &context);
            given.push(h.clone());
        }
        given.extend(self.downsampler.as_ref().map(|downsampler| match downsampler {
            DiffusionDownsampler::Res(block) => inside.res(DOWNSAMPLE, block, vec![h], &shared.0),
            DiffusionDownsampler::Conv(block) => {
                inside.policy.run(&inside.segment(DOWNSAMPLE), block, h, Downsample::forward)
            }
        }));
        given
    }

    pub(super) fn names(&self) -> Vec<String> {
        let downsample = self.downsampler.as_ref().map(|_| DOWNSAMPLE.to_string());
        names(self.resnets.len(), self.attentions.len()).into_iter().chain(downsample).collect()
    }
}

impl DiffusionMiddleBlock {
    pub(super) fn new(config: &DiffusionUNet3dConfig, device: &Device) -> Self {
        let level = config.channels.len() - 1;
        let res = || DiffusionResBlock::new([config.channels[level]; 2], Resize::Keep, config, device);
        Self { resnet_1: res(), attention: DiffusionAttention::new(level, config, device), resnet_2: res() }
    }

    pub(super) fn forward(&self, h: Tensor<5>, mut shared: Shared, inside: &Inside) -> Tensor<5> {
        let (embedding, context) = take(&mut shared);
        let h = inside.res("res_0", &self.resnet_1, vec![apart(h)], &embedding);
        let h = inside.attention(0, std::slice::from_ref(&self.attention), h, &context);
        inside.res("res_1", &self.resnet_2, vec![h], &shared.0)
    }

    pub(super) fn names(&self) -> Vec<String> {
        names(2, 1)
    }
}

impl DiffusionUpBlock {
    pub(super) fn new(level: usize, config: &DiffusionUNet3dConfig, device: &Device) -> Self {
        let (width, blocks) = (config.channels[level], config.num_res_blocks[level] + 1);
        let below = *config.channels.get(level + 1).unwrap_or(&width);
        let finer = config.channels[level.saturating_sub(1)];
        let res = |block: usize| {
            let h = if block == 0 { below } else { width };
            let skip = if block + 1 == blocks { finer } else { width };
            DiffusionResBlock::new([h + skip, width], Resize::Keep, config, device)
        };
        let upsampler = || match config.resblock_updown {
            true => DiffusionUpsampler::Res(DiffusionResBlock::new([width; 2], Resize::Double, config, device)),
            false => DiffusionUpsampler::Conv(Upsample::nearest(width, device)),
        };
        Self {
            resnets: (0..blocks).map(res).collect(),
            attentions: attentions(blocks, level, config, device),
            upsampler: (level > 0).then(upsampler),
        }
    }

    /// Skips that the block takes.
    pub(super) fn num_skips(&self) -> usize {
        self.resnets.len()
    }

    /// What enlarges the result for the next level.
    pub(super) fn upsampler(&self) -> &Option<DiffusionUpsampler> {
        &self.upsampler
    }

    /// The blocks, each joined with a skip, the last one first; enlarging is for the next level.
    pub(super) fn forward(
        &self,
        h: Tensor<5>,
        skips: Vec<Tensor<5>>,
        mut shared: Shared,
        inside: &Inside,
    ) -> Tensor<5> {
        let blocks = self.resnets.iter().zip(skips.into_iter().rev()).enumerate();
        blocks.fold(h, |h, (index, (block, skip))| {
            let (embedding, context) = take(&mut shared);
            let h = inside.res(&format!("res_{index}"), block, vec![h, skip], &embedding);
            inside.attention(index, &self.attentions, h, &context)
        })
    }

    pub(super) fn names(&self) -> Vec<String> {
        names(self.resnets.len(), self.attentions.len())
    }
}

impl DiffusionUpsampler {
    /// The enlarged volume, at the begin of the next level.
    pub(super) fn forward(&self, h: Tensor<5>, shared: &mut Shared, inside: &Inside) -> Tensor<5> {
        match self {
            Self::Res(block) => inside.res(UPSAMPLE, block, vec![h], &take(shared).0),
            Self::Conv(block) => inside.policy.run(&inside.segment(UPSAMPLE), block, h, Upsample::forward),
        }
    }
}

const DOWNSAMPLE: &str = "downsample";
pub(super) const UPSAMPLE: &str = "upsample";
