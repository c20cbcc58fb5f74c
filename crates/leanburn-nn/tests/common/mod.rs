//! Runs a model on a fixture, under any residency policy, and reports everything that comes out.
#![allow(dead_code, missing_docs)]

pub mod lpips;
pub mod swin;

use std::collections::BTreeMap;
use std::path::PathBuf;

use burn::backend::ir::OperationIr;
use burn::module::{Flag, Module, ModuleMapper, ModuleVisitor, Param};
use burn::prelude::*;
use burn::tensor::{DType, Gradients, TensorData};
use leanburn_nn::blocks::{ActivationConfig, NormConfig, VectorQuantizerConfig};
use leanburn_nn::losses::{
    AdversarialCriterion, DiceCeLoss, PatchAdversarialLoss, VaeLoss, kl_divergence_mean, l1_loss, l2_loss,
};
use leanburn_nn::models::{
    AutoencoderKl, AutoencoderKlConfig, Cnn3dLstmConfig, ConvLstmConfig, DiffusionConditions, DiffusionUNet3dConfig,
    DynUnetConfig, EdsrConfig, FnoConfig, PatchDiscriminator, PatchDiscriminatorConfig, Sr3UNetConfig, UNet2dConfig,
    UNet3dConfig, Vae3dConfig, VqVae3dConfig,
};
use leanburn_nn::weights::{self, MonaiWeights};
use leanburn_ops::ResidencyPolicy;
use leanburn_ops::recording::Marker;
use safetensors::SafeTensors;
use serde_json::Value;

/// The values of tensors by name.
pub type Values = BTreeMap<String, Vec<f32>>;

/// What a training step on a fixture gives.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    pub outputs: Values,
    pub loss: f32,
    /// By MONAI's names; the input's gradient is `x`.
    pub gradients: Values,
    /// Parameters and buffers after the step, by MONAI's names.
    pub state: Values,
}

impl Outcome {
    /// The names of all values that are not bit for bit those of the other outcome.
    pub fn differing(&self, other: &Self) -> Vec<String> {
        let parts = |outcome: &Self| {
            let loss = Values::from([(String::new(), vec![outcome.loss])]);
            let of = |part: &str, values: &Values| {
                values.iter().map(|(name, values)| (format!("{part} {name}"), values.clone())).collect::<Vec<_>>()
            };
            let state = of("after the step", &outcome.state);
            [of("output", &outcome.outputs), of("loss", &loss), of("gradient of", &outcome.gradients), state].concat()
        };
        let (ours, theirs) = (parts(self), parts(other));
        assert_eq!(ours.len(), theirs.len());
        ours.into_iter().zip(theirs).filter(|(one, other)| one != other).map(|((name, _), _)| name).collect()
    }
}

/// Weights, an input and the outputs of a model in PyTorch: MONAI's, or one that `make_fixtures.py` writes down itself.
pub struct Fixture {
    pub path: PathBuf,
    pub args: Value,
    tensors: Tensors,
}

/// Shapes and values of tensors by name.
pub type Tensors = BTreeMap<String, (Vec<usize>, Vec<f32>)>;

pub fn fixture_path(file: &str) -> PathBuf {
    // Cargo runs tests in the folder of their crate.
    PathBuf::from("tests/fixtures").join(file)
}

/// The float tensors of a safetensors file among the fixtures.
pub fn read_tensors(name: &str) -> Tensors {
    let bytes = std::fs::read(fixture_path(&format!("{name}.safetensors"))).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let floats = file.iter().filter(|(_, view)| view.dtype() == safetensors::Dtype::F32);
    let tensors = floats.map(|(name, view)| {
        let values = view.data().chunks_exact(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap()));
        (name.to_string(), (view.shape().to_vec(), values.collect()))
    });
    tensors.collect()
}

/// The values of an integer tensor among the fixtures.
pub fn read_integers(file: &str, name: &str) -> Vec<i64> {
    let bytes = std::fs::read(fixture_path(&format!("{file}.safetensors"))).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let view = file.tensor(name).unwrap();
    view.data().chunks_exact(8).map(|bytes| i64::from_le_bytes(bytes.try_into().unwrap())).collect()
}

impl Fixture {
    pub fn read(name: &str) -> Self {
        let about = std::fs::read_to_string(fixture_path(&format!("{name}.json"))).unwrap();
        let args = serde_json::from_str::<Value>(&about).unwrap()["args"].clone();
        Self { args, tensors: read_tensors(name), path: fixture_path(&format!("{name}.safetensors")) }
    }

    pub fn tensor<const D: usize>(&self, name: &str, device: &Device) -> Tensor<D> {
        let (shape, values) = &self.tensors[name];
        Tensor::from_data(TensorData::new(values.clone(), shape.clone()), device)
    }

    /// The tensors whose names begin with `prefix`, without it.
    pub fn values(&self, prefix: &str) -> Values {
        let named = self.tensors.iter().filter_map(|(name, (_, values))| Some((name.strip_prefix(prefix)?, values)));
        named.map(|(name, values)| (name.to_string(), values.clone())).collect()
    }

    fn list<T>(&self, name: &str, value: impl Fn(&Value) -> T) -> Vec<T> {
        self.args[name].as_array().unwrap().iter().map(value).collect()
    }

    fn number(&self, name: &str) -> usize {
        self.args[name].as_u64().unwrap() as usize
    }

    fn flag(&self, name: &str, default: bool) -> bool {
        self.args[name].as_bool().unwrap_or(default)
    }

    pub fn autoencoder_config(&self) -> AutoencoderKlConfig {
        let numbers = |name| self.list(name, |value| value.as_u64().unwrap() as usize);
        let attention = self.list("attention_levels", |value| value.as_bool().unwrap());
        AutoencoderKlConfig::new(numbers("channels"), numbers("num_res_blocks"), attention)
            .with_in_channels(self.number("in_channels"))
            .with_out_channels(self.number("out_channels"))
            .with_latent_channels(self.number("latent_channels"))
            .with_norm_num_groups(self.number("norm_num_groups"))
            .with_norm_eps(self.args["norm_eps"].as_f64().unwrap())
            .with_encoder_nonlocal_attn(self.flag("with_encoder_nonlocal_attn", true))
            .with_decoder_nonlocal_attn(self.flag("with_decoder_nonlocal_attn", true))
            .with_use_convtranspose(self.flag("use_convtranspose", false))
            .with_include_fc(self.flag("include_fc", true))
            .with_use_combined_linear(self.flag("use_combined_linear", false))
    }

    pub fn autoencoder(&self, device: &Device) -> AutoencoderKl {
        let mut model = self.autoencoder_config().init(device);
        weights::load_under(&mut model, &self.path, "weight.").unwrap();
        model
    }

    pub fn vq_vae_config(&self) -> VqVae3dConfig {
        let numbers = |name| self.list(name, |value| value.as_u64().unwrap() as usize);
        let codebook = VectorQuantizerConfig::new(self.number("num_embeddings"), self.number("embedding_dim"));
        VqVae3dConfig::new(numbers("channels"), numbers("num_res_channels"), codebook)
            .with_num_res_layers(self.number("num_res_layers"))
    }

    pub fn unet_config(&self) -> UNet3dConfig {
        let numbers = |name| self.list(name, |value| value.as_u64().unwrap() as usize);
        let strides = self.axes("strides");
        let size = |name| self.args[name].as_u64().unwrap_or(3) as usize;
        let norm = match (self.args["norm"].as_str(), self.args["norm"][1]["num_groups"].as_u64()) {
            (Some("BATCH"), _) => NormConfig::Batch,
            (_, Some(groups)) => NormConfig::Group(groups as usize),
            _ => NormConfig::Instance,
        };
        let slope = self.args["act"][1]["negative_slope"].as_f64();
        UNet3dConfig::new(self.number("in_channels"), self.number("out_channels"), numbers("channels"), strides)
            .with_kernel_size(size("kernel_size"))
            .with_up_kernel_size(size("up_kernel_size"))
            .with_num_res_units(self.number("num_res_units"))
            .with_norm(norm)
            .with_activation(slope.map_or(ActivationConfig::Prelu, ActivationConfig::LeakyRelu))
            .with_bias(self.flag("bias", true))
    }

    pub fn dyn_unet_config(&self) -> DynUnetConfig {
        let filters = self.list("filters", |value| value.as_u64().unwrap() as usize);
        let (kernels, strides) = (self.axes("kernel_size"), self.axes("strides"));
        let norm = match self.args["norm_name"].as_str() {
            Some("BATCH") => NormConfig::Batch,
            _ => NormConfig::InstanceAffine,
        };
        DynUnetConfig::new(self.number("in_channels"), self.number("out_channels"), filters, kernels, strides)
            .with_res_block(self.flag("res_block", false))
            .with_trans_bias(self.flag("trans_bias", false))
            .with_norm(norm)
    }

    /// A list of which each entry is one number or three.
    fn axes(&self, name: &str) -> Vec<[usize; 3]> {
        self.list(name, |entry| match entry.as_u64() {
            Some(number) => [number as usize; 3],
            None => serde_json::from_value(entry.clone()).unwrap(),
        })
    }

    pub fn fno_config(&self) -> FnoConfig {
        serde_json::from_value(self.args.clone()).unwrap()
    }

    pub fn edsr_config(&self) -> EdsrConfig {
        serde_json::from_value(self.args.clone()).unwrap()
    }

    pub fn unet2d_config(&self) -> UNet2dConfig {
        serde_json::from_value(self.args.clone()).unwrap()
    }

    pub fn sr3_config(&self) -> Sr3UNetConfig {
        serde_json::from_value(self.args.clone()).unwrap()
    }

    pub fn diffusion_config(&self) -> DiffusionUNet3dConfig {
        let numbers = |name| self.list(name, |value| value.as_u64().unwrap() as usize);
        let attention = self.list("attention_levels", |value| value.as_bool().unwrap());
        let optional = |name| self.args[name].as_u64().map(|number: u64| number as usize);
        let head_channels = optional("num_head_channels").map_or_else(|| numbers("num_head_channels"), |one| vec![one]);
        let (channels, blocks) = (numbers("channels"), numbers("num_res_blocks"));
        DiffusionUNet3dConfig::new(self.number("in_channels"), self.number("out_channels"), channels, blocks, attention)
            .with_norm_num_groups(self.number("norm_num_groups"))
            .with_num_head_channels(head_channels)
            .with_resblock_updown(self.flag("resblock_updown", false))
            .with_cross_attention_dim(optional("cross_attention_dim"))
            .with_transformer_num_layers(optional("transformer_num_layers").unwrap_or(1))
            .with_num_class_embeds(optional("num_class_embeds"))
            .with_include_fc(self.flag("include_fc", true))
            .with_use_combined_linear(self.flag("use_combined_linear", false))
    }

    /// The conditions among the fixture's inputs.
    pub fn diffusion_conditions(&self, device: &Device) -> DiffusionConditions {
        let there = |name: &str| self.tensors.contains_key(name);
        let residuals = (0..).map(|index| format!("input.down_residual_{index}")).take_while(|name| there(name));
        let volume = |name: &str| there(name).then(|| self.tensor(name, device));
        let labels = || Tensor::from_data(self.integers("input.class_labels").as_slice(), device);
        DiffusionConditions {
            context: there("input.context").then(|| self.tensor("input.context", device)),
            class_labels: self.args["num_class_embeds"].as_u64().map(|_| labels()),
            down_residuals: residuals.map(|name| self.tensor(&name, device)).collect(),
            middle_residual: volume("input.middle_residual"),
        }
    }

    fn integers(&self, name: &str) -> Vec<i64> {
        read_integers(self.path.file_stem().unwrap().to_str().unwrap(), name)
    }

    /// The fixture's labels, one for each voxel of a volume of this shape.
    pub fn labels(&self, [batch_size, _, depth, height, width]: [usize; 5], device: &Device) -> Tensor<4, Int> {
        let labels = self.integers("input.labels");
        Tensor::<1, Int>::from_data(labels.as_slice(), device).reshape([batch_size, depth, height, width])
    }

    /// A model with the fixture's weights.
    pub fn loaded<M: MonaiWeights>(&self, mut model: M) -> M {
        weights::load_under(&mut model, &self.path, "weight.").unwrap();
        model
    }

    /// A model with the fixture's weights, that uses running estimates also under autodiff.
    pub fn evaluated<M: MonaiWeights>(&self, mut model: M) -> M {
        weights::load_under(&mut model, &self.path, "weight.").unwrap();
        struct Evaluate;
        impl ModuleMapper for Evaluate {
            fn map_flag(&mut self, flag: Param<Flag>) -> Param<Flag> {
                flag.with_value(false)
            }
        }
        model.map(&mut Evaluate)
    }

    pub fn discriminator(&self, device: &Device) -> PatchDiscriminator {
        let config = PatchDiscriminatorConfig::new(self.number("in_channels"), self.number("channels"))
            .with_out_channels(self.number("out_channels"))
            .with_num_layers_d(self.number("num_layers_d"));
        let mut model = config.init(device);
        weights::load_under(&mut model, &self.path, "weight.").unwrap();
        model
    }
}

/// One step of forward and backward in float32 on the CPU.
pub fn run_fixture(name: &str, policy: ResidencyPolicy) -> Outcome {
    run_fixture_on(Device::flex(), name, policy, DType::F32)
}

/// One step of forward and backward on a device, the input cast to `dtype`.
pub fn run_fixture_on(device: Device, name: &str, policy: ResidencyPolicy, dtype: DType) -> Outcome {
    run(device, name, policy, dtype, Objective::Fixture)
}

/// The same with a loss that is linear in the outputs: the same gradient comes to the outputs in every dtype. (That of an L1
/// loss is a sign, which the last digit of an output decides where output and target are close.)
fn run_fixture_linear(device: Device, name: &str, dtype: DType) -> Outcome {
    run(device, name, ResidencyPolicy::keep(), dtype, Objective::Linear)
}

/// What is differentiated.
#[derive(Clone, Copy)]
enum Objective {
    /// The fixture's loss.
    Fixture,
    /// The sum of all outputs times fixed weights from -1 to 1.
    Linear,
}

fn run(device: Device, name: &str, policy: ResidencyPolicy, dtype: DType, objective: Objective) -> Outcome {
    let device = device.autodiff();
    leanburn_ops::random::seed(&device, 0);
    let fixture = Fixture::read(name);
    let x = fixture.tensor::<5>("input.x", &device).require_grad();
    match name {
        "patch_discriminator" => {
            let model = fixture.discriminator(&device).with_residency(policy);
            let features = model.forward(x.clone().cast(dtype));
            let logits = features[features.len() - 1].clone();
            let loss = l2_loss(logits.clone(), Tensor::ones_like(&logits));
            let outputs = features.iter().enumerate().map(|(at, feature)| (format!("feature_{at}"), feature.clone()));
            outcome(&model, x, outputs.collect(), loss, objective)
        }
        "vq_vae" => {
            let model = fixture.evaluated(fixture.vq_vae_config().init(&device)).with_residency(policy);
            let (reconstruction, quantization_loss) = model.forward(x.clone().cast(dtype));
            let loss = l1_loss(reconstruction.clone(), x.clone().detach()) + quantization_loss.clone();
            let outputs = [("reconstruction", reconstruction), ("quantization_loss", quantization_loss.unsqueeze())];
            outcome(&model, x, outputs.map(|(name, output)| (name.to_string(), output)).into(), loss, objective)
        }
        "vae3d_ultra_lightweight" => {
            let model = fixture.evaluated(Vae3dConfig::ultra_lightweight().init(&device)).with_residency(policy);
            let (mean, sigma) = model.encode(x.clone().cast(dtype));
            let reconstruction = model.decode(mean.clone());
            let target = x.clone().detach();
            let loss = VaeLoss::default().forward(reconstruction.clone(), target, mean.clone(), sigma.clone());
            let outputs = [("mean", mean), ("logvar", sigma.log() * 2.0), ("reconstruction", reconstruction)];
            outcome(&model, x, outputs.map(|(name, output)| (name.to_string(), output)).into(), loss, objective)
        }
        "unet_residual" | "unet_plain" | "unet_group" | "unet_batch" => {
            let model = fixture.loaded(fixture.unet_config().init(&device)).with_residency(policy);
            let logits = model.forward(x.clone().cast(dtype));
            let loss = DiceCeLoss::new().forward(logits.clone(), fixture.labels(logits.dims(), &device));
            outcome(&model, x, vec![("logits".to_string(), logits)], loss, objective)
        }
        "dyn_unet" | "dyn_unet_residual" | "dyn_unet_batch" => {
            let model = fixture.loaded(fixture.dyn_unet_config().init(&device)).with_residency(policy);
            let logits = model.forward(x.clone().cast(dtype));
            let loss = DiceCeLoss::new().forward(logits.clone(), fixture.labels(logits.dims(), &device));
            outcome(&model, x, vec![("logits".to_string(), logits)], loss, objective)
        }
        name if name.starts_with("diffusion_unet") => {
            let model = fixture.loaded(fixture.diffusion_config().init(&device)).with_residency(policy);
            let times: Vec<f32> = fixture.integers("input.timesteps").iter().map(|time| *time as f32).collect();
            let times = Tensor::from_floats(times.as_slice(), &device);
            let prediction = model.forward(x.clone().cast(dtype), times, fixture.diffusion_conditions(&device));
            let target = match name {
                "diffusion_unet" => fixture.tensor("input.target", &device),
                _ => Tensor::zeros_like(&prediction),
            };
            let loss = l2_loss(prediction.clone(), target);
            outcome(&model, x, vec![("prediction".to_string(), prediction)], loss, objective)
        }
        name if name.starts_with("sr3") => {
            let model = fixture.loaded(fixture.sr3_config().init(&device)).with_residency(policy);
            let prediction = model.forward(x.clone().cast(dtype), fixture.tensor("input.levels", &device));
            refined(&model, x, prediction, objective)
        }
        "edsr" | "edsr_three" => {
            let model = fixture.loaded(fixture.edsr_config().init(&device)).with_residency(policy);
            refined(&model, x.clone(), model.forward(x.cast(dtype)), objective)
        }
        "unet2d" => {
            let model = fixture.loaded(fixture.unet2d_config().init(&device)).with_residency(policy);
            refined(&model, x.clone(), model.forward(x.cast(dtype)), objective)
        }
        name if name.contains("fno") => {
            let model = fixture.loaded(fixture.fno_config().init(&device)).with_residency(policy);
            let prediction = model.forward(x.clone().cast(dtype));
            let loss = l2_loss(prediction.clone(), Tensor::zeros_like(&prediction));
            outcome(&model, x, vec![("prediction".to_string(), prediction)], loss, objective)
        }
        "conv_lstm" => {
            let model = fixture.evaluated(ConvLstmConfig::new(4).init(&device)).with_residency(policy);
            forecast(&model, x.clone(), model.forward(x.cast(dtype)), objective)
        }
        "cnn3d_lstm" | "cnn3d_lstm_lite" | "cnn3d_lstm_micro" => {
            let config = [Cnn3dLstmConfig::original, Cnn3dLstmConfig::lite, Cnn3dLstmConfig::micro];
            let config = config[["", "_lite", "_micro"].iter().position(|end| &name[10..] == *end).unwrap()](4);
            let model = fixture.evaluated(config.init(&device)).with_residency(policy);
            forecast(&model, x.clone(), model.forward(x.cast(dtype)), objective)
        }
        _ => {
            let model = fixture.autoencoder(&device).with_residency(policy);
            let (mean, sigma) = model.encode(x.clone().cast(dtype));
            let reconstruction = model.decode(mean.clone());
            let loss = l1_loss(reconstruction.clone(), x.clone().detach())
                + kl_divergence_mean(mean.clone(), sigma.clone()) * 1e-3;
            let outputs = [("mu", mean), ("sigma", sigma), ("reconstruction", reconstruction)];
            outcome(&model, x, outputs.map(|(name, output)| (name.to_string(), output)).into(), loss, objective)
        }
    }
}

/// Parameters and buffers of the VQ-VAE before and after two forward passes in training, and what MONAI has after them.
pub fn codebook_moved(device: &Device, policy: ResidencyPolicy) -> (Values, Values, Tensors) {
    let (device, fixture) = (device.clone().autodiff(), Fixture::read("vq_vae"));
    let mut model = fixture.vq_vae_config().init(&device).with_residency(policy);
    weights::load_under(&mut model, &fixture.path, "weight.").unwrap();
    for _ in 0..2 {
        let (reconstruction, loss) = model.forward(fixture.tensor("input.x", &device));
        (reconstruction.mean() + loss).backward();
    }
    (fixture.values("weight."), state(&model), read_tensors("vq_vae_after"))
}

/// The scores of a discriminator's logits by criterion and label: found, and MONAI's.
pub fn adversarial_scores(device: &Device) -> Vec<(String, f32, f32)> {
    let text = std::fs::read_to_string(fixture_path("adversarial_loss.json")).unwrap();
    let reference: Value = serde_json::from_str(&text).unwrap();
    let logits: Vec<Vec<f32>> = serde_json::from_value(reference["logits"].clone()).unwrap();
    let tensor = |values: &Vec<f32>| Tensor::<1>::from_floats(values.as_slice(), device).reshape([1, 1, 1, 1, -1]);
    let logits: Vec<Tensor<5>> = logits.iter().map(tensor).collect();
    let scores: BTreeMap<String, f32> = serde_json::from_value(reference["scores"].clone()).unwrap();
    assert_eq!(scores.len(), 6);
    let scores = scores.into_iter().map(|(name, expected)| {
        let (criterion, label) = name.split_once(' ').unwrap();
        let criterion: AdversarialCriterion = serde_json::from_value(criterion.into()).unwrap();
        let score = PatchAdversarialLoss::new(criterion).score(&logits, label == "real").into_scalar::<f32>();
        (name, score, expected)
    });
    scores.collect()
}

fn forecast<M: MonaiWeights>(model: &M, x: Tensor<5>, prediction: Tensor<4>, objective: Objective) -> Outcome {
    let loss = l2_loss(prediction.clone(), Tensor::zeros_like(&prediction));
    outcome(model, x, vec![("prediction".to_string(), prediction.unsqueeze())], loss, objective)
}

fn refined<M: MonaiWeights>(model: &M, x: Tensor<5>, prediction: Tensor<5>, objective: Objective) -> Outcome {
    let loss = l2_loss(prediction.clone(), Tensor::zeros_like(&prediction));
    outcome(model, x, vec![("prediction".to_string(), prediction)], loss, objective)
}

fn outcome<M: MonaiWeights>(
    model: &M,
    x: Tensor<5>,
    outputs: Vec<(String, Tensor<5>)>,
    loss: Tensor<1>,
    objective: Objective,
) -> Outcome {
    let loss = match objective {
        Objective::Fixture => loss,
        Objective::Linear => outputs.iter().map(|(_, output)| linear(output)).reduce(|a, b| a + b).expect("outputs"),
    };
    outcome_of(model, x, outputs, loss)
}

/// What a step gives of a model, its input, its outputs and their loss.
pub fn outcome_of<M: MonaiWeights, const D: usize>(
    model: &M,
    x: Tensor<D>,
    outputs: Vec<(String, Tensor<D>)>,
    loss: Tensor<1>,
) -> Outcome {
    let gradients = loss.clone().backward();
    let mut by_name = visit(model, Some(&gradients));
    by_name.insert("x".to_string(), values(x.grad(&gradients).expect("the loss depends on the input")));
    Outcome {
        outputs: outputs.into_iter().map(|(name, output)| (name, values(output))).collect(),
        loss: loss.into_scalar::<f32>(),
        gradients: by_name,
        state: state(model),
    }
}

/// The sum of a tensor times weights from -1 to 1, in float32.
fn linear(output: &Tensor<5>) -> Tensor<1> {
    let dims = output.dims();
    let weights = (0..dims.iter().product()).map(|index: usize| (index * 37 % 101) as f32 / 50.0 - 1.0).collect();
    let weights = Tensor::<5>::from_data(TensorData::new::<f32, _>(weights, dims), &output.device());
    (output.clone().cast(DType::F32) * weights).sum()
}

pub fn values<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.cast(DType::F32).into_data().try_to_vec().unwrap()
}

/// How many numbers of a model are trained: all but its running estimates.
pub fn trained_parameters<M: Module>(model: &M) -> usize {
    struct Count(usize);
    impl ModuleVisitor for Count {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            self.0 += if param.val().is_require_grad() { param.val().shape().num_elements() } else { 0 };
        }
    }
    let mut count = Count(0);
    model.visit(&mut count);
    count.0
}

/// Parameters and buffers by MONAI's names.
pub fn state<M: MonaiWeights>(model: &M) -> Values {
    visit(model, None)
}

/// The gradients of a model's parameters, or without gradients its parameters and buffers.
pub fn visit<M: MonaiWeights>(model: &M, gradients: Option<&Gradients>) -> Values {
    let mut visitor = Visitor { path: Vec::new(), gradients, found: Values::new() };
    model.visit(&mut visitor);
    visitor.found.into_iter().map(|(path, values)| (M::monai_name(&path), values)).collect()
}

struct Visitor<'a> {
    path: Vec<String>,
    gradients: Option<&'a Gradients>,
    found: Values,
}

impl ModuleVisitor for Visitor<'_> {
    fn enter_module(&mut self, name: &str, container: &str) {
        if !container.starts_with("Enum:") {
            self.path.push(name.to_string());
        }
    }

    fn exit_module(&mut self, _name: &str, container: &str) {
        if !container.starts_with("Enum:") {
            self.path.pop();
        }
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let path = self.path.join(".");
        match self.gradients {
            None => self.found.extend([(path, values(param.val()))]),
            Some(gradients) => {
                self.found.extend(param.val().grad(gradients).map(|gradient| (path, values(gradient))));
            }
        }
    }
}

/// `|found - expected| / |expected|`.
pub fn relative_error(found: &[f32], expected: &[f32]) -> f64 {
    assert_eq!(found.len(), expected.len());
    let norm = |values: &mut dyn Iterator<Item = f64>| values.map(|value| value * value).sum::<f64>().sqrt();
    let difference = norm(&mut found.iter().zip(expected).map(|(a, b)| f64::from(a - b)));
    difference / norm(&mut expected.iter().map(|value| f64::from(*value))).max(f64::MIN_POSITIVE)
}

/// The length of a vector.
pub fn norm(values: &[f32]) -> f64 {
    values.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>().sqrt()
}

/// Removes from both the gradients that are zero but for rounding, after checking that they are.
///
/// Some biases change nothing: that of the keys adds the same to all scores of a query, which softmax does not see, and a
/// norm subtracts what a bias adds to its group. Their gradients are sums that cancel, there as here, and what is left is
/// the rounding of their terms. So the gradient of a bias is taken for zero where it is expected to be less than
/// [`CANCELLED`] of the gradient of the weight beside it, whatever its name; what was found must then be less than `most`
/// of it.
pub fn remove_cancelled(found: &mut Values, expected: &mut Values, most: f64) {
    let weights =
        |values: &Values, bias: &str| Some(norm(values.get(&format!("{}.weight", bias.strip_suffix(".bias")?))?));
    let is_cancelled =
        |bias: &String| weights(expected, bias).is_some_and(|weight| norm(&expected[bias]) < CANCELLED * weight);
    let names: Vec<String> = expected.keys().filter(|name| is_cancelled(name)).cloned().collect();
    for name in names {
        let weight = weights(expected, &name).expect("its weight is there");
        expected.remove(&name);
        let bias = norm(&found.remove(&name).expect("there as here"));
        assert!(bias < most * weight, "{name}: the gradient is {bias:e}, that of its weight {weight:e}");
    }
}

/// Between the two kinds: where the gradient of a bias is zero, the fixtures have at most 1e-7 of the gradient of its weight,
/// and elsewhere at least 1e-2.
pub const CANCELLED: f64 = 1e-5;

/// The unit roundoff of a half precision: rounding to nearest changes a value by at most so much of itself. 8 bits of
/// significand in bfloat16 and 11 in float16, the leading one included.
fn unit_roundoff(dtype: DType) -> f64 {
    match dtype {
        DType::BF16 => 2f64.powi(-8),
        DType::F16 => 2f64.powi(-11),
        dtype => panic!("{dtype:?} is no half precision"),
    }
}

/// How far half precision may be from float32, relative, in the 2-norm over all outputs and over all gradients.
///
/// Sums are in float32, so what counts is the rounding of what is stored. It changes a value by at most the unit roundoff `u`,
/// by 0.4 `u` in the mean of squares. After `n` tensors in a chain, independent errors come to 0.4 `u` times the root of `n`;
/// twice that is allowed. Gradients have the errors of the saved activations and of backward's own `n` tensors in them, and a
/// derivative multiplies several of them: 2 `u` times the root of `n`. (Rounding the output of every layer in PyTorch, and
/// its gradient, gives three quarters of these bounds and less.)
#[derive(Clone, Copy, Debug)]
pub struct Rounded {
    /// Tensors that are stored from the input to the output.
    stored: f64,
    /// Whether the derivative of an activation jumps.
    has_kinks: bool,
}

impl Rounded {
    /// A model that stores so many tensors one after the other.
    pub fn smooth(stored: u32) -> Self {
        Self { stored: f64::from(stored), has_kinks: false }
    }

    /// The same with activations whose derivative jumps at zero: the values that rounding carries over it, about a share `u`
    /// of them, have another derivative altogether, which is an error of the root of that share.
    pub fn with_kinks(stored: u32) -> Self {
        Self { has_kinks: true, ..Self::smooth(stored) }
    }

    fn of_outputs(self, dtype: DType) -> f64 {
        0.8 * unit_roundoff(dtype) * self.stored.sqrt()
    }

    fn of_gradients(self, dtype: DType) -> f64 {
        match self.has_kinks {
            false => 2.0 * unit_roundoff(dtype) * self.stored.sqrt(),
            true => 1.5 * unit_roundoff(dtype).sqrt(),
        }
    }
}

/// Compares a fixture's model in half precision on a device with float32 on the CPU.
pub fn check_half(device: Device, name: &str, dtype: DType, model: Rounded) {
    let expected = run_fixture_linear(Device::flex(), name, DType::F32);
    let found = run_fixture_linear(device, name, dtype);
    let error = |found: &Values, expected: &Values| {
        assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
        let all = |values: &Values| values.values().flatten().copied().collect::<Vec<_>>();
        relative_error(&all(found), &all(expected))
    };
    let errors = [error(&found.outputs, &expected.outputs), error(&found.gradients, &expected.gradients)];
    let bounds = [model.of_outputs(dtype), model.of_gradients(dtype)];
    println!("{name} {dtype:?}: outputs and gradients off by {errors:?}, at most {bounds:?}");
    // an error that is not a number is not below
    assert!(errors[0] < bounds[0] && errors[1] < bounds[1], "{name} {dtype:?}: {errors:?}, at most {bounds:?}");
    assert!(errors[0] > 1e-6, "{name} was computed in float32");
}

/// The largest relative error, after checking that both have the same names.
pub fn worst(found: &Values, expected: &Values) -> (f64, String) {
    assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
    let errors = expected.iter().map(|(name, values)| (relative_error(&found[name], values), name.clone()));
    errors.max_by(|a, b| a.0.total_cmp(&b.0)).unwrap()
}

/// The convolutions that run forward in a recording for the CPU.
pub fn convolutions(operations: &[OperationIr]) -> usize {
    let is_convolution = |operation: &&OperationIr| match operation {
        OperationIr::Custom(operation) => matches!(Marker::of(operation), Some(Marker::Kernel { name: "conv3d", .. })),
        _ => false,
    };
    operations.iter().filter(is_convolution).count()
}
