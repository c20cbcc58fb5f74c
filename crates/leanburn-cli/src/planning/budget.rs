//! How much memory there is.

use bytesize::ByteSize;
use clap::Args;
use leanburn_plan::catalogue::Device;
use leanburn_plan::{CubeMemory, FlexMemory, MemoryModel, Rates, Target};

use super::rates_for;
use crate::device::is_cpu;
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
    /// The card, if one was named.
    pub gpu: Option<&'static Device>,
    /// Bytes that may be used; none if nothing was said.
    pub bytes: Option<u64>,
    /// The device of the configuration, if it is a card that nothing else is known of.
    unknown: Option<String>,
}

/// The card whose speed times are foreseen by where none is named.
const TYPICAL: &str = "rtx-4090";

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
        Ok(Budget { gpu, bytes, unknown: None })
    }
}

impl BudgetArguments {
    /// As [`resolve`](Self::resolve), and its bytes, which must be given.
    ///
    /// # Errors
    ///
    /// [`CommandError::Arguments`].
    pub fn required(&self) -> Result<(Budget, u64)> {
        let budget = self.resolve()?;
        let missing = || CommandError::Arguments {
            mistakes: vec![("--budget".to_string(), "is missing; a fit needs it, or --gpu".to_string())],
            remedy: "such as `--budget 24GiB` or `--gpu rtx-4090`",
        };
        let bytes = budget.bytes.ok_or_else(missing)?;
        Ok((budget, bytes))
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
    /// The budget on the device that a configuration names, where the arguments name no card.
    ///
    /// # Errors
    ///
    /// [`CommandError::Device`] for a name that is unknown.
    pub fn on(mut self, device_name: &str) -> Result<Self> {
        if self.gpu.is_none() && !is_cpu(device_name)? {
            self.unknown = Some(device_name.to_string());
        }
        Ok(self)
    }

    /// The device's name for machines: that of the card, or of the configuration.
    pub fn name(&self) -> &str {
        self.gpu.map(|gpu| gpu.name).or(self.unknown.as_deref()).unwrap_or("flex")
    }

    /// The device in words.
    pub fn describe(&self) -> String {
        match (self.gpu, &self.unknown) {
            (Some(gpu), _) => gpu.full_name.to_string(),
            (None, Some(name)) => format!("a graphics card ({name})"),
            (None, None) => "the CPU".to_string(),
        }
    }

    /// What is not known of the device, and how to tell.
    pub fn remark(&self) -> Option<String> {
        let name = self.unknown.as_deref()?;
        let size = if self.bytes.is_none() { "its memory is not known, " } else { "" };
        let typical = Device::find(TYPICAL).map_or(TYPICAL, |card| card.full_name);
        Some(format!(
            "device.name is {name}, a graphics card that was not named: {size}the driver's context is not counted, times are \
             those of the {typical}; name it with --gpu, as in --gpu {TYPICAL}"
        ))
    }

    /// How fast the device is.
    pub fn rates(&self) -> Rates {
        let typical = || self.unknown.as_ref().and_then(|_| Device::find(TYPICAL).ok());
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
        if self.gpu.is_some() || self.unknown.is_some() { Target::Gpu } else { Target::Cpu }
    }
}
