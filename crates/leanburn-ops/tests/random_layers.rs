//! Random layers and running statistics in segments. A backend has one generator for the whole process, so these tests
//! run one at a time, apart from the others.

mod common;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use burn::module::Module;
use burn::nn::{BatchNorm, BatchNormConfig, Dropout, DropoutConfig, Linear, LinearConfig};
use burn::prelude::*;
use burn::tensor::{Distribution, TensorData};
use common::{Outcome, outcome};
use leanburn_ops::{Residency, ResidencyPolicy, random, recompute};

fn alone() -> MutexGuard<'static, ()> {
    static GENERATOR: Mutex<()> = Mutex::new(());
    GENERATOR.lock().unwrap_or_else(PoisonError::into_inner)
}

fn device() -> Device {
    Device::flex().autodiff()
}

/// A block that counts its runs, with random numbers and running statistics in it.
#[derive(Module, Debug)]
struct Noisy {
    linear: Linear,
    norm: BatchNorm,
    dropout: Dropout,
    #[module(skip)]
    runs: Counter,
}

#[derive(Clone, Debug, Default)]
struct Counter(Arc<AtomicUsize>);

impl Noisy {
    fn new(device: &Device) -> Self {
        Self {
            linear: LinearConfig::new(6, 6).init(device),
            norm: BatchNormConfig::new(6).init(device),
            dropout: DropoutConfig::new(0.4).init(),
            runs: Counter::default(),
        }
    }

    fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        self.runs.0.fetch_add(1, Ordering::Relaxed);
        self.dropout.forward(self.norm.forward(self.linear.forward(x))).tanh()
    }

    fn running(&self) -> (TensorData, TensorData) {
        (self.norm.running_mean.value_sync().into_data(), self.norm.running_var.value_sync().into_data())
    }
}

/// Two steps through two noisy layers under a policy; `nested` puts both into one segment more.
fn noisy_run(
    policy: &ResidencyPolicy,
    nested: Option<Residency>,
) -> (Vec<Outcome>, Vec<(TensorData, TensorData)>, usize) {
    let device = device();
    device.seed(5);
    let layers = vec![Noisy::new(&device), Noisy::new(&device)];
    let x = Tensor::<2>::random([8, 6], Distribution::Normal(0.0, 1.0), &device).require_grad();
    let both = {
        let policy = policy.clone();
        move |layers: &Vec<Noisy>, x: Tensor<2>| {
            let x = policy.run("first", &layers[0], x, Noisy::forward);
            policy.run("second", &layers[1], x, Noisy::forward)
        }
    };
    let outer = match nested {
        Some(Residency::Recompute) => ResidencyPolicy::recompute_all(),
        _ => ResidencyPolicy::keep(),
    };
    let steps = (0..2).map(|step| {
        random::seed(&device, random::derive(9, &[step]));
        let y = match nested {
            None => both(&layers, x.clone()),
            Some(_) => outer.run("outer", &layers, x.clone(), both.clone()),
        };
        outcome(&layers, &x, y.powf_scalar(2.0).sum())
    });
    let steps: Vec<_> = steps.collect();
    let running = layers.iter().map(Noisy::running).collect();
    (steps, running, layers.iter().map(|layer| layer.runs.0.load(Ordering::Relaxed)).sum())
}

#[test]
fn random_layers_draw_the_same_numbers_and_statistics_move_once() {
    let _alone = alone();
    let (plain, running, runs) = noisy_run(&ResidencyPolicy::keep(), None);
    assert_eq!(runs, 4, "two layers, two steps");
    assert!(plain[0] != plain[1], "each step draws anew");
    let (lean, lean_running, lean_runs) = noisy_run(&ResidencyPolicy::recompute_all(), None);
    assert!(lean == plain);
    assert!(lean_running == running);
    assert_eq!(lean_runs, 8, "each layer ran once more a step");
}

#[test]
fn segments_inside_segments() {
    let _alone = alone();
    let (plain, running, runs) = noisy_run(&ResidencyPolicy::keep(), Some(Residency::Keep));
    assert_eq!(runs, 4);
    for (inner, expected_runs) in [(ResidencyPolicy::keep(), 8), (ResidencyPolicy::recompute_all(), 12)] {
        let (lean, lean_running, lean_runs) = noisy_run(&inner, Some(Residency::Recompute));
        assert!(lean == plain);
        assert!(lean_running == running);
        assert_eq!(lean_runs, expected_runs);
    }
}

#[test]
fn a_frozen_batch_norm_reads_its_statistics_in_both_runs() {
    let _alone = alone();
    let device = device();
    let layer = Noisy::new(&device);
    let x = Tensor::<2>::random([8, 6], Distribution::Normal(3.0, 1.0), &device).require_grad();
    layer.norm.forward(x.clone()); // moves the statistics away from 0 and 1
    let layer = Noisy { norm: layer.norm.freeze(), ..layer };
    let before = layer.running();
    let run = |policy: ResidencyPolicy| {
        random::seed(&device, 3);
        outcome(&layer, &x, policy.run("layer", &layer, x.clone(), Noisy::forward).sum())
    };
    assert!(run(ResidencyPolicy::recompute_all()) == run(ResidencyPolicy::keep()));
    assert!(layer.running() == before);
}

#[test]
fn without_gradients_it_is_a_plain_call() {
    let _alone = alone();
    let device = Device::flex();
    let layer = Noisy::new(&device);
    let x = Tensor::<2>::random([8, 6], Distribution::Normal(0.0, 1.0), &device);
    let y = recompute(&layer, x.clone(), Noisy::forward);
    assert_eq!(y.into_data(), layer.forward(x).into_data());
    assert_eq!(layer.runs.0.load(Ordering::Relaxed), 2);
}
