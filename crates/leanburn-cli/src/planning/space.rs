//! What can be planned about a configuration.

use burn::tensor::Device;
use leanburn_ops::largest_attention_block;
use leanburn_plan::{Candidate, Class, Knob, Recording, Space, Target, Variant};
use leanburn_train::{Precision, RecordStepError, Trainer, record_step};

use super::variants::variants;
use crate::config::Config;
use crate::error::{CommandError, Result};
use crate::workload::{self, BatchShape};

/// Blocks of attention are not made smaller: their scores are fewer than what else attention holds.
pub const SMALLEST_BLOCK: usize = 16;

/// The knob of the most positions that attention takes at a time.
pub const ATTENTION_BLOCK: &str = "attention_block";

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
    /// The space around `config`, which was read from `source`, on a device that computes in the half precision `half`; `extent`
    /// is asked for where the configuration names no size.
    ///
    /// # Errors
    ///
    /// What `extent` gives.
    pub fn new(
        config: &Config,
        source: &str,
        target: Target,
        half: Option<Precision>,
        extent: impl FnOnce() -> Result<[usize; 3]>,
    ) -> Result<Self> {
        let extent = match configured_extent(config) {
            Some(_) => None,
            None => Some(extent()?),
        };
        Ok(Self { variants: variants(config, half), source: source.to_string(), target, extent })
    }

    /// The system that is trained, as its section is called.
    pub fn system(&self) -> &'static str {
        self.variants[0].1.system.name()
    }

    /// The configuration as it stands.
    pub fn configured(&self) -> Candidate {
        let config = &self.variants[0].1;
        let training = config.training();
        let attention_block = config.autoencoder().and_then(|section| section.training.objective.attention_block);
        let recompute = match training.use_gradient_checkpointing {
            true => vec!["*".to_string()],
            false => training.recompute.clone(),
        };
        let (micro_batch, accumulation) = (training.batch_size, training.gradient_accumulation_steps as u64);
        Candidate { recompute, ..Candidate::new(micro_batch, accumulation) }.with_knob(ATTENTION_BLOCK, attention_block)
    }

    /// The configuration that a candidate stands for.
    pub fn config(&self, candidate: &Candidate) -> Config {
        let mut config = self.variants[candidate.variant].1.clone();
        let training = config.training_mut();
        training.batch_size = candidate.micro_batch;
        training.gradient_accumulation_steps = candidate.accumulation as usize;
        training.use_gradient_checkpointing = candidate.recompute == ["*"];
        training.recompute = match training.use_gradient_checkpointing {
            true => Vec::new(),
            false => candidate.recompute.clone(),
        };
        if let Some(section) = config.autoencoder_mut() {
            section.training.objective.attention_block = candidate.knob(ATTENTION_BLOCK);
        }
        config
    }

    /// Depth, height and width of what the model sees under a candidate; of fields the days, height and width.
    pub fn extent(&self, candidate: &Candidate) -> [usize; 3] {
        let config = &self.variants[candidate.variant].1;
        configured_extent(config).or(self.extent).expect("asked for where the configuration does not say")
    }

    /// Bytes of one micro-batch.
    pub fn batch_bytes(&self, candidate: &Candidate) -> u64 {
        self.batch_shape(candidate).bytes()
    }

    /// Shape of a micro-batch.
    pub fn batch_shape(&self, candidate: &Candidate) -> BatchShape {
        BatchShape::of(&self.variants[candidate.variant].1, candidate.micro_batch, self.extent(candidate))
    }

    /// The most queries that an attention of the model takes at a time; none if there is no attention.
    pub fn attention_block(&self, candidate: &Candidate) -> Option<usize> {
        let section = self.variants[candidate.variant].1.autoencoder()?;
        let last = section.num_channels.len() - 1;
        let in_the_middle = section.with_encoder_nonlocal_attn || section.with_decoder_nonlocal_attn;
        let attends = |level: &usize| section.attention_levels[*level] || (*level == last && in_the_middle);
        let block = |level: usize| {
            let positions = self.extent(candidate).map(|length| length >> level).into_iter().product();
            largest_attention_block(candidate.micro_batch, 1, positions).min(positions)
        };
        let block = (0..=last).filter(attends).map(block).max();
        block.map(|block| candidate.knob(ATTENTION_BLOCK).unwrap_or(block).min(block))
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
        config.begin_at_once(); // the step with everything in it
        let [depth, height, width] = self.extent(candidate);
        let shape = self.batch_shape(candidate);
        shape.check(&config, &format!("a volume of {depth}x{height}x{width}"))?;
        let build = |device: &Device| {
            let run = workload::build(&config, &self.source, device)?;
            Ok(Trainer::new(run, workload::trainer(&config), device))
        };
        record_step(self.target, build, |device| shape.zeros(device)).map_err(|error| match error {
            RecordStepError::Build(error) => error,
            RecordStepError::Step(error) => error.into(),
            error => CommandError::Input {
                subject: self.source.clone(),
                expected: "a training step that can be recorded".into(),
                found: error.to_string(),
                remedy: "this is a defect of leanburn: please report it with the configuration".into(),
            },
        })
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
    type Error = CommandError;

    fn variants(&self) -> Vec<Variant> {
        self.variants.iter().map(|(variant, _)| variant.clone()).collect()
    }

    /// Every micro-batch that divides the effective batch, largest first.
    fn splits(&self) -> Vec<(usize, u64)> {
        let configured = self.configured();
        let whole = configured.micro_batch as u64 * configured.accumulation;
        let divides = |batch: &u64| whole.is_multiple_of(*batch);
        (1..=whole).rev().filter(divides).map(|batch| (batch as usize, whole / batch)).collect()
    }

    fn record(&self, candidate: &Candidate) -> Result<Recording> {
        self.record_with(candidate, candidate.recorded())
    }

    /// Halves of the block of attention.
    fn knobs(&self, candidate: &Candidate) -> Vec<Knob> {
        let halves = |block: usize| {
            let largest = block.next_power_of_two() / 2;
            let lower = std::iter::successors(Some(largest), |block| Some(block / 2));
            lower.take_while(|block| *block >= SMALLEST_BLOCK).collect()
        };
        let knob = |block| Knob { name: ATTENTION_BLOCK, values: halves(block), segment: "attention" };
        self.attention_block(candidate).map(knob).into_iter().collect()
    }

    /// On the CPU the batches that wait; a card has only the one that it works on.
    fn beside(&self, candidate: &Candidate) -> u64 {
        match self.target {
            Target::Cpu => self.batch_bytes(candidate) * self.variants[candidate.variant].1.prefetch() as u64,
            Target::Gpu => 0,
        }
    }
}
