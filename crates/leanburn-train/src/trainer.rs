//! The training step, and where a run stands.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use burn::tensor::Device;
use leanburn_common::Bytes;
use leanburn_data::BatchOrder;
use leanburn_ops::recording::{Pass, in_pass};
use leanburn_ops::{PlannedRanks, or_storage_error, random, volume_ranks, with_volume_ranks};
use serde::{Deserialize, Serialize};

use crate::agreement::{LossSums, Together, agreed, means, together};
use crate::any_learner::{AnyLearner, LearnerMemory, Restore};
use crate::checkpoint::CheckpointStore;
use crate::error::{TrainError, UPDATE};
use crate::manifest;
use crate::memory::{MemoryMonitor, MemoryUse, PhasePeaks, exceeded};
use crate::mixed_dtypes::or_mixed_dtypes;
use crate::out_of_memory::or_out_of_memory;
use crate::prepared_step::{LearnerReport, PreparedStep};
use crate::ranks::Group;
use crate::trainer_config::TrainerConfig;
use crate::workload::{StepPosition, Workload};

/// What one optimizer step did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepReport {
    /// The step, counted from 0.
    pub step: u64,
    /// Parts of the losses by name, averaged over the micro-batches.
    pub losses: BTreeMap<String, f64>,
    /// What each learner did; those that sat the step out are left out.
    pub learners: Vec<LearnerReport>,
    /// Memory after the step, with its peak since the step began.
    pub memory: Option<MemoryUse>,
    /// The most that each part of the step held; zeros where nothing counts.
    #[serde(default)]
    pub phases: PhasePeaks,
}

/// Trains a workload on a device, one step at a time.
#[derive(Debug)]
pub struct Trainer<W> {
    workload: W,
    config: TrainerConfig,
    device: Device,
    group: Group,
    monitor: MemoryMonitor,
    position: Position,
    /// Whether a step has begun that is neither taken nor abandoned: a panic has unwound through it.
    is_open: bool,
}

/// Where a run stands; with the seed also its random state and its place in the data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Position {
    /// Steps taken.
    step: u64,
    /// Steps in a row that were skipped.
    bad_steps: u64,
}

/// The trainer's own file in a checkpoint.
#[derive(Serialize, Deserialize)]
struct Saved {
    seed: u64,
    accumulation_steps: u64,
    position: Position,
}

impl<W: Workload> Trainer<W> {
    /// A trainer at step 0.
    ///
    /// # Panics
    ///
    /// Panics if `accumulation_steps` is 0.
    pub fn new(workload: W, config: TrainerConfig, device: &Device) -> Self {
        assert!(config.accumulation_steps > 0, "accumulation_steps is 0; a step needs at least 1 micro-batch");
        let monitor = MemoryMonitor::new(device);
        let (device, group) = (device.clone(), Group::default());
        Self { workload, config, device, group, monitor, position: Position::default(), is_open: false }
    }

    /// Makes this process one of a group that trains one model: all with the same configuration and the same weights. Micro-batches of a
    /// step are dealt out in turn, so that `accumulation_steps` are those of all processes together. A step is that of one process but
    /// for the order of sums; with one micro-batch for each it is the same, bit for bit.
    ///
    /// # Errors
    ///
    /// [`TrainError::UnevenRanks`] and [`TrainError::UnevenVolumeRanks`].
    pub fn join_group(&mut self, group: Group) -> Result<(), TrainError> {
        let (ranks, volume_ranks) = (group.ranks().size(), self.config.volume_ranks);
        if ranks > 1 && !ranks.is_multiple_of(volume_ranks) {
            return Err(TrainError::UnevenVolumeRanks { volume_ranks, ranks });
        }
        let (accumulation_steps, ranks) = (self.config.accumulation_steps, (ranks / volume_ranks).max(1));
        if !accumulation_steps.is_multiple_of(ranks as u64) {
            return Err(TrainError::UnevenRanks { accumulation_steps, ranks });
        }
        self.group = group;
        if self.shards_optimizer() {
            self.workload.learners().into_iter().for_each(|learner| learner.shard(&self.group));
        }
        Ok(())
    }

    /// The group that this process is one of.
    pub fn group(&self) -> &Group {
        &self.group
    }

    /// Whether each rank has a part of the optimizer states, so that a checkpoint needs [`gather_states`](Self::gather_states).
    pub fn shards_optimizer(&self) -> bool {
        self.config.shard_optimizer && !self.group.is_alone()
    }

    /// Gathers the optimizer states of all ranks on the leading one, which is to [save](Self::save) them next; all ranks do this at once,
    /// between two steps. Nothing where states are not split.
    ///
    /// # Memory
    ///
    /// On the leading rank the states of all, three times while they are put together, once until they are saved.
    pub fn gather_states(&mut self) {
        self.workload.learners().into_iter().for_each(AnyLearner::gather_states);
    }

    /// Has a recorded step be that of the rank with the most of `ranks` that split the optimizer states.
    pub(crate) fn plan_shard(&mut self) {
        let ranks = self.config.planned_ranks;
        if self.config.shard_optimizer && ranks > 1 {
            self.workload.learners().into_iter().for_each(|learner| learner.plan_shard(ranks));
        }
    }

    /// The workload in training.
    pub fn workload(&self) -> &W {
        &self.workload
    }

    /// The workload, to [change its weights](crate::Learner::initialize) before the first step.
    pub fn workload_mut(&mut self) -> &mut W {
        &mut self.workload
    }

    /// How it is trained.
    pub fn config(&self) -> &TrainerConfig {
        &self.config
    }

    /// Changes how it is trained.
    pub(crate) fn configure(&mut self, change: impl FnOnce(&mut TrainerConfig)) {
        change(&mut self.config);
    }

    /// The first learner whose weights are on a device that is not meant.
    pub(crate) fn learner_elsewhere(&mut self, is_meant: impl Fn(&Device) -> bool) -> Option<&'static str> {
        let elsewhere = |learner: &&mut dyn AnyLearner| !learner.devices().iter().all(&is_meant);
        self.workload.learners().into_iter().find(elsewhere).map(|learner| learner.name())
    }

    /// Steps after which a step's memory is that of every later one: the first ones make the states of the optimizers.
    pub(crate) fn steps_to_settle(&mut self) -> u64 {
        self.workload.learners().iter().map(|learner| learner.steps_to_settle()).max().unwrap_or(1)
    }

    /// Steps taken so far.
    pub fn steps(&self) -> u64 {
        self.position.step
    }

    /// Micro-batches used so far, by all processes.
    pub fn micro_batches(&self) -> u64 {
        self.position.step * self.config.accumulation_steps
    }

    /// The micro-batches that this process takes from here on.
    pub fn batch_order(&self) -> BatchOrder {
        let (ranks, of_a_volume) = (self.group.ranks(), self.volume_ranks());
        let (number, groups) = (ranks.rank() / of_a_volume, ranks.size() / of_a_volume);
        BatchOrder { first: self.micro_batches() + number as u64, stride: groups as u64 }
    }

    /// Processes that hold a volume with this one.
    fn volume_ranks(&self) -> usize {
        if self.group.is_alone() { 1 } else { self.config.volume_ranks }
    }

    /// Live and peak memory.
    pub fn monitor(&self) -> &MemoryMonitor {
        &self.monitor
    }

    /// Reads the pool of a GPU after each operation, for a peak that is seen; steps take longer.
    pub fn watch_memory(&mut self) {
        self.monitor.sample_operations();
    }

    /// What each learner holds between steps.
    pub fn memory(&mut self) -> Vec<(&'static str, LearnerMemory)> {
        self.workload.learners().iter().map(|learner| (learner.name(), learner.memory())).collect()
    }

    /// Takes one optimizer step, with the next `accumulation_steps` micro-batches.
    ///
    /// # Errors
    ///
    /// What `batches` gives and [`TrainError::OutOfBatches`]: the step is not taken. [`TrainError::OutOfMemory`], which says
    /// whether the learners are as they were. [`TrainError::Storage`]: the step is not taken. [`TrainError::Diverged`]. [`TrainError::Uncounted`] before the first step.
    pub fn step<E>(&mut self, batches: &mut impl Iterator<Item = Result<W::Batch, E>>) -> Result<StepReport, TrainError>
    where
        TrainError: From<E>,
    {
        random::scoped(|| self.take_step(batches))
    }

    fn take_step<E>(
        &mut self,
        batches: &mut impl Iterator<Item = Result<W::Batch, E>>,
    ) -> Result<StepReport, TrainError>
    where
        TrainError: From<E>,
    {
        let step = self.position.step;
        self.monitor.start();
        self.begin();
        let mut sums = LossSums::new();
        let mut phases = PhasePeaks::default();
        self.micro_steps(batches, &mut sums, &mut phases).inspect_err(|_| self.abandon())?;
        let learners = self.update().inspect_err(|error| {
            if error.is_before_step() {
                self.abandon();
            }
        })?;
        (self.is_open, self.position.step) = (false, step + 1);
        phases.update = self.monitor.lap();
        let memory = self.monitor.read();
        let report = StepReport { step, losses: means(&self.group, sums), learners, memory, phases };
        self.count_bad_steps(&report)?;
        Ok(report)
    }

    /// Begins a step from where the last one ended.
    fn begin(&mut self) {
        if self.is_open {
            self.abandon();
        }
        self.is_open = true;
        self.workload.learners().into_iter().for_each(|learner| learner.tag_tensors());
    }

    /// Breaks the step off.
    fn abandon(&mut self) {
        self.is_open = false;
        self.workload.learners().into_iter().for_each(|learner| learner.abandon());
    }

    /// The micro-batches of the step that this process takes.
    fn micro_steps<E>(
        &mut self,
        batches: &mut impl Iterator<Item = Result<W::Batch, E>>,
        sums: &mut LossSums,
        phases: &mut PhasePeaks,
    ) -> Result<(), TrainError>
    where
        TrainError: From<E>,
    {
        if let (Some(limit), None) = (self.config.memory_limit, self.monitor.read()) {
            return self.join(Err(TrainError::Uncounted { limit }), false);
        }
        let (seed, step, end) = (self.config.seed, self.position.step, self.config.accumulation_steps);
        let BatchOrder { first, stride } = self.batch_order();
        let what = Together { norms: self.config.sync_batch_norm, volume_ranks: self.volume_ranks() };
        let meets = !self.group.is_alone() && (what.norms || what.volume_ranks > 1);
        for micro_batch in (first - self.micro_batches()..end).step_by(stride as usize) {
            let position = StepPosition { seed, step, micro_batch };
            let taken = match batches.next() {
                Some(Ok(batch)) if meets => {
                    let group = self.group.clone();
                    together(&group, step, what, || self.micro_step(&batch, position, sums, phases))?
                }
                Some(Ok(batch)) if self.group.is_alone() && self.config.planned_ranks > 1 => {
                    // a recording, of a process in the middle
                    let size = self.config.volume_ranks;
                    let ranks = Rc::new(PlannedRanks::new(size / 2, size));
                    with_volume_ranks(ranks, || self.micro_step(&batch, position, sums, phases))
                }
                Some(Ok(batch)) => self.micro_step(&batch, position, sums, phases),
                Some(Err(error)) => Err(error.into()),
                None => Err(TrainError::OutOfBatches { step }),
            };
            let more_follow = micro_batch + stride < end;
            if taken.is_err() || !more_follow || self.config.deterministic_ranks {
                self.join(taken, more_follow)?;
            }
        }
        Ok(())
    }

    /// Sums the gradients of all ranks, if each of them has taken its micro-batches so far.
    fn join(&mut self, taken: Result<(), TrainError>, more_follow: bool) -> Result<(), TrainError> {
        if self.group.is_alone() {
            return taken;
        }
        let step = self.position.step;
        // a GPU runs late: what it had no memory for is to show before the ranks agree
        let settled = || part_of_step(step, "forward or backward", || self.device.sync()).map(drop);
        agreed(&self.group, step, taken.and_then(|()| settled()))?;
        self.workload.learners().into_iter().for_each(|learner| learner.join(&self.group, more_follow));
        Ok(())
    }

    fn micro_step(
        &mut self,
        batch: &W::Batch,
        position: StepPosition,
        sums: &mut LossSums,
        phases: &mut PhasePeaks,
    ) -> Result<(), TrainError> {
        let volume_ranks = volume_ranks().map_or(1, |ranks| ranks.size());
        let own = match volume_ranks {
            1 => None,
            _ => Some(self.workload.own_planes(batch).ok_or(TrainError::WholeVolumes)?),
        };
        let batch = own.as_ref().unwrap_or(batch);
        let parts = self.config.accumulation_steps * volume_ranks as u64;
        let (share, limit) = (1.0 / parts as f64, self.config.memory_limit);
        for learner in 0..self.workload.learners().len() {
            let path = [position.step, position.micro_batch, learner as u64];
            random::seed(&self.device, random::derive(self.config.seed, &path));
            let forward = || self.workload.loss(learner, batch, position);
            let forward = || or_mixed_dtypes(|| self.monitor.during(limit, forward));
            let losses = part_of_step(position.step, "forward", forward)??;
            let Some(losses) = losses else { continue };
            for (name, part) in losses.parts {
                let (sum, count) = sums.remove(name).map_or((part.clone(), 1), |(sum, count)| (sum + part, count + 1));
                sums.insert(name, (sum, count));
            }
            phases.forward = phases.forward.max(self.lap(position.step, "forward")?); // on a GPU the most is held here
            let backward = || self.workload.learners()[learner].accumulate(losses.total, share);
            part_of_step(position.step, "backward", || self.monitor.during(limit, backward))?;
            phases.backward = phases.backward.max(self.lap(position.step, "backward")?);
        }
        Ok(())
    }

    /// Evaluates the workload between steps (validation, a picture), and says if that did not fit. Nothing changes by it.
    ///
    /// # Errors
    ///
    /// [`TrainError::EvaluationOutOfMemory`] with the name of the evaluation: the device has no more memory, or the run exceeded its limit.
    pub fn evaluate<T>(&self, evaluation: &'static str, work: impl FnOnce(&W) -> T) -> Result<T, TrainError> {
        let step = self.position.step;
        self.monitor.start();
        let did_not_fit = |reason| TrainError::EvaluationOutOfMemory { evaluation, step, reason };
        let work = || self.monitor.during(self.config.memory_limit, || work(&self.workload));
        let result = or_out_of_memory(work).map_err(did_not_fit)?;
        match self.excess(self.monitor.lap()) {
            None => Ok(result),
            Some(reason) => Err(did_not_fit(reason)),
        }
    }

    /// The most held since the last lap, if that is not more than the run may hold.
    fn lap(&self, step: u64, phase: &'static str) -> Result<Bytes, TrainError> {
        let lap = self.monitor.lap();
        self.excess(lap).map_or(Ok(lap), |reason| Err(TrainError::out_of_memory(step, phase, reason)))
    }

    /// What was held and may be held, if it was too much.
    fn excess(&self, lap: Bytes) -> Option<String> {
        let limit = self.config.memory_limit?;
        let held = self.monitor.excess(limit, lap)?;
        Some(exceeded(held, limit))
    }

    /// Updates all learners, when the norms of all their gradients are known and no rank has run out of memory.
    fn update(&mut self) -> Result<Vec<LearnerReport>, TrainError> {
        let Self { workload, device, group, position, .. } = self;
        let step = position.step;
        let learners = workload.learners().into_iter();
        let mut prepared: Vec<PreparedStep<'_>> = Vec::new();
        let prepare = || in_pass(Pass::Update, device, || prepared.extend(learners.map(AnyLearner::prepare)));
        let done = or_out_of_memory(prepare);
        agreed(group, step, done.map_err(|reason| TrainError::out_of_memory(step, "forward or backward", reason)))?;
        let reports = || prepared.into_iter().filter_map(|prepared| prepared.update(step)).collect();
        or_out_of_memory(|| in_pass(Pass::Update, device, reports))
            .map_err(|reason| TrainError::out_of_memory(step, UPDATE, reason))
    }

    fn count_bad_steps(&mut self, report: &StepReport) -> Result<(), TrainError> {
        let Some(bad) = report.learners.iter().find(|learner| learner.skipped) else {
            self.position.bad_steps = 0;
            return Ok(());
        };
        self.position.bad_steps += 1;
        let bad_steps = self.position.bad_steps;
        match bad_steps >= self.config.max_bad_steps {
            true => Err(TrainError::Diverged { step: report.step, learner: bad.learner.clone(), bad_steps }),
            false => Ok(()),
        }
    }

    /// Saves a checkpoint of the current step; of several ranks the leading one, with states that are split
    /// [gathered](Self::gather_states) before.
    ///
    /// # Errors
    ///
    /// [`TrainError::Checkpoint`].
    pub fn save(&mut self, store: &CheckpointStore) -> Result<PathBuf, TrainError> {
        let saved = Saved {
            seed: self.config.seed,
            accumulation_steps: self.config.accumulation_steps,
            position: self.position.clone(),
        };
        let learners = self.workload.learners();
        store.save(saved.position.step, |folder| {
            learners.into_iter().try_for_each(|learner| learner.save(folder))?;
            let path = folder.join(TRAINER);
            let text = serde_json::to_vec_pretty(&saved).expect("numbers serialise");
            fs::write(&path, text).map_err(|error| TrainError::writing(&path, error))
        })
    }

    /// Goes on from a checkpoint. The next step is, bit for bit, the one that would have followed it.
    ///
    /// # Errors
    ///
    /// [`TrainError::Checkpoint`], and [`TrainError::CheckpointMismatch`] if the seed, the accumulation, a loss scale or a
    /// model differs. The trainer is then as it was.
    pub fn resume(&mut self, checkpoint: &Path) -> Result<(), TrainError> {
        let saved = saved(checkpoint)?;
        let accumulation = (saved.accumulation_steps, self.config.accumulation_steps);
        self.restore(checkpoint, saved, &[("gradient_accumulation_steps", accumulation)])
    }

    /// The same with steps of as many items in another number of micro-batches: the place in the data is the same, and sums are taken in
    /// another order.
    ///
    /// # Errors
    ///
    /// As [`resume`](Self::resume), but for the accumulation.
    pub fn resume_split(&mut self, checkpoint: &Path) -> Result<(), TrainError> {
        let saved = saved(checkpoint)?;
        self.restore(checkpoint, saved, &[])
    }

    /// Puts back what was saved, if the seed and these other numbers are the same there and here.
    fn restore(&mut self, checkpoint: &Path, saved: Saved, same: &[(&str, (u64, u64))]) -> Result<(), TrainError> {
        let seed = ("seed", (saved.seed, self.config.seed));
        if let Some((name, (found, expected))) = [seed].iter().chain(same).find(|(_, (there, here))| there != here) {
            return Err(TrainError::mismatch(checkpoint, format!("{name} is {found} there and {expected} here")));
        }
        let read = self.workload.learners().into_iter().map(|learner| learner.load(checkpoint));
        let restore: Vec<Restore<'_>> = read.collect::<Result<_, _>>()?;
        restore.into_iter().for_each(|restore| restore());
        self.position = saved.position;
        Ok(())
    }
}

/// The trainer's file of a checkpoint, which must be whole.
fn saved(checkpoint: &Path) -> Result<Saved, TrainError> {
    manifest::verify(checkpoint)?;
    let path = checkpoint.join(TRAINER);
    let text = fs::read(&path).map_err(|error| TrainError::reading(&path, error))?;
    serde_json::from_slice(&text).map_err(|error| TrainError::reading(&path, error))
}

/// Runs a part of a step before its update, whose learners are intact whatever happens.
fn part_of_step<T>(step: u64, phase: &'static str, part: impl FnOnce() -> T) -> Result<T, TrainError> {
    let result = or_storage_error(|| or_out_of_memory(part)).map_err(|error| TrainError::Storage { step, error })?;
    result.map_err(|reason| TrainError::out_of_memory(step, phase, reason))
}

const TRAINER: &str = "trainer.json";
