//! A run in progress: steps, evaluations, checkpoints, and everything it writes.

use std::time::Instant;

use burn::tensor::Device;
use leanburn_common::{Bytes, atomic};
use leanburn_ops::is_gpu;
use leanburn_train::{CheckpointStore, StepReport, TrainError};

use super::account::MemoryAccount;
use super::best::{Best, Watch, weights_alone};
use super::observer::{Beginning, Observed, Observer, Snapshot};
use super::planned::Planned;
use crate::config::Config;
use crate::data::DataSize;
use crate::error::{Result, SystemError};
use crate::evaluation::keep_finite;
use crate::machine::resident_peak;
use crate::metrics::{MetricsLog, PEAK, Phase, Record, read_metrics};
use crate::next::Next;
use crate::picture::encode_png;
use crate::planning::program;
use crate::run::AnyRun;
use crate::run_folder::RunFolder;

/// A training run up to its end, or until a step does not fit.
pub(super) struct Attempt<'a> {
    config: &'a Config,
    folder: &'a RunFolder,
    run: Box<dyn AnyRun>,
    store: CheckpointStore,
    observer: &'a mut (dyn Observer + 'a),
    metrics: MetricsLog,
    began: Instant,
    /// Seconds of the run before this process.
    before: f64,
    /// Everything but the learners, which the trainer knows.
    memory: MemoryAccount,
    /// The most that was taken from the device.
    reserved: Bytes,
    planned: Planned,
    last_step: u64,
    watch: Option<Watch>,
}

/// A run that has ended.
pub(super) struct Finished {
    /// Steps taken.
    pub steps: u64,
    /// Seconds of training.
    pub seconds: f64,
    pub memory: MemoryAccount,
    /// Whether it was asked to stop.
    pub interrupted: bool,
    pub best: Option<Best>,
}

impl<'a> Attempt<'a> {
    /// Opens the logs; those of a run that goes on lose what lies after its checkpoint.
    pub fn open<'o: 'a>(
        config: &'a Config,
        folder: &'a RunFolder,
        run: Box<dyn AnyRun>,
        device: &Device,
        planned: Planned,
        observer: &'a mut (dyn Observer + 'o),
        last_step: u64,
    ) -> Result<Self> {
        let step = run.steps();
        let continues = step > 0 || folder.metrics().exists();
        if continues && step == 0 {
            // nothing is kept of a run that died before its first checkpoint, the records of step 0 included
            std::fs::remove_file(folder.metrics()).map_err(SystemError::writing(&folder.metrics()))?;
        }
        let metrics = MetricsLog::open(&folder.metrics(), (step > 0).then_some(step))?;
        let records = read_metrics(&folder.metrics())?;
        let before = records.last().map_or(0.0, |record| record.seconds);
        let peak = records.iter().filter_map(|record| record.values.get(PEAK)).fold(0.0, |a: f64, &b| a.max(b)) as u64;
        let store = folder.checkpoints(config.training().keep_checkpoints);
        let memory = MemoryAccount {
            peak: (peak > 0).then_some(Bytes(peak)),
            ..at_rest(config, &run.data_size()?, device, &planned)
        };
        let mut warnings = planned.warnings(planned.reserved.unwrap_or(memory.planned()), config, device);
        warnings.extend(run.data_remarks());
        let watch = Watch::of(config, folder, &records);
        let beginning = Beginning {
            config,
            folder,
            step,
            last_step,
            continues,
            planned: memory.planned(),
            reserved: planned.reserved,
            warnings: &warnings,
        };
        observer.began(&beginning).map_err(SystemError::Observer)?;
        let (began, reserved) = (Instant::now(), Bytes(0));
        Ok(Self {
            config,
            folder,
            run,
            store,
            observer,
            metrics,
            began,
            before,
            memory,
            reserved,
            planned,
            last_step,
            watch,
        })
    }

    /// Trains up to the last step, or until `stop` says so on any rank between two steps.
    pub fn run(mut self, stop: &dyn Fn() -> bool) -> Result<Finished> {
        let training = self.config.training();
        self.write_plan()?;
        if self.run.steps() == 0 {
            self.evaluate()?;
            self.draw()?;
        }
        let mut interrupted = false;
        while self.run.steps() < self.last_step {
            let is_over = self.is_over();
            let next = self.run.next(stop(), is_over);
            interrupted = next == Next::Interrupted;
            if next != Next::Step {
                break;
            }
            self.step()?;
            let (steps, is_last) = (self.run.steps(), self.run.steps() == self.last_step);
            let is_due = |interval: u64| steps.is_multiple_of(interval) || is_last;
            if is_due(training.val_interval) {
                self.evaluate()?;
            }
            if is_due(training.visualize_interval) {
                self.draw()?;
            }
            if steps.is_multiple_of(training.checkpoint_interval) && !is_last {
                self.save()?;
            }
            if training.weights_interval > 0 && steps.is_multiple_of(training.weights_interval) {
                let place = RunFolder::new(self.folder.weights_after(steps));
                weights_alone(self.config, &place, |place| save_weights(&*self.run, place))?;
            }
        }
        self.write_plan()?;
        self.save()?; // after the last step, and for a run that was over already
        self.notify(|observer, snapshot| match interrupted {
            true => observer.interrupted(snapshot),
            false => observer.finished(snapshot),
        })?;
        let (steps, seconds, memory) = (self.run.steps(), self.seconds(), self.account());
        let best = self.watch.as_ref().and_then(Watch::best).cloned();
        Ok(Finished { steps, seconds, memory, interrupted, best })
    }

    /// Whether the run ends before its last step, because it does not get better.
    fn is_over(&self) -> bool {
        self.watch.as_ref().is_some_and(Watch::is_over)
    }

    fn seconds(&self) -> f64 {
        self.before + self.began.elapsed().as_secs_f64()
    }

    /// Takes a step. Where it cannot be taken, the last good state is saved, to go on from.
    fn step(&mut self) -> Result<()> {
        let report = match self.run.step() {
            Err(error) if error.is_before_step() => {
                let saved = self.save();
                if let TrainError::OutOfMemory { step, reason, .. } = &error {
                    saved?; // of other errors what is wrong, such as a full disk, may be the same
                    self.observer.did_not_fit(*step, reason).map_err(SystemError::Observer)?;
                }
                return Err(error.into());
            }
            report => report?,
        };
        self.record(&report)?;
        self.observer.stepped(&report).map_err(SystemError::Observer)
    }

    fn log(&mut self, step: u64, phase: Phase, values: Vec<(String, f64)>) -> Result<()> {
        let record = Record { step, phase, seconds: self.seconds(), values: values.into_iter().collect() };
        self.metrics.append(&record)?;
        self.observer.recorded(&record).map_err(SystemError::Observer)
    }

    fn record(&mut self, report: &StepReport) -> Result<()> {
        let mut values: Vec<(String, f64)> = report.losses.iter().map(|(name, &loss)| (name.clone(), loss)).collect();
        for learner in &report.learners {
            let name = &learner.learner;
            values.push((format!("{name}.learning_rate"), learner.learning_rate));
            values.push((format!("{name}.gradient_norm"), learner.gradient_norm));
            values.push((format!("{name}.loss_scale"), learner.loss_scale));
            values.push((format!("{name}.skipped"), f64::from(u8::from(learner.skipped))));
        }
        if let Some(memory) = report.memory {
            self.memory.peak = self.memory.peak.max(Some(memory.peak).filter(|peak| *peak > Bytes(0)));
            values.push(("memory.live_bytes".into(), memory.live.get() as f64));
            values.push((PEAK.into(), memory.peak.get() as f64));
            values.push(("memory.padding_bytes".into(), memory.padding.get() as f64));
            values.push(("memory.reserved_bytes".into(), memory.reserved.get() as f64));
            self.reserved = self.reserved.max(memory.reserved);
        }
        self.log(report.step + 1, Phase::Train, values)
    }

    /// What an evaluation gave. What fails or does not fit ends the run, with a checkpoint to go on from.
    fn fitted<T>(&mut self, evaluation: std::result::Result<Result<T>, TrainError>) -> Result<T> {
        let error = match evaluation {
            Ok(Err(error)) => {
                let _ = self.save(); // what is wrong, such as a disk, may keep it from being saved, too
                return Err(error);
            }
            Ok(result) => return result,
            Err(error) => error,
        };
        self.save()?;
        let reason = error.to_string();
        self.observer.did_not_fit(self.run.steps(), &reason).map_err(SystemError::Observer)?;
        let remedy = format!(
            "go on with --resume where there is more memory (device.memory_limit, device.name, other programs closed), or \
             begin anew with {}",
            self.config.system.any().smaller_evaluation()
        );
        Err(SystemError::OutOfMemory { reason, remedy })
    }

    /// The system's metrics over the validation samples.
    fn evaluate(&mut self) -> Result<()> {
        let metrics = self.run.evaluate();
        let mut metrics = self.fitted(metrics)?;
        let step = self.run.steps();
        let is_best = self.watch.as_mut().map_or(Ok(false), |watch| watch.judge(step, &metrics))?;
        if metrics.is_empty() {
            return Ok(());
        }
        keep_finite(&mut metrics);
        self.log(step, Phase::Validation, metrics.iter().map(|(key, value)| (key.to_string(), *value)).collect())?;
        if let Some(watch) = self.watch.as_ref().filter(|_| is_best) {
            watch.keep(self.config, self.folder, |place| save_weights(&*self.run, place))?;
        }
        let seconds = self.seconds();
        self.observer.evaluated(step, &metrics, seconds).map_err(SystemError::Observer)
    }

    /// Draws what the run makes of a validation sample.
    fn draw(&mut self) -> Result<()> {
        if self.config.training().visualize_interval == 0 {
            return Ok(());
        }
        let picture = self.run.picture();
        let picture = self.fitted(picture)?;
        let (step, png) = (self.run.steps(), encode_png(&picture)?);
        let path = self.folder.picture(step);
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(SystemError::writing(folder))?;
        }
        atomic::write(&path, &png).map_err(SystemError::writing(&path))?;
        self.observer.pictured(step, self.config.picture_label(), &png).map_err(SystemError::Observer)
    }

    /// A checkpoint to go on from, and weights to use.
    pub fn save(&mut self) -> Result<()> {
        self.run.save(&self.store)?;
        save_weights(&*self.run, self.folder)?;
        self.notify(|observer, snapshot| observer.saved(snapshot))
    }

    /// Notifies the observer of the state of the run.
    fn notify(&mut self, call: impl FnOnce(&mut dyn Observer, &Snapshot<'_>) -> Observed) -> Result<()> {
        let (memory, seconds) = (self.account(), self.seconds());
        let (config, folder, steps) = (self.config, self.folder, self.run.steps());
        let best = self.watch.as_ref().and_then(Watch::best);
        let stopped_early = steps < self.last_step && self.is_over();
        let snapshot = Snapshot { config, folder, steps, seconds, memory: &memory, best, stopped_early };
        call(self.observer, &snapshot).map_err(SystemError::Observer)
    }

    fn account(&mut self) -> MemoryAccount {
        MemoryAccount { learners: self.run.memory(), resident: resident_peak(), ..self.memory.clone() }
    }

    /// What was planned, and what was measured so far.
    fn write_plan(&self) -> Result<()> {
        let plan = serde_json::json!({
            "planned_step_bytes": self.planned.peak,
            "planned_peak_bytes": self.memory.planned(),
            "measured_peak_bytes": self.memory.peak,
            "resident_peak_bytes": resident_peak(),
            "planned_reserved_bytes": self.planned.reserved,
            "measured_reserved_bytes": Some(self.reserved).filter(|reserved| *reserved > Bytes(0)),
        });
        let path = self.folder.plan();
        atomic::write(&path, format!("{plan:#}\n").as_bytes()).map_err(SystemError::writing(&path))
    }
}

/// The steps of a rank that does not lead: it writes nothing, and evaluates nothing.
pub(super) fn follow(
    run: &mut dyn AnyRun,
    last_step: u64,
    memory: MemoryAccount,
    stop: &dyn Fn() -> bool,
) -> Result<Finished> {
    let (began, mut next) = (Instant::now(), Next::Step);
    while run.steps() < last_step {
        next = run.next(stop(), false);
        if next != Next::Step {
            break;
        }
        run.step().inspect_err(|error| {
            if error.is_before_step() {
                run.serve_save();
            }
        })?;
    }
    run.serve_save();
    let (interrupted, seconds) = (next == Next::Interrupted, began.elapsed().as_secs_f64());
    let memory = MemoryAccount { learners: run.memory(), ..memory };
    Ok(Finished { steps: run.steps(), seconds, memory, interrupted, best: None })
}

/// Saves the weights of a run into a folder, with what its data was normalized by.
fn save_weights(run: &dyn AnyRun, folder: &RunFolder) -> Result<()> {
    run.save_weights(&folder.weights())?;
    match run.normalization() {
        [] => Ok(()),
        channels => folder.write_normalization(channels),
    }
}

/// Memory of a run other than that of its learners. Of a GPU's memory the data takes nothing.
pub(super) fn at_rest(config: &Config, data: &DataSize, device: &Device, planned: &Planned) -> MemoryAccount {
    let batch_size = |extent| {
        let context = config.context("the configuration");
        config.system.any().batch_size_in_memory(&context, config.training().batch_size, extent)
    };
    let (data, batches, program) = match is_gpu(device) {
        true => (Bytes(0), Bytes(0), Bytes(0)),
        false => (
            data.held + config.read_beside_steps(data),
            config.waiting(data.extent.map_or(Bytes(0), batch_size)),
            program(),
        ),
    };
    MemoryAccount {
        learners: Vec::new(),
        source: config.source(),
        data,
        batches,
        program,
        peak: None,
        resident: None,
        planned_step: planned.peak,
    }
}
