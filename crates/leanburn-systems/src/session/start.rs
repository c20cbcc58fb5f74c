//! What to run and where, and what it has come to.

use std::path::PathBuf;

use burn::tensor::Device;
use leanburn_common::Bytes;
use leanburn_ops::is_gpu;
use leanburn_train::{CountingAllocator, Group, TrainError};

use super::account::MemoryAccount;
use super::attempt::{Attempt, Finished, at_rest, follow};
use super::best::Best;
use super::machine_check::{check_before_reading, check_machine};
use super::observer::{Observer, Resumed};
use super::planned::Planned;
use super::step_down::{FIRST, StepDown};
use crate::config::Config;
use crate::data::DataSize;
use crate::device::{device_of, devices_seen, is_cpu};
use crate::error::{Result, SystemError};
use crate::machine::heap_limit;
use crate::metrics::{Record, read_metrics};
use crate::run_folder::RunFolder;
use crate::shared::{Context, DeviceSection};
use crate::weight_source::WeightSource;

/// A training run.
///
/// # Example
///
/// ```no_run
/// use leanburn_systems::{AutoencoderSection, Config, Session};
///
/// let config = Config::load("configs/mni152-autoencoder.yaml".as_ref(), &[])?;
/// let outcome = Session::new(config)?.in_folder("runs/first").stop_after(100).run()?;
/// println!("{} steps", outcome.steps);
/// # Ok::<(), leanburn_systems::SystemError>(())
/// ```
pub struct Session<'a> {
    config: Config,
    name: String,
    folder: RunFolder,
    from: Option<PathBuf>,
    resume: bool,
    resume_from: Option<PathBuf>,
    skip_damaged: bool,
    stop_after: Option<u64>,
    stop: Box<dyn Fn() -> bool + 'a>,
    on_out_of_memory: OnOutOfMemory,
    observer: Box<dyn Observer + 'a>,
    group: Group,
    /// Size of the data, once it has been opened.
    data: DataSize,
}

impl Finished {
    fn outcome(self, config: &Config, folder: &RunFolder, records: Vec<Record>) -> Outcome {
        let Self { steps, seconds, memory, interrupted, best } = self;
        let (config, folder) = (config.clone(), folder.clone());
        Outcome { config, folder, steps, interrupted, best, seconds, memory, records }
    }
}

/// What to do when a step does not fit into memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnOutOfMemory {
    /// Recompute more, or split batches, and go on from the last good state; at most three times. The mathematics stays the same.
    #[default]
    StepDown,
    /// Stop.
    Fail,
}

/// What a run has come to.
#[derive(Debug)]
#[non_exhaustive]
pub struct Outcome {
    /// The configuration of the last step; a step-down has changed it.
    pub config: Config,
    /// Where everything lies that the run has written.
    pub folder: RunFolder,
    /// Steps taken.
    pub steps: u64,
    /// Whether it was [asked to stop](Session::stop_when) before its last step.
    pub interrupted: bool,
    /// The best by `best_metric`, whose weights are [kept](RunFolder::best).
    pub best: Option<Best>,
    /// Seconds of training, those before a resume included.
    pub seconds: f64,
    /// Where the memory went.
    pub memory: MemoryAccount,
    /// The metrics of every step and every evaluation.
    pub records: Vec<Record>,
}

impl<'a> Session<'a> {
    /// A run in the folder `runs/`*system*, from the beginning, that nobody observes.
    ///
    /// # Errors
    ///
    /// [`SystemError::Config`] with every error of the configuration.
    pub fn new(config: Config) -> Result<Self> {
        let name = "the configuration".to_string();
        config.check_run(&name)?;
        Ok(Self {
            folder: RunFolder::new(PathBuf::from("runs").join(config.system_name())),
            config,
            name,
            from: None,
            resume: false,
            resume_from: None,
            skip_damaged: false,
            stop_after: None,
            stop: Box::new(|| false),
            on_out_of_memory: OnOutOfMemory::default(),
            observer: Box::new(()),
            group: Group::default(),
            data: DataSize::default(),
        })
    }

    /// What messages call the configuration, such as the path of its file.
    #[must_use]
    pub fn named(self, name: impl Into<String>) -> Self {
        Self { name: name.into(), ..self }
    }

    /// The same in another folder.
    #[must_use]
    pub fn in_folder(self, folder: impl Into<PathBuf>) -> Self {
        Self { folder: RunFolder::new(folder), ..self }
    }

    /// Starts from trained weights, as to fine-tune: those of a file, of a run's folder or of a checkpoint, at step 0 and with a new
    /// optimizer. Tensors that the models do not have in that shape stay as they were drawn. A run that goes on from a checkpoint of
    /// its own has its weights already.
    #[must_use]
    pub fn start_from(self, weights: impl Into<PathBuf>) -> Self {
        Self { from: Some(weights.into()), ..self }
    }

    /// Whether to go on from the newest checkpoint of the folder; bit for bit as if the run had not stopped.
    ///
    /// Keys that say how it learns from here on may have changed (learning rate, schedule, losses, intervals, what is recomputed):
    /// the [observer](Observer::resumed) hears of each.
    #[must_use]
    pub fn resume(self, resume: bool) -> Self {
        Self { resume, ..self }
    }

    /// Goes on from a certain checkpoint of the folder instead of the newest. Those after it are set aside: renamed, not removed.
    #[must_use]
    pub fn resume_from(self, checkpoint: impl Into<PathBuf>) -> Self {
        Self { resume: true, resume_from: Some(checkpoint.into()), ..self }
    }

    /// Whether a resumed run passes over damaged checkpoints; if not, a damaged newest one is an error.
    #[must_use]
    pub fn skip_damaged(self, skip_damaged: bool) -> Self {
        Self { skip_damaged, ..self }
    }

    /// At most this many steps in all, without a change of the learning-rate schedule.
    #[must_use]
    pub fn stop_after(self, steps: u64) -> Self {
        Self { stop_after: Some(steps), ..self }
    }

    /// Stops between two steps when `stop` says so, with a checkpoint to go on from: asked before each step, after what is due
    /// there. What is learned is that of a run that did not stop.
    #[must_use]
    pub fn stop_when(self, stop: impl Fn() -> bool + 'a) -> Self {
        Self { stop: Box::new(stop), ..self }
    }

    /// What to do when a step does not fit into memory.
    #[must_use]
    pub fn on_out_of_memory(self, on_out_of_memory: OnOutOfMemory) -> Self {
        Self { on_out_of_memory, ..self }
    }

    /// Who hears how it goes. A `&mut` reference will do.
    #[must_use]
    pub fn with_observer(self, observer: impl Observer + 'a) -> Self {
        Self { observer: Box::new(observer), ..self }
    }

    /// As one of the processes of a group, which all run this session on files that all of them see. The leading one writes, evaluates and
    /// is observed; `gradient_accumulation_steps` are those of all together. A session that ends with an error leaves the others waiting:
    /// end the process, and the group ends with it.
    #[must_use]
    pub fn in_group(self, group: Group) -> Self {
        Self { group, ..self }
    }

    /// Trains to the end.
    ///
    /// # Errors
    ///
    /// Before anything is written: what keeps models, data, weights or device from being used, a folder that has another run,
    /// [`SystemError::DamagedCheckpoint`], and [`SystemError::OutOfMemory`] where a run on the CPU without a memory limit is planned to
    /// need more than [the machine has](crate::machine_memory). Later:
    /// [`SystemError::OutOfMemory`], [`SystemError::Train`], [`SystemError::Write`], [`SystemError::Observer`].
    pub fn run(mut self) -> Result<Outcome> {
        self.config.resolve_device();
        if !self.group.leads() {
            self.observer = Box::new(());
        }
        for restarts_left in (0..=FIRST).rev() {
            let error = match self.attempt() {
                // of an update that ran out of memory on this rank the others do not know: the group ends
                Err(SystemError::Train(error))
                    if error.is_out_of_memory() && (self.group.is_alone() || error.is_before_step()) =>
                {
                    error
                }
                done => return done,
            };
            self.step_down(&error, restarts_left)?;
            self.resume = true;
        }
        unreachable!("without restarts left there is no step down")
    }

    /// Trains, from the beginning or from the newest checkpoint, until the end or until a step does not fit.
    fn attempt(&mut self) -> Result<Outcome> {
        let Self { config, name, folder, observer, group, .. } = self;
        let device = device_of_rank(&config.device, group)?;
        let (mut changes, mut checkpoint) = (Vec::new(), None);
        if group.leads() {
            changes = folder.check(config, self.resume)?;
            checkpoint = match &self.resume_from {
                Some(path) => Some(folder.checkpoint(path)?),
                None if self.resume => folder.newest_checkpoint(self.skip_damaged)?,
                None => None,
            };
        }
        let checkpoint = from_leader(group, checkpoint);
        let from = match (&self.from, &checkpoint) {
            (Some(path), None) => Some(WeightSource::open(path)?),
            _ => None,
        };
        let training_device = device.clone().autodiff();
        let limit = limit(config, &device, group);
        let foreseen = check_before_reading(config, name, &device, limit, group.ranks().size())?;
        let section = DeviceSection { memory_limit: limit, ..config.device.clone() };
        let context = Context { device: &section, ..config.context(name) };
        let mut run =
            config.system.any().open(&context, &training_device, &mut |progress| observer.reading(progress))?;
        run.join_group(group)?;
        let names = run.data_names();
        if group.leads() {
            folder.check_data(&names)?;
        }
        let data = run.data_size()?;
        self.data = data.clone();
        let planned = match foreseen {
            Some(planned) => planned,
            None => Planned::of(config, name, data.clone(), group.ranks().size())?,
        };
        check_machine(config, name, &data, &device, &planned, limit)?;
        if let Some((step, path)) = &checkpoint {
            run.resume(path).map_err(|error| folder.not_resumed(*step, error))?;
        }
        let initialized = from.map_or(Ok(Vec::new()), |source| run.initialize(&source))?;
        let last_step = self.stop_after.unwrap_or(u64::MAX).min(run.last_step());
        if !group.leads() {
            let memory = at_rest(config, &data, &device, &planned);
            let finished = follow(&mut *run, last_step, memory, &self.stop);
            training_device.memory_cleanup();
            return Ok(finished?.outcome(config, folder, Vec::new()));
        }
        let _lock = folder.begin(config)?;
        folder.write_data(&names)?;
        let aside = match self.resume_from.take().and(checkpoint.as_ref()) {
            Some((step, _)) => folder.checkpoints(1).set_aside_after(*step)?,
            None => Vec::new(),
        };
        if self.resume {
            let start = Resumed { step: checkpoint.map(|(step, _)| step), changes: &changes, set_aside: &aside };
            observer.resumed(&start).map_err(SystemError::Observer)?;
        }
        observer.initialized(&initialized).map_err(SystemError::Observer)?;
        let mut attempt = Attempt::open(config, folder, run, &device, planned, observer.as_mut(), last_step)?;
        if !initialized.is_empty() {
            attempt.save()?; // who goes on from here need not name the weights again
        }
        let finished = attempt.run(&self.stop);
        // what the step has left in the pool is of no use to the next attempt
        training_device.memory_cleanup();
        let finished = finished?;
        let records = read_metrics(&folder.metrics())?;
        Ok(finished.outcome(config, folder, records))
    }

    /// Goes to a smaller plan, if there is one and it is asked for.
    fn step_down(&mut self, error: &TrainError, restarts_left: usize) -> Result<()> {
        if !self.group.leads() {
            self.config = self.lower_of_leader(error)?;
            return Ok(());
        }
        let limit = limit(&self.config, &device_of_rank(&self.config.device, &self.group)?, &self.group);
        let step_down = StepDown::of(
            &self.config,
            &self.name,
            self.data.clone(),
            limit,
            (restarts_left, self.group.ranks().size()),
        )?;
        let continues = self.on_out_of_memory == OnOutOfMemory::StepDown && step_down.config.is_some();
        self.observer.stepped_down(&error.to_string(), &step_down, continues).map_err(SystemError::Observer)?;
        match step_down.config {
            Some((lower, _)) if continues => {
                self.group.from_leader(lower.to_yaml().as_bytes());
                self.config = lower;
                Ok(())
            }
            lower => {
                self.group.from_leader(&[]);
                Err(SystemError::OutOfMemory { reason: error.to_string(), remedy: advice(lower.map(|(_, what)| what)) })
            }
        }
    }

    /// The smaller plan that the leading rank goes on with.
    fn lower_of_leader(&self, error: &TrainError) -> Result<Config> {
        let text = self.group.from_leader(&[]);
        match text.is_empty() {
            true => Err(SystemError::OutOfMemory { reason: error.to_string(), remedy: advice(None) }),
            false => Ok(Config::parse(&String::from_utf8_lossy(&text), &self.name, &[])?),
        }
    }
}

impl std::fmt::Debug for Session<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            config, name, folder, from, resume, resume_from, skip_damaged, stop_after, on_out_of_memory, ..
        } = self;
        let mut debug = out.debug_struct("Session");
        debug.field("config", config).field("name", name).field("folder", folder).field("from", from);
        debug
            .field("resume", resume)
            .field("resume_from", resume_from)
            .field("skip_damaged", skip_damaged)
            .field("stop_after", stop_after)
            .field("on_out_of_memory", on_out_of_memory)
            .finish_non_exhaustive()
    }
}

/// The most that a run may hold: as configured, on the CPU no more than its share of what [the heap may take](heap_limit), where something
/// counts it.
fn limit(config: &Config, device: &Device, group: &Group) -> Option<Bytes> {
    let is_counted = !is_gpu(device) && CountingAllocator.current_usage() > 0;
    let (_, ranks) = group.ranks().on_this_machine();
    let heap = heap_limit().filter(|_| is_counted).map(|heap| Bytes(heap.get() / ranks as u64));
    config.device.memory_limit.into_iter().chain(heap).min()
}

/// The device of a configuration for this rank: of several cards of a kind, to which no number is given, each rank of a machine takes one.
/// A rank that sees one card takes that, as where Slurm shows each task its own.
fn device_of_rank(section: &DeviceSection, group: &Group) -> Result<Device> {
    let (rank, ranks) = group.ranks().on_this_machine();
    if ranks == 1 || section.name.contains(':') || is_cpu(&section.name)? {
        return device_of(section);
    }
    let name = card_of_rank(&section.name, rank, devices_seen(&section.name)?);
    device_of(&DeviceSection { name, ..section.clone() })
}

/// The name of a rank's card, of so many of a family that it sees.
fn card_of_rank(family: &str, rank: usize, seen: usize) -> String {
    if seen == 1 { family.to_string() } else { format!("{family}:{rank}") }
}

/// The checkpoint that the leading rank goes on from.
fn from_leader(group: &Group, checkpoint: Option<(u64, PathBuf)>) -> Option<(u64, PathBuf)> {
    if group.is_alone() {
        return checkpoint;
    }
    let said = group.from_leader(&serde_json::to_vec(&checkpoint).expect("a number and a path serialise"));
    serde_json::from_slice(&said).expect("what the leading rank wrote")
}

fn advice(lower: Option<String>) -> String {
    let step = lower.map_or(String::new(), |what| format!("{what} (--on-oom step-down does that by itself), or "));
    format!(
        "{step}run `leanburn fit CONFIG --budget SIZE --allow model` for what would fit, or close other programs on the device"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_takes_the_card_of_its_number_or_the_one_that_it_is_shown() {
        assert_eq!([0, 3].map(|rank| card_of_rank("cuda", rank, 4)), ["cuda:0", "cuda:3"]);
        assert_eq!([0, 3].map(|rank| card_of_rank("cuda", rank, 1)), ["cuda"; 2]);
        assert_eq!(card_of_rank("cuda", 2, 2), "cuda:2", "which is not there, and rejected");
    }
}
