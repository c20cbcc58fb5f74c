//! What people see of a run: progress on the terminal, TensorBoard events, and the report.

use leanburn_common::atomic;
use leanburn_systems::metrics::{Phase, Record};
use leanburn_systems::session::{Beginning, Resumed, Snapshot, StepDown};
use leanburn_systems::{Initialized, L1, Metrics, Observed, Observer, PictureLabel};
use leanburn_train::StepReport;

use super::outcome::{Outcome, memory_table};
use crate::console::print_line;
use crate::error::{CommandError, Result};
use crate::progress::{Progress, Reading};
use crate::report::EventFile;

/// Prints how a run goes, and keeps its events and its report.
#[derive(Default)]
pub(super) struct Terminal {
    /// Whether weights to start from were given.
    has_weights: bool,
    reading: Reading,
    training: Option<Progress>,
    events: Option<EventFile>,
    /// Keys of the configuration that have changed as the run goes on.
    changes: Vec<String>,
}

impl Terminal {
    /// Of a run to which weights to start from were given, or were not.
    pub(super) fn of_run(has_weights: bool) -> Self {
        Self { has_weights, ..Self::default() }
    }

    /// A line between those of the progress.
    fn note(&self, line: &str) {
        self.training.iter().for_each(|progress| progress.note(line));
    }

    fn begin(&mut self, run: &Beginning<'_>) -> Result<()> {
        self.reading = Reading::default();
        let mut events = EventFile::create(&run.folder.events(), run.continues.then_some(run.step))?;
        if run.step == 0 {
            events.text(0, "config", &format!("```yaml\n{}\n```", run.config.to_yaml()))?;
        }
        if !self.changes.is_empty() {
            events.text(run.step, "changed", &self.changes.join("  \n"))?;
        }
        self.events = Some(events);
        self.training = Some(Progress::new("training", run.last_step, run.step));
        let reserve = run.reserved.map(|size| format!(", reserve of the pool {size}"));
        self.note(&format!("planned peak {}{}", run.planned, reserve.unwrap_or_default()));
        run.warnings.iter().for_each(|warning| self.note(warning));
        Ok(())
    }

    fn report(&self, snapshot: &Snapshot<'_>) -> Result<()> {
        let page = Outcome::of(snapshot)?.report()?.render()?;
        let path = snapshot.folder.report();
        atomic::write(&path, page.as_bytes()).map_err(CommandError::writing(&path))
    }

    fn conclude(&self, snapshot: &Snapshot<'_>) -> Result<()> {
        self.training.iter().for_each(Progress::finish);
        print_line(format_args!("\n{}", memory_table(snapshot.memory)))?;
        for (name, value) in Outcome::of(snapshot)?.summary() {
            print_line(format_args!("{name:>14}  {value}"))?;
        }
        print_line(format_args!("\nreport   {}", snapshot.folder.report().display()))?;
        print_line(format_args!("weights  {}", snapshot.folder.weights().display()))?;
        match snapshot.best {
            Some(_) => print_line(format_args!("best     {}", snapshot.folder.best().display())),
            None => Ok(()),
        }
    }

    fn step_down(&mut self, error: &str, step_down: &StepDown, continues: bool) -> Result<()> {
        self.training.take().iter().for_each(Progress::finish);
        print_line(format_args!("\n{error}"))?;
        if let Some(peak) = &step_down.peak {
            print_line(format_args!("by the plan a step holds most at {peak}"))?;
        }
        match &step_down.config {
            Some((_, what)) if continues => {
                print_line(format_args!("stepping down: {what}; the mathematics stays the same\n"))
            }
            _ => Ok(()),
        }
    }
}

impl Observer for Terminal {
    fn reading(&mut self, state: leanburn_data::Progress<'_>) {
        self.reading.step(state);
    }

    fn resumed(&mut self, resumed: &Resumed<'_>) -> Observed {
        match resumed.step {
            Some(step) if self.has_weights => {
                print_line(format_args!(
                    "going on from step {step}, with the weights of this run: --from is not needed"
                ))?;
            }
            Some(step) => print_line(format_args!("going on from step {step}"))?,
            None => print_line("no checkpoint yet: starting from the beginning")?,
        }
        for path in resumed.set_aside {
            print_line(format_args!("a later checkpoint is set aside: {}", path.display()))?;
        }
        self.changes = resumed.changes.iter().map(ToString::to_string).collect();
        Ok(self.changes.iter().try_for_each(|change| print_line(format_args!("changed: {change}")))?)
    }

    fn initialized(&mut self, models: &[Initialized]) -> Observed {
        Ok(models.iter().flat_map(Initialized::lines).try_for_each(print_line)?)
    }

    fn began(&mut self, beginning: &Beginning<'_>) -> Observed {
        self.begin(beginning)?;
        Ok(())
    }

    fn stepped(&mut self, report: &StepReport) -> Observed {
        self.training.iter_mut().for_each(|progress| progress.step(|| headline(report)));
        Ok(())
    }

    fn recorded(&mut self, record: &Record) -> Observed {
        let prefix = if record.phase == Phase::Train { "train" } else { "val" };
        for (name, value) in &record.values {
            self.events
                .iter_mut()
                .try_for_each(|events| events.scalar(record.step, &format!("{prefix}/{name}"), *value))?;
        }
        Ok(())
    }

    fn evaluated(&mut self, step: u64, metrics: &Metrics, seconds: f64) -> Observed {
        let name = |name: &str| if name == L1 { "L1".to_string() } else { name.replace('_', " ") };
        let words: Vec<String> = metrics.iter().map(|(key, value)| format!("{} {value:.4}", name(key))).collect();
        self.note(&format!("step {step:>6}  validation {}  {seconds:.0} s", words.join("  ")));
        Ok(())
    }

    fn pictured(&mut self, step: u64, label: PictureLabel, png: &[u8]) -> Observed {
        self.events.iter_mut().try_for_each(|events| events.picture(step, label.name, png))?;
        Ok(())
    }

    fn saved(&mut self, snapshot: &Snapshot<'_>) -> Observed {
        self.report(snapshot)?;
        Ok(())
    }

    fn did_not_fit(&mut self, step: u64, reason: &str) -> Observed {
        self.events.iter_mut().try_for_each(|events| events.text(step, "out of memory", reason))?;
        Ok(())
    }

    fn stepped_down(&mut self, error: &str, step_down: &StepDown, continues: bool) -> Observed {
        self.step_down(error, step_down, continues)?;
        Ok(())
    }

    fn interrupted(&mut self, snapshot: &Snapshot<'_>) -> Observed {
        self.training.iter().for_each(Progress::finish);
        let (steps, folder) = (snapshot.steps, snapshot.folder.path().display());
        print_line(format_args!(
            "\nstopped after step {steps}; all is saved in {folder}, and --resume goes on from there"
        ))?;
        Ok(())
    }

    fn finished(&mut self, snapshot: &Snapshot<'_>) -> Observed {
        self.conclude(snapshot)?;
        Ok(())
    }
}

fn headline(report: &StepReport) -> String {
    let losses: Vec<String> = report.losses.iter().map(|(name, loss)| format!("{name} {loss:.4}")).collect();
    let memory = report.memory.map(|memory| {
        let reserved = (memory.reserved != memory.live).then(|| format!(" of {}", memory.reserved));
        format!("peak {}{}", memory.peak, reserved.unwrap_or_default())
    });
    let skipped = report.learners.iter().filter(|learner| learner.skipped);
    let skipped = skipped.map(|learner| format!("{} skipped, scale {}", learner.learner, learner.loss_scale));
    losses.into_iter().chain(memory).chain(skipped).collect::<Vec<_>>().join("  ")
}
