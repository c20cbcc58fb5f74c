//! Steps with infinite or undefined gradients are left out, and leave no trace.

use leanburn_train::{LearnerReport, LossScale, MainModel, Precision, TrainError};

use crate::common::{AutoencoderTrainer, Setup, alone, batches, bits, broken, is_finite, state};

const TOO_LARGE: LossScale =
    LossScale::Dynamic { initial: (1u64 << 40) as f64, growth: 2.0, back_off: 0.5, growth_interval: 1000 };

fn f16(scale: LossScale) -> Setup {
    Setup { precision: Precision::F16, scale, ..Setup::default() }
}

/// Steps until one is taken; the reports of all.
fn until_good(trainer: &mut AutoencoderTrainer) -> Vec<LearnerReport> {
    let mut reports = Vec::new();
    for step in 0..40 {
        let before = state(trainer);
        let report = trainer.step(&mut batches(step)).unwrap().learners.remove(0);
        let skipped = report.skipped;
        assert_eq!(state(trainer) == before, skipped, "weights move if and only if the step is taken");
        reports.push(report);
        if !skipped {
            return reports;
        }
    }
    panic!("no step was taken: {reports:?}");
}

#[test]
fn a_scale_too_large_backs_off_until_training_goes_on() {
    let _alone = alone();
    let mut trainer = f16(TOO_LARGE).trainer();
    let reports = until_good(&mut trainer);
    assert!(reports.len() > 4, "{} steps", reports.len());
    for (index, report) in reports.iter().enumerate() {
        assert_eq!(report.loss_scale, 2f64.powi(40 - index as i32));
        assert_eq!(report.gradient_norm.is_finite(), !report.skipped);
    }
    assert_eq!(trainer.steps(), reports.len() as u64);
    assert!(is_finite(&bits(trainer.workload().model().module())));
    let next = trainer.step(&mut batches(50)).unwrap();
    assert_eq!(next.learners[0].loss_scale, reports.last().unwrap().loss_scale, "a good step does not back off");
}

#[test]
fn a_static_scale_works() {
    let _alone = alone();
    let norms = [LossScale::NONE, LossScale::Static(512.0)].map(|scale| {
        let setup = if scale == LossScale::NONE { Setup::default() } else { f16(scale) };
        let mut trainer = setup.trainer();
        let mut batches = batches(0);
        let reports = (0..3).map(|_| trainer.step(&mut batches).unwrap().learners.remove(0));
        let reports: Vec<_> = reports.collect();
        assert!(reports.iter().all(|report| !report.skipped));
        reports[0].gradient_norm
    });
    assert!((norms[1] / norms[0] - 1.0).abs() < 0.05, "{norms:?}: the norm is that of the unscaled gradients");
}

#[test]
fn an_undefined_batch_is_left_out() {
    let _alone = alone();
    let setup = Setup { with_discriminator: true, average_decay: Some(0.9), ..Setup::default() };
    let mut trainer = setup.trainer();
    let mut batches = broken(&[false, true, false]);
    trainer.step(&mut batches).unwrap();
    let before = state(&trainer);
    let report = trainer.step(&mut batches).unwrap();
    assert_eq!(report.learners.len(), 2);
    assert!(report.learners.iter().all(|learner| learner.skipped && learner.gradient_norm.is_nan()));
    assert_eq!(state(&trainer), before, "weights, averages and running statistics are as they were");
    assert_eq!(trainer.steps(), 2);
    let report = trainer.step(&mut batches).unwrap();
    assert!(report.learners.iter().all(|learner| !learner.skipped));
    let after = state(&trainer);
    assert!(after.iter().zip(&before).all(|(after, before)| after != before && is_finite(after)));
}

#[test]
fn too_many_bad_steps_in_a_row_end_the_run() {
    let _alone = alone();
    let mut trainer = Setup { max_bad_steps: 3, ..Setup::default() }.trainer();
    let mut batches = broken(&[true, true, false, true, true, true]);
    for _ in 0..5 {
        trainer.step(&mut batches).unwrap();
    }
    let error = trainer.step(&mut batches).unwrap_err();
    assert!(error.is_diverged());
    assert!(matches!(&error, TrainError::Diverged { step: 5, learner, bad_steps: 3 } if learner == "autoencoder"));
    assert!(error.to_string().contains("lower the learning rate"), "{error}");
    assert!(is_finite(&bits(trainer.workload().model().module())));
}

#[test]
fn each_learner_has_a_scale_of_its_own() {
    let _alone = alone();
    let grows = LossScale::Dynamic { initial: 256.0, growth: 2.0, back_off: 0.5, growth_interval: 2 };
    let setup = Setup { with_discriminator: true, discriminator_scale: TOO_LARGE, ..f16(grows) };
    let mut trainer = setup.trainer();
    let mut batches = batches(0);
    let discriminator = |trainer: &AutoencoderTrainer| state(trainer)[2].clone();
    let start = discriminator(&trainer);
    for (step, [own, other]) in [[256.0, 40.0], [256.0, 39.0], [512.0, 38.0]].into_iter().enumerate() {
        let report = trainer.step(&mut batches).unwrap();
        let found: Vec<_> = report.learners.iter().map(|learner| (learner.loss_scale, learner.skipped)).collect();
        assert_eq!(found, [(own, false), (2f64.powf(other), true)], "step {step}");
    }
    assert_eq!(discriminator(&trainer), start);
}
