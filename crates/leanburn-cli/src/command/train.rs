//! `leanburn train`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};
use leanburn_systems::{Config, OnOutOfMemory, Session};
use leanburn_train::Group;

use super::load::{print_codebook_note, print_notes};
use super::observer::Terminal;
use super::or_too_large;
use super::signals::Signals;
use super::stages::Stages;
use crate::console::{print_stderr, stderr_has_colours};
use crate::diagnostic;
use crate::error::{CommandError, Result};

/// `leanburn train`
#[derive(Debug, Args)]
pub struct Train {
    /// Configuration in YAML; `leanburn recipes` lists some to start from.
    config: PathBuf,
    /// Set a key of the configuration: --set autoencoder.training.batch_size=1
    #[arg(long = "set", value_name = "a.b=c")]
    set: Vec<String>,
    /// Device, as `leanburn devices` names it; overrides device.name.
    #[arg(long)]
    device: Option<String>,
    /// Folder of the run; by default runs/ and the configuration's name.
    #[arg(long)]
    out: Option<PathBuf>,
    /// Start from trained weights, to fine-tune: a weight file, a run's folder or a checkpoint. The run begins at step 0 with a new
    /// optimizer; tensors of another shape start as they were drawn, and are named.
    #[arg(long, value_name = "WEIGHTS")]
    from: Option<PathBuf>,
    /// Go on from the newest checkpoint of the run folder. Keys of the section `training` that say how it learns from here on may
    /// change (learning rate, schedule, losses, intervals); each change is printed.
    #[arg(long)]
    resume: bool,
    /// Go on from this checkpoint of the run folder instead of the newest; later ones are set aside.
    #[arg(long, value_name = "CHECKPOINT", conflicts_with_all = ["from", "skip_damaged"])]
    resume_from: Option<PathBuf>,
    /// Where the newest checkpoint is damaged, go on from the newest one that is whole.
    #[arg(long, requires = "resume")]
    skip_damaged: bool,
    /// Take at most this many steps in all; overrides training.max_steps without changing the learning-rate schedule.
    #[arg(long)]
    max_steps: Option<u64>,
    /// Train what this run needs before, where it is not there: the autoencoder of `latents`, and the teacher of a consistency model; each by
    /// this file if it has all stages, by the configuration of that name beside it, or else by the recipe of that name. --device and --on-oom
    /// are those of all stages, --set those of this file: of its sections `data` and `device` and its `seed`, where others are trained by it.
    #[arg(long)]
    with_stages: bool,
    /// What to do when a step does not fit into memory.
    #[arg(long, value_enum, default_value_t = OnOom::StepDown)]
    on_oom: OnOom,
}

/// What to do when a step does not fit into memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OnOom {
    /// Recompute more, and go on from the last good state.
    StepDown,
    /// Stop.
    Fail,
}

impl Train {
    pub(super) fn run(self) -> Result<()> {
        let group = leanburn_mpi::join()?;
        let done = or_too_large("out of memory", || self.train(&group));
        if let Err(error) = &done {
            end_together(&group, error);
        }
        done
    }

    fn train(self, group: &Group) -> Result<()> {
        let mut config = Config::load(&self.config, &self.set)?;
        config.device.name = self.device.clone().unwrap_or(config.device.name);
        print_notes(&config);
        print_codebook_note(&config, group);
        let signals = Signals::listen(group.is_alone()).map_err(CommandError::Signals)?;
        let on_out_of_memory = match self.on_oom {
            OnOom::StepDown => OnOutOfMemory::StepDown,
            OnOom::Fail => OnOutOfMemory::Fail,
        };
        if self.with_stages {
            let stages = Stages { path: &self.config, set: &self.set, on_out_of_memory, signals: &signals, group };
            stages.train(&config)?;
        }
        let name = self.config.file_stem().unwrap_or_default();
        let folder = self.out.unwrap_or_else(|| Path::new("runs").join(name));
        let session = Session::new(config)?.named(self.config.display().to_string()).in_folder(folder);
        let session = session.resume(self.resume).skip_damaged(self.skip_damaged);
        let terminal = Terminal::of_run(self.from.is_some());
        let session = match self.from {
            Some(weights) => session.start_from(weights),
            None => session,
        };
        let session = match self.resume_from {
            Some(checkpoint) => session.resume_from(checkpoint),
            None => session,
        };
        let session = session.stop_after(self.max_steps.unwrap_or(u64::MAX)).on_out_of_memory(on_out_of_memory);
        let session = session.stop_when(|| signals.first().is_some());
        let session = session.in_group(group.clone()).with_observer(terminal);
        signals.outcome(session.run()?.interrupted, group)
    }
}

/// Prints the error of a rank, and ends all of them: they would wait for it. An error that all ranks make is printed by the leading one.
fn end_together(group: &Group, error: &CommandError) {
    if group.is_alone() || error.is_printed() {
        return;
    }
    if !group.leads() {
        std::thread::sleep(Duration::from_secs(2)); // the leading rank's error ends this one before
        eprint!("rank {}: ", group.ranks().rank());
    }
    print_stderr(diagnostic::render(error, stderr_has_colours()));
    leanburn_mpi::abort(group, i32::from(error.exit_code()));
}
