//! Lift-Splat-Shoot behind its backbone, equal to `make_bev_fixtures.py`, which writes it down in PyTorch in float64.

use std::sync::Arc;

use burn::module::Module;
use burn::prelude::*;
use leanburn_common::Camera;
use leanburn_nn::losses::{OccupancyCriterion, expected_depth_loss};
use leanburn_nn::models::{
    BevDiffusionHead, BevGridConfig, Lift, LiftSplatShoot, LiftSplatShootConfig, PyramidHead, PyramidHeadConfig,
    SwinTransformer2dConfig,
};
use leanburn_nn::weights::MonaiWeights;
use leanburn_ops::{BevCells, ResidencyPolicy, bev_pool};
use serde_json::Value;

use crate::common::swin::{Parameters, about, pairs, tensor, with_weights};
use crate::common::{Outcome, Values, outcome_of, read_integers, read_tensors, relative_error, values, visit};

const NAME: &str = "lift_splat_shoot";

/// The parts of the model that are not its backbone, under the names of the whole.
#[derive(Module, Debug)]
struct Parts {
    lift: Lift,
    head: PyramidHead,
}

impl MonaiWeights for Parts {
    fn monai_name(path: &str) -> String {
        LiftSplatShoot::monai_name(path)
    }
}

fn read<T: serde::de::DeserializeOwned>(value: &Value) -> T {
    serde_json::from_value(value.clone()).unwrap()
}

fn cameras(about: &Value) -> Vec<Vec<Camera>> {
    let camera = |camera: &Value| Camera {
        intrinsics: read(&camera["intrinsics"]),
        rotation: read(&camera["rotation"]),
        translation: read(&camera["translation"]),
        augmentation: read(&camera["augmentation"]),
    };
    let rigs = about["cameras"].as_array().unwrap();
    rigs.iter().map(|rig| rig.as_array().unwrap().iter().map(camera).collect()).collect()
}

fn grid_and_cells(about: &Value) -> (BevGridConfig, Arc<BevCells>) {
    let args = &about["args"];
    let range = |name: &str| read(&args[name]);
    let grid = BevGridConfig { x: range("x"), y: range("y"), z: range("z"), depth: range("depth") };
    let cells = grid.cells(&cameras(about), read(&args["image_size"]), read(&args["lifted_size"]));
    (grid, Arc::new(cells))
}

#[test]
fn points_lie_in_the_cells_of_the_reference_and_are_pooled_as_by_its_cumulative_sum() {
    let (device, about, expected) = (Device::flex().autodiff(), about(NAME), read_tensors(NAME));
    let (_, cells) = grid_and_cells(&about);
    let found = (0..cells.batch_size()).flat_map(|item| (0..cells.bins()).map(move |bin| (item, bin)));
    let found = found.flat_map(|(item, bin)| cells.cells(item, bin).iter());
    let number = |cell: &u32| if *cell == BevCells::OUTSIDE { -1 } else { i64::from(*cell) };
    assert_eq!(found.map(number).collect::<Vec<_>>(), read_integers(NAME, "pool.cells"));

    let shape = |channels| [2, channels, 2, 4, 6];
    let features = tensor::<5>(2000, &shape(5), &device).require_grad();
    let depth = tensor::<5>(2001, &shape(8), &device).require_grad();
    let pooled = bev_pool(features.clone(), depth.clone(), &cells);
    let gradients = (pooled.clone() * tensor(2002, &pooled.dims(), &device)).sum().backward();
    for (name, found) in [
        ("pool.output", values(pooled)),
        ("pool.grad.features", values(features.grad(&gradients).unwrap())),
        ("pool.grad.depth", values(depth.grad(&gradients).unwrap())),
    ] {
        let error = relative_error(&found, &expected[name].1);
        assert!(error < 1e-6, "{name}: {error:e}");
    }
}

/// 1 where the formula's number is above a bound.
fn above(bound: f64, stream: u64, shape: [usize; 5], device: &Device) -> Tensor<5> {
    tensor::<5>(stream, &shape, device).greater_elem(bound).float()
}

fn check(outcome: &Outcome, name: &str) {
    let pairs = pairs(outcome, &read_tensors(name), "");
    assert!(pairs.len() > 10);
    for (value, found, expected) in pairs {
        let most = if outcome.outputs.contains_key(&value) { 1e-5 } else { 1e-4 };
        let error = relative_error(&found, &expected);
        assert!(error < most, "{name}, {value}: {error:e}");
    }
}

#[test]
fn a_map_and_its_losses_are_the_references() {
    let (device, about, expected) = (Device::flex().autodiff(), about(NAME), read_tensors(NAME));
    let (args, (grid, cells)) = (&about["args"], grid_and_cells(&about));
    let number = |name: &str| args[name].as_u64().unwrap() as usize;
    let (bins, priors) = (grid.depths(), read::<Vec<f64>>(&args["priors"]));
    let head = PyramidHeadConfig::new(2 * (number("bev_channels") + 1), priors.clone())
        .with_channels(number("head_channels"))
        .with_layers(read(&args["layers"]))
        .with_strides(read(&args["strides"]))
        .with_norm_num_groups(number("groups"));
    let lift = Lift::new(number("in_channels"), bins.len(), number("bev_channels"), true, &device);
    let parts = Parts { lift, head: head.init(&device) };
    let parameters: Parameters = read(&about["parameters"]);
    let parts = with_weights(parts, &parameters);

    let x = tensor::<5>(1000, &[4, number("in_channels"), 1, 4, 6], &device).require_grad();
    let (view, depth_logits) = parts.lift.forward(x.clone(), &cells);
    let (logits, features) = parts.head.forward(view.clone());
    let labels = above(0.6, 1001, logits.dims(), &device);
    let seen = above(-0.5, 1002, [2, 1, 1, 16, 16], &device);
    let shape = [2, 1, 2, 4, 6];
    let depth = (tensor::<5>(1003, &shape, &device) * 4.0 + 5.0) * above(-0.5, 1003, shape, &device);
    let of_map = OccupancyCriterion::new(priors).forward(logits.clone(), labels, seen);
    let of_depth = expected_depth_loss(depth_logits.clone(), &bins, depth);
    for (name, loss) in [("loss.map", &of_map), ("loss.depth", &of_depth)] {
        let error = relative_error(&values(loss.clone()), &expected[name].1);
        assert!(error < 1e-5, "{name}: {error:e}");
    }
    let outputs = [("view", view), ("depth_logits", depth_logits), ("features", features), ("logits", logits)];
    let outputs = outputs.map(|(name, output)| (name.to_string(), output)).into();
    check(&outcome_of(&parts, x, outputs, of_map + of_depth * args["depth_weight"].as_f64().unwrap()), NAME);
}

#[test]
fn the_noise_of_a_map_is_the_references() {
    let (device, about) = (Device::flex().autodiff(), about("bev_diffusion_head"));
    let parameters: Parameters = read(&about["parameters"]);
    let head = with_weights(BevDiffusionHead::new(3, 8, &device), &parameters);
    let noisy = tensor::<5>(1000, &[2, 3, 1, 6, 5], &device).require_grad();
    let features = tensor::<5>(1001, &[2, 8, 1, 6, 5], &device).require_grad();
    let noise = head.forward(noisy.clone(), features.clone(), Tensor::from_floats([17.0, 803.0], &device));
    let loss = (noise.clone() - tensor(1002, &noise.dims(), &device)).square().mean();
    let all = loss.backward();
    let mut gradients = visit(&head, Some(&all));
    for (name, input) in [("x", noisy), ("features", features)] {
        gradients.insert(name.to_string(), values(input.grad(&all).unwrap()));
    }
    let outputs = Values::from([("noise".to_string(), values(noise))]);
    check(&Outcome { outputs, loss: 0.0, gradients, state: Values::new() }, "bev_diffusion_head");
}

/// The whole model: the residency decides where intermediate results live and never what comes out.
#[test]
fn residency_changes_no_bit_of_a_map() {
    let device = Device::flex().autodiff();
    let grid = BevGridConfig::new().with_x([-8.0, 8.0, 2.0]).with_z([1.0, 17.0, 2.0]).with_depth([1.0, 17.0, 2.0]);
    let backbone = SwinTransformer2dConfig::new().with_embed_dim(8).with_depths(vec![1, 2]).with_num_heads(vec![1, 2]);
    let config = LiftSplatShootConfig::new([32, 48])
        .with_backbone(backbone.with_window_size([4, 4]))
        .with_grid(grid)
        .with_bev_channels(8)
        .with_priors(vec![0.4, 0.1])
        .with_head_channels(16)
        .with_head_layers(vec![2, 1])
        .with_norm_num_groups(4)
        .with_diffusion(true);
    let camera = Camera::pinhole(30.0, [32, 48]).at([0.0, -1.5, 0.0]);
    let cells = Arc::new(config.cells(&[vec![camera; 2], vec![camera.at([1.0, -1.0, 0.0]); 2]]));
    let run = |policy: ResidencyPolicy| {
        leanburn_ops::random::seed(&device, 3);
        let model = config.init(&device).with_residency(policy);
        let images = tensor::<5>(1000, &[2, 3, 2, 32, 48], &device).require_grad();
        let view = model.forward(images.clone(), &cells);
        let noise =
            model.noise(view.logits.clone().detach(), view.features, Tensor::from_floats([5.0, 900.0], &device));
        let weigh = |output: &Tensor<5>, stream| (output.clone() * tensor(stream, &output.dims(), &device)).sum();
        let loss = weigh(&view.logits, 1001) + weigh(&noise, 1002) + weigh(&view.depth_logits, 1003);
        let outputs = vec![("logits".to_string(), view.logits), ("noise".to_string(), noise)];
        (model.segments(), outcome_of(&model, images, outputs, loss))
    };
    let (segments, kept) = run(ResidencyPolicy::keep());
    let expected = [
        "backbone.stage_0.block_0",
        "backbone.stage_0.merging",
        "backbone.stage_1.block_0",
        "backbone.stage_1.block_1",
    ];
    assert_eq!(segments[..4], expected);
    assert_eq!(
        segments[4..],
        ["lift", "head.layer_0.block_0", "head.layer_0.block_1", "head.layer_1.block_0", "diffusion"]
    );
    assert!(kept.gradients.len() > 70, "{}", kept.gradients.len());
    let (_, recomputed) = run(ResidencyPolicy::recompute_all());
    assert_eq!(recomputed.differing(&kept), Vec::<String>::new());
}
