//! Who wants to hear how a run goes.

use std::path::PathBuf;

use leanburn_common::Bytes;
use leanburn_data::Progress;
use leanburn_train::StepReport;

use super::account::MemoryAccount;
use super::best::Best;
use super::step_down::StepDown;
use crate::config::Config;
use crate::evaluation::{Metrics, PictureLabel};
use crate::metrics::Record;
use crate::run_folder::{KeyChange, RunFolder};
use crate::weight_source::Initialized;

/// What an observer gives back; an error ends the run, as [`SystemError::Observer`](crate::SystemError::Observer).
pub type Observed = std::result::Result<(), Box<dyn std::error::Error + Send + Sync>>;

/// Hears how a run goes, and prints or draws it. Every method does nothing by default.
pub trait Observer {
    /// Another sample of the data was read.
    fn reading(&mut self, _progress: Progress<'_>) {}

    /// A run goes on where it stopped, or where it was asked to.
    fn resumed(&mut self, _resumed: &Resumed<'_>) -> Observed {
        Ok(())
    }

    /// The models have started from [weights](crate::Session::start_from); empty where they were drawn.
    fn initialized(&mut self, _models: &[Initialized]) -> Observed {
        Ok(())
    }

    /// The first step is about to be taken. After a [step-down](Self::stepped_down) it begins once more.
    fn began(&mut self, _beginning: &Beginning<'_>) -> Observed {
        Ok(())
    }

    /// A step was taken. Its record has been [written](Self::recorded).
    fn stepped(&mut self, _report: &StepReport) -> Observed {
        Ok(())
    }

    /// A record was written into the metrics of the run, of a step or an evaluation.
    fn recorded(&mut self, _record: &Record) -> Observed {
        Ok(())
    }

    /// The models were evaluated on the validation samples, after so many steps and seconds.
    fn evaluated(&mut self, _step: u64, _metrics: &Metrics, _seconds: f64) -> Observed {
        Ok(())
    }

    /// A picture was drawn and written, as PNG.
    fn pictured(&mut self, _step: u64, _label: PictureLabel, _png: &[u8]) -> Observed {
        Ok(())
    }

    /// A checkpoint and the weights were written.
    fn saved(&mut self, _snapshot: &Snapshot<'_>) -> Observed {
        Ok(())
    }

    /// A step or an evaluation did not fit into memory; a checkpoint has been written if the models are intact.
    fn did_not_fit(&mut self, _step: u64, _reason: &str) -> Observed {
        Ok(())
    }

    /// What the planner says to a step that did not fit; `continues` is whether the run goes on with its configuration.
    fn stepped_down(&mut self, _error: &str, _step_down: &StepDown, _continues: bool) -> Observed {
        Ok(())
    }

    /// The run was [asked to stop](crate::Session::stop_when) before its last step; everything is written, to go on from.
    fn interrupted(&mut self, _snapshot: &Snapshot<'_>) -> Observed {
        Ok(())
    }

    /// The last step was taken, and everything is written.
    fn finished(&mut self, _snapshot: &Snapshot<'_>) -> Observed {
        Ok(())
    }
}

/// Where a run goes on, and with what changes.
#[derive(Debug)]
#[non_exhaustive]
pub struct Resumed<'a> {
    /// The step of its checkpoint; none, if there is no checkpoint yet.
    pub step: Option<u64>,
    /// Keys of the configuration that are others than before.
    pub changes: &'a [KeyChange],
    /// Later checkpoints, where they are now: the run goes on from before them.
    pub set_aside: &'a [PathBuf],
}

/// What is known of a run before its first step.
#[derive(Debug)]
#[non_exhaustive]
pub struct Beginning<'a> {
    /// The configuration.
    pub config: &'a Config,
    /// Where the run writes.
    pub folder: &'a RunFolder,
    /// Steps taken before.
    pub step: u64,
    /// The step that it ends with.
    pub last_step: u64,
    /// Whether there was a run in the folder before.
    pub continues: bool,
    /// The peak as it is planned.
    pub planned: Bytes,
    /// What a GPU's pool is planned to take from the device.
    pub reserved: Option<Bytes>,
    /// What the device has not, or may not give, and what is to be known of the data.
    pub warnings: &'a [String],
}

/// A run at some step.
#[derive(Debug)]
#[non_exhaustive]
pub struct Snapshot<'a> {
    /// The configuration.
    pub config: &'a Config,
    /// Where the run writes.
    pub folder: &'a RunFolder,
    /// Steps taken.
    pub steps: u64,
    /// Seconds of training, those before a resume included.
    pub seconds: f64,
    /// Where the memory went.
    pub memory: &'a MemoryAccount,
    /// The best so far by `best_metric`, whose weights are kept.
    pub best: Option<&'a Best>,
    /// Whether the run has ended early, because it did not get better.
    pub stopped_early: bool,
}

/// Nobody.
impl Observer for () {}

/// A reference observes as what it refers to, so that this is there when the run is over.
impl<O: Observer + ?Sized> Observer for &mut O {
    fn reading(&mut self, progress: Progress<'_>) {
        (**self).reading(progress);
    }

    fn resumed(&mut self, resumed: &Resumed<'_>) -> Observed {
        (**self).resumed(resumed)
    }

    fn initialized(&mut self, models: &[Initialized]) -> Observed {
        (**self).initialized(models)
    }

    fn began(&mut self, beginning: &Beginning<'_>) -> Observed {
        (**self).began(beginning)
    }

    fn stepped(&mut self, report: &StepReport) -> Observed {
        (**self).stepped(report)
    }

    fn recorded(&mut self, record: &Record) -> Observed {
        (**self).recorded(record)
    }

    fn evaluated(&mut self, step: u64, metrics: &Metrics, seconds: f64) -> Observed {
        (**self).evaluated(step, metrics, seconds)
    }

    fn pictured(&mut self, step: u64, label: PictureLabel, png: &[u8]) -> Observed {
        (**self).pictured(step, label, png)
    }

    fn saved(&mut self, snapshot: &Snapshot<'_>) -> Observed {
        (**self).saved(snapshot)
    }

    fn did_not_fit(&mut self, step: u64, reason: &str) -> Observed {
        (**self).did_not_fit(step, reason)
    }

    fn stepped_down(&mut self, error: &str, step_down: &StepDown, continues: bool) -> Observed {
        (**self).stepped_down(error, step_down, continues)
    }

    fn interrupted(&mut self, snapshot: &Snapshot<'_>) -> Observed {
        (**self).interrupted(snapshot)
    }

    fn finished(&mut self, snapshot: &Snapshot<'_>) -> Observed {
        (**self).finished(snapshot)
    }
}
