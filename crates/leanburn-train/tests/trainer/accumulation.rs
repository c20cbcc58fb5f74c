//! Micro-batches that are accumulated give the gradients of the large batch.

use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::GradientsParams;
use burn::tensor::Tensor;
use leanburn_nn::losses::{kl_divergence, l1_loss};
use leanburn_nn::models::AutoencoderKl;
use leanburn_train::{AnyLearner, Learner, LossScale, Losses, StepPosition, StepReport, TrainError, Trainer, Workload};

use crate::common::{Setup, alone, phantoms};

/// Reconstruction of the mean of the latent: no noise, so that micro-batches see what the large batch sees.
struct Noiseless(Learner<AutoencoderKl>);

impl Workload for Noiseless {
    type Batch = Tensor<5>;

    fn learners(&mut self) -> Vec<&mut dyn AnyLearner> {
        vec![&mut self.0]
    }

    fn loss(&mut self, _learner: usize, batch: &Tensor<5>, _position: StepPosition) -> Option<Losses> {
        let (mean, sigma) = self.0.module().encode(batch.clone());
        let kl = kl_divergence(mean.clone(), sigma);
        let total = l1_loss(self.0.module().decode(mean), batch.clone()) + kl * 1e-3;
        Some(Losses { parts: vec![("total", total.clone().without_autodiff())], total })
    }
}

fn workload(scale: LossScale) -> Noiseless {
    let setup = Setup::default();
    Noiseless(Learner::new("autoencoder", setup.autoencoder(), setup.learner_config(scale)).unwrap())
}

/// Gradients of four phantoms in batches of `micro_batch`, by parameter.
fn gradients(micro_batch: usize, scale: LossScale) -> Vec<Vec<f32>> {
    struct Read<'a>(&'a GradientsParams, Vec<Vec<f32>>);
    impl ModuleVisitor for Read<'_> {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            let gradient = self.0.get::<D>(param.id).expect("the loss depends on every parameter");
            self.1.push(gradient.into_data().iter::<f32>().collect());
        }
    }
    let mut workload = workload(scale);
    for first in (0..4).step_by(micro_batch) {
        let loss =
            workload.loss(0, &phantoms(first as u64, micro_batch), StepPosition { seed: 0, step: 0, micro_batch: 0 });
        workload.0.accumulate(loss.unwrap().total, micro_batch as f64 / 4.0);
    }
    let module = workload.0.module().clone();
    let prepared = workload.0.prepare();
    let mut read = Read(&prepared.gradients().unwrap().gradients, Vec::new());
    module.visit(&mut read);
    let gradients = read.1;
    drop(prepared);
    assert!(workload.0.prepare().update(0).is_none(), "what is abandoned is forgotten");
    gradients
}

fn norm<'a>(values: impl IntoIterator<Item = &'a f32>) -> f64 {
    values.into_iter().map(|&value| f64::from(value).powi(2)).sum::<f64>().sqrt()
}

fn distance(a: &[f32], b: &[f32]) -> f64 {
    norm(&a.iter().zip(b).map(|(a, b)| a - b).collect::<Vec<_>>())
}

fn assert_close(found: &[Vec<f32>], expected: &[Vec<f32>]) {
    let whole = norm(expected.iter().flatten());
    assert!(whole > 1e-3 && found.len() == expected.len());
    let distances: Vec<f64> = found.iter().zip(expected).map(|(found, expected)| distance(found, expected)).collect();
    let overall = distances.iter().map(|distance| distance.powi(2)).sum::<f64>().sqrt() / whole;
    assert!(overall < 1e-6, "overall {overall:e}");
    for (index, (distance, expected)) in distances.iter().zip(expected).enumerate() {
        // The terms of a bias cancel: before a norm nearly, and behind attention's softmax, which does not see that of the keys, to rounding.
        let relative = distance / norm(expected).max(1e-2 * whole);
        assert!(relative < 1e-6, "parameter {index}: {relative:e}, norm {:e} of {whole:e}", norm(expected));
    }
}

#[test]
fn micro_batches_add_up_to_the_large_batch() {
    let _alone = alone();
    let large = gradients(4, LossScale::NONE);
    assert_close(&gradients(1, LossScale::NONE), &large);
    assert_close(&gradients(2, LossScale::NONE), &large);
    assert_close(&gradients(1, LossScale::Static(512.0)), &large);
}

fn report(accumulation_steps: u64) -> (StepReport, u64) {
    let config = Setup { accumulation_steps, ..Setup::default() }.trainer_config();
    let mut trainer = Trainer::new(workload(LossScale::NONE), config, &crate::common::device());
    let size = 4 / accumulation_steps as usize;
    let mut batches = (0..).map(|index| Ok::<_, TrainError>(phantoms(index * size as u64, size)));
    let report = trainer.step(&mut batches).unwrap();
    (report, trainer.micro_batches())
}

#[test]
fn the_trainer_takes_the_mean_of_the_micro_batches() {
    let _alone = alone();
    let ((large, _), (small, used)) = (report(1), report(4));
    assert_eq!(used, 4);
    let close = |a: f64, b: f64| (a / b - 1.0).abs() < 1e-6;
    assert!(close(small.losses["total"], large.losses["total"]), "{small:?} {large:?}");
    assert!(close(small.learners[0].gradient_norm, large.learners[0].gradient_norm), "{small:?} {large:?}");
}

#[test]
fn a_step_that_was_broken_off_leaves_no_trace() {
    let _alone = alone();
    let setup = Setup { accumulation_steps: 2, with_discriminator: true, ..Setup::default() };
    let mut broken_off = setup.trainer();
    let before = crate::common::state(&broken_off);
    let error = broken_off.step(&mut crate::common::batches(7).take(1)).unwrap_err();
    assert!(matches!(error, TrainError::OutOfBatches { step: 0 }), "{error}");
    assert_eq!(crate::common::state(&broken_off), before, "running statistics are as they were");
    let mut straight = setup.trainer();
    let step = |trainer: &mut crate::common::AutoencoderTrainer| trainer.step(&mut crate::common::batches(0)).unwrap();
    let (found, expected) = (step(&mut broken_off), step(&mut straight));
    assert_eq!(found, expected);
    assert_eq!(crate::common::state(&broken_off), crate::common::state(&straight));
}
