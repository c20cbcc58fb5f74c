//! Sessions from configurations that are written in code.

use std::cell::Cell;
use std::sync::{Mutex, MutexGuard, PoisonError};

use leanburn_data::{AdvectionConfig, DataConfig, PhantomConfig, SequenceConfig};
use leanburn_systems::metrics::{Phase, Record};
use leanburn_systems::session::{Beginning, Snapshot};
use leanburn_systems::{
    AutoencoderSection, Config, DeviceSection, ForecasterSection, ModelType, Observed, Observer, Recompute, Session,
    SystemError, SystemSection, TrainingSection,
};
use leanburn_train::StepReport;

/// What was heard of a run.
#[derive(Debug, Default)]
struct Heard {
    resumed: Option<Option<u64>>,
    began_at: u64,
    losses: Vec<f64>,
    saved: Vec<u64>,
    interrupted: bool,
    finished: bool,
    stop_at: Option<u64>,
}

impl Observer for Heard {
    fn resumed(&mut self, step: Option<u64>) -> Observed {
        self.resumed = Some(step);
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
}
