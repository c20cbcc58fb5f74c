//! The U-Net itself.

use std::ops::Range;

use burn::module::Module;
use burn::tensor::{Device, Tensor, assert_shape};
use leanburn_common::panic_if_invalid;
use leanburn_ops::numerics::cast_to;
use leanburn_ops::{ResidencyPolicy, conv3d, upsample_conv3d};

use super::block::{Sr3Block, Sr3NormConv};
use super::config::Sr3UNetConfig;
use super::embedding::{Sr3Embedding, waves};
use crate::blocks::ConvNd;
use crate::segmented::{apart, segmented};

/// U-Net that predicts the noise in a sample from the sample, a condition beside it and the noise level; see [`Sr3UNetConfig`] for an
/// example.
///
/// # Memory
///
/// Saved for backward: what the segments keep, which the residency policy decides; the volumes that go from the way down to the way up
/// are saved in any case, and shared between both. With every segment recomputed: these, and the small volume that each level of the way
/// up begins with. Attention never stores scores.
///
/// Segments are `conv_in`, levels (`down.level_0`, `middle`, `up.level_0`) and in them blocks (`res_0`, ..), `downsample` and `upsample`,
/// and `out`.
#[derive(Module, Debug)]
pub struct Sr3UNet {
    noise_level_mlp: Sr3Embedding,
    /// In the order in which they run, as in DiffSR.
    downs: Vec<Sr3Layer>,
    mid: Vec<Sr3Layer>,
    ups: Vec<Sr3Layer>,
    final_conv: Sr3NormConv,
    #[module(skip)]
    config: Sr3UNetConfig,
    #[module(skip)]
    residency: ResidencyPolicy,
}

/// A layer of the way down or up.
#[derive(Module, Debug)]
#[allow(clippy::large_enum_variant, reason = "handles to parameters, small next to the parameters")]
pub enum Sr3Layer {
    /// The first convolution.
    Entry(ConvNd),
    /// A block; on the way up it takes a volume of the way down too.
    Block(Sr3Block),
    /// A convolution that halves each axis.
    Halve(Sr3Resample),
    /// Nearest neighbours, twice as many along each axis, and a convolution.
    Double(Sr3Resample),
}

/// The convolution that changes the size of a volume, or follows that.
#[derive(Module, Debug)]
pub struct Sr3Resample {
    resample: ConvNd,
}

impl Sr3Layer {
    /// Applies the layer to one volume, or to the two that a block of the way up joins; `embedding` is for blocks.
    fn forward(&self, mut parts: Vec<Tensor<5>>, embedding: Option<Tensor<5>>) -> Tensor<5> {
        match (self, embedding) {
            (Self::Block(block), Some(embedding)) => block.forward(parts, embedding),
            (Self::Block(_), None) => unreachable!("blocks take an embedding"),
            (Self::Entry(layer) | Self::Halve(Sr3Resample { resample: layer }), _) => {
                conv3d(parts.remove(0), layer.convolution())
            }
            (Self::Double(Sr3Resample { resample: layer }), _) => {
                let depth = match layer {
                    ConvNd::Plane(_) => 1,
                    ConvNd::Volume(_) => 2,
                };
                upsample_conv3d(parts.remove(0), [depth, 2, 2], layer.convolution())
            }
        }
    }

    fn is_block(&self) -> bool {
        matches!(self, Self::Block(_))
    }
}

impl Sr3UNetConfig {
    /// Makes the model, weights distributed as PyTorch's defaults.
    ///
    /// # Panics
    ///
    /// Panics with the [errors](Self::validate) of the configuration if there are any.
    pub fn init(&self, device: &Device) -> Sr3UNet {
        panic_if_invalid("Sr3UNet", &self.validate());
        let block = |(channels, attends): (_, bool)| Sr3Layer::Block(Sr3Block::new(channels, attends, self, device));
        let resample =
            |channels, stride| Sr3Resample { resample: ConvNd::new(self.axes, [channels; 2], 3, stride, device) };
        let (levels, blocks) = (self.channels.len(), self.blocks());
        let entry = ConvNd::new(self.axes, [self.in_channels, self.inner_channels], 3, 1, device);
        let mut downs = vec![Sr3Layer::Entry(entry)];
        for (level, blocks) in blocks.down.into_iter().enumerate() {
            downs.extend(blocks.into_iter().map(block));
            downs.extend((level + 1 < levels).then(|| Sr3Layer::Halve(resample(self.channels[level], 2))));
        }
        let last = self.channels[levels - 1];
        let mid = [true, false].map(|attends| block(([last; 2], attends))).into();
        let mut ups = Vec::new();
        for (level, blocks) in (0..levels).rev().zip(blocks.up) {
            ups.extend(blocks.into_iter().map(block));
            ups.extend((level > 0).then(|| Sr3Layer::Double(resample(self.channels[level], 1))));
        }
        Sr3UNet {
            noise_level_mlp: Sr3Embedding::new(self.inner_channels, device),
            downs,
            mid,
            ups,
            final_conv: Sr3NormConv::new([self.channels[0], self.out_channels], self, device),
            config: self.clone(),
            residency: ResidencyPolicy::default(),
        }
    }

    /// Which layers of the way down are those of a level: its blocks, and what halves their result.
    fn down_layers(&self, level: usize) -> Range<usize> {
        let (first, each) = (1 + level * (self.num_res_blocks + 1), self.num_res_blocks + 1);
        first..first + each - usize::from(level + 1 == self.channels.len())
    }

    /// Which layers of the way up are those of a level: what doubles the result of the one below, and its blocks. So a level begins with a
    /// small volume.
    fn up_layers(&self, level: usize) -> Range<usize> {
        let (below, blocks) = (self.channels.len() - 1 - level, self.num_res_blocks + 1);
        let first = (below * (blocks + 1)).saturating_sub(1);
        first..below * (blocks + 1) + blocks
    }
}

segmented!(Sr3UNet, Sr3UNetConfig);

impl Sr3UNet {
    /// Names of the segments in order of execution, each level before its blocks.
    pub fn segments(&self) -> Vec<String> {
        let level = |name: String, layers: &[Sr3Layer]| {
            let inside = names(layers).into_iter().map(|layer| format!("{name}.{layer}")).collect::<Vec<_>>();
            [name].into_iter().chain(inside)
        };
        let levels = self.config.channels.len();
        let down = (0..levels).flat_map(|index| level(down_name(index), &self.downs[self.config.down_layers(index)]));
        let up = (0..levels).rev().flat_map(|index| level(up_name(index), &self.ups[self.config.up_layers(index)]));
        let middle = level(MIDDLE.to_string(), &self.mid);
        [CONV_IN.to_string()].into_iter().chain(down).chain(middle).chain(up).chain([OUT.to_string()]).collect()
    }

    /// The noise in samples, beside their condition, at their noise levels.
    ///
    /// # Shapes
    ///
    /// - `x`: `[batch_size, in_channels, depth, height, width]`, of planes with a depth of 1
    /// - `levels`: `[batch_size]`: roots of the samples' shares of the variance, or times, as the configuration says
    /// - output: `[batch_size, out_channels, depth, height, width]`, in the dtype of `x`
    ///
    /// # Panics
    ///
    /// Panics if the input does not fit; [`check_input`](Sr3UNetConfig::check_input) says why.
    pub fn forward(&self, x: Tensor<5>, levels: Tensor<1>) -> Tensor<5> {
        if let Err(error) = self.config.check_input(x.dims()) {
            panic!("Sr3UNet: {error}");
        }
        let batch_size = x.dims()[0];
        assert_shape!(levels, [batch_size]);
        let waves = cast_to(waves(levels, self.config.inner_channels), x.dtype());
        let mut embedding = self.noise_level_mlp.forward(waves);
        let entry = |layer: &Sr3Layer, x| layer.forward(vec![x], None);
        let mut skips = vec![self.residency.run(CONV_IN, &self.downs[0], x, entry)];
        let last = |volumes: &[Tensor<5>]| volumes.last().expect("each level has a layer").clone();
        for level in 0..self.config.channels.len() {
            let layers = &self.downs[self.config.down_layers(level)];
            let given = self.level(&down_name(level), layers, vec![last(&skips)], take(&mut embedding));
            skips.extend(given);
        }
        let mut h = last(&self.level(MIDDLE, &self.mid, vec![last(&skips)], take(&mut embedding)));
        for level in (0..self.config.channels.len()).rev() {
            let mut volumes = skips.split_off(skips.len() - 1 - self.config.num_res_blocks);
            volumes.push(h);
            let layers = &self.ups[self.config.up_layers(level)];
            h = last(&self.level(&up_name(level), layers, volumes, take(&mut embedding)));
        }
        self.residency.run(OUT, &self.final_conv, h, Sr3NormConv::forward)
    }

    /// What the layers of a level give; of the way up the last alone. The last of the volumes goes in first, those before are taken by the
    /// blocks, from the end.
    fn level(&self, name: &str, layers: &[Sr3Layer], volumes: Vec<Tensor<5>>, embedding: Tensor<5>) -> Vec<Tensor<5>> {
        let (policy, prefix) = (self.residency.inside(name), name.to_string());
        let run = move |layers: &Vec<Sr3Layer>, (mut skips, embedding): (Vec<Tensor<5>>, Tensor<5>)| {
            let mut embedding = apart(embedding);
            let mut h = apart(skips.pop().expect("what goes in first"));
            let is_up = !skips.is_empty();
            let mut given = Vec::new();
            for (layer, name) in layers.iter().zip(names(layers)) {
                let skip = skips.pop_if(|_| layer.is_block());
                let inputs =
                    ([h].into_iter().chain(skip).collect::<Vec<_>>(), layer.is_block().then(|| take(&mut embedding)));
                h = policy.run(&format!("{prefix}.{name}"), layer, inputs, |layer, (parts, embedding)| {
                    layer.forward(parts.into_iter().map(apart).collect(), embedding)
                });
                if is_up {
                    given.clear();
                }
                given.push(h.clone());
            }
            given
        };
        self.residency.run(name, &layers.to_vec(), (volumes, embedding), run)
    }
}

/// The embedding for its next user; the user after it takes from a node of its own. So gradients are added up along a chain, two at a time,
/// which has one order whether segments are kept or recomputed.
fn take(embedding: &mut Tensor<5>) -> Tensor<5> {
    let taken = embedding.clone();
    *embedding = apart(taken.clone());
    taken
}

/// Names of the layers of a level.
fn names(layers: &[Sr3Layer]) -> Vec<String> {
    let mut blocks = 0..;
    let name = |layer: &Sr3Layer| match layer {
        Sr3Layer::Entry(_) => CONV_IN.to_string(),
        Sr3Layer::Block(_) => format!("res_{}", blocks.next().unwrap_or(0)),
        Sr3Layer::Halve(_) => "downsample".to_string(),
        Sr3Layer::Double(_) => "upsample".to_string(),
    };
    layers.iter().map(name).collect()
}

const CONV_IN: &str = "conv_in";
const MIDDLE: &str = "middle";
const OUT: &str = "out";

fn down_name(level: usize) -> String {
    format!("down.level_{level}")
}

fn up_name(level: usize) -> String {
    format!("up.level_{level}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_named_in_order_of_execution() {
        let config =
            Sr3UNetConfig::new(2, 1, 4, vec![4, 8], vec![false, true]).with_norm_num_groups(2).with_num_res_blocks(1);
        let expected = [
            "conv_in",
            "down.level_0",
            "down.level_0.res_0",
            "down.level_0.downsample",
            "down.level_1",
            "down.level_1.res_0",
            "middle",
            "middle.res_0",
            "middle.res_1",
            "up.level_1",
            "up.level_1.res_0",
            "up.level_1.res_1",
            "up.level_0",
            "up.level_0.upsample",
            "up.level_0.res_0",
            "up.level_0.res_1",
            "out",
        ];
        assert_eq!(config.init(&Device::flex()).segments(), expected);
    }

    #[test]
    fn parameters_are_counted_without_a_model() {
        for (axes, affine) in [(2, false), (3, true)] {
            let config = Sr3UNetConfig::new(3, 1, 4, vec![4, 6, 8], vec![false, true, false])
                .with_norm_num_groups(2)
                .with_num_res_blocks(2)
                .with_axes(axes)
                .with_use_affine_level(affine);
            assert_eq!(config.num_parameters(), config.init(&Device::flex()).num_params());
        }
    }

    #[test]
    #[should_panic = "pad it to [1, 4, 8] or crop it to [1, 4, 6]"]
    fn fields_that_do_not_fit_are_rejected() {
        let model = Sr3UNetConfig::new(2, 1, 4, vec![4, 4], vec![false; 2]).with_norm_num_groups(2);
        let device = Device::flex();
        model.init(&device).forward(Tensor::zeros([1, 2, 1, 4, 7], &device), Tensor::zeros([1], &device));
    }
}
