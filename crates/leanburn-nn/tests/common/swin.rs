//! Swin UNETR and the Swin transformer with weights made by a formula, as `make_swin_{unetr,transformer2d}_fixtures.py` make them.

use std::collections::HashMap;

use burn::prelude::*;
use burn::tensor::TensorData;
use leanburn_nn::blocks::{NormConfig, UnetBlockConfig, UnetUpBlockConfig};
use leanburn_nn::models::{Merging, SwinTransformer2d, SwinTransformer2dConfig, SwinUnetr, SwinUnetrConfig};
use leanburn_nn::weights::{self, MonaiWeights};
use leanburn_ops::ResidencyPolicy;
use safetensors::tensor::{Dtype, TensorView, serialize_to_file};
use serde_json::Value;

use super::{Outcome, Tensors, Values, fixture_path, outcome_of, read_tensors, values, visit};

/// Numbers from -1 to 1, by a hash of 32 bits of stream and place.
fn numbers(stream: u64, length: usize) -> Vec<f32> {
    let number = |place: u64| {
        let mut x = ((place + 1) * 2_654_435_761 + stream * 40_503 * 65_537) & 0xffff_ffff;
        for (shift, factor) in [(16, 0x85eb_ca6b), (13, 0xc2b2_ae35), (16, 1)] {
            x = ((x ^ (x >> shift)) * factor) & 0xffff_ffff;
        }
        (x as f64 / 2f64.powi(31) - 1.0) as f32
    };
    (0..length as u64).map(number).collect()
}

fn weight(name: &str, stream: u64, shape: &[usize]) -> Vec<f32> {
    let numbers = numbers(stream, shape.iter().product());
    if name.ends_with("relative_position_bias_table") {
        return numbers;
    }
    if let [_] = shape {
        let middle = if name.contains("norm") && name.ends_with("weight") { 1.0 } else { 0.0 };
        return numbers.into_iter().map(|number| middle + 0.25 * number).collect();
    }
    let factor = (2.0 / shape[1..].iter().product::<usize>() as f64).sqrt() as f32;
    numbers.into_iter().map(|number| number * factor).collect()
}

/// Evenly spaced values, at most so many.
fn spaced(values: &[f32], most: usize) -> Vec<f32> {
    values.iter().step_by((values.len() / most).max(1)).take(most).copied().collect()
}

/// Names and shapes of parameters in MONAI.
pub type Parameters = Vec<(String, Vec<usize>)>;

/// A model with the weights of the formula, by way of a file with MONAI's names.
pub fn with_weights<M: MonaiWeights>(mut model: M, parameters: &Parameters) -> M {
    let of = |(stream, (name, shape)): (usize, &(String, Vec<usize>))| {
        let values = weight(name, stream as u64, shape);
        let bytes = values.into_iter().flat_map(f32::to_le_bytes).collect::<Vec<_>>();
        (name.clone(), shape.clone(), bytes)
    };
    let tensors: Vec<_> = parameters.iter().enumerate().map(of).collect();
    let views: HashMap<_, _> = tensors
        .iter()
        .map(|(name, shape, bytes)| (name, TensorView::new(Dtype::F32, shape.clone(), bytes).unwrap()))
        .collect();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("formula.safetensors");
    serialize_to_file(views, None, &path).unwrap();
    weights::load(&mut model, &path).unwrap();
    model
}

/// A tensor of the formula's numbers.
pub fn tensor<const D: usize>(stream: u64, shape: &[usize], device: &Device) -> Tensor<D> {
    let values = numbers(stream, shape.iter().product());
    Tensor::from_data(TensorData::new(values, shape.to_vec()), device)
}

/// The sum of a tensor times the formula's numbers.
fn linear<const D: usize>(output: &Tensor<D>, stream: u64) -> Tensor<1> {
    (output.clone() * tensor::<D>(stream, &output.dims(), &output.device())).sum()
}

pub fn about(name: &str) -> Value {
    let text = std::fs::read_to_string(fixture_path(&format!("{name}.json"))).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// Found and expected values by name, evenly spaced ones where not all were written.
pub type Pairs = Vec<(String, Vec<f32>, Vec<f32>)>;

/// Pairs the values of a step with those under `prefix`.
pub fn pairs(outcome: &Outcome, expected: &Tensors, prefix: &str) -> Pairs {
    let named = expected.iter().filter_map(|(name, (_, values))| Some((name.strip_prefix(prefix)?, values)));
    let pair = |(name, expected): (&str, &Vec<f32>)| {
        let found = match name.split_once('.')? {
            ("output", name) => &outcome.outputs[name],
            ("grad", name) => &outcome.gradients[name],
            _ => return None,
        };
        Some((name.to_string(), spaced(found, expected.len()), expected.clone()))
    };
    named.filter_map(pair).collect()
}

/// One step of a `UnetUpBlock`, beside MONAI's `UnetrUpBlock`.
pub fn up_block(name: &str, norm: NormConfig) -> Pairs {
    let (about, device) = (about(name), Device::flex().autodiff());
    let shapes: Vec<Vec<usize>> = serde_json::from_value(about["shapes"].clone()).unwrap();
    let parameters: Parameters = serde_json::from_value(about["parameters"].clone()).unwrap();
    let block = UnetBlockConfig::new([shapes[0][1], shapes[1][1]]).with_norm(norm);
    let model = with_weights(UnetUpBlockConfig::new(block).init(&device), &parameters);
    let [below, skip] = [0, 1].map(|at: usize| tensor::<5>(1000 + at as u64, &shapes[at], &device).require_grad());
    let output = model.forward(below.clone(), skip.clone());
    let of_inputs = linear(&output, 1002).backward();
    let mut gradients = visit(&model, Some(&of_inputs));
    for (name, input) in [("below", below), ("skip", skip)] {
        gradients.insert(name.to_string(), values(input.grad(&of_inputs).unwrap()));
    }
    let outputs = Values::from([("output".to_string(), values(output))]);
    let outcome = Outcome { outputs, loss: 0.0, gradients, state: Values::new() };
    pairs(&outcome, &read_tensors(name), "")
}

/// Arguments, names and shapes of a fixture, and what MONAI computes.
pub struct SwinFixture {
    pub config: SwinUnetrConfig,
    shape: Vec<usize>,
    parameters: Parameters,
    expected: Tensors,
}

impl SwinFixture {
    pub fn read(name: &str) -> Self {
        let about = about(name);
        let args = &about["args"];
        let number = |key: &str| args[key].as_u64().unwrap() as usize;
        let list = |key: &str| serde_json::from_value::<Vec<usize>>(args[key].clone());
        let config = SwinUnetrConfig::new(number("in_channels"), number("out_channels"))
            .with_feature_size(number("feature_size"))
            .with_num_heads(list("num_heads").unwrap().try_into().unwrap())
            .with_depths(list("depths").map_or([2; 4], |depths| depths.try_into().unwrap()))
            .with_window_size(list("window_size").map_or([7; 3], |window| window.try_into().unwrap()))
            .with_normalize(args["normalize"].as_bool().unwrap_or(true))
            .with_use_v2(args["use_v2"].as_bool().unwrap_or(false))
            .with_downsample(match args["downsample"].as_str() {
                Some("mergingv2") => Merging::MergingV2,
                _ => Merging::Merging,
            });
        Self {
            config,
            shape: serde_json::from_value(about["shape"].clone()).unwrap(),
            parameters: serde_json::from_value(about["parameters"].clone()).unwrap(),
            expected: read_tensors(name),
        }
    }

    /// Names of the parameters in MONAI.
    pub fn names(&self) -> Vec<String> {
        self.parameters.iter().map(|(name, _)| name.clone()).collect()
    }

    pub fn num_parameters(&self) -> usize {
        self.parameters.iter().map(|(_, shape)| shape.iter().product::<usize>()).sum()
    }

    /// The model with the weights of the formula.
    pub fn model(&self, device: &Device) -> SwinUnetr {
        with_weights(self.config.init(device), &self.parameters)
    }

    /// One step: the loss is the sum of the squares of the logits.
    pub fn run(&self, policy: ResidencyPolicy) -> Outcome {
        let device = Device::flex().autodiff();
        let model = self.model(&device).with_residency(policy);
        let x = tensor::<5>(1000, &self.shape, &device).require_grad();
        let logits = model.forward(x.clone());
        let loss = (logits.clone() * logits.clone()).sum();
        outcome_of(&model, x, vec![("logits".to_string(), logits)], loss)
    }

    /// The same of the transformer alone: the loss is linear in what it gives.
    pub fn run_transformer(&self) -> Outcome {
        let device = Device::flex().autodiff();
        let model = self.model(&device);
        let x = tensor::<5>(1000, &self.shape, &device).require_grad();
        let stages = model.encode(x.clone());
        let losses = stages.iter().enumerate().map(|(at, stage)| linear(stage, 1001 + at as u64));
        let loss = losses.reduce(|sum, loss| sum + loss).unwrap();
        let outputs = stages.into_iter().enumerate().map(|(at, stage)| (at.to_string(), stage)).collect();
        outcome_of(&model, x, outputs, loss)
    }

    /// What a step gives beside what MONAI's gives: of the model, or of its transformer.
    pub fn compared(&self, outcome: &Outcome, of_transformer: bool) -> Pairs {
        pairs(outcome, &self.expected, if of_transformer { "transformer." } else { "" })
    }
}

/// Arguments, names and shapes of a fixture of the Swin transformer, and what torchvision computes.
pub struct Swin2dFixture {
    pub config: SwinTransformer2dConfig,
    shape: Vec<usize>,
    parameters: Parameters,
    expected: Tensors,
}

impl Swin2dFixture {
    pub fn read(name: &str) -> Self {
        let about = about(name);
        let list = |key: &str| serde_json::from_value::<Vec<usize>>(about["args"][key].clone()).unwrap();
        let config = SwinTransformer2dConfig::new()
            .with_embed_dim(about["args"]["embed_dim"].as_u64().unwrap() as usize)
            .with_depths(list("depths"))
            .with_num_heads(list("num_heads"))
            .with_window_size(list("window_size").try_into().unwrap());
        Self {
            config,
            shape: serde_json::from_value(about["shape"].clone()).unwrap(),
            parameters: serde_json::from_value(about["parameters"].clone()).unwrap(),
            expected: read_tensors(name),
        }
    }

    /// Names of the parameters in torchvision.
    pub fn names(&self) -> Vec<String> {
        self.parameters.iter().map(|(name, _)| name.clone()).collect()
    }

    pub fn num_parameters(&self) -> usize {
        self.parameters.iter().map(|(_, shape)| shape.iter().product::<usize>()).sum()
    }

    /// The model with the weights of the formula.
    pub fn model(&self, device: &Device) -> SwinTransformer2d {
        with_weights(self.config.init(device), &self.parameters)
    }

    /// One step: the loss is linear in the features.
    pub fn run(&self, policy: ResidencyPolicy) -> Outcome {
        let device = Device::flex().autodiff();
        let model = self.model(&device).with_residency(policy);
        let x = tensor::<4>(1000, &self.shape, &device).require_grad();
        let features = model.forward(x.clone());
        let loss = linear(&features, 1001);
        outcome_of(&model, x, vec![("features".to_string(), features)], loss)
    }

    /// What a step gives beside what torchvision's gives.
    pub fn compared(&self, outcome: &Outcome) -> Pairs {
        pairs(outcome, &self.expected, "")
    }
}
