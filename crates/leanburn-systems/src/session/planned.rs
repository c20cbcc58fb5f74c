//! What a step is planned to hold, beside the device that it runs on.

use burn::tensor::Device;
use bytesize::ByteSize;
use leanburn_ops::Gpu;

use crate::config::Config;
use crate::error::Result;
use crate::planning::{ConfigSpace, memory_of};
use crate::workload::Data;

/// What a step is planned to hold, without volumes in memory and waiting batches.
#[derive(Clone, Copy, Debug)]
pub(super) struct Planned {
    /// The most at once, in bytes.
    pub peak: u64,
    /// What a GPU's pool takes from the device for it, in bytes.
    pub reserved: Option<u64>,
    /// Its largest tensor, in bytes.
    largest: u64,
}

impl Planned {
    /// What the recording of a step shows.
    ///
    /// # Errors
    ///
    /// What keeps the configuration from being recorded.
    pub fn of(config: &Config, source: &str, data: &Data) -> Result<Self> {
        let (target, memory) = memory_of(&config.device.name)?;
        let space = ConfigSpace::new(config, source, target, None, || data.extent())?;
        let candidate = space.configured();
        let timeline = space.record_with(&candidate, candidate.recorded())?.timeline(memory);
        Ok(Self {
            peak: timeline.peak(),
            reserved: memory.reserved(&timeline),
            largest: timeline.blocks.iter().map(|block| block.bytes).max().unwrap_or(0),
        })
    }

    /// What of it the device has not, or may not give, where that is known. `needed` is what all of a run needs.
    pub fn remarks(&self, needed: u64, config: &Config, device: &Device) -> Vec<String> {
        let gpu = Gpu::of(device);
        let limit = config.device.memory_limit.map(|limit| (limit.as_u64(), "device.memory_limit allows".to_string()));
        let memory = gpu.as_ref().and_then(|gpu| Some((gpu.memory?, format!("{} has", gpu.name))));
        let least = limit.into_iter().chain(memory).min_by_key(|(bytes, _)| *bytes);
        let short = least.filter(|(bytes, _)| needed > *bytes).map(|(bytes, whose)| {
            let bytes = ByteSize::b(bytes).to_string();
            let budget = bytes.replace(' ', "");
            format!(
                "that is more than the {bytes} that {whose}: `leanburn fit CONFIG --budget {budget}` finds what fits"
            )
        });
        let large = gpu.filter(|gpu| self.largest > gpu.largest_allocation).map(|gpu| {
            let [largest, allocation] = [self.largest, gpu.largest_allocation].map(ByteSize::b);
            format!(
                "the largest tensor has {largest}, more than the {allocation} that {} gives at once: only a smaller volume or \
                 fewer channels can help",
                gpu.name
            )
        });
        short.into_iter().chain(large).collect()
    }
}
