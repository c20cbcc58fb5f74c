//! The arguments that say how much memory there is.

use clap::Args;
use leanburn_common::Bytes;
use leanburn_plan::catalogue::Device;
use leanburn_systems::planning::planner_of;
use leanburn_train::planning::Planner;

use crate::error::{CommandError, Result};

/// What a plan is held against.
#[derive(Debug, Default, Clone, Args)]
pub struct BudgetArguments {
    /// Memory that may be used, such as 24GiB or 900MiB.
    #[arg(long, value_name = "BYTES")]
    pub budget: Option<Bytes>,
    /// A graphics card, such as rtx-4090: its memory is the budget. `all`, with `plan`: a table of every card.
    #[arg(long, value_name = "NAME")]
    pub gpu: Option<String>,
    /// Share of the budget that may be used, from 0 to 1; the rule of thumb of `leanburn calc` is 0.7.
    #[arg(long)]
    pub fraction: Option<f64>,
}

/// What the arguments name: a card, and the memory that may be used.
#[derive(Debug, Clone, Copy)]
pub struct Available {
    card: Option<&'static Device>,
    size: Option<Bytes>,
}

impl Available {
    /// The planner for it; where no card is named, for the device that a configuration names.
    ///
    /// # Errors
    ///
    /// [`CommandError::System`] for a name that is unknown.
    pub fn planner(self, device_name: &str) -> Result<Planner> {
        Ok(planner_of(device_name, self.card, self.size)?)
    }
}

impl BudgetArguments {
    /// What the arguments come to.
    ///
    /// # Errors
    ///
    /// [`CommandError::Arguments`] with everything that is wrong.
    pub fn resolve(&self) -> Result<Available> {
        let mut errors = Vec::new();
        let mut error = |argument: &str, what: String| errors.push((argument.to_string(), what));
        let card = match self.gpu.as_deref().map(Device::find) {
            None => None,
            Some(Ok(card)) => Some(card),
            Some(Err(unknown)) => {
                error("--gpu", unknown.to_string());
                None
            }
        };
        if self.gpu.is_some() && self.budget.is_some() {
            error("--budget", "contradicts --gpu; give one of them, and --fraction for a part of it".into());
        }
        if self.budget == Some(Bytes(0)) {
            error("--budget", "is nothing; give a size such as 24GiB".into());
        }
        match self.fraction {
            Some(fraction) if !(fraction > 0.0 && fraction <= 1.0) => {
                error("--fraction", format!("is {fraction}; give a number above 0 and at most 1, such as 0.7"));
            }
            Some(_) if self.gpu.is_none() && self.budget.is_none() => {
                error("--fraction", "is a share of nothing; give --budget or --gpu too".into());
            }
            _ => {}
        }
        if !errors.is_empty() {
            return Err(CommandError::Arguments { errors, remedy: "`--help` shows every argument" });
        }
        let whole = self.budget.or(card.map(|card| card.memory_bytes));
        Ok(Available { card, size: whole.map(|size| size.share(self.fraction.unwrap_or(1.0))) })
    }
}

/// What is not known of the planner's device, and how to tell.
pub fn warning(planner: &Planner) -> Option<String> {
    Some(format!("{}; name one with --gpu, as in --gpu rtx-4090", planner.warning()?))
}

/// The memory of a planner, which must be known.
///
/// # Errors
///
/// [`CommandError::Arguments`] with how to say it.
pub fn required(planner: &Planner) -> Result<Bytes> {
    planner.budget().ok_or_else(|| CommandError::Arguments {
        errors: vec![("--budget".to_string(), "is missing; a fit needs it, or --gpu".to_string())],
        remedy: "such as `--budget 24GiB` or `--gpu rtx-4090`",
    })
}
