//! What a step is planned to hold, and whether the device has it.

use burn::tensor::Device;
use leanburn_common::Bytes;
use leanburn_ops::Gpu;

use crate::config::Config;
use crate::data::DataSize;
use crate::error::Result;
use crate::planning::{ConfigSpace, planner_of};

/// What a step is planned to hold, without data in memory and waiting batches.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Planned {
    /// The most at once.
    pub peak: Bytes,
    /// What a GPU's pool takes from the device for it.
    pub reserved: Option<Bytes>,
    /// Its largest tensor.
    pub largest: Bytes,
}

impl Planned {
    /// What the recording of a step shows of data of this size, for one of so many processes.
    ///
    /// # Errors
    ///
    /// What keeps the configuration from being recorded.
    pub fn of(config: &Config, name: &str, data: DataSize, ranks: usize) -> Result<Self> {
        let planner = planner_of(&config.device.name, None, None)?;
        let memory = planner.memory_model();
        let space = ConfigSpace::new(config, name, &planner, || Ok(data))?.of_ranks(ranks as u64);
        let candidate = space.configured();
        let timeline = space.record_with(&candidate, candidate.recorded())?.timeline(memory);
        Ok(Self {
            peak: timeline.peak(),
            reserved: memory.reserved(&timeline),
            largest: timeline.blocks.iter().map(|block| block.bytes).max().unwrap_or_default(),
        })
    }

    /// What of it the device has not, or may not give, where that is known, and what takes more than it has to. `needed` is what all of a run needs.
    pub fn warnings(&self, needed: Bytes, config: &Config, device: &Device) -> Vec<String> {
        let gpu = Gpu::of(device);
        let limit = config.device.memory_limit.map(|limit| (limit, "device.memory_limit allows".to_string()));
        let memory = gpu.as_ref().and_then(|gpu| Some((Bytes(gpu.memory?), format!("{} has", gpu.name))));
        let least = limit.into_iter().chain(memory).min_by_key(|(size, _)| *size);
        let short = least.filter(|(size, _)| needed > *size).map(|(size, whose)| {
            let budget = size.to_string().replace(' ', "");
            format!(
                "that is more than the {size} that {whose}: `leanburn fit CONFIG --budget {budget}` finds what fits"
            )
        });
        let large = gpu.filter(|gpu| self.largest > Bytes(gpu.largest_allocation)).map(|gpu| {
            let (largest, allocation) = (self.largest, Bytes(gpu.largest_allocation));
            format!(
                "the largest tensor has {largest}, more than the {allocation} that {} gives at once: only a smaller volume or \
                 fewer channels can help",
                gpu.name
            )
        });
        let training = config.training();
        let unshared = (training.volume_ranks > 1 && training.stream.patterns().is_empty()).then(|| {
            format!(
                "volume_ranks is {}, and no segment is in `stream`: each process computes whole volumes",
                training.volume_ranks
            )
        });
        short.into_iter().chain(large).chain(unshared).collect()
    }
}
