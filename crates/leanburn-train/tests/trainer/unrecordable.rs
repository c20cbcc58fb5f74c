//! What cannot be recorded is an error that says what to write instead.

use burn::module::Module;
use burn::nn::{BatchNorm, BatchNormConfig, GroupNormConfig, Linear, LinearConfig, conv};
use burn::prelude::*;
use burn::tensor::DType;
use leanburn_nn::blocks;
use leanburn_ops::{Residency, ResidencyPolicy};
use leanburn_plan::{Obstacle, Target};
use leanburn_train::planning::Planner;
use leanburn_train::{
    AnyLearner, Learner, LearnerConfig, Losses, RecordStepError, StepPosition, TrainError, Trainer, TrainerConfig,
    Workload, record_step,
};

/// A layer with a loss of one's own.
struct Mine<M: Module>(Learner<M>, fn(&M, Tensor<2>) -> Tensor<1>);

impl<M: Module> Workload for Mine<M> {
    type Batch = Tensor<2>;

    fn learners(&mut self) -> Vec<&mut dyn AnyLearner> {
        vec![&mut self.0]
    }

    fn loss(&mut self, _learner: usize, x: &Tensor<2>, _position: StepPosition) -> Option<Losses> {
        Some(Losses::of((self.1)(self.0.module(), x.clone()), Vec::new()))
    }
}

fn trainer<M: Module>(
    module: M,
    loss: fn(&M, Tensor<2>) -> Tensor<1>,
    device: &Device,
) -> Result<Trainer<Mine<M>>, TrainError> {
    let learner = Learner::new("mine", module, LearnerConfig::default())?;
    Ok(Trainer::new(Mine(learner, loss), TrainerConfig::default(), device))
}

fn linear(device: &Device) -> Linear {
    LinearConfig::new(4, 4).init(device)
}

fn ones(device: &Device) -> Tensor<2> {
    Tensor::ones([8, 4], device)
}

/// The error of a step of a linear layer with a loss.
fn error_of(loss: fn(&Linear, Tensor<2>) -> Tensor<1>) -> RecordStepError<TrainError> {
    record_step(Target::Cpu, |device| trainer(linear(device), loss, device), ones).expect_err("it cannot be recorded")
}

#[track_caller]
fn assert_says(error: RecordStepError<TrainError>, obstacle: Obstacle, words: &[&str]) {
    let text = error.to_string();
    let RecordStepError::Record(error) = error else { panic!("{text}") };
    assert_eq!(error.obstacle(), obstacle, "{text}");
    for word in words {
        assert!(text.contains(word), "`{word}` is not in: {text}");
    }
}

#[test]
fn seeding_the_device() {
    let build = |device: &Device| {
        device.seed(1);
        trainer(linear(device), |layer, x| layer.forward(x).mean(), device)
    };
    let error = record_step(Target::Cpu, build, ones).unwrap_err();
    assert_says(error, Obstacle::Seed, &["seeds the device", "random::seed"]);
    let seeded = |device: &Device| {
        leanburn_ops::random::seed(device, 1);
        trainer(linear(device), |layer, x| layer.forward(x).mean(), device)
    };
    assert!(record_step(Target::Cpu, seeded, ones).is_ok(), "the remedy");
}

#[test]
fn reading_a_value() {
    let scalar = |layer: &Linear, x: Tensor<2>| {
        let loss = layer.forward(x).mean();
        let factor: f32 = loss.clone().into_scalar();
        loss * factor
    };
    assert_says(error_of(scalar), Obstacle::Value, &["reads the value", "mask_where", "Losses::of", "value_or"]);
    assert_says(
        error_of(|layer, x| {
            let places = x.clone().greater_elem(0.5).argwhere();
            layer.forward(x).mean() * places.dims()[0] as f64
        }),
        Obstacle::Value,
        &["reads the value"],
    );
}

#[test]
fn burns_own_autodiff() {
    let penalty = |layer: &Linear, x: Tensor<2>| {
        let loss = layer.forward(x).mean();
        let _ = loss.clone().backward();
        loss
    };
    assert_says(error_of(penalty), Obstacle::Autodiff, &["`backward`", "leanburn::ops::backward(loss)"]);
    assert_says(
        error_of(|layer, x| (layer.forward(x.clone()) - Tensor::from_inner(x.inner())).mean()),
        Obstacle::Autodiff,
        &["`inner`", "without_autodiff"],
    );
}

#[test]
fn burns_batch_norm() {
    let build = |device: &Device| {
        let norm: BatchNorm = BatchNormConfig::new(4).init(device);
        trainer(norm, |norm: &BatchNorm, x| norm.forward(x).mean(), device)
    };
    let error = record_step(Target::Cpu, build, ones).unwrap_err();
    assert_says(error, Obstacle::Move, &["Burn's `BatchNorm`", "leanburn::nn::blocks::BatchNorm", "BatchNorm::from"]);
}

/// Weights of a layer of Burn are float32, whatever the input: an error in the real step and in the recorded one.
#[test]
fn burns_layers_in_half_precision() {
    fn check<M: Module>(init: impl Fn(&Device) -> M, loss: fn(&M, Tensor<2>) -> Tensor<1>) {
        let trained = |device: Device| {
            let mut trainer = trainer(init(&device), loss, &device).unwrap();
            trainer.step(&mut std::iter::repeat_with(|| Ok::<_, TrainError>(ones(&device)))).unwrap_err()
        };
        let recorded = record_step(Target::Cpu, |device| trainer(init(device), loss, device), ones).unwrap_err();
        let RecordStepError::Step(recorded) = recorded else { panic!("{recorded}") };
        for error in [trained(Device::flex().autodiff()), recorded] {
            let TrainError::MixedDtypes { .. } = error else { panic!("{error}") };
            let text = error.to_string();
            for word in ["several dtypes", "leanburn::nn::blocks", "`Conv3d::try_from`", "`x.cast(DType::F32)`"] {
                assert!(text.contains(word), "`{word}` is not in: {text}");
            }
        }
    }
    fn volume(x: Tensor<2>) -> Tensor<5> {
        x.cast(DType::BF16).reshape([1, 4, 2, 2, 2])
    }
    let conv = |device: &Device| conv::Conv3dConfig::new([4, 2], [1; 3]).init(device);
    check(linear, |layer, x| layer.forward(x.cast(DType::BF16)).cast(DType::F32).mean());
    check(conv, |conv, x| conv.forward(volume(x)).cast(DType::F32).mean());
    check(|device| GroupNormConfig::new(2, 4).init(device), |norm, x| norm.forward(volume(x)).cast(DType::F32).mean());

    let ours = |device: &Device| {
        let conv = blocks::Conv3d::try_from(conv(device)).expect("it has a counterpart");
        trainer(conv, |conv, x| conv.forward(volume(x)).cast(DType::F32).mean(), device)
    };
    assert!(record_step(Target::Cpu, ours, ones).is_ok(), "the remedy");
}

#[test]
fn tensors_of_another_device() {
    let elsewhere = Device::flex().autodiff();
    let forward: fn(&Linear, Tensor<2>) -> Tensor<1> = |layer, x| layer.forward(x).mean();
    let what = ["on the device that is given"];
    let constant = error_of(|layer, x| (layer.forward(x) * Tensor::ones([8, 4], &Device::flex().autodiff())).mean());
    assert_says(constant, Obstacle::OtherDevice, &what);
    let plain = error_of(|layer, x| (layer.forward(x) * Tensor::ones([8, 4], &Device::flex())).mean());
    assert_says(plain, Obstacle::OtherDevice, &what);
    let moved = error_of(|layer, x| layer.forward(x).to_device(&Device::flex()).mean());
    assert_says(moved, Obstacle::OtherDevice, &what);
    let error = record_step(Target::Cpu, |device| trainer(linear(device), forward, device), |_| ones(&elsewhere));
    assert_says(error.unwrap_err(), Obstacle::OtherDevice, &["the micro-batch is not", what[0]]);
    let error = record_step(Target::Cpu, |_| trainer(linear(&elsewhere), forward, &elsewhere), |_| ones(&elsewhere));
    assert_says(error.unwrap_err(), Obstacle::OtherDevice, &["the module of the learner `mine` is not", what[0]]);
}

#[test]
fn a_rule_of_a_policy_that_matches_no_segment() {
    let loss: fn(&Linear, Tensor<2>) -> Tensor<1> = |layer, x| {
        let policy =
            ResidencyPolicy::keep().with_rule("frist", Residency::Recompute).with_rule("sec*", Residency::Keep);
        let forward = |layer: &Linear, x: Tensor<2>| layer.forward(x);
        policy.run("second", layer, policy.run("first", layer, x, forward), forward).mean()
    };
    let planned = Planner::cpu().plan(|device| trainer(linear(device), loss, device), ones);
    let Err(RecordStepError::Residency { errors }) = planned else { panic!("it is an error: {planned:?}") };
    let [error] = &errors[..] else { panic!("{errors:?}") };
    assert_eq!(
        error.to_string(),
        "residency: expected names of segments: first, second, found `frist`, which names no segment"
    );
    assert_eq!(error.help, "did you mean `first`?");
}
