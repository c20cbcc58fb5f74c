//! `leanburn train`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use leanburn_train::Trainer;

use super::planned::Planned;
use super::session::Session;
use super::step_down::StepDown;
use crate::config::Config;
use crate::console::print_line;
use crate::device::device_of;
use crate::error::{CommandError, Result};
use crate::progress::Progress;
use crate::run_folder::RunFolder;
use crate::workload::{self, Data};

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
    /// Go on from the newest checkpoint of the run folder.
    #[arg(long)]
    resume: bool,
    /// Take at most this many steps in all; overrides training.max_steps without changing the learning-rate schedule.
    #[arg(long)]
    max_steps: Option<u64>,
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
        let source = self.config.display().to_string();
        let mut config = Config::load(&self.config, &self.set)?;
        config.device.name = self.device.clone().unwrap_or(config.device.name);
        let mut resume = self.resume;
        loop {
            let error = match self.train(&config, &source, resume) {
                Err(CommandError::Train(error)) if error.is_out_of_memory() => error,
                done => return done,
            };
            print_line(format_args!("\n{error}"))?;
            let lower = StepDown::of(&config, &source)?;
            if let Some(peak) = &lower.peak {
                print_line(format_args!("by the plan a step holds most at {peak}"))?;
            }
            match lower.config {
                Some((lower, what)) if self.on_oom == OnOom::StepDown => {
                    print_line(format_args!("stepping down: {what}; the mathematics stays the same\n"))?;
                    (config, resume) = (lower, true);
                }
                lower => {
                    return Err(CommandError::OutOfMemory {
                        reason: error.to_string(),
                        remedy: advice(lower.map(|(_, what)| what)),
                    });
                }
            }
        }
    }

    /// Trains, from the beginning or from the newest checkpoint, until the end or until a step does not fit.
    fn train(&self, config: &Config, source: &str, resume: bool) -> Result<()> {
        let device = device_of(&config.device)?;
        let folder = RunFolder::locate(&self.config, self.out.as_deref());
        folder.check(config, resume)?;
        let training_device = device.clone().autodiff();
        let run = workload::build(config, source, &training_device)?;
        let data = open_data(config)?;
        data.check(config)?; // before anything is written

        let planned = Planned::of(config, source, &data)?;
        let mut trainer = Trainer::new(run, workload::trainer(config), &training_device);
        let store = folder.checkpoints(config.training().keep_checkpoints);
        match store.latest().filter(|_| resume) {
            Some((step, checkpoint)) => {
                trainer.resume(&checkpoint)?;
                print_line(format_args!("going on from step {step}"))?;
            }
            None if resume => print_line("no checkpoint yet: starting from the beginning")?,
            None => {}
        }
        let _lock = folder.begin(config)?;

        let mut batches = data.batches(config.training().batch_size, trainer.micro_batches(), &training_device);
        let last_step = self.max_steps.unwrap_or(u64::MAX).min(config.training().max_steps);
        let trained = Session::open(config, folder, data, trainer, device, planned)?.run(&mut batches, last_step);
        // What the step has left in the pool is of no use to the next attempt.
        drop(batches);
        training_device.memory_cleanup();
        trained
    }
}

fn advice(lower: Option<String>) -> String {
    let step = lower.map_or(String::new(), |what| format!("{what} (--on-oom step-down does that by itself), or "));
    format!(
        "{step}run `leanburn fit CONFIG --budget SIZE --allow model` for what would fit, or close other programs on the device"
    )
}

/// Opens the data, with progress if it takes long.
fn open_data(config: &Config) -> Result<Data> {
    let mut progress: Option<Progress> = None;
    let data = Data::open(config, |state| {
        let bar = progress.get_or_insert_with(|| Progress::new("reading", state.total as u64, 0));
        bar.step(|| state.name.to_string());
    });
    progress.iter().for_each(Progress::finish);
    data
}
