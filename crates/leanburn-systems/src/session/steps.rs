//! A run in progress: steps, and what people see of them.

use std::time::Instant;

use burn::tensor::Device;
use bytesize::ByteSize;
use leanburn_ops::is_gpu;
use leanburn_train::{CheckpointStore, StepReport, TrainError, Trainer};

use super::account::Account;
use super::outcome::{Outcome, PEAK};
use super::planned::Planned;
use crate::config::Config;
use crate::console::print_line;
use crate::error::{CommandError, Result};
use crate::progress::Progress;
use crate::report::{EventFile, MetricsLog, Phase, Record, encode_png, read_metrics, write_atomic};
use crate::run_folder::RunFolder;
use crate::workload::{BatchShape, Batches, Data, L1, Run};

/// A training run and everything it writes.
pub(super) struct Session<'a> {
    config: &'a Config,
    folder: RunFolder,
    data: Data,
    trainer: Trainer<Run>,
    store: CheckpointStore,
    /// Where validation runs: the device without autodiff.
    device: Device,
    metrics: MetricsLog,
    events: EventFile,
    began: Instant,
    /// Seconds of the run before this process.
    before: f64,
    /// The most memory a step has held, in bytes.
    peak: u64,
    /// The most that was taken from the device, in bytes.
    reserved: u64,
    planned: Planned,
}

impl<'a> Session<'a> {
    /// Opens the logs; those of a run that goes on lose what lies after its checkpoint.
    pub fn open(
        config: &'a Config,
        folder: RunFolder,
        data: Data,
        trainer: Trainer<Run>,
        device: Device,
        planned: Planned,
    ) -> Result<Self> {
        let step = trainer.steps();
        let goes_on = step > 0 || folder.metrics().exists();
        let resume = goes_on.then_some(step);
        if goes_on && step == 0 {
            // nothing is kept of a run that died before its first checkpoint, the records of step 0 included
            std::fs::remove_file(folder.metrics()).map_err(CommandError::writing(&folder.metrics()))?;
        }
        let metrics = MetricsLog::open(&folder.metrics(), (step > 0).then_some(step))?;
        let records = read_metrics(&folder.metrics())?;
        let before = records.last().map_or(0.0, |record| record.seconds);
        let peak = records.iter().filter_map(|record| record.values.get(PEAK)).fold(0.0, |a: f64, &b| a.max(b)) as u64;
        let mut events = EventFile::create(&folder.events(), resume)?;
        if step == 0 {
            events.text(0, "config", &format!("```yaml\n{}\n```", config.to_yaml()))?;
        }
        let store = folder.checkpoints(config.training().keep_checkpoints);
        let began = Instant::now();
        Ok(Self {
            config,
            folder,
            data,
            trainer,
            store,
            device,
            metrics,
            events,
            began,
            before,
            peak,
            reserved: 0,
            planned,
        })
    }

    /// Trains up to `last_step` steps in all.
    pub fn run(mut self, batches: &mut Batches, last_step: u64) -> Result<()> {
        let training = self.config.training();
        let mut progress = Progress::new("training", last_step, self.trainer.steps());
        let planned = self.account().planned();
        let reserve = self.planned.reserved.map(|bytes| format!(", reserve of the pool {}", ByteSize::b(bytes)));
        progress.note(&format!("planned peak {}{}", ByteSize::b(planned), reserve.unwrap_or_default()));
        for remark in self.planned.remarks(self.planned.reserved.unwrap_or(planned), self.config, &self.device) {
            progress.note(&remark);
        }
        self.write_plan()?;
        if self.trainer.steps() == 0 {
            self.validate(&progress)?;
            self.visualize()?;
        }
        while self.trainer.steps() < last_step {
            let report = match self.trainer.step(batches) {
                Err(TrainError::OutOfMemory { state_is_intact: true, step, phase, reason }) => {
                    self.save()?; // the last good state, to go on from
                    self.events.text(step, "out of memory", &reason)?;
                    return Err(TrainError::OutOfMemory { state_is_intact: true, step, phase, reason }.into());
                }
                report => report?,
            };
            self.record(&report)?;
            progress.step(|| headline(&report));
            let (steps, is_last) = (self.trainer.steps(), self.trainer.steps() == last_step);
            let is_due = |interval: u64| steps.is_multiple_of(interval) || is_last;
            if is_due(training.val_interval) {
                self.validate(&progress)?;
            }
            if is_due(training.visualize_interval) {
                self.visualize()?;
            }
            if steps.is_multiple_of(training.checkpoint_interval) && !is_last {
                self.save()?;
            }
        }
        progress.finish();
        self.write_plan()?;
        self.save()?; // after the last step, and for a run that was over already
        self.conclude()
    }

    fn seconds(&self) -> f64 {
        self.before + self.began.elapsed().as_secs_f64()
    }

    fn log(&mut self, step: u64, phase: Phase, values: Vec<(String, f64)>) -> Result<()> {
        for (name, value) in &values {
            let prefix = if phase == Phase::Train { "train" } else { "val" };
            self.events.scalar(step, &format!("{prefix}/{name}"), *value)?;
        }
        let seconds = self.seconds();
        Ok(self.metrics.append(&Record { step, phase, seconds, values: values.into_iter().collect() })?)
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
            self.peak = self.peak.max(memory.peak);
            values.push(("memory.live_bytes".into(), memory.live as f64));
            values.push((PEAK.into(), memory.peak as f64));
            values.push(("memory.padding_bytes".into(), memory.padding as f64));
            values.push(("memory.reserved_bytes".into(), memory.reserved as f64));
            self.reserved = self.reserved.max(memory.reserved);
        }
        self.log(report.step + 1, Phase::Train, values)
    }

    /// Looks at the models between steps. What does not fit ends the run, with a checkpoint to go on from.
    fn look<T>(
        &mut self,
        name: &'static str,
        look: impl FnOnce(&Run, &Config, &Data, &Device) -> Result<T>,
    ) -> Result<T> {
        match self.trainer.look(name, |run| look(run, self.config, &self.data, &self.device)) {
            Ok(seen) => seen,
            Err(error) => {
                self.save()?;
                let reason = error.to_string();
                self.events.text(self.trainer.steps(), "out of memory", &reason)?;
                let smaller = match self.config.sequence {
                    Some(_) => "with a smaller hidden_channels or input_days",
                    None => "with a smaller data.patch_size: validation and pictures look at one patch of it at a time",
                };
                let remedy = format!(
                    "go on with --resume where there is more memory (device.memory_limit, device.name, other programs \
                     closed), or begin anew {smaller}"
                );
                Err(CommandError::OutOfMemory { reason, remedy })
            }
        }
    }

    /// The system's metrics over the validation samples.
    fn validate(&mut self, progress: &Progress) -> Result<()> {
        let metrics = self.look("validation", Run::validate)?;
        if metrics.is_empty() {
            return Ok(());
        }
        let step = self.trainer.steps();
        let name = |name: &str| if name == L1 { "L1".to_string() } else { name.replace('_', " ") };
        let words: Vec<String> = metrics.iter().map(|(key, value)| format!("{} {value:.4}", name(key))).collect();
        self.log(step, Phase::Validation, metrics.into_iter().map(|(key, value)| (key.to_string(), value)).collect())?;
        progress.note(&format!("step {step:>6}  validation {}  {:.0} s", words.join("  "), self.seconds()));
        Ok(())
    }

    /// Draws what the run makes of a validation sample.
    fn visualize(&mut self) -> Result<()> {
        if self.config.training().visualize_interval == 0 {
            return Ok(());
        }
        let picture = self.look("pictures", Run::picture)?;
        let (step, png) = (self.trainer.steps(), encode_png(&picture)?);
        let path = self.folder.picture(step);
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(CommandError::writing(folder))?;
        }
        write_atomic(&path, &png).map_err(CommandError::writing(&path))?;
        let name = if self.config.sequence.is_some() { "forecast" } else { "reconstruction" };
        Ok(self.events.picture(step, name, &png)?)
    }

    /// A checkpoint to go on from, weights to use, and a report to look at.
    fn save(&mut self) -> Result<()> {
        self.trainer.save(&self.store)?;
        self.trainer.workload().save_weights(&self.folder)?;
        let page = self.outcome()?.report()?.render()?;
        let path = self.folder.report();
        write_atomic(&path, page.as_bytes()).map_err(CommandError::writing(&path))
    }

    /// Of a GPU's memory: what the data takes is not there.
    fn account(&mut self) -> Account {
        let batch = self.config.training().batch_size;
        let batch_bytes = self.data.extent().map_or(0, |extent| BatchShape::of(self.config, batch, extent).bytes());
        let (data, batches) = match is_gpu(&self.device) {
            true => (0, 0),
            false => (self.data.cached_bytes(), batch_bytes * (self.config.prefetch() + 1) as u64),
        };
        Account {
            learners: self.trainer.memory(),
            data,
            is_sequence: self.config.sequence.is_some(),
            batches,
            peak: self.peak,
            planned_step: self.planned.peak,
        }
    }

    /// What was planned, and what was measured so far.
    fn write_plan(&mut self) -> Result<()> {
        let account = self.account();
        let measured = (account.peak > 0).then_some(account.peak);
        let plan = serde_json::json!({
            "planned_step_bytes": account.planned_step,
            "planned_peak_bytes": account.planned(),
            "measured_peak_bytes": measured,
            "planned_reserved_bytes": self.planned.reserved,
            "measured_reserved_bytes": (self.reserved > 0).then_some(self.reserved),
        });
        let path = self.folder.plan();
        write_atomic(&path, format!("{plan:#}\n").as_bytes()).map_err(CommandError::writing(&path))
    }

    fn outcome(&mut self) -> Result<Outcome<'_>> {
        Ok(Outcome {
            records: read_metrics(&self.folder.metrics())?,
            account: self.account(),
            steps: self.trainer.steps(),
            seconds: self.seconds(),
            config: self.config,
            folder: &self.folder,
        })
    }

    /// Says how it went.
    fn conclude(&mut self) -> Result<()> {
        let outcome = self.outcome()?;
        print_line(format_args!("\n{}", outcome.account.table()))?;
        for (name, value) in outcome.summary() {
            print_line(format_args!("{name:>14}  {value}"))?;
        }
        print_line(format_args!("\nreport   {}", outcome.folder.report().display()))?;
        print_line(format_args!("weights  {}", outcome.folder.weights().display()))
    }
}

fn headline(report: &StepReport) -> String {
    let losses: Vec<String> = report.losses.iter().map(|(name, loss)| format!("{name} {loss:.4}")).collect();
    let memory = report.memory.map(|memory| {
        let reserved = (memory.reserved != memory.live).then(|| format!(" of {}", ByteSize::b(memory.reserved)));
        format!("peak {}{}", ByteSize::b(memory.peak), reserved.unwrap_or_default())
    });
    let skipped = report.learners.iter().filter(|learner| learner.skipped);
    let skipped = skipped.map(|learner| format!("{} skipped, scale {}", learner.learner, learner.loss_scale));
    losses.into_iter().chain(memory).chain(skipped).collect::<Vec<_>>().join("  ")
}
