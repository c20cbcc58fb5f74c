//! Random layers and running statistics in segments. A backend has one generator for the whole process, so these tests
//! run one at a time, and in a program of their own: elsewhere the initial weights of another test would be drawn between two of their numbers.

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use burn::module::Module;
use burn::nn::{BatchNorm, BatchNormConfig, Dropout, DropoutConfig, Linear, LinearConfig};
use burn::prelude::*;
use burn::tensor::{Distribution, TensorData};
use leanburn_ops::{Residency, ResidencyPolicy, backward, dropout, dropout3d, random, recompute};

use common::{Outcome, outcome};

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

fn number(device: &Device) -> f32 {
    Tensor::<1>::random([1], Distribution::Uniform(0.0, 1.0), device).into_scalar()
}

/// The seed that Burn is given is all that is needed: nothing here calls `random::seed`.
#[test]
fn the_seed_of_the_device_reaches_every_segment() {
    let _alone = alone();
    let device = device();
    let run = |seed: u64| {
        device.seed(seed);
        let layers: Vec<Linear> = (0..4).map(|_| LinearConfig::new(6, 6).init(&device)).collect();
        let x = Tensor::<2>::ones([8, 6], &device).require_grad();
        let forward = |layer: &Linear, x: Tensor<2>| DropoutConfig::new(0.5).init().forward(layer.forward(x)).tanh();
        let y = layers.iter().fold(x, |x, layer| recompute(layer, x, forward)).into_data();
        (layers.iter().map(|layer| layer.weight.val().into_data()).collect::<Vec<_>>(), y, number(&device))
    };
    let (weights, y, next) = run(1);
    for (index, weight) in weights.iter().enumerate() {
        assert!(!weights[..index].contains(weight), "layer {index} begins as one before it");
    }
    assert!(run(1) == (weights.clone(), y.clone(), next), "one seed, one result");
    let (other_weights, other, other_next) = run(99);
    assert!(weights.iter().zip(&other_weights).all(|(a, b)| a != b) && y != other && next != other_next);
}

#[test]
fn segments_that_are_kept_or_have_no_gradient_leave_the_generator_alone() {
    let _alone = alone();
    let device = device();
    let layer = Noisy::new(&device);
    let x = Tensor::<2>::ones([8, 6], &device);
    layer.forward(x.clone()); // initialises it
    let forward = |layer: &Noisy, x: Tensor<2>| layer.linear.forward(x);
    let after = |run: &dyn Fn()| {
        device.seed(5);
        run();
        number(&device)
    };
    let untouched = after(&|| ());
    let kept = after(&|| drop(ResidencyPolicy::keep().run("layer", &layer, x.clone().require_grad(), forward)));
    let inference = after(&|| drop(recompute(&layer.valid(), x.clone().inner(), forward)));
    assert_eq!([kept, inference], [untouched; 2]);
    assert_ne!(after(&|| drop(recompute(&layer, x.clone().require_grad(), forward))), untouched);
}

/// A layer of a model with dropout.
type Layer = fn(&Noisy, Tensor<2>) -> Tensor<2>;

fn with_burns_dropout(layer: &Noisy, x: Tensor<2>) -> Tensor<2> {
    layer.dropout.forward(layer.linear.forward(x)).tanh()
}

fn with_our_dropout(layer: &Noisy, x: Tensor<2>) -> Tensor<2> {
    dropout(layer.linear.forward(x), 0.4).tanh()
}

/// Gradients of some steps of a model.
fn steps(
    count: u64,
    layers: &[Noisy],
    x: &Tensor<2>,
    forward: Layer,
    policy: &ResidencyPolicy,
    seed: u64,
) -> Vec<TensorData> {
    let step = |step| {
        random::seed(&x.device(), random::derive(seed, &[step]));
        let x = x.clone().require_grad();
        let y = layers.iter().fold(x.clone(), |x, layer| policy.run("layer", layer, x, forward));
        backward(y.powf_scalar(2.0).sum()).take(&x).unwrap().into_data()
    };
    (0..count).map(step).collect()
}

/// Runs something beside a thread that draws all the time, which ends with it, also by a panic.
fn beside<T>(draw: impl Fn() + Send, run: impl FnOnce() -> T) -> T {
    struct End<'a>(&'a AtomicBool);
    impl Drop for End<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let is_over = AtomicBool::new(false);
    let is_over = &is_over;
    thread::scope(|scope| {
        scope.spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                draw();
            }
        });
        let _end = End(is_over);
        run()
    })
}

/// Steps of two threads that recompute, beside one that draws noise, are those that each takes alone and kept.
fn assert_alone_and_beside(count: u64, depth: usize, forward: Layer, draw: impl Fn() + Send) {
    let device = device();
    let layers: Vec<Noisy> = (0..depth).map(|_| Noisy::new(&device)).collect();
    let x = Tensor::<2>::random([64, 6], Distribution::Normal(0.0, 1.0), &device);
    let expected = [1, 2].map(|seed| steps(count, &layers, &x, forward, &ResidencyPolicy::keep(), seed));
    let both = || {
        thread::scope(|scope| {
            // a model of its own for each: threads that share weights share their graph
            let trainers = [1, 2].map(|seed| {
                let (layers, x) = (layers.clone().fork(&device), x.clone());
                scope.spawn(move || steps(count, &layers, &x, forward, &ResidencyPolicy::recompute_all(), seed))
            });
            trainers.map(|trainer| trainer.join().unwrap())
        })
    };
    let found = beside(draw, both);
    for (found, expected) in found.iter().zip(&expected) {
        let wrong = found.iter().zip(expected).filter(|(found, expected)| found != expected).count();
        assert_eq!(wrong, 0, "of {} steps", expected.len());
    }
}

#[test]
fn threads_that_recompute_dropout_at_once_draw_what_each_draws_alone() {
    let _alone = alone();
    assert_alone_and_beside(300, 3, with_burns_dropout, || drop(random::normal([64, 6], &Device::flex())));
}

/// The other thread draws by Burn's functions, which ask nobody.
#[test]
fn nobody_changes_our_dropout() {
    let _alone = alone();
    assert_alone_and_beside(300, 1, with_our_dropout, || {
        drop(Tensor::<2>::random([64, 6], Distribution::Normal(0.0, 1.0), &Device::flex()));
    });
}

#[test]
fn the_mask_of_backward_is_that_of_forward() {
    let _alone = alone();
    fn check<const D: usize>(dims: [usize; D], operation: fn(Tensor<D>, f64) -> Tensor<D>) {
        // the weights are one: what is left of them is also their gradient
        let x = Tensor::<D>::ones(dims, &device()).require_grad();
        let y = operation(x.clone(), 0.5);
        let zeros = y.clone().equal_scalar(0.0).int().sum().into_scalar::<i32>();
        assert!(zeros > 0 && (zeros as usize) < x.shape().num_elements(), "{zeros} zeros of {dims:?}");
        assert_eq!(backward(y.clone().sum()).take(&x).unwrap().into_data(), y.into_data(), "{dims:?}");
    }
    check([64], dropout);
    check([8, 8], dropout);
    check([2, 3, 4, 5, 6], dropout);
    check([2, 1, 3, 2, 2, 3], dropout);
    check([4, 16, 2, 3, 1], dropout3d);
}

/// Noise in a segment is that of its first run in the second one, and that of its seed, whatever others draw by Burn's functions.
#[test]
fn nobody_changes_our_noise() {
    let _alone = alone();
    let (device, nothing) = (device(), Vec::<Linear>::new());
    let x = Tensor::<2>::ones([64, 6], &device).require_grad();
    let step = |policy: &ResidencyPolicy, step| {
        random::seed(&device, random::derive(4, &[step]));
        let forward = |_: &Vec<Linear>, x: Tensor<2>| x * random::normal([64, 6], &Device::flex().autodiff());
        let y = policy.run("noisy", &nothing, x.clone(), forward);
        let between = random::uniform([5], &device).into_data();
        (y.clone().into_data(), backward(y.sum()).take(&x).unwrap().into_data(), between)
    };
    let expected: Vec<_> = (0..300).map(|at| step(&ResidencyPolicy::keep(), at)).collect();
    let draw = || drop(Tensor::<1>::random([7], Distribution::Default, &Device::flex()));
    let found = beside(draw, || (0..300).map(|at| step(&ResidencyPolicy::recompute_all(), at)).collect::<Vec<_>>());
    assert!(found == expected);
    assert!(expected.iter().all(|(y, gradient, _)| y == gradient), "x is one: the noise is its gradient");
    assert!(expected.windows(2).all(|pair| pair[0].0 != pair[1].0 && pair[0].2 != pair[1].2), "each step draws anew");
}

#[test]
fn the_seed_of_the_device_reaches_our_noise() {
    let _alone = alone();
    let noise = |seed| {
        device().seed(seed);
        [(); 2].map(|()| random::normal([3, 5], &device()).into_data())
    };
    let [first, second] = noise(1);
    assert_ne!(first, second, "each call has numbers of its own");
    assert_eq!(noise(1), [first.clone(), second]);
    assert_ne!(noise(2)[0], first);
}

/// Without `random::seed`: where a segment's second run leaves the generator, its numbers do not come again.
#[test]
fn steps_do_not_draw_what_steps_before_have_drawn() {
    let _alone = alone();
    let (device, nothing) = (device(), Vec::<Linear>::new());
    device.seed(7);
    let mut masks = Vec::new();
    for _ in 0..3 {
        let x = Tensor::<2>::ones([16, 16], &device).require_grad();
        let forward = |_: &Vec<Linear>, x: Tensor<2>| DropoutConfig::new(0.5).init().forward(x);
        let segments = [(); 3].map(|()| recompute(&nothing, x.clone(), forward));
        masks.extend(segments.clone().map(Tensor::into_data));
        drop(backward(segments.into_iter().map(Tensor::sum).reduce(|a, b| a + b).unwrap()));
    }
    for (index, mask) in masks.iter().enumerate() {
        assert!(!masks[..index].contains(mask), "mask {index} has come before");
    }
}

/// Both seeds reach our dropout: Burn's, and ours.
#[test]
fn one_seed_one_mask() {
    let _alone = alone();
    let device = device();
    let nothing: Vec<Linear> = Vec::new();
    let masks = |seed: &dyn Fn(), policy: &ResidencyPolicy| {
        seed();
        let forward = |_: &Vec<Linear>, x: Tensor<2>| dropout(x, 0.5);
        let x = Tensor::<2>::ones([16, 16], &device).require_grad();
        let first = policy.run("first", &nothing, x.clone(), forward);
        let between = dropout(x.clone(), 0.5);
        [first, between, policy.run("second", &nothing, x, forward)].map(Tensor::into_data)
    };
    let (kept, recomputed) = (ResidencyPolicy::keep(), ResidencyPolicy::recompute_all());
    type Seed<'a> = &'a dyn Fn(u64);
    let (ours, burns): (Seed, Seed) = (&|seed| random::seed(&device, seed), &|seed| device.seed(seed));
    // Burn's first: the other has a stream for the rest of this thread
    for (name, seed, policies) in [("Burn's", burns, vec![&kept]), ("ours", ours, vec![&kept, &recomputed])] {
        let of = |number: u64, policy| masks(&|| seed(number), policy);
        let base = of(1, &kept);
        assert!(base[0] != base[1] && base[1] != base[2], "{name}: each operation has a mask of its own");
        for policy in policies {
            assert!(of(1, policy) == base, "{name}: one seed, one mask");
        }
        let other = of(2, &kept);
        assert!(base.iter().zip(&other).all(|(base, other)| base != other), "{name}: another seed, other masks");
    }
}

/// Who draws from Burn's generator beside a segment with a random layer of Burn is told so, and gets no wrong gradient.
#[test]
fn draws_of_another_thread_are_noticed() {
    let _alone = alone();
    let device = device();
    let draw = || drop(Tensor::<1>::random([7], Distribution::Default, &Device::flex()));
    beside(draw, || {
        let module: Vec<Linear> = Vec::new();
        let mut noticed = 0;
        for step in 0..3000 {
            let weight = Tensor::<2>::ones([64, 256], &device).require_grad();
            let forward = |_: &Vec<Linear>, x: Tensor<2>| DropoutConfig::new(0.5).init().forward(x);
            let taken = catch_unwind(AssertUnwindSafe(|| {
                let y = recompute(&module, weight.clone(), forward);
                (y.clone().into_data(), backward(y.sum()).take(&weight).unwrap().into_data())
            }));
            match taken {
                // the weight is one: what is kept of it is also its gradient
                Ok((y, gradient)) => assert!(y == gradient, "step {step}: another mask in backward"),
                Err(_) => noticed += 1,
            }
            if noticed > 0 {
                break;
            }
        }
        assert!(noticed > 0, "3000 steps beside a thread that draws all the time");
    });
}
