//! What can be planned about a configuration.

use leanburn_common::Bytes;
use leanburn_plan::{Candidate, Class, Knob, Recording, Space, Target, Variant, splits};
use leanburn_train::Precision;
use leanburn_train::planning::Planner;

use super::variants::variants;
use crate::config::Config;
use crate::data::DataSize;
use crate::error::{Result, SystemError};
use crate::shared::{Context, Recompute, Streaming};

/// A configuration and the changes that can be made to it, on volumes of a known size.
#[derive(Debug)]
pub struct ConfigSpace {
    variants: Vec<(Variant, Config)>,
    source: String,
    target: Target,
    data: DataSize,
    half: Option<Precision>,
    /// Processes that train together.
    ranks: u64,
}

/// What the heap of a run holds before its first step, besides data: configuration, threads, the files that it writes, and what drivers
/// hold that were asked for their GPUs, as `device.name: best` does. Measured as 0.03 MiB without drivers and 0.79 MiB with, whatever the
/// model (the command in a development build with the features of GPUs, 2026-11-23).
pub(crate) fn program() -> Bytes {
    if crate::device::has_asked_drivers() { Bytes::kib(840) } else { Bytes::kib(64) }
}

/// Something that a process holds besides the tensors of its step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldBytes {
    /// What it is, with the key that makes it smaller, such as `volumes in memory (data.cache_rate)`.
    pub name: String,
    /// How much.
    pub bytes: Bytes,
}

impl ConfigSpace {
    /// The space around `config`, which was read from `source`, on the planner's device. `data` is asked for where the configuration
    /// names no size of a sample, and on the CPU, whose memory the data takes too; [`Config::data_size`] answers it.
    ///
    /// # Errors
    ///
    /// What `data` gives.
    pub fn new(
        config: &Config,
        source: &str,
        planner: &Planner,
        data: impl FnOnce() -> Result<DataSize>,
    ) -> Result<Self> {
        config.check(source)?;
        let is_asked = config.extent().is_none() || planner.target() == Target::Cpu;
        let data = if is_asked { data()? } else { DataSize::default() };
        let half = planner.half_precision();
        let variants = variants(config, half, 1);
        Ok(Self { variants, source: source.to_string(), target: planner.target(), data, half, ranks: 1 })
    }

    /// The same for one of so many processes that train together, whose steps have as many items as before: micro-batches of a candidate
    /// are those of one process, and configurations have those of all. To split the optimizer's states is one more change that can be made.
    #[must_use]
    pub fn of_ranks(self, ranks: u64) -> Self {
        let variants = variants(&self.variants[0].1, self.half, ranks);
        Self { variants, ranks, ..self }
    }

    /// Processes that hold a volume together, where there are several.
    pub fn volume_ranks(&self) -> u64 {
        self.variants[0].1.training().volume_ranks as u64
    }

    /// Groups of processes, each with micro-batches of its own.
    fn groups(&self) -> u64 {
        (self.ranks / self.volume_ranks()).max(1)
    }

    /// The system that is trained, as its section is called.
    pub fn system(&self) -> &'static str {
        self.variants[0].1.system_name()
    }

    /// The configuration as it stands.
    pub fn configured(&self) -> Candidate {
        let config = &self.variants[0].1;
        let training = config.training();
        let micro_batch = training.batch_size;
        let accumulation = (training.gradient_accumulation_steps as u64 / self.groups()).max(1);
        let recompute = training.recompute.patterns().to_vec();
        let plain = Candidate { recompute, ..Candidate::new(micro_batch, accumulation) };
        let plain = plain.with_streamed(training.stream.patterns().to_vec(), training.stream.settings());
        let system = config.system.any();
        system.knob_names().iter().fold(plain, |candidate, name| candidate.with_knob(name, system.knob(name)))
    }

    /// Items of a step, of all processes together.
    pub fn effective_batch(&self) -> usize {
        let training = self.variants[0].1.training();
        training.batch_size * training.gradient_accumulation_steps
    }

    /// Whether a candidate splits the optimizer's states over the processes.
    pub fn shards_optimizer(&self, candidate: &Candidate) -> bool {
        self.ranks > 1 && self.variants[candidate.variant].1.training().shard_optimizer
    }

    /// The configuration that a candidate stands for.
    pub fn config(&self, candidate: &Candidate) -> Config {
        let mut config = self.variants[candidate.variant].1.clone();
        let training = config.training_mut();
        training.batch_size = candidate.micro_batch;
        training.gradient_accumulation_steps = (candidate.accumulation * self.groups()) as usize;
        training.recompute = Recompute::segments(candidate.recompute.iter().cloned());
        training.stream = Streaming::segments(candidate.stream.iter().cloned(), candidate.stream_settings);
        let system = config.system.any_mut();
        system.knob_names().iter().for_each(|name| system.set_knob(name, candidate.knob(name)));
        config
    }

    /// Depth, height and width of what the model sees under a candidate; of fields the days, height and width.
    pub fn extent(&self, candidate: &Candidate) -> [usize; 3] {
        let config = &self.variants[candidate.variant].1;
        config.extent().or(self.data.extent).expect("asked for where the configuration does not say")
    }

    /// Size of one micro-batch.
    pub fn batch_size_in_memory(&self, candidate: &Candidate) -> Bytes {
        let config = &self.variants[candidate.variant].1;
        let context = config.context(&self.source);
        config.system.any().batch_size_in_memory(&context, candidate.micro_batch, self.extent(candidate))
    }

    /// What the process holds besides the tensors of a step: data, and batches that wait. On a card nothing: it has only the batch that
    /// it works on.
    pub fn held(&self, candidate: &Candidate) -> Vec<HeldBytes> {
        if self.target == Target::Gpu {
            return Vec::new();
        }
        let (base, config) = (&self.variants[0].1, &self.variants[candidate.variant].1);
        let voxels = |config: &Config| config.data.voxel_size.map_or(1, |size| size.iter().product::<usize>() as u64);
        // a variant may resize the volumes
        let scaled = |bytes: Bytes| match (voxels(base), voxels(config)) {
            (one, other) if one == other => bytes,
            (one, other) => Bytes(bytes.get() / one * other),
        };
        let (section, noun) = (config.source().section(), config.source().noun());
        let mut waiting = config.clone();
        waiting.training_mut().batch_size = candidate.micro_batch;
        let held = [
            (format!("{noun} in memory ({})", config.source().cache_key()), scaled(self.data.held)),
            (format!("{noun} that are read again ({})", config.source().read_key()), scaled(self.data.read)),
            (format!("batches that wait ({section}.prefetch)"), waiting.waiting(self.batch_size_in_memory(candidate))),
            ("samples that are augmented (data.num_workers)".to_string(), config.augmenting(self.extent(candidate))),
            ("the program itself".to_string(), program()),
        ];
        let held = held.into_iter().filter(|(_, bytes)| *bytes > Bytes(0));
        held.map(|(name, bytes)| HeldBytes { name, bytes }).collect()
    }

    /// Why it is not known what the data holds, if it is not.
    pub fn unknown_data(&self) -> Option<&str> {
        self.data.unknown.as_deref().filter(|_| self.target == Target::Cpu)
    }

    /// The names of the system's [knobs](Space::knobs), which are keys of its `training` section.
    pub fn knob_names(&self) -> &'static [&'static str] {
        self.variants[0].1.system.any().knob_names()
    }

    /// Index of the variant that changes nothing but the precision, if there is one.
    pub fn half_precision(&self) -> Option<usize> {
        self.variants.iter().position(|(variant, _)| variant.class == Class::Numerics)
    }

    /// Records a step of so many micro-batches.
    ///
    /// # Errors
    ///
    /// What keeps the configuration from being built or recorded.
    pub fn record_with(&self, candidate: &Candidate, micro_batches: u64) -> Result<Recording> {
        let mut config = self.config(candidate);
        config.training_mut().gradient_accumulation_steps = micro_batches as usize;
        config.device.memory_limit = None; // what recording takes is not what the step takes
        config.start_at_once(); // the step with everything in it
        let context = Context { planned_ranks: self.ranks as usize, ..config.context(&self.source) };
        config.system.any().record(&context, self.target, candidate.micro_batch, self.extent(candidate))
    }
}

impl Space for ConfigSpace {
    type Error = SystemError;

    fn variants(&self) -> Vec<Variant> {
        self.variants.iter().map(|(variant, _)| variant.clone()).collect()
    }

    /// Every micro-batch that divides the effective batch, of several processes the part of one, largest first.
    fn splits(&self) -> Vec<(usize, u64)> {
        splits(self.effective_batch() / self.groups() as usize)
    }

    fn record(&self, candidate: &Candidate) -> Result<Recording> {
        self.record_with(candidate, candidate.recorded())
    }

    fn knobs(&self, candidate: &Candidate) -> Vec<Knob> {
        let system = self.variants[candidate.variant].1.system.any();
        system.knobs(candidate.micro_batch, self.extent(candidate))
    }

    /// The sum of what is [held](ConfigSpace::held).
    fn other_bytes(&self, candidate: &Candidate) -> Bytes {
        self.held(candidate).into_iter().map(|held| held.bytes).sum()
    }
}
