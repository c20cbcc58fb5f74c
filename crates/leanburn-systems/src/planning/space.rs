//! What can be planned about a configuration.

use leanburn_common::Bytes;
use leanburn_plan::{Candidate, Class, Knob, Recording, Space, Target, Variant, splits};
use leanburn_train::planning::Planner;

use super::variants::variants;
use crate::config::Config;
use crate::error::{Result, SystemError};
use crate::shared::Recompute;

/// A configuration and the changes that can be made to it, on volumes of a known size.
#[derive(Debug)]
pub struct ConfigSpace {
    variants: Vec<(Variant, Config)>,
    source: String,
    target: Target,
    /// Size of the volumes where the configuration does not say.
    extent: Option<[usize; 3]>,
}

impl ConfigSpace {
    /// The space around `config`, which was read from `source`, on the planner's device; `extent` is asked for where the
    /// configuration names no size.
    ///
    /// # Errors
    ///
    /// What `extent` gives.
    pub fn new(
        config: &Config,
        source: &str,
        planner: &Planner,
        extent: impl FnOnce() -> Result<[usize; 3]>,
    ) -> Result<Self> {
        config.check(source)?;
        let extent = match configured_extent(config) {
            Some(_) => None,
            None => Some(extent()?),
        };
        let variants = variants(config, planner.half_precision());
        Ok(Self { variants, source: source.to_string(), target: planner.target(), extent })
    }

    /// The system that is trained, as its section is called.
    pub fn system(&self) -> &'static str {
        self.variants[0].1.system_name()
    }

    /// The configuration as it stands.
    pub fn configured(&self) -> Candidate {
        let config = &self.variants[0].1;
        let training = config.training();
        let (micro_batch, accumulation) = (training.batch_size, training.gradient_accumulation_steps as u64);
        let recompute = training.recompute.patterns().to_vec();
        let plain = Candidate { recompute, ..Candidate::new(micro_batch, accumulation) };
        let system = config.system.any();
        system.knob_names().iter().fold(plain, |candidate, name| candidate.with_knob(name, system.knob(name)))
    }

    /// The configuration that a candidate stands for.
    pub fn config(&self, candidate: &Candidate) -> Config {
        let mut config = self.variants[candidate.variant].1.clone();
        let training = config.training_mut();
        training.batch_size = candidate.micro_batch;
        training.gradient_accumulation_steps = candidate.accumulation as usize;
        training.recompute = Recompute::segments(candidate.recompute.iter().cloned());
        let system = config.system.any_mut();
        system.knob_names().iter().for_each(|name| system.set_knob(name, candidate.knob(name)));
        config
    }

    /// Depth, height and width of what the model sees under a candidate; of fields the days, height and width.
    pub fn extent(&self, candidate: &Candidate) -> [usize; 3] {
        let config = &self.variants[candidate.variant].1;
        configured_extent(config).or(self.extent).expect("asked for where the configuration does not say")
    }

    /// Size of one micro-batch.
    pub fn batch_size_in_memory(&self, candidate: &Candidate) -> Bytes {
        let config = &self.variants[candidate.variant].1;
        let context = config.context(&self.source);
        config.system.any().batch_size_in_memory(&context, candidate.micro_batch, self.extent(candidate))
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
        let context = config.context(&self.source);
        config.system.any().record(&context, self.target, candidate.micro_batch, self.extent(candidate))
    }
}

/// The size of a sample where the configuration says it.
fn configured_extent(config: &Config) -> Option<[usize; 3]> {
    let Some(sequence) = &config.sequence else {
        return config.data.patch_size.or(config.data.voxel_size);
    };
    let [height, width] = sequence.advection.as_ref()?.shape.map(|length| length.div_ceil(sequence.downsample));
    Some([sequence.input_days, height, width])
}

impl Space for ConfigSpace {
    type Error = SystemError;

    fn variants(&self) -> Vec<Variant> {
        self.variants.iter().map(|(variant, _)| variant.clone()).collect()
    }

    /// Every micro-batch that divides the effective batch, largest first.
    fn splits(&self) -> Vec<(usize, u64)> {
        let configured = self.configured();
        splits(configured.micro_batch * configured.accumulation as usize)
    }

    fn record(&self, candidate: &Candidate) -> Result<Recording> {
        self.record_with(candidate, candidate.recorded())
    }

    fn knobs(&self, candidate: &Candidate) -> Vec<Knob> {
        let system = self.variants[candidate.variant].1.system.any();
        system.knobs(candidate.micro_batch, self.extent(candidate))
    }

    /// On the CPU the batches that wait; a card has only the one that it works on.
    fn other_bytes(&self, candidate: &Candidate) -> Bytes {
        match self.target {
            Target::Cpu => {
                let waiting = self.variants[candidate.variant].1.prefetch() as u64;
                Bytes(self.batch_size_in_memory(candidate).get() * waiting)
            }
            Target::Gpu => Bytes(0),
        }
    }
}
