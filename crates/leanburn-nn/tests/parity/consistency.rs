//! Consistency models by the formulas of the papers, on a fixture made by `make_consistency_fixtures.py`, in float64; and a model of normal
//! data, whose closed form is known.

use burn::tensor::{DType, Device, Int, Tensor, TensorData};
use leanburn_nn::consistency::{
    ConsistencyLoss, Curriculum, Distance, EasyTuning, LevelWeights, Multistep, NoiseLevelPair, NoiseLevels, TargetEma,
    Weighting, heun_step, on_a_line,
};
use leanburn_nn::diffusion::{Churn, EdmPreconditioning, Karras, KarrasMethod, Sampler};
use leanburn_ops::random;
use serde_json::Value;

use crate::common::{fixture_path, values};

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
    let sampler = Multistep::spread(1, &levels, levels.sigma_min);
    let sample = sampler.sample(Tensor::<5>::ones([1, 1, 1, 1, 1], &device), |x, sigma| {
        let sigma = Tensor::<1>::from_floats([sigma as f32], &device);
        preconditioning.denoise(x, sigma, |x, _| x * per_item(weight.clone()))
    });
    let least = levels.sigma_min;
    let exact = levels.sigma_max * ((DATA * DATA + least * least) / (DATA * DATA + levels.sigma_max.powi(2))).sqrt();
    let ratio = f64::from(values(sample)[0]) / exact;
    println!("one step: {ratio:.4} of the closed form");
    assert!((ratio - 1.0).abs() < 0.05, "{ratio}");
}

fn fixture() -> Value {
    serde_json::from_str(&std::fs::read_to_string(fixture_path("consistency.json")).unwrap()).unwrap()
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap()
}

fn number(value: &Value, key: &str) -> f64 {
    value[key].as_f64().unwrap_or_else(|| panic!("{key} of {value}"))
}

fn integer(value: &Value, key: &str) -> usize {
    value[key].as_u64().unwrap() as usize
}

/// One number, in float64.
fn one(value: f64, device: &Device) -> Tensor<1> {
    Tensor::from_data(TensorData::from([value]), (device, DType::F64))
}

/// An item of as many values, in float64.
fn item(values: &[f64], device: &Device) -> Tensor<5> {
    Tensor::from_data(TensorData::new(values.to_vec(), [1, 1, 1, 1, values.len()]), (device, DType::F64))
}

fn doubles<const D: usize>(tensor: Tensor<D>) -> Vec<f64> {
    tensor.into_data().try_to_vec().unwrap()
}

#[track_caller]
fn assert_equal(found: &[f64], expected: &[f64], what: &dyn std::fmt::Debug) {
    assert_eq!(found.len(), expected.len(), "{what:?}");
    for (found, expected) in found.iter().zip(expected) {
        // a network's weight with the largest of them all is 80: what cancels is of that size
        assert!((found - expected).abs() <= 1e-12 * expected.abs().max(1.0), "{what:?}: {found} {expected}");
    }
}

#[test]
fn coefficients_levels_and_weights_are_those_of_the_formulas() {
    let (fixture, device) = (fixture(), Device::flex());
    for case in list(&fixture["coefficients"]) {
        let preconditioning =
            EdmPreconditioning { sigma_data: number(case, "data"), boundary: number(case, "boundary") };
        let sigma = one(number(case, "sigma"), &device);
        let found = preconditioning.coefficients(sigma.clone()).into_iter().chain([preconditioning.time(sigma)]);
        assert_equal(&found.flat_map(doubles).collect::<Vec<_>>(), &numbers(&case["values"]), case);
    }
    for case in list(&fixture["levels"]) {
        assert_equal(
            &NoiseLevels::default().discretised(integer(case, "count")),
            &numbers(&case["values"]),
            &case["count"],
        );
    }
    let shares = LevelWeights::IMPROVED.shares(&numbers(&fixture["shares"]["levels"]));
    assert_equal(&shares, &numbers(&fixture["shares"]["values"]), &"shares");
    for case in list(&fixture["easy"]) {
        let tuning = EasyTuning { q: number(case, "q"), ..EasyTuning::default() };
        let low = tuning.below(one(number(case, "sigma"), &device), integer(case, "stage") as u32);
        assert_equal(&doubles(low), &[number(case, "low")], case);
    }
    for case in list(&fixture["weights"]) {
        let [high, low] = ["high", "low"].map(|key| one(number(case, key), &device));
        assert_equal(&doubles(weighting(case, "name").of(high, low)), &[number(case, "value")], case);
    }
}

#[test]
fn curricula_and_averages_are_those_of_the_formulas() {
    let fixture = fixture();
    for case in list(&fixture["curricula"]) {
        let (start, end) = (integer(case, "start"), integer(case, "end"));
        let curriculum = match case["name"].as_str().unwrap() {
            "progressive" => Curriculum::Progressive { start, end },
            _ => Curriculum::Doubling { start, end },
        };
        for pair in list(&case["levels"]) {
            let [step, levels] = [0, 1].map(|index| pair[index].as_u64().unwrap() as usize);
            assert_eq!(curriculum.levels(step, integer(case, "steps")), levels, "step {step} of {case}");
        }
    }
    let curriculum = Curriculum::Progressive { start: 2, end: 150 };
    let ema = TargetEma::Adaptive { start: 0.9, start_gaps: 2 };
    for pair in list(&fixture["averages"]) {
        let decay = ema.decay(curriculum, pair[0].as_u64().unwrap() as usize, 800_000);
        assert_equal(&[decay], &[pair[1].as_f64().unwrap()], pair);
    }
}

fn weighting(case: &Value, key: &str) -> Weighting {
    match case[key].as_str().unwrap() {
        "uniform" => Weighting::Uniform,
        "snr" => Weighting::Snr,
        "snr+1" => Weighting::SnrPlusOne,
        "karras" => Weighting::Karras(0.5),
        "truncated-snr" => Weighting::TruncatedSnr,
        _ => Weighting::InverseGap,
    }
}

/// Losses and their gradients: training, distillation, improved training, easy tuning from its first stage on, outliers.
#[test]
fn losses_are_those_of_the_formulas() {
    let device = Device::flex().autodiff();
    for case in list(&fixture()["losses"]) {
        let factor = number(case, "factor");
        let loss = ConsistencyLoss {
            preconditioning: EdmPreconditioning {
                sigma_data: number(case, "sigma_data"),
                boundary: number(case, "boundary"),
            },
            distance: match case["distance"].as_str().unwrap() {
                "l1" => Distance::L1,
                "l2" => Distance::L2,
                "pseudo_huber" => Distance::PseudoHuber(factor),
                _ => Distance::Cauchy(factor),
            },
            weighting: weighting(case, "weighting"),
        };
        let [sample, noise] = ["sample", "noise"].map(|key| item(&numbers(&case[key]), &device));
        let sigmas = ["high", "low"].map(|key| one(number(case, key), &device));
        let pair: NoiseLevelPair = match case["teacher"].as_bool().unwrap() {
            true => heun_step(sample, noise, sigmas, exact_teacher),
            false => on_a_line(sample, noise, sigmas),
        };
        let [model, target] = ["model_weight", "target_weight"].map(|key| one(number(case, key), &device));
        let model = model.require_grad();
        let network = |weight: &Tensor<1>| {
            let weight = per_item(weight.clone());
            move |x: Tensor<5>, time: Tensor<1>| x.sin() * weight + per_item(time) * 0.001
        };
        let value = loss.forward(pair, network(&model), network(&target));
        let gradient = model.grad(&value.backward()).unwrap();
        assert_equal(&doubles(value), &[number(case, "loss")], case);
        let (found, expected) = (doubles(gradient)[0], number(case, "gradient")); // that of a difference quotient
        assert!((found - expected).abs() < 1e-8, "{found} {expected} {case}");
    }
}

/// Whole loops with given noise, clamped and not.
#[test]
fn loops_are_those_of_the_algorithms() {
    let (fixture, device) = (fixture(), Device::flex());
    let (noise, draws) = (numbers(&fixture["noise"]), list(&fixture["draws"]));
    for case in list(&fixture["samples"]) {
        let (levels, clamp) = (numbers(&case["levels"]), case["clamp"].as_f64());
        let karras = |method| -> Karras { Karras::new(levels.clone(), method) };
        let sampler: Box<dyn Sampler> = match case["method"].as_str().unwrap() {
            "multistep" => {
                let sampler = Multistep::new(levels.clone(), 0.002);
                Box::new(clamp.map_or(sampler.clone(), |most| sampler.with_clamp(most)))
            }
            method => {
                let sampler = match method {
                    "euler" => karras(KarrasMethod::Euler),
                    "ancestral" => karras(KarrasMethod::EulerAncestral),
                    "churn" => {
                        let churn = Churn { amount: 40.0, range: [0.05, 50.0], noise: 1.003 };
                        karras(KarrasMethod::Heun).with_churn(churn)
                    }
                    _ => karras(KarrasMethod::Heun),
                };
                Box::new(clamp.map_or(sampler.clone(), |most| sampler.with_clamp(most)))
            }
        };
        let mut network = |x: Tensor<5>, sigma: f64| {
            x.clone() * (0.25 / (sigma * sigma + 0.25)) + (x * (3.0 / (1.0 + sigma))).sin() * 0.6
        };
        let mut drawn = draws.iter().map(|draw| item(&numbers(draw), &device));
        let sample = sampler.sample_with(item(&noise, &device), &mut network, &mut |_| drawn.next().unwrap());
        for (found, expected) in doubles(sample).into_iter().zip(numbers(&case["sample"])) {
            assert!((found - expected).abs() < 1e-9, "{found} {expected} {case}");
        }
    }
}
