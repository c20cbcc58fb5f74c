//! Perceptual losses: equal to the package `lpips` (fixture made by `tests/fixtures/make_lpips.py`), and lean.

use burn::prelude::*;
use burn::tensor::Distribution;
use leanburn_nn::losses::{FeatureLoss3dConfig, LpipsConfig, LpipsNetwork, Plane};
use leanburn_ops::recording::as_on_cpu;
use leanburn_ops::{Residency, ResidencyPolicy, backward};

use crate::common::{lpips, relative_error, values};

#[test]
fn distances_and_gradients_are_those_of_lpips() {
    for network in [LpipsNetwork::Squeeze, LpipsNetwork::Alex, LpipsNetwork::Vgg] {
        let (distances, gradients) = lpips::errors(network, &Device::flex());
        assert!(distances < 1e-5, "{}: {distances:e}", network.name());
        assert!(gradients < 1e-4, "gradient of {}: {gradients:e}", network.name());
    }
}

fn pair(shape: [usize; 5], device: &Device) -> [Tensor<5>; 2] {
    device.seed(9);
    [0, 1].map(|_| Tensor::random(shape, Distribution::Uniform(-1.0, 1.0), device))
}

/// A slice across the height or width is a slice across the depth of the turned volume.
#[test]
fn the_three_planes_are_the_three_axes() {
    let device = Device::flex();
    let weights = LpipsConfig::new().init(&device);
    let _ = weights.num_params(); // they are drawn at first use
    let with = |config: LpipsConfig, x: Tensor<5>, y: Tensor<5>| {
        let model = config.with_slice_share(1.0).init(&device).load_record(weights.clone().into_record());
        model.forward(x, y, 0).into_scalar::<f32>()
    };
    let loss = |plane, x, y| with(LpipsConfig::new().with_planes(vec![plane]), x, y);
    let [x, y] = pair([1, 1, 25, 26, 27], &device);
    for (plane, order) in [(Plane::Height, [0, 1, 3, 2, 4]), (Plane::Width, [0, 1, 4, 2, 3])] {
        let turned = loss(Plane::Depth, x.clone().permute(order), y.clone().permute(order));
        assert!((loss(plane, x.clone(), y.clone()) / turned - 1.0).abs() < 1e-5);
    }
    let all = with(LpipsConfig::new(), x.clone(), y.clone());
    let mean = Plane::ALL.map(|plane| loss(plane, x.clone(), y.clone())).iter().sum::<f32>() / 3.0;
    assert!((all / mean - 1.0).abs() < 1e-5, "{all} {mean}");
}

#[test]
fn a_share_of_the_slices_is_a_share_of_the_gradient() {
    let device = Device::flex().autodiff();
    let [x, y] = pair([1, 1, 8, 25, 25], &device);
    let x = x.require_grad();
    let loss = LpipsConfig::new().with_planes(vec![Plane::Depth]).with_slice_share(0.25).init(&device);
    let touched = |draw| -> Vec<bool> {
        let gradient = values(x.grad(&loss.forward(x.clone(), y.clone(), draw).backward()).unwrap());
        gradient.chunks(25 * 25).map(|slice| slice.iter().any(|value| *value != 0.0)).collect()
    };
    assert_eq!(touched(3).iter().filter(|touched| **touched).count(), 2);
    assert_eq!(touched(3), touched(3));
    assert!((0..10).any(|draw| touched(draw) != touched(3)), "other steps compare other slices");
}

#[test]
#[should_panic = "leave that plane out of `planes`"]
fn a_slice_that_is_too_small_is_rejected() {
    let [x, y] = pair([1, 1, 8, 25, 25], &Device::flex());
    LpipsConfig::new().init(&Device::flex()).forward(x, y, 0);
}

#[test]
fn equal_volumes_have_no_distance() {
    let device = Device::flex();
    let [x, _] = pair([1, 1, 2, 25, 25], &device);
    assert_eq!(lpips::load(LpipsNetwork::Squeeze, &device).forward(x.clone(), x, 0).into_scalar::<f32>(), 0.0);
}

/// Where no feature responds the length of the features is zero, whose root has no gradient.
#[test]
fn no_features_at_all_have_a_finite_gradient() {
    let device = Device::flex().autodiff();
    let [x, y] = pair([1, 1, 1, 25, 25], &device);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lpips.safetensors");
    let mut weights = lpips::state_dict(LpipsNetwork::Squeeze);
    weights.values_mut().for_each(|(_, values)| values.fill(0.0));
    lpips::write(&weights, &path);
    let loss = LpipsConfig::new().with_planes(vec![Plane::Depth]).load(&path, &device).unwrap();
    assert!(gradient(|x| loss.forward(x, y.clone(), 0), &x).iter().all(|value| *value == 0.0));
}

/// Gradient of the prediction under a policy.
fn gradient(loss: impl Fn(Tensor<5>) -> Tensor<1>, x: &Tensor<5>) -> Vec<f32> {
    let x = x.clone().require_grad();
    let value = loss(x.clone());
    values(x.grad(&value.backward()).unwrap())
}

#[test]
fn recomputation_changes_nothing() {
    let device = Device::flex().autodiff();
    let [x, y] = pair([1, 1, 25, 25, 25], &device);
    let lpips = LpipsConfig::new().with_slice_share(0.3).init(&device);
    let three = FeatureLoss3dConfig::new().init(&device);
    for policy in
        [ResidencyPolicy::recompute_all(), ResidencyPolicy::keep().with_rule("*.slices_1", Residency::Recompute)]
    {
        let run = |policy: ResidencyPolicy| {
            let lpips = lpips.clone().with_residency(policy.clone());
            let three = three.clone().with_residency(policy);
            [gradient(|x| lpips.forward(x, y.clone(), 5), &x), gradient(|x| three.forward(x, y.clone()), &x)]
        };
        let (lean, kept) = (run(policy), run(ResidencyPolicy::keep()));
        for (lean, kept) in lean.iter().zip(&kept) {
            // The volume collects a gradient from every segment, in another order.
            assert!(relative_error(lean, kept) < 1e-6);
        }
        assert!(kept.iter().all(|gradient| gradient.iter().any(|value| *value != 0.0)));
    }
}

/// Convolutions of a recorded loss and its gradient.
fn convolutions(loss: impl FnOnce(&Device, Tensor<5>) -> Tensor<1>) -> usize {
    let device = Device::capture();
    let captured = device.capture_scope(|scope| {
        let device = device.clone().autodiff();
        let x = Tensor::<5>::zeros([1, 1, 25, 25, 25], &device).require_grad();
        assert!(as_on_cpu(|| backward(loss(&device, x.clone())).take(&x).is_some()));
        scope.complete([], [])
    });
    let operations = captured.expect("a complete recording").graph.operations;
    crate::common::convolutions(&operations)
}

#[test]
fn recorded_losses_show_what_runs_again() {
    let lpips = |policy: ResidencyPolicy| {
        convolutions(|device, x| {
            let loss = LpipsConfig::new().with_planes(vec![Plane::Depth]).with_slice_share(0.3).init(device);
            loss.with_residency(policy).forward(x.clone(), Tensor::zeros_like(&x), 0)
        })
    };
    // Two groups of slices; 25 convolutions and 7 weighings for the prediction, 25 for the target.
    assert_eq!(lpips(ResidencyPolicy::keep()), 2 * (25 + 25 + 7));
    assert_eq!(lpips(ResidencyPolicy::recompute_all()), 2 * lpips(ResidencyPolicy::keep()));
    let three = |policy: ResidencyPolicy| {
        convolutions(|device, x| {
            let loss = FeatureLoss3dConfig::new().init(device).with_residency(policy);
            loss.forward(x.clone(), Tensor::zeros_like(&x))
        })
    };
    assert!(three(ResidencyPolicy::recompute_all()) > three(ResidencyPolicy::keep()));
}

#[test]
fn the_weights_are_fixed() {
    let device = Device::flex().autodiff();
    let lpips = lpips::load(LpipsNetwork::Squeeze, &device);
    assert_eq!(crate::common::trained_parameters(&lpips), 0);
    assert_eq!(crate::common::trained_parameters(&FeatureLoss3dConfig::new().init(&device)), 0);
    assert!(lpips.num_params() > 700_000);
}
