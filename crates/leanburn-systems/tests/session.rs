//! Sessions from configurations that are written in code.

use std::cell::Cell;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use leanburn_common::Bytes;
use leanburn_data::{AdvectionConfig, DataConfig, PhantomConfig, SequenceConfig, Volume};
use leanburn_systems::metrics::{Phase, Record};
use leanburn_systems::session::{Beginning, Resumed, Snapshot};
use leanburn_systems::{
    AutoencoderSection, Config, DeviceSection, ForecasterSection, Initialized, ModelType, Observed, Observer, Outcome,
    Recompute, Session, SystemError, SystemSection, TrainingSection,
};
use leanburn_train::{OptimizerKind, StepReport, TrainError};

/// What was heard of a run.
#[derive(Debug, Default)]
struct Heard {
    resumed: Option<Option<u64>>,
    changes: Vec<String>,
    set_aside: usize,
    initialized: Vec<String>,
    began_at: u64,
    losses: Vec<f64>,
    saved: Vec<u64>,
    interrupted: bool,
    finished: bool,
    stop_at: Option<u64>,
}

impl Observer for Heard {
    fn resumed(&mut self, resumed: &Resumed<'_>) -> Observed {
        self.resumed = Some(resumed.step);
        self.changes = resumed.changes.iter().map(ToString::to_string).collect();
        self.set_aside = resumed.set_aside.len();
        Ok(())
    }

    fn initialized(&mut self, models: &[Initialized]) -> Observed {
        self.initialized = models.iter().flat_map(Initialized::lines).collect();
        Ok(())
    }

    fn began(&mut self, beginning: &Beginning<'_>) -> Observed {
        self.began_at = beginning.step;
        assert!(beginning.planned.get() > 0 && beginning.last_step >= beginning.step);
        Ok(())
    }

    fn stepped(&mut self, report: &StepReport) -> Observed {
        self.losses.extend(report.losses.values().next());
        match self.stop_at {
            Some(step) if report.step == step => Err("enough".into()),
            _ => Ok(()),
        }
    }

    fn saved(&mut self, snapshot: &Snapshot<'_>) -> Observed {
        self.saved.push(snapshot.steps);
        Ok(())
    }

    fn interrupted(&mut self, snapshot: &Snapshot<'_>) -> Observed {
        self.interrupted = snapshot.folder.weights().is_file();
        Ok(())
    }

    fn finished(&mut self, snapshot: &Snapshot<'_>) -> Observed {
        self.finished = snapshot.folder.weights().is_file();
        Ok(())
    }
}

fn training() -> TrainingSection {
    TrainingSection::default()
        .with_max_steps(4)
        .with_val_interval(2)
        .with_visualize_interval(2)
        .with_checkpoint_interval(2)
}

fn autoencoder() -> Config {
    let phantom = PhantomConfig { count: 2, shape: [16; 3], ..PhantomConfig::default() };
    let data = DataConfig { phantom: Some(phantom), patch_size: Some([8; 3]), num_workers: 1, ..DataConfig::default() };
    let model = AutoencoderSection::new(vec![4, 8]).with_norm_num_groups(2).with_training(training());
    Config::new(model).with_data(data).with_device(DeviceSection::new("flex"))
}

/// Step, phase, and values by name.
type Computed = (u64, Phase, Vec<(String, f64)>);

/// Weights are drawn from the process's generator: one run at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The losses of every step and the metrics of every evaluation.
fn computed(records: &[Record]) -> Vec<Computed> {
    let values = |record: &Record| {
        let values = record.values.iter().filter(|(name, _)| !name.starts_with("memory."));
        values.map(|(name, value)| (name.clone(), *value)).collect()
    };
    records.iter().map(|record| (record.step, record.phase, values(record))).collect()
}

#[test]
fn a_run_that_stops_goes_on_bit_for_bit() {
    let (_alone, folder) = (alone(), tempfile::tempdir().unwrap());
    let straight = Session::new(autoencoder()).unwrap().in_folder(folder.path().join("straight")).run().unwrap();
    assert_eq!(straight.steps, 4);

    let session = || Session::new(autoencoder()).unwrap().in_folder(folder.path().join("stopped"));
    let mut first = Heard::default();
    session().stop_after(2).with_observer(&mut first).run().unwrap();
    assert_eq!((first.resumed, first.began_at, first.losses.len(), first.finished), (None, 0, 2, true));
    assert!(matches!(session().run(), Err(SystemError::RunFolder { .. })), "a run is there already");

    let mut second = Heard::default();
    let stopped = session().resume(true).with_observer(&mut second).run().unwrap();
    assert_eq!((second.resumed, second.began_at, second.losses.len()), (Some(Some(2)), 2, 2));
    assert_eq!(second.saved, [4]);
    assert_eq!(computed(&stopped.records), computed(&straight.records));
    let weights = |outcome: &leanburn_systems::Outcome| std::fs::read(outcome.folder.weights()).unwrap();
    assert!(weights(&stopped) == weights(&straight));
}

#[test]
fn a_run_that_is_asked_to_stop_saves_and_goes_on_bit_for_bit() {
    let (_alone, folder) = (alone(), tempfile::tempdir().unwrap());
    let straight = Session::new(autoencoder()).unwrap().in_folder(folder.path().join("straight")).run().unwrap();
    assert!(!straight.interrupted);
    let session = || Session::new(autoencoder()).unwrap().in_folder(folder.path().join("stopped"));
    let (asked, mut heard) = (Cell::new(0), Heard::default());
    // asked before each step: the fourth time, after three; no checkpoint is due there
    let stop = || asked.replace(asked.get() + 1) == 3;
    let stopped = session().stop_when(stop).with_observer(&mut heard).run().unwrap();
    assert!(stopped.interrupted && heard.interrupted && !heard.finished, "{heard:?}");
    assert_eq!((stopped.steps, heard.saved.as_slice()), (3, &[2, 3][..]));
    let ended = session().resume(true).run().unwrap();
    assert!(!ended.interrupted);
    assert_eq!(computed(&ended.records), computed(&straight.records));
    assert!(std::fs::read(ended.folder.weights()).unwrap() == std::fs::read(straight.folder.weights()).unwrap());
}

/// A run that is quick and saves each step, with keys of `training` changed.
fn quick(change: impl FnOnce(&mut TrainingSection)) -> Config {
    let mut config = autoencoder();
    config.data.val_patches = 1;
    let training = config.training_mut();
    (training.visualize_interval, training.checkpoint_interval) = (0, 1);
    change(training);
    config
}

/// Two steps in a folder below.
fn short_run(folder: &Path) -> Outcome {
    Session::new(quick(|_| ())).unwrap().in_folder(folder.join("run")).stop_after(2).run().unwrap()
}

#[test]
fn a_run_goes_on_with_other_keys_of_how_it_learns_and_names_them() {
    let (_alone, folder) = (alone(), tempfile::tempdir().unwrap());
    short_run(folder.path());
    let resume = |config: Config| Session::new(config).unwrap().in_folder(folder.path().join("run")).resume(true);
    type Change = (fn(&mut Config), &'static str);
    let changes: [Change; 4] = [
        (|config| config.seed = 8, "`seed` is 42 in its run, and 8 in the configuration"),
        (|config| config.training_mut().optimizer = OptimizerKind::AdamW, "training.optimizer` is \"adam\""),
        (|config| config.training_mut().batch_size = 2, "`autoencoder.training.batch_size` is 1 in its run, and 2"),
        (|config| config.data.val_fraction = 0.5, "`data.val_fraction`"),
    ];
    for (change, key) in changes {
        let mut config = quick(|_| ());
        change(&mut config);
        let error = resume(config).run().unwrap_err();
        let help = error.help().unwrap_or_default().into_owned();
        assert!(error.to_string().contains(key) && help.contains("--from"), "{error}; {help}");
    }

    let mut config = quick(|training| (training.learning_rate, training.max_steps) = (5e-5, 3));
    let SystemSection::Autoencoder(section) = &mut config.system else { unreachable!() };
    section.training.objective.kl_weight = 0.5;
    let mut heard = Heard::default();
    let outcome = resume(config).with_observer(&mut heard).run().unwrap();
    let expected = [
        "autoencoder.training.kl_weight: 1e-6 -> 0.5",
        "autoencoder.training.learning_rate: 0.0001 -> 0.00005",
        "autoencoder.training.max_steps: 4 -> 3",
    ];
    let [mut changes, mut expected] = [heard.changes, expected.map(String::from).to_vec()];
    changes.sort();
    expected.sort();
    assert_eq!(changes, expected);
    let rates = outcome.records.iter().filter_map(|record| record.values.get("autoencoder.learning_rate").copied());
    assert_eq!(rates.collect::<Vec<f64>>(), [1e-4, 1e-4, 5e-5]);
}

#[test]
fn a_run_goes_on_from_a_certain_checkpoint_and_keeps_the_later_ones() {
    let (_alone, folder) = (alone(), tempfile::tempdir().unwrap());
    let first = short_run(folder.path());
    let checkpoint = |step: u64| folder.path().join(format!("run/checkpoints/step-{step:08}"));
    let before = std::fs::read(first.folder.weights()).unwrap();
    let go_on = |rate: f64| {
        let config = quick(|training| training.learning_rate = rate);
        let session = Session::new(config).unwrap().in_folder(folder.path().join("run")).stop_after(2);
        let mut heard = Heard::default();
        let outcome = session.resume_from(checkpoint(1)).with_observer(&mut heard).run().unwrap();
        assert_eq!((heard.resumed, heard.set_aside, outcome.steps), (Some(Some(1)), 1, 2));
        std::fs::read(outcome.folder.weights()).unwrap()
    };
    assert!(go_on(1e-4) == before, "it is the run that did not stop");
    assert!(go_on(1e-3) != before, "it learns anew from there");
    let aside = folder.path().join("run/checkpoints/aside-step-00000002/trainer.json");
    assert!(aside.is_file() && checkpoint(2).is_dir(), "the checkpoint of step 2 is the new one");

    let resume_from = |path: &Path| {
        let session = Session::new(quick(|_| ())).unwrap().in_folder(folder.path().join("run"));
        session.resume_from(path).run().unwrap_err()
    };
    let error = resume_from(&checkpoint(7)).to_string();
    assert!(
        error.contains("step-00000007: expected a checkpoint of this run") && error.contains("step-00000001"),
        "{error}"
    );
    std::fs::write(checkpoint(2).join("autoencoder.weights.bpk"), "").unwrap();
    let error = resume_from(&checkpoint(2));
    assert!(
        matches!(&error, SystemError::DamagedCheckpoint { before: Some(path), .. } if *path == checkpoint(1)),
        "{error}"
    );
    assert!(error.help().unwrap().contains(&format!("--resume-from {}", checkpoint(1).display())));
}

#[test]
fn a_run_starts_from_the_weights_of_another() {
    let (_alone, folder) = (alone(), tempfile::tempdir().unwrap());
    let first = short_run(folder.path());
    let start = |config: Config, from: &Path, name: &str| {
        let mut heard = Heard::default();
        let session = Session::new(config).unwrap().in_folder(folder.path().join(name)).stop_after(0);
        let outcome = session.start_from(from).with_observer(&mut heard).run();
        (outcome, heard)
    };
    let run = folder.path().join("run");
    let l1 = |records: &[Record]| records.iter().rev().find_map(|record| record.values.get("l1").copied()).unwrap();
    for (name, from) in [
        ("of_run", run.clone()),
        ("of_file", first.folder.weights()),
        ("of_step", run.join("checkpoints/step-00000002")),
    ] {
        let (outcome, heard) = start(quick(|training| training.ema_decay = Some(0.9)), &from, name);
        let outcome = outcome.unwrap();
        assert_eq!((outcome.steps, heard.resumed), (0, None));
        assert_eq!(l1(&outcome.records), l1(&first.records), "{name}: the weights are the same, their average too");
        assert!(
            heard.initialized.len() == 1 && heard.initialized[0].contains(" tensors from "),
            "{:?}",
            heard.initialized
        );
    }
    let mut wider = quick(|_| ());
    let SystemSection::Autoencoder(section) = &mut wider.system else { unreachable!() };
    section.latent_channels = 5;
    let (outcome, heard) = start(wider.clone(), &run, "wider");
    outcome.unwrap();
    let line = "  quant_conv_mu.conv.weight starts as it was drawn: [3, 3, 1, 1, 1] there, [5, 5, 1, 1, 1] here";
    assert!(heard.initialized.iter().any(|said| said == line), "{:#?}", heard.initialized);

    // who goes on need not name the weights again
    let mut resumed = Heard::default();
    let session = Session::new(wider).unwrap().in_folder(folder.path().join("wider")).resume(true).stop_after(1);
    let outcome = session.with_observer(&mut resumed).run().unwrap();
    assert_eq!((resumed.resumed, resumed.initialized.len(), outcome.steps), (Some(Some(0)), 0, 1));
}

#[test]
fn weights_of_another_model_start_nothing() {
    let (_alone, folder) = (alone(), tempfile::tempdir().unwrap());
    let sequence = SequenceConfig {
        advection: Some(AdvectionConfig { steps: 40, shape: [8, 10], ..Default::default() }),
        ..Default::default()
    };
    let model = ForecasterSection::new(ModelType::Cnn3dLstmMicro).with_training(training());
    let forecaster = Config::new(model).with_sequence(sequence).with_device(DeviceSection::new("flex"));
    let other = Session::new(forecaster).unwrap().in_folder(folder.path().join("other")).stop_after(0).run().unwrap();
    let start = |from: &Path| {
        let session = Session::new(quick(|_| ())).unwrap().in_folder(folder.path().join("new")).start_from(from);
        let error = session.run().unwrap_err();
        assert!(!folder.path().join("new").exists(), "nothing is written");
        error.to_string()
    };
    let error = start(&other.folder.weights());
    assert!(
        error.contains("expected tensors such as encoder.blocks.0") && error.contains("found features.0.bias [16]"),
        "{error}"
    );
    let error = start(&folder.path().join("other/checkpoints/step-00000000"));
    assert!(error.contains("with autoencoder.weights.bpk, found that of another"), "{error}");
    let error = start(folder.path());
    assert!(error.contains("expected weights") && error.contains("a folder without any"), "{error}");
}

#[test]
fn a_run_whose_checkpoints_are_gone_does_not_begin_anew_over_its_weights() {
    let (_alone, folder) = (alone(), tempfile::tempdir().unwrap());
    let run = short_run(folder.path()).folder;
    let kept = [run.weights(), run.metrics()].map(|path| (std::fs::read(&path).unwrap(), path));
    std::fs::remove_dir_all(folder.path().join("run/checkpoints")).unwrap();
    let session =
        || Session::new(quick(|_| ())).unwrap().in_folder(folder.path().join("run")).resume(true).stop_after(3);
    let error = session().run().unwrap_err();
    assert!(error.to_string().contains("checkpoints has no checkpoint"), "{error}");
    assert!(error.help().unwrap().contains("put the checkpoints back"));
    assert!(kept.iter().all(|(bytes, path)| std::fs::read(path).unwrap() == *bytes), "nothing is written");
    // one that died before its first checkpoint has no weights, and begins anew
    std::fs::remove_file(run.weights()).unwrap();
    assert_eq!(session().run().unwrap().steps, 3);
}

/// Removes a folder after the second step.
struct Remover<'a> {
    folder: &'a Path,
    saved: Vec<u64>,
}

impl Observer for Remover<'_> {
    fn stepped(&mut self, report: &StepReport) -> Observed {
        if report.step == 1 {
            std::fs::remove_dir_all(self.folder)?;
        }
        Ok(())
    }

    fn saved(&mut self, snapshot: &Snapshot<'_>) -> Observed {
        self.saved.push(snapshot.steps);
        Ok(())
    }
}

#[test]
fn a_step_or_a_validation_without_data_leaves_those_before_it_saved() {
    let (_alone, folder) = (alone(), tempfile::tempdir().unwrap());
    for val_interval in [2, 100] {
        let place = folder.path().join(val_interval.to_string());
        let scans = place.join("scans");
        std::fs::create_dir_all(&scans).unwrap();
        for number in 0..3 {
            let values = (0..16 * 16 * 16).map(|voxel| ((voxel + number) % 7) as f32).collect();
            let affine = std::array::from_fn(|row| std::array::from_fn(|column| f64::from(u8::from(row == column))));
            Volume::new(values, [1, 16, 16, 16], affine).unwrap().write(scans.join(format!("{number}.nii"))).unwrap();
        }
        let mut config = quick(|training| {
            (training.checkpoint_interval, training.max_steps, training.val_interval) = (100, 100, val_interval);
        });
        let (paths, phantom) = (vec![scans.clone()], None);
        config.data = DataConfig { paths, phantom, cache_rate: 0.0, num_workers: 0, ..config.data };
        let mut remover = Remover { folder: &scans, saved: Vec::new() };
        let session = Session::new(config).unwrap().in_folder(place.join("run"));
        let error = session.with_observer(&mut remover).run().unwrap_err();
        assert!(matches!(&error, SystemError::Train(TrainError::Data(_))), "{error}");
        assert_eq!(remover.saved, [2]);
        assert!(place.join("run/checkpoints/step-00000002").is_dir());
    }
}

#[test]
fn an_observer_can_stop_a_run() {
    let (_alone, folder) = (alone(), tempfile::tempdir().unwrap());
    let observer = Heard { stop_at: Some(1), ..Heard::default() };
    let error =
        Session::new(autoencoder()).unwrap().in_folder(folder.path()).with_observer(observer).run().unwrap_err();
    assert!(matches!(&error, SystemError::Observer(error) if error.to_string() == "enough"), "{error}");
}

#[test]
fn a_forecaster_is_trained_on_fields() {
    let (_alone, folder) = (alone(), tempfile::tempdir().unwrap());
    let advection = AdvectionConfig { steps: 40, shape: [8, 10], ..AdvectionConfig::default() };
    let sequence = SequenceConfig { advection: Some(advection), input_days: 4, num_workers: 1, ..Default::default() };
    let model = ForecasterSection::new(ModelType::Cnn3dLstmMicro).with_training(training());
    let config = Config::new(model).with_sequence(sequence).with_device(DeviceSection::new("flex"));
    let outcome = Session::new(config).unwrap().in_folder(folder.path()).run().unwrap();
    let last = outcome.records.last().unwrap();
    assert!(last.phase == Phase::Validation && last.values.contains_key("skill"), "{last:?}");
}

#[test]
fn a_wrong_configuration_is_rejected_with_every_error() {
    let mut config = autoencoder();
    config.data.phantom = None;
    config.training_mut().batch_size = 0;
    let SystemSection::Autoencoder(section) = &mut config.system else { unreachable!() };
    section.norm_num_groups = 3;
    let Err(SystemError::Config(errors)) = Session::new(config) else { panic!("it is not valid") };
    let keys: Vec<&str> = errors.errors().iter().map(|error| error.key.as_str()).collect();
    assert_eq!(keys, ["data.paths", "autoencoder.norm_num_groups", "autoencoder.training.batch_size"]);
}

#[test]
fn what_is_written_reads_back() {
    let training = training().with_recompute(Recompute::segments(["decoder.*"]));
    let mut config = autoencoder();
    config.system = AutoencoderSection::new(vec![32]).with_training(training).into();
    assert_eq!(Config::parse(&config.to_yaml(), "written", &[]).unwrap(), config);
    // a limit to the byte, where it has no shorter name
    for (limit, written) in [(Bytes::gib(20), "20.0 GiB"), (Bytes(1_572_864_001), "1572864001 B")] {
        config.device.memory_limit = Some(limit);
        assert!(config.to_yaml().contains(&format!("memory_limit: {written}")), "{}", config.to_yaml());
        assert_eq!(Config::parse(&config.to_yaml(), "written", &[]).unwrap(), config);
    }
}
