//! How much memory there is.

use bytesize::ByteSize;
use clap::Args;
use leanburn_ops::Gpu;
use leanburn_plan::catalogue::Device;
use leanburn_plan::{CubeMemory, FlexMemory, MemoryModel, Rates, Target};
use leanburn_train::Precision;

use super::rates_for;
use crate::device::{gpu_of, half_precision, is_cpu};
use crate::error::{CommandError, Result};

/// What a plan is held against.
#[derive(Debug, Default, Clone, Args)]
pub struct BudgetArguments {
    /// Memory that may be used, such as 24GiB or 900MiB.
    #[arg(long, value_name = "BYTES")]
    pub budget: Option<ByteSize>,
    /// A graphics card, such as rtx-4090: its memory is the budget. `all`, with `plan`: a table of every card.
    #[arg(long, value_name = "NAME")]
    pub gpu: Option<String>,
    /// Share of the budget that may be used, from 0 to 1; the guides' rule of thumb is 0.7.
    #[arg(long)]
    pub fraction: Option<f64>,
}

/// A budget in bytes, and what it is the memory of.
#[derive(Debug, Clone)]
pub struct Budget {
    /// The card of the catalogue, if one was named or is the one that is here.
    pub gpu: Option<&'static Device>,
    /// Bytes that may be used; none if nothing is known.
    pub bytes: Option<u64>,
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

impl BudgetArguments {
    /// The budget that the arguments come to.
    ///
    /// # Errors
    ///
    /// [`CommandError::Arguments`] with everything that is wrong.
    pub fn resolve(&self) -> Result<Budget> {
        let mut mistakes = Vec::new();
        let mut mistake = |argument: &str, what: String| mistakes.push((argument.to_string(), what));
        let gpu = match self.gpu.as_deref().map(Device::find) {
            None => None,
            Some(Ok(gpu)) => Some(gpu),
            Some(Err(error)) => {
                mistake("--gpu", error.to_string());
                None
            }
        };
        if self.gpu.is_some() && self.budget.is_some() {
            mistake("--budget", "contradicts --gpu; give one of them, and --fraction for a part of it".into());
        }
        if self.budget == Some(ByteSize::b(0)) {
            mistake("--budget", "is nothing; give a size such as 24GiB".into());
        }
        match self.fraction {
            Some(fraction) if !(fraction > 0.0 && fraction <= 1.0) => {
                mistake("--fraction", format!("is {fraction}; give a number above 0 and at most 1, such as 0.7"));
            }
            Some(_) if self.gpu.is_none() && self.budget.is_none() => {
                mistake("--fraction", "is a share of nothing; give --budget or --gpu too".into());
            }
            _ => {}
        }
        if !mistakes.is_empty() {
            return Err(CommandError::Arguments { mistakes, remedy: "`--help` shows every argument" });
        }
        let whole = self.budget.map(|budget| budget.as_u64()).or(gpu.map(|gpu| gpu.memory_bytes));
        let bytes = whole.map(|whole| (whole as f64 * self.fraction.unwrap_or(1.0)) as u64);
        Ok(Budget { gpu, bytes, unlisted: None })
    }
}

/// What a recording for the device of this name must stand for, and how that device allocates.
///
/// # Errors
///
/// [`CommandError::Device`] for a name that is unknown.
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
    /// The budget on the device that a configuration names, where the arguments name no card. A card that is here is asked.
    ///
    /// # Errors
    ///
    /// [`CommandError::Device`] for a name that is unknown.
    pub fn on(mut self, device_name: &str) -> Result<Self> {
        if self.gpu.is_some() || is_cpu(device_name)? {
            return Ok(self);
        }
        let here = gpu_of(device_name);
        self.gpu = here.as_ref().and_then(|gpu| Device::of_driver(&gpu.name, gpu.memory?));
        let memory = self.gpu.map(|gpu| gpu.memory_bytes).or(here.as_ref().and_then(|gpu| gpu.memory));
        self.bytes = self.bytes.or(memory);
        if self.gpu.is_none() {
            self.unlisted = Some(Unlisted { name: device_name.to_string(), here });
        }
        Ok(self)
    }

    /// Its bytes, which must be known.
    ///
    /// # Errors
    ///
    /// [`CommandError::Arguments`] with how to say them.
    pub fn required(&self) -> Result<u64> {
        self.bytes.ok_or_else(|| CommandError::Arguments {
            mistakes: vec![("--budget".to_string(), "is missing; a fit needs it, or --gpu".to_string())],
            remedy: "such as `--budget 24GiB` or `--gpu rtx-4090`",
        })
    }

    /// The half precision to use: what the device of the configuration computes in, and the card too.
    pub fn half_precision(&self, device_name: &str) -> Option<Precision> {
        match (half_precision(device_name)?, self.gpu) {
            (Precision::Bf16, Some(gpu)) if gpu.bf16_rate.is_none() => gpu.f16_rate.map(|_| Precision::F16),
            (half, _) => Some(half),
        }
    }

    /// Bytes of the largest tensor that the device makes, where that is known.
    pub fn largest_allocation(&self) -> Option<u64> {
        let listed = self.gpu.map(|gpu| (LARGEST_ALLOCATION * gpu.memory_bytes as f64) as u64);
        listed.or(self.here().map(|gpu| gpu.largest_allocation))
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
    pub fn remark(&self) -> Option<String> {
        let Unlisted { name, here } = self.unlisted.as_ref()?;
        let what = match here {
            Some(gpu) => format!("{}, which the catalogue does not have", gpu.name),
            None => "a graphics card that was not named".into(),
        };
        let size = if self.bytes.is_none() { "its memory is not known, " } else { "" };
        let typical = Device::find(TYPICAL).map_or(TYPICAL, |card| card.full_name);
        Some(format!(
            "device.name is {name}, {what}: {size}the driver's context is not counted, times are those of the {typical}; name \
             one with --gpu, as in --gpu {TYPICAL}"
        ))
    }

    /// How fast the device is.
    pub fn rates(&self) -> Rates {
        let typical = || self.unlisted.as_ref().and_then(|_| Device::find(TYPICAL).ok());
        rates_for(self.gpu.or_else(typical))
    }

    /// How the device allocates.
    pub fn memory_model(&self) -> &'static dyn MemoryModel {
        memory_of_target(self.target())
    }

    /// Bytes of the budget that a driver's context takes.
    pub fn context_bytes(&self) -> u64 {
        self.gpu.map_or(0, |gpu| gpu.context_bytes)
    }

    /// What a recording must stand for.
    pub fn target(&self) -> Target {
        if self.gpu.is_some() || self.unlisted.is_some() { Target::Gpu } else { Target::Cpu }
    }
}
