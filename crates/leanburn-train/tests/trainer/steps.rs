//! Other parts of a step than gradients: clipping, warm-up, average of weights, the start of adversarial losses.

use std::convert::Infallible;

use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::optim::GradientsParams;
use burn::tensor::Tensor;
use leanburn_common::Bytes;
use leanburn_train::{AnyLearner, Learner, LearnerConfig, LossScale, MainModel, TrainError, prepare_gradients};

use crate::common::{Setup, alone, batches, bits, schedule};

/// Gradients 3 and 4 (norm 5) times `scale` of a layer with one weight and one bias.
fn three_and_four(layer: &Linear, scale: f32) -> GradientsParams {
    let device = crate::common::device();
    let mut gradients = GradientsParams::new();
    gradients.register(layer.weight.id, Tensor::<2>::from_floats([[3.0 * scale]], &device).without_autodiff());
    let bias = Tensor::<1>::from_floats([4.0 * scale], &device).without_autodiff();
    gradients.register(layer.bias.as_ref().unwrap().id, bias);
    gradients
}

fn prepared(scale: f64, max_norm: Option<f64>) -> (f64, [f32; 2]) {
    let layer = LinearConfig::new(1, 1).init(&crate::common::device());
    let prepared = prepare_gradients(&layer, three_and_four(&layer, scale as f32), scale, max_norm);
    let weight = prepared.gradients.get::<2>(layer.weight.id).unwrap().into_scalar::<f32>();
    let bias = prepared.gradients.get::<1>(layer.bias.as_ref().unwrap().id).unwrap().into_scalar::<f32>();
    (prepared.norm, [weight, bias])
}

#[test]
fn clipping_brings_the_norm_to_the_limit_and_leaves_smaller_ones_alone() {
    let _alone = alone();
    for scale in [1.0, 1024.0] {
        assert_eq!(prepared(scale, None), (5.0, [3.0, 4.0]));
        assert_eq!(prepared(scale, Some(6.0)), (5.0, [3.0, 4.0]));
        assert_eq!(prepared(scale, Some(5.0)), (5.0, [3.0, 4.0]));
        let (norm, [weight, bias]) = prepared(scale, Some(2.0));
        assert_eq!(norm, 5.0, "the norm before clipping");
        assert!((weight.hypot(bias) - 2.0).abs() < 1e-6 && (weight / bias - 0.75).abs() < 1e-6, "{weight} {bias}");
    }
    let (norm, _) = prepared(f64::INFINITY, Some(2.0));
    assert!(norm.is_nan());
}

#[test]
fn reports_name_the_learning_rate_of_the_step() {
    let _alone = alone();
    let mut trainer = Setup { max_grad_norm: Some(1e-3), ..Setup::default() }.trainer();
    let mut batches = batches(0);
    let reports: Vec<_> = (0..4).map(|_| trainer.step(&mut batches).unwrap()).collect();
    let mut expected = schedule().init().unwrap();
    for (step, report) in reports.iter().enumerate() {
        assert_eq!(report.step, step as u64);
        assert_eq!(report.learners[0].learning_rate, expected.at(step as u64));
        assert!(report.learners[0].gradient_norm > 1e-3, "before clipping");
        assert_eq!(report.memory, None, "this program counts no heap");
    }
    let rates = [0, 1, 2].map(|step| reports[step].learners[0].learning_rate / 1e-3);
    let close = rates.iter().zip([1.0 / 3.0, 2.0 / 3.0, 1.0]).all(|(found, expected)| (found - expected).abs() < 1e-9);
    assert!(close, "{rates:?}");
}

#[test]
fn the_average_follows_weights_and_statistics() {
    let _alone = alone();
    let decay = 0.75f32;
    let setup = Setup { average_decay: Some(f64::from(decay)), with_discriminator: true, ..Setup::default() };
    let mut trainer = setup.trainer();
    let values = |bits: Vec<Vec<u32>>| bits.into_iter().flatten().map(f32::from_bits).collect::<Vec<f32>>();
    let weights = |trainer: &crate::common::AutoencoderTrainer| {
        let workload = trainer.workload();
        let discriminator = workload.discriminator().unwrap().module();
        [values(bits(workload.model().module())), values(bits(discriminator))].concat()
    };
    let mut expected = weights(&trainer);
    let mut batches = batches(0);
    for _ in 0..3 {
        trainer.step(&mut batches).unwrap();
        let now = weights(&trainer);
        expected.iter_mut().zip(now).for_each(|(average, now)| *average = *average * decay + now * (1.0 - decay));
    }
    let workload = trainer.workload();
    let kept = workload.discriminator().unwrap().trained();
    let found = [values(bits(&workload.model().trained())), values(bits(&kept))].concat();
    let far = found.iter().zip(&expected).filter(|(a, b)| (*a - *b).abs() > 1e-6 * b.abs().max(1e-3)).count();
    assert_eq!(far, 0, "of {}", found.len());
    assert_ne!(found, weights(&trainer));

    let before = bits(&kept);
    trainer.step(&mut batches).unwrap();
    assert_eq!(bits(&kept), before, "what was handed out does not move");
}

/// The target moves by the decay of each step, the teacher by nothing; both with the memory of the weights, and only averages are saved.
#[test]
fn the_target_follows_by_the_step_and_the_teacher_not_at_all() {
    let _alone = alone();
    let device = crate::common::device();
    let decay = |step: u64| [0.0, 0.5, 0.75][step as usize];
    let learner = |weight: f32| {
        let mut layer: Linear = LinearConfig::new(1, 1).init(&device);
        layer.weight = layer.weight.map(|tensor| (tensor.zeros_like() + weight).require_grad());
        let config = LearnerConfig::new(schedule()).with_average_decay(Some(0.9));
        let mut learner = Learner::new("linear", layer, config).unwrap().with_target(decay);
        learner.set_teacher(LinearConfig::new(1, 1).init(&device.clone().inner()));
        learner
    };
    let mut trained = learner(1.0);
    let values = |module: &Linear| bits(module).concat().into_iter().map(f32::from_bits).collect::<Vec<f32>>();
    let (teacher, mut expected) = (bits(trained.teacher().unwrap()), values(trained.module()));
    for step in 0..3 {
        let loss = trained.module().forward(Tensor::<2>::ones([4, 1], &device)).mean();
        trained.accumulate(loss, 1.0);
        trained.prepare().update(step).unwrap();
        let (now, decay) = (values(trained.module()), decay(step) as f32);
        expected.iter_mut().zip(now).for_each(|(target, now)| *target = *target * decay + now * (1.0 - decay));
        let found = values(trained.target().unwrap());
        assert!(found.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-6), "step {step}: {found:?} {expected:?}");
    }
    assert_ne!(values(trained.target().unwrap()), values(&trained.trained()), "the average that is used is another");
    assert_eq!(bits(trained.teacher().unwrap()), teacher);
    let memory = trained.memory();
    assert_eq!([memory.weights, memory.target, memory.teacher], [Bytes(8); 3]);

    let folder = tempfile::tempdir().unwrap();
    trained.save(folder.path()).unwrap();
    let mut other = learner(-3.0);
    let others = bits(other.teacher().unwrap());
    other.load(folder.path()).unwrap()();
    assert_eq!(bits(other.target().unwrap()), bits(trained.target().unwrap()));
    assert_eq!(bits(&other.trained()), bits(&trained.trained()));
    assert_eq!(bits(other.teacher().unwrap()), others, "a teacher is in no checkpoint");
    other.initialize(|layer| layer.bias = None);
    assert_eq!(bits(other.target().unwrap()), bits(other.module()), "a target starts where the model does");
}

#[test]
fn trained_without_an_average_is_the_module() {
    let _alone = alone();
    let mut trainer = Setup::default().trainer();
    trainer.step(&mut batches(0)).unwrap();
    let learner = trainer.workload().model();
    assert_eq!(bits(&learner.trained()), bits(learner.module()));
    let volumes = crate::common::phantoms(0, 1);
    assert!(!trainer.workload().reconstruct(volumes.clone()).is_autodiff());
    let expected = learner.module().valid().reconstruct(volumes.clone().without_autodiff()).into_data();
    assert_eq!(trainer.workload().reconstruct(volumes).into_data(), expected);
}

#[test]
fn the_discriminator_begins_at_its_step() {
    let _alone = alone();
    let mut trainer = Setup { with_discriminator: true, adversarial_start_step: 2, ..Setup::default() }.trainer();
    let mut batches = batches(0);
    let start = crate::common::state(&trainer).remove(2);
    for step in 0..4 {
        let report = trainer.step(&mut batches).unwrap();
        let names: Vec<_> = report.learners.iter().map(|learner| learner.learner.as_str()).collect();
        let losses: Vec<_> = report.losses.keys().map(String::as_str).collect();
        let moved = crate::common::state(&trainer).remove(2) != start;
        match step < 2 {
            true => assert_eq!((names, losses), (vec!["autoencoder"], vec!["kl", "reconstruction"])),
            false => assert_eq!(
                (names, losses),
                (vec!["autoencoder", "discriminator"], vec!["discriminator", "generator", "kl", "reconstruction"])
            ),
        }
        assert_eq!(moved, step >= 2, "step {step}");
    }
}

#[test]
#[should_panic = "accumulation_steps is 0"]
fn a_step_has_micro_batches() {
    let _alone = alone();
    Setup { accumulation_steps: 0, ..Setup::default() }.trainer();
}

#[test]
fn numbers_that_cannot_be_used_are_refused_together() {
    let _alone = alone();
    let config = LearnerConfig::default().with_loss_scale(LossScale::Static(0.0)).with_average_decay(Some(1.5));
    let error =
        Learner::new("linear", LinearConfig::new(1, 1).init(&crate::common::device()), config).unwrap_err().to_string();
    for part in ["linear cannot be trained", "loss_scale.static", "found 0", "average_decay", "found 1.5", "use 0.999"]
    {
        assert!(error.contains(part), "{part} in {error}");
    }
}

#[test]
fn a_limit_of_memory_that_nothing_counts_is_refused() {
    let _alone = alone();
    let mut trainer = Setup { memory_limit: Some(Bytes::gib(1)), ..Setup::default() }.trainer();
    let error = trainer.step(&mut batches(0)).unwrap_err();
    assert!(matches!(error, TrainError::Uncounted { limit } if limit == Bytes::gib(1)), "{error}");
    assert!(error.to_string().contains("CountingAllocator"), "{error}");
    assert_eq!(trainer.steps(), 0);
}

#[test]
fn batches_that_cannot_fail_need_no_error() {
    let _alone = alone();
    let mut trainer = Setup::default().trainer();
    let mut sure = std::iter::once(Ok::<_, Infallible>(crate::common::phantoms(0, 2)));
    assert_eq!(trainer.step(&mut sure).unwrap().step, 0);
    assert!(matches!(trainer.step(&mut sure), Err(TrainError::OutOfBatches { step: 1 })));
}
