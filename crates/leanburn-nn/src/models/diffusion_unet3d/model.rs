//! The U-Net itself.

use burn::module::Module;
use burn::nn::Initializer;
use burn::tensor::{Device, Int, Tensor, assert_shape};
use leanburn_common::panic_if_invalid;
use leanburn_ops::numerics::cast_to;
use leanburn_ops::{Activation, ResidencyPolicy};

use super::config::DiffusionUNet3dConfig;
use super::embedding::{ClassEmbedding, TimeEmbedding, waves};
use super::level::{
    DiffusionDownBlock, DiffusionMiddleBlock, DiffusionUpBlock, DiffusionUpsampler, Inside, Shared, UPSAMPLE,
    shared_apart, take,
};
use crate::blocks::{Conv3d, Conv3dConfig, GroupNormConfig};
use crate::models::autoencoder_kl::Out;
use crate::segmented::segmented;

/// U-Net of diffusion models: predicts noise, sample or velocity of a noisy volume at a time; see [`DiffusionUNet3dConfig`] for an example.
///
/// Equal to MONAI's `DiffusionModelUNet`.
///
/// # Memory
///
/// Saved for backward: what the segments keep, which the residency policy decides; the volumes that go from the way down to the way up
/// are saved in any case, and shared between both. With every segment recomputed: these, and the small volume that each level of the way
/// up begins with. Attention never stores scores.
#[derive(Module, Debug)]
pub struct DiffusionUNet3d {
    conv_in: Conv3d,
    time_embed: TimeEmbedding,
    class_embedding: Option<ClassEmbedding>,
    down_blocks: Vec<DiffusionDownBlock>,
    middle_block: DiffusionMiddleBlock,
    /// The coarsest first.
    up_blocks: Vec<DiffusionUpBlock>,
    out: Out,
    #[module(skip)]
    config: DiffusionUNet3dConfig,
    #[module(skip)]
    residency: ResidencyPolicy,
}

/// What a prediction may depend on besides the volume and its time.
#[derive(Clone, Debug, Default)]
pub struct DiffusionConditions {
    /// Tokens that attention looks at, `[batch_size, tokens, cross_attention_dim]`. Where every level with attention has as many channels as
    /// tokens have features, it may be left out: attention is to the volume itself then.
    pub context: Option<Tensor<3>>,
    /// The class of each item, `[batch_size]`, below `num_class_embeds`.
    pub class_labels: Option<Tensor<1, Int>>,
    /// What a ControlNet adds to the volumes that go from the way down to the way up, in the order of the way down: one for `conv_in`, for
    /// each residual block, and for each halving. None at all, or all of them.
    pub down_residuals: Vec<Tensor<5>>,
    /// What a ControlNet adds to the result of the middle.
    pub middle_residual: Option<Tensor<5>>,
}

impl DiffusionUNet3dConfig {
    /// Makes the model, weights distributed as PyTorch's defaults; the last convolution of each residual block, of each transformer and of
    /// the model are zero.
    ///
    /// # Panics
    ///
    /// Panics with the [errors](Self::validate) of the configuration if there are any.
    pub fn init(&self, device: &Device) -> DiffusionUNet3d {
        panic_if_invalid("DiffusionUNet3d", &self.validate());
        let (width, levels) = (self.channels[0], self.channels.len());
        let conv = |channels| Conv3dConfig::new(channels, 3).with_padding(1);
        let class_embedding = |classes| ClassEmbedding::new(classes, 4 * width, device);
        DiffusionUNet3d {
            conv_in: conv([self.in_channels, width]).init(device),
            time_embed: TimeEmbedding::new(width, device),
            class_embedding: self.num_class_embeds.map(class_embedding),
            down_blocks: (0..levels).map(|level| DiffusionDownBlock::new(level, self, device)).collect(),
            middle_block: DiffusionMiddleBlock::new(self, device),
            up_blocks: (0..levels).rev().map(|level| DiffusionUpBlock::new(level, self, device)).collect(),
            out: Out {
                final_norm: GroupNormConfig::new(self.norm_num_groups, width).with_epsilon(self.norm_eps).init(device),
                final_conv: conv([width, self.out_channels]).with_initializer(Some(Initializer::Zeros)).init(device),
                activation: Activation::Silu,
            },
            config: self.clone(),
            residency: ResidencyPolicy::default(),
        }
    }
}

segmented!(DiffusionUNet3d, DiffusionUNet3dConfig);

impl DiffusionUNet3d {
    /// Names of the segments in order of execution, each level before its blocks.
    pub fn segments(&self) -> Vec<String> {
        let level = |name: String, blocks: Vec<String>| {
            let inside = blocks.into_iter().map(|block| format!("{name}.{block}")).collect::<Vec<_>>();
            [name.clone()].into_iter().chain(inside)
        };
        let down =
            self.down_blocks.iter().enumerate().flat_map(|(index, block)| level(down_name(index), block.names()));
        let last = self.up_blocks.len() - 1;
        let up = self.up_blocks.iter().enumerate().flat_map(|(index, block)| {
            let upsample = (index > 0).then(|| UPSAMPLE.to_string());
            let out = (index == last).then(|| OUT.to_string());
            level(up_name(last - index), upsample.into_iter().chain(block.names()).chain(out).collect())
        });
        let middle = level(MIDDLE.to_string(), self.middle_block.names());
        [CONV_IN.to_string()].into_iter().chain(down).chain(middle).chain(up).collect()
    }

    /// The prediction for volumes at their times.
    ///
    /// # Shapes
    ///
    /// - `x`: `[batch_size, in_channels, depth, height, width]`
    /// - `timesteps`: `[batch_size]`, any numbers; MONAI's schedulers give 0 to 1000
    /// - `conditions`: see [`DiffusionConditions`]
    /// - output: `[batch_size, out_channels, depth, height, width]`, in the dtype of `x`
    ///
    /// # Panics
    ///
    /// Panics if the input does not fit ([`check_input`](DiffusionUNet3dConfig::check_input) says why), or conditions are missing, or are
    /// given to a model that has none, or are of other shapes than those above.
    pub fn forward(&self, x: Tensor<5>, timesteps: Tensor<1>, conditions: DiffusionConditions) -> Tensor<5> {
        if let Err(error) = self.config.check_input(x.dims()) {
            panic!("DiffusionUNet3d: {error}");
        }
        let batch_size = x.dims()[0];
        assert_shape!(timesteps, [batch_size]);
        let DiffusionConditions { context, class_labels, down_residuals, middle_residual } = conditions;
        let waves = cast_to(waves(timesteps, self.config.channels[0]), x.dtype());
        let embedding = self.with_class(self.time_embed.forward(waves), class_labels);
        let context = self.as_volume(context, batch_size).map(|context| cast_to(context, x.dtype()));
        let mut shared = (embedding, context);
        let mut skips = self.down(x, &mut shared);
        let h = self.middle(skips.last().expect("that of conv_in").clone(), &mut shared);
        if !down_residuals.is_empty() {
            let (given, expected) = (down_residuals.len(), skips.len());
            assert_eq!(given, expected, "DiffusionUNet3d: {given} residuals of the way down, expected {expected}");
            skips = skips.into_iter().zip(down_residuals).map(|(skip, residual)| add(skip, residual)).collect();
        }
        let h = match middle_residual {
            Some(residual) => add(h, residual),
            None => h,
        };
        self.up(h, skips, shared)
    }

    fn with_class(&self, embedding: Tensor<5>, labels: Option<Tensor<1, Int>>) -> Tensor<5> {
        match (&self.class_embedding, labels) {
            (Some(classes), Some(labels)) => classes.add_to(embedding, labels),
            (Some(_), None) => panic!("DiffusionUNet3d: the model has classes: give `class_labels`"),
            (None, Some(_)) => panic!("DiffusionUNet3d: the model has no classes: set `num_class_embeds`"),
            (None, None) => embedding,
        }
    }

    /// The context's tokens as positions: `[batch_size, features, tokens, 1, 1]`.
    fn as_volume(&self, context: Option<Tensor<3>>, batch_size: usize) -> Option<Tensor<5>> {
        let Some(features) = self.config.cross_attention_dim else {
            assert!(context.is_none(), "DiffusionUNet3d: the model takes no context: set `cross_attention_dim`");
            return None;
        };
        // without a context attention is to the volume itself, which must have as many features
        let mut levels = self.config.channels.iter().enumerate().filter(|(level, _)| self.config.attends(*level));
        let is_needed = levels.any(|(_, channels)| *channels != features);
        assert!(context.is_some() || !is_needed, "DiffusionUNet3d: give `context`, tokens of {features} features");
        context.map(|context| {
            assert_shape!(context, [batch_size, _, features]);
            context.swap_dims(1, 2).unsqueeze_dims(&[3, 4])
        })
    }

    /// What goes to the way up.
    fn down(&self, x: Tensor<5>, shared: &mut Shared) -> Vec<Tensor<5>> {
        let mut skips = vec![self.residency.run(CONV_IN, &self.conv_in, x, Conv3d::forward)];
        for (level, block) in self.down_blocks.iter().enumerate() {
            let (name, h) = (down_name(level), skips.last().expect("that of conv_in").clone());
            let inside = Inside::new(&name, &self.residency);
            let forward =
                move |block: &DiffusionDownBlock, (h, shared)| block.forward(h, shared_apart(shared), &inside);
            skips.extend(self.residency.run(&name, block, (h, take(shared)), forward));
        }
        skips
    }

    fn middle(&self, h: Tensor<5>, shared: &mut Shared) -> Tensor<5> {
        let inside = Inside::new(MIDDLE, &self.residency);
        let forward = move |block: &DiffusionMiddleBlock, (h, shared)| block.forward(h, shared_apart(shared), &inside);
        self.residency.run(MIDDLE, &self.middle_block, (h, take(shared)), forward)
    }

    /// A level begins with what enlarges the small volume; the finest one ends with the last norm and convolution.
    fn up(&self, h: Tensor<5>, mut skips: Vec<Tensor<5>>, mut shared: Shared) -> Tensor<5> {
        let (mut h, mut upsampler) = (h, &None::<DiffusionUpsampler>);
        let last = self.up_blocks.len() - 1;
        for (index, block) in self.up_blocks.iter().enumerate() {
            let name = up_name(last - index);
            let (inside, policy) = (Inside::new(&name, &self.residency), self.residency.inside(&name));
            let taken = skips.split_off(skips.len() - block.num_skips());
            let modules = (upsampler.clone(), block.clone(), (index == last).then(|| self.out.clone()));
            let out_name = format!("{name}.{OUT}");
            let forward = move |modules: &(Option<DiffusionUpsampler>, DiffusionUpBlock, Option<Out>), inputs| {
                let (upsampler, block, out) = modules;
                let (h, skips, shared): (Tensor<5>, Vec<Tensor<5>>, Shared) = inputs;
                let mut shared = shared_apart(shared);
                let h = match upsampler {
                    Some(upsampler) => upsampler.forward(h, &mut shared, &inside),
                    None => h,
                };
                let h = block.forward(h, skips, shared, &inside);
                match out {
                    Some(out) => policy.run(&out_name, out, h, Out::forward),
                    None => h,
                }
            };
            h = self.residency.run(&name, &modules, (h, taken, take(&mut shared)), forward);
            upsampler = block.upsampler();
        }
        h
    }
}

/// The sum in the dtype of the volume.
fn add(x: Tensor<5>, residual: Tensor<5>) -> Tensor<5> {
    let dtype = x.dtype();
    x + cast_to(residual, dtype)
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
    use burn::module::{ModuleMapper, Param};
    use burn::tensor::{Distribution, Tolerance};
    use leanburn_ops::{backward, in_training, random};

    use super::*;

    /// Weights of which none is zero.
    struct Drawn;

    impl ModuleMapper for Drawn {
        fn map_float<const D: usize>(&mut self, weight: Param<Tensor<D>>) -> Param<Tensor<D>> {
            weight.map(|weight| random::normal(weight.dims(), &weight.device()) * 0.2)
        }
    }

    fn config() -> DiffusionUNet3dConfig {
        DiffusionUNet3dConfig::new(1, 2, vec![4, 8], vec![1, 1], vec![false, true])
            .with_norm_num_groups(2)
            .with_num_head_channels(vec![4])
    }

    #[test]
    fn segments_are_named_in_order_of_execution() {
        let middle = ["middle", "middle.res_0", "middle.attention_0", "middle.res_1"];
        let down = ["down.level_0", "down.level_0.res_0", "down.level_0.downsample"];
        let coarse = ["down.level_1", "down.level_1.res_0", "down.level_1.attention_0"];
        let up = ["res_0", "attention_0", "res_1", "attention_1"].map(|name| format!("up.level_1.{name}"));
        let fine = ["up.level_0", "up.level_0.upsample", "up.level_0.res_0", "up.level_0.res_1", "up.level_0.out"];
        let mut expected = ["conv_in"]
            .iter()
            .chain(&down)
            .chain(&coarse)
            .chain(&middle)
            .map(|name| name.to_string())
            .collect::<Vec<_>>();
        expected.push("up.level_1".into());
        expected.extend(up);
        expected.extend(fine.map(String::from));
        assert_eq!(config().init(&Device::flex()).segments(), expected);
    }

    /// As MONAI initialises it: the first prediction is zero, whatever the input.
    #[test]
    fn a_new_model_predicts_zero() {
        let device = Device::flex();
        for features in [None, Some(3)] {
            let config = config().with_resblock_updown(features.is_some()).with_cross_attention_dim(features);
            let x = Tensor::random([1, 1, 4, 4, 4], Distribution::Default, &device);
            let context = features.map(|features| Tensor::ones([1, 2, features], &device));
            let conditions = DiffusionConditions { context, ..DiffusionConditions::default() };
            let y = config.init(&device).forward(x, Tensor::from_floats([7.0], &device), conditions);
            assert_eq!(y.into_data(), Tensor::<5>::zeros([1, 2, 4, 4, 4], &device).into_data());
        }
    }

    /// A prediction drops nothing, the second run of a segment what the first did, and a target network in training what the model drops.
    #[test]
    fn what_is_dropped_depends_on_the_seed_alone() {
        random::scoped(|| {
            let device = Device::flex().autodiff();
            random::seed(&device, 1);
            let model = config().with_dropout(0.4).init(&device).map(&mut Drawn);
            let values = random::normal([1, 1, 4, 4, 4], &device).detach();
            let predict = |model: &DiffusionUNet3d, x: Tensor<5>| {
                let device = x.device();
                random::seed(&device, 3);
                model.forward(x, Tensor::from_floats([7.0], &device), DiffusionConditions::default())
            };
            let step = |policy| {
                let x = values.clone().require_grad();
                let prediction = predict(&model.clone().with_residency(policy), x.clone());
                let gradient = backward(prediction.clone().square().sum()).take(&x).unwrap();
                (prediction.into_data(), gradient.into_data())
            };
            let (dropped, gradient) = step(ResidencyPolicy::keep());
            assert_eq!(step(ResidencyPolicy::recompute_all()), (dropped.clone(), gradient));
            let (target, x) = (model.valid(), values.clone().inner());
            let all = predict(&target, x.clone()).into_data();
            let of_target = in_training(|| predict(&target, x)).into_data();
            of_target.assert_approx_eq::<f32>(&dropped, Tolerance::absolute(1e-5));
            let apart = all.iter::<f32>().zip(dropped.iter::<f32>()).map(|(one, other)| (one - other).abs());
            assert!(apart.fold(0.0, f32::max) > 0.1);
        });
    }

    /// Counts that MONAI 1.6.1 gives for its default, for its notebook `3d_ldm`, and for a widely used small latent model.
    #[test]
    fn parameters_are_as_many_as_monai_counts() {
        let count = |config: DiffusionUNet3dConfig| config.init(&Device::flex()).num_params();
        let default = (vec![32, 64, 64, 64], vec![2; 4], vec![false, false, true, true]);
        assert_eq!(count(DiffusionUNet3dConfig::new(1, 1, default.0, default.1, default.2)), 6_071_297);
        let small = |channels| DiffusionUNet3dConfig::new(3, 3, channels, vec![1; 3], vec![false, true, true]);
        let notebook = small(vec![32, 64, 64]).with_num_head_channels(vec![64]);
        assert_eq!(count(notebook), 2_974_051);
        let mut small = small(vec![16, 32, 64]).with_norm_num_groups(16).with_num_head_channels(vec![64]);
        small.attention_levels = vec![false, false, true];
        assert_eq!(count(small), 1_804_211);
    }

    #[test]
    #[should_panic = "pad it to [4, 4, 8] or crop it to [4, 4, 6]"]
    fn volumes_that_do_not_fit_are_rejected() {
        let x = Tensor::zeros([1, 1, 4, 4, 7], &Device::flex());
        config().init(&Device::flex()).forward(x, Tensor::zeros([1], &Device::flex()), DiffusionConditions::default());
    }

    #[test]
    #[should_panic = "the model takes no context: set `cross_attention_dim`"]
    fn a_context_that_nothing_looks_at_is_rejected() {
        let device = Device::flex();
        let context = Some(Tensor::zeros([1, 2, 3], &device));
        let conditions = DiffusionConditions { context, ..DiffusionConditions::default() };
        config().init(&device).forward(
            Tensor::zeros([1, 1, 4, 4, 4], &device),
            Tensor::zeros([1], &device),
            conditions,
        );
    }

    #[test]
    #[should_panic = "give `context`, tokens of 3 features"]
    fn a_model_with_a_context_asks_for_it() {
        let device = Device::flex();
        let model = config().with_cross_attention_dim(Some(3)).init(&device);
        let x = Tensor::zeros([1, 1, 4, 4, 4], &device);
        model.forward(x, Tensor::zeros([1], &device), DiffusionConditions::default());
    }

    #[test]
    #[should_panic = "the model has classes: give `class_labels`"]
    fn a_model_with_classes_asks_for_them() {
        let device = Device::flex();
        let model = config().with_num_class_embeds(Some(3)).init(&device);
        let x = Tensor::zeros([1, 1, 4, 4, 4], &device);
        model.forward(x, Tensor::zeros([1], &device), DiffusionConditions::default());
    }
}
