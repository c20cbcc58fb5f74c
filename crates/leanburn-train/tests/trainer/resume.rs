//! A run that was saved and goes on is the run that never stopped, bit for bit; a damaged checkpoint changes nothing.

use std::fs;
use std::path::{Path, PathBuf};

use leanburn_train::{CheckpointStore, LossScale, Precision, StepReport, TrainError, Trainer};

use crate::common::{
    AutoencoderTrainer, Setup, WeightsWorkload, alone, batches, bits, device, factors, optimizers, state,
};

/// Everything that has a state: two learners with averages, f16 with a scale that backs off and grows, batch norm,
/// dropout, accumulation.
fn setup() -> Setup {
    let scale = |initial| LossScale::Dynamic { initial, growth: 1.3, back_off: 0.7, growth_interval: 2 };
    Setup {
        precision: Precision::F16,
        scale: scale(1000.1),
        discriminator_scale: scale(3e7),
        with_discriminator: true,
        dropout: 0.3,
        adversarial_start_step: 1,
        average_decay: Some(0.9),
        max_grad_norm: Some(1.0),
        accumulation_steps: 2,
        ..Setup::default()
    }
}

/// Another run of the same configuration: other initial weights.
fn other() -> Setup {
    Setup { weights_seed: 77, ..setup() }
}

fn steps(trainer: &mut AutoencoderTrainer, count: usize) -> Vec<StepReport> {
    let mut batches = batches(trainer.micro_batches());
    (0..count).map(|_| trainer.step(&mut batches).unwrap()).collect()
}

#[test]
fn a_resumed_run_is_the_straight_run() {
    let _alone = alone();
    is_the_straight_run(setup());
    is_the_straight_run(Setup { average_decay: None, ..setup() });
}

fn is_the_straight_run(setup: Setup) {
    let other = Setup { weights_seed: 77, ..setup.clone() };
    let folder = tempfile::tempdir().unwrap();
    let store = CheckpointStore::new(folder.path(), 2);

    let mut straight = setup.trainer();
    let expected = steps(&mut straight, 6).split_off(3);
    let scales: Vec<_> =
        expected.iter().flat_map(|report| &report.learners).map(|learner| learner.loss_scale).collect();
    assert!(scales.iter().any(|scale| *scale != scales[0]), "the scales move: {scales:?}");

    let mut stopped = setup.trainer();
    steps(&mut stopped, 3);
    let saved = stopped.save(&store).unwrap();
    assert_eq!(store.latest().unwrap(), (3, saved.clone()));
    let at_save = state(&stopped);

    let mut fresh = other.trainer();
    assert_ne!(state(&fresh), at_save);
    fresh.resume(&saved).unwrap();
    assert_eq!((fresh.steps(), fresh.micro_batches()), (3, 6));
    assert_eq!(state(&fresh), at_save);
    assert_eq!(steps(&mut fresh, 3), expected);
    assert_eq!(state(&fresh), state(&straight));

    // the one that saved goes on likewise, and so does one that goes back
    assert_eq!(steps(&mut stopped, 3), expected);
    assert_eq!(state(&stopped), state(&straight));
    stopped.resume(&saved).unwrap();
    assert_eq!(state(&stopped), at_save);
    assert_eq!(steps(&mut stopped, 3), expected);
    assert_eq!(state(&stopped), state(&straight));
}

fn files(checkpoint: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> = fs::read_dir(checkpoint).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// Tries to resume from a checkpoint with `damage` done to it, for every file in turn.
fn each_damage_is_rejected(damage: impl Fn(&Path)) {
    let folder = tempfile::tempdir().unwrap();
    let mut saved = setup().trainer();
    steps(&mut saved, 2);
    let checkpoint = saved.save(&CheckpointStore::new(folder.path(), 1)).unwrap();
    let names = files(&checkpoint);
    assert_eq!(names.len(), 10, "{names:?}"); // four for each learner, the trainer's and the manifest

    let (mut trainer, mut untouched) = (other().trainer(), other().trainer());
    steps(&mut trainer, 2);
    let before = state(&trainer);
    for path in names {
        let whole = fs::read(&path).unwrap();
        damage(&path);
        let error = trainer.resume(&checkpoint).unwrap_err();
        assert!(
            matches!(&error, TrainError::Checkpoint { action: "read", path: named, .. } if *named == path),
            "{error}"
        );
        let name = path.file_name().unwrap().to_str().unwrap();
        assert!(
            error.to_string().contains(name) && error.to_string().contains("go on from another checkpoint"),
            "{error}"
        );
        assert_eq!(state(&trainer), before, "{name}");
        assert_eq!(trainer.steps(), 2);
        fs::write(&path, whole).unwrap();
    }
    steps(&mut untouched, 2);
    // as text: the gradient norm of a step that is skipped is not a number, which equals nothing
    let report = |trainer: &mut AutoencoderTrainer| format!("{:?}", steps(trainer, 1));
    assert_eq!(report(&mut trainer), report(&mut untouched));
    assert_eq!(state(&trainer), state(&untouched));
}

#[test]
fn a_truncated_file_is_named_and_changes_nothing() {
    let _alone = alone();
    each_damage_is_rejected(|path| {
        fs::write(path, &fs::read(path).unwrap()[..fs::read(path).unwrap().len() / 2]).unwrap()
    });
}

#[test]
fn a_missing_file_is_named_and_changes_nothing() {
    let _alone = alone();
    each_damage_is_rejected(|path| fs::remove_file(path).unwrap());
}

/// Every learner is read before the first one changes.
#[test]
fn another_model_is_rejected_and_changes_nothing() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let mut saved = Setup { dropout: 0.0, ..setup() }.trainer();
    steps(&mut saved, 2);
    let checkpoint = saved.save(&CheckpointStore::new(folder.path(), 1)).unwrap();
    // the autoencoder fits, the discriminator's loss scale does not
    let mut trainer = Setup { discriminator_scale: LossScale::Static(2.0), ..other() }.trainer();
    steps(&mut trainer, 2);
    let before = state(&trainer);
    let error = trainer.resume(&checkpoint).unwrap_err();
    assert!(matches!(error, TrainError::CheckpointMismatch { .. }), "{error}");
    assert!(
        error.to_string().contains("discriminator.scaler.json") && error.to_string().contains("loss scale"),
        "{error}"
    );
    assert_eq!(state(&trainer), before);
}

#[test]
fn another_seed_or_accumulation_is_rejected() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let setup = Setup::default;
    let checkpoint = setup().trainer().save(&CheckpointStore::new(folder.path(), 1)).unwrap();
    for (setup, name) in [
        (Setup { seed: 43, ..setup() }, "seed is 42 there and 43 here"),
        (Setup { accumulation_steps: 3, ..setup() }, "gradient_accumulation_steps is 1 there and 3 here"),
    ] {
        let error = setup.trainer().resume(&checkpoint).unwrap_err();
        assert!(matches!(error, TrainError::CheckpointMismatch { .. }), "{error}");
        assert!(error.to_string().contains(name), "{error}");
    }
    let error = setup().trainer().resume(&folder.path().join("nowhere")).unwrap_err();
    assert!(error.to_string().contains("nowhere"), "{error}");
}

#[test]
fn every_optimizer_goes_on_as_if_it_had_not_stopped() {
    let _alone = alone();
    for optimizer in optimizers() {
        let trainer = || WeightsWorkload::trainer(&optimizer, &device()).unwrap();
        let steps = |trainer: &mut Trainer<WeightsWorkload>| {
            let mut factors = factors(trainer.steps());
            (0..3).for_each(|_| drop(trainer.step(&mut factors).unwrap()));
            bits(trainer.workload().0.module())
        };
        let (mut straight, mut stopped, mut fresh) = (trainer(), trainer(), trainer());
        let at_save = steps(&mut straight);
        assert_eq!(steps(&mut stopped), at_save);
        let expected = steps(&mut straight);
        assert_ne!(expected, at_save, "{optimizer:?}");

        let folder = tempfile::tempdir().unwrap();
        let saved = stopped.save(&CheckpointStore::new(folder.path(), 1)).unwrap();
        fresh.resume(&saved).unwrap();
        assert_eq!(steps(&mut fresh), expected, "{optimizer:?}");
    }
}
