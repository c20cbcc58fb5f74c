//! A consistency model of normal data, whose closed form is known.

use burn::tensor::{Device, Int, Tensor};
use leanburn_nn::consistency::{ConsistencyLoss, Distance, NoiseLevels, Weighting, heun_step, one_step};
use leanburn_nn::diffusion::EdmPreconditioning;
use leanburn_ops::random;

use crate::common::values;

/// Deviation of the data.
const DATA: f64 = 0.5;
const LEVELS: usize = 24;
const ITEMS_PER_LEVEL: usize = 8;
const STEPS: usize = 150;

/// A number for each item, to be broadcast.
fn per_item(values: Tensor<1>) -> Tensor<5> {
    values.reshape([-1, 1, 1, 1, 1])
}

/// The denoised volume of the data.
fn exact_teacher(x: Tensor<5>, sigma: Tensor<1>) -> Tensor<5> {
    x * per_item((sigma.clone() * sigma + DATA * DATA).recip() * (DATA * DATA))
}

/// A model with one weight for each noise level is distilled; in one step it makes samples of the data's deviation.
#[test]
fn a_distilled_model_is_close_to_the_closed_form() {
    let device = Device::flex().autodiff();
    random::seed(&device, 11);
    let levels = NoiseLevels::default();
    let sigmas: Vec<f32> = levels.discretised(LEVELS).into_iter().map(|sigma| sigma as f32).collect();
    let preconditioning = EdmPreconditioning::consistency(DATA, levels.sigma_min);
    let loss = ConsistencyLoss { preconditioning, distance: Distance::L2, weighting: Weighting::Uniform };
    let pairs = LEVELS - 1;
    let index = Tensor::<1, Int>::arange(0..(pairs * ITEMS_PER_LEVEL) as i64, &device) / ITEMS_PER_LEVEL as i32;
    let sigma = |index: Tensor<1, Int>| Tensor::<1>::from_floats(sigmas.as_slice(), &device).select(0, index);
    let [_, out, _] = preconditioning.coefficients(Tensor::<1>::from_floats(&sigmas[..pairs], &device));
    // Newton's step: the loss is quadratic in each weight
    let rate = (out.clone() * out).recip() * (pairs as f64 / 2.0);
    let mut weights = Tensor::<1>::zeros([LEVELS], &device);
    let mut losses = Vec::new();
    for _ in 0..STEPS {
        weights = weights.detach().require_grad();
        let network = |weights: Tensor<1>, index: Tensor<1, Int>| {
            move |x: Tensor<5>, _: Tensor<1>| x * per_item(weights.select(0, index))
        };
        let items = [pairs * ITEMS_PER_LEVEL, 1, 1, 1, 1];
        let (sample, noise) = (random::normal(items, &device) * DATA, random::normal(items, &device));
        let pair = heun_step(sample, noise, [sigma(index.clone()), sigma(index.clone() + 1)], |x, sigma| {
            exact_teacher(x, sigma)
        });
        let value = loss.forward(
            pair,
            network(weights.clone(), index.clone()),
            network(weights.clone().detach(), index.clone() + 1),
        );
        let gradient = weights.grad(&value.backward()).expect("the loss depends on the weights");
        let gradient = Tensor::<1>::from_inner(gradient).narrow(0, 0, pairs);
        losses.push(value.into_scalar::<f32>());
        let moved = weights.clone().narrow(0, 0, pairs) - gradient * rate.clone() * 0.7;
        weights = Tensor::cat(vec![moved, weights.narrow(0, pairs, 1)], 0);
    }
    assert!(losses[STEPS - 1] < 1e-3 * losses[0], "{losses:?}");
    let weight = weights.detach().narrow(0, 0, 1);
    let sample = one_step(Tensor::<5>::ones([1, 1, 1, 1, 1], &device), levels.sigma_max, |x, sigma| {
        let sigma = Tensor::<1>::from_floats([sigma as f32], &device);
        preconditioning.denoise(x, sigma, |x, _| x * per_item(weight.clone()))
    });
    let least = levels.sigma_min;
    let exact = levels.sigma_max * ((DATA * DATA + least * least) / (DATA * DATA + levels.sigma_max.powi(2))).sqrt();
    let ratio = f64::from(values(sample)[0]) / exact;
    println!("one step: {ratio:.4} of the closed form");
    assert!((ratio - 1.0).abs() < 0.05, "{ratio}");
}
