//! How much memory there is.

use leanburn_common::Bytes;
use leanburn_ops::Gpu;
use leanburn_plan::catalogue::Device;
use leanburn_plan::{CubeMemory, FlexMemory, MemoryModel, Rates, Target};
use leanburn_train::Precision;
use leanburn_train::planning::processor_rates;

use crate::device::{gpu_of, half_precision, is_cpu};
use crate::error::Result;

/// A budget in bytes, and what it is the memory of.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Budget {
    /// The card of the catalogue, if one was named or is the one that is here.
    pub gpu: Option<&'static Device>,
    /// Memory that may be used; none if nothing is known.
    pub size: Option<Bytes>,
    /// The device of the configuration, if it is a card that the catalogue does not tell of.
    unlisted: Option<Unlisted>,
}

/// A card that is in no catalogue, or that nothing is known of.
#[derive(Debug, Clone)]
struct Unlisted {
    /// As the configuration names it.
    name: String,
    /// What it says of itself, if it is on this machine and this build can use it.
    here: Option<Gpu>,
}

/// The card whose speed times are foreseen by where none is named.
const TYPICAL: &str = "rtx-4090";

/// Share of a card's memory that one allocation may have: CubeCL's default pool gives no page of more.
const LARGEST_ALLOCATION: f64 = 0.25;

/// What a recording for the device of this name must stand for, and how that device allocates.
///
/// # Errors
///
/// [`SystemError::Device`](crate::SystemError::Device) for a name that is unknown.
pub fn memory_of(device_name: &str) -> Result<(Target, &'static dyn MemoryModel)> {
    let target = if is_cpu(device_name)? { Target::Cpu } else { Target::Gpu };
    Ok((target, memory_of_target(target)))
}

fn memory_of_target(target: Target) -> &'static dyn MemoryModel {
    match target {
        Target::Gpu => &CubeMemory,
        Target::Cpu => &FlexMemory,
    }
}

impl Budget {
    /// So much memory, of a device that is not known yet.
    pub fn of(size: Bytes) -> Self {
        Self { size: Some(size), ..Self::default() }
    }

    /// The memory of a card.
    pub fn of_card(card: &'static Device) -> Self {
        Self { gpu: Some(card), size: Some(card.memory_bytes), unlisted: None }
    }

    /// A share of it, from 0 to 1.
    #[must_use]
    pub fn share(self, fraction: f64) -> Self {
        Self { size: self.size.map(|size| size.share(fraction)), ..self }
    }

    /// The budget on the device that a configuration names, where the arguments name no card. A card that is here is asked.
    ///
    /// # Errors
    ///
    /// [`SystemError::Device`](crate::SystemError::Device) for a name that is unknown.
    pub fn on(mut self, device_name: &str) -> Result<Self> {
        if self.gpu.is_some() || is_cpu(device_name)? {
            return Ok(self);
        }
        let here = gpu_of(device_name);
        self.gpu = here.as_ref().and_then(|gpu| Device::of_driver(&gpu.name, Bytes(gpu.memory?)));
        let memory = here.as_ref().and_then(|gpu| gpu.memory).map(Bytes);
        self.size = self.size.or(self.gpu.map(|gpu| gpu.memory_bytes)).or(memory);
        if self.gpu.is_none() {
            self.unlisted = Some(Unlisted { name: device_name.to_string(), here });
        }
        Ok(self)
    }

    /// The half precision to use: what the device of the configuration computes in, and the card too.
    pub fn half_precision(&self, device_name: &str) -> Option<Precision> {
        match (half_precision(device_name)?, self.gpu) {
            (Precision::Bf16, Some(gpu)) if gpu.bf16_rate.is_none() => gpu.f16_rate.map(|_| Precision::F16),
            (half, _) => Some(half),
        }
    }

    /// Size of the largest tensor that the device makes, where that is known.
    pub fn largest_allocation(&self) -> Option<Bytes> {
        let listed = self.gpu.map(|gpu| gpu.memory_bytes.share(LARGEST_ALLOCATION));
        listed.or(self.here().map(|gpu| Bytes(gpu.largest_allocation)))
    }

    fn here(&self) -> Option<&Gpu> {
        self.unlisted.as_ref()?.here.as_ref()
    }

    /// The device's name for machines: that of the card, or of the configuration.
    pub fn name(&self) -> &str {
        let unlisted = self.unlisted.as_ref().map(|card| card.name.as_str());
        self.gpu.map(|gpu| gpu.name).or(unlisted).unwrap_or("flex")
    }

    /// The device in words.
    pub fn describe(&self) -> String {
        match (self.gpu, &self.unlisted) {
            (Some(gpu), _) => gpu.full_name.to_string(),
            (None, Some(Unlisted { name, here: Some(gpu) })) => format!("{} ({name})", gpu.name),
            (None, Some(Unlisted { name, here: None })) => format!("a graphics card ({name})"),
            (None, None) => "the CPU".to_string(),
        }
    }

    /// What is not known of the device, and how to tell.
    pub fn warning(&self) -> Option<String> {
        let Unlisted { name, here } = self.unlisted.as_ref()?;
        let what = match here {
            Some(gpu) => format!("{}, which the catalogue does not have", gpu.name),
            None => "a graphics card that was not named".into(),
        };
        let size = if self.size.is_none() { "its memory is not known, " } else { "" };
        let typical = Device::find(TYPICAL).map_or(TYPICAL, |card| card.full_name);
        Some(format!(
            "device.name is {name}, {what}: {size}the driver's context is not counted, times are those of the {typical}; name \
             one with --gpu, as in --gpu {TYPICAL}"
        ))
    }

    /// How fast the device is: a card as its maker says, the processor as it was measured.
    pub fn rates(&self) -> Rates {
        let typical = || self.unlisted.as_ref().and_then(|_| Device::find(TYPICAL).ok());
        self.gpu.or_else(typical).map_or_else(processor_rates, Rates::of_card)
    }

    /// How the device allocates.
    pub fn memory_model(&self) -> &'static dyn MemoryModel {
        memory_of_target(self.target())
    }

    /// How much of the budget a driver's context takes.
    pub fn context(&self) -> Bytes {
        self.gpu.map_or(Bytes(0), |gpu| gpu.context_bytes)
    }

    /// What a recording must stand for.
    pub fn target(&self) -> Target {
        if self.gpu.is_some() || self.unlisted.is_some() { Target::Gpu } else { Target::Cpu }
    }
}
