//! A configuration's plan, and the fastest way to train it within a budget, in one call each.

use leanburn_common::Bytes;
use leanburn_plan::Class;
use leanburn_train::planning::{Planner, StepPlan};

use super::space::ConfigSpace;
use crate::config::Config;
use crate::error::{Result, SystemError};

/// What messages call a configuration that is in no file.
const NAME: &str = "the configuration";

/// What a step of a configuration will need on the planner's device. Where the configuration names no size of samples, the data
/// is opened.
///
/// # Errors
///
/// What keeps the configuration from being built or recorded.
///
/// # Example
///
/// ```
/// use leanburn_data::{DataConfig, PhantomConfig};
/// use leanburn_systems::planning::{fit, plan};
/// use leanburn_systems::{AutoencoderSection, Config, TrainingSection};
/// use leanburn_train::planning::Planner;
///
/// let model = AutoencoderSection::new(vec![8, 16]).with_norm_num_groups(4);
/// let model = model.with_training(TrainingSection::default().with_batch_size(2));
/// let phantom = Some(PhantomConfig::default());
/// let data = DataConfig { phantom, patch_size: Some([32; 3]), ..DataConfig::default() };
/// let config = Config::new(model).with_data(data);
///
/// let planned = plan(&config, &Planner::cpu())?;
/// let fitted = fit(&config, &Planner::cpu().within(planned.needed.share(0.7)))?;
/// assert!(fitted.peak < planned.needed);
/// # Ok::<(), leanburn_systems::SystemError>(())
/// ```
pub fn plan(config: &Config, planner: &Planner) -> Result<StepPlan> {
    let space = space(config, planner)?;
    let candidate = space.configured();
    let beside = Bytes(leanburn_plan::Space::beside(&space, &candidate));
    let planner = planner.clone().with_other_bytes(beside);
    let mut config = config.clone();
    config.device.memory_limit = None; // what recording takes is not what the step takes
    config.start_at_once();
    config.system.any().plan(&config.context(NAME), &planner, space.extent(&candidate))
}

/// A configuration that fits.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct FittedConfig {
    /// The configuration, with what was changed.
    pub config: Config,
    /// Class of the changes.
    pub class: Class,
    /// The most that a step may hold, with a margin.
    pub peak: Bytes,
    /// Seconds of a step, by the device's rates.
    pub seconds: f64,
}

/// The fastest way to train a configuration within the planner's budget, with the changes that the planner allows.
///
/// # Errors
///
/// [`SystemError::OverBudget`] if even the smallest way needs more; what keeps the configuration from being recorded.
pub fn fit(config: &Config, planner: &Planner) -> Result<FittedConfig> {
    let space = space(config, planner)?;
    let plans = planner.search(&space)?;
    let budget = planner.budget().unwrap_or(Bytes(u64::MAX));
    let plan = plans.within(budget.get()).ok_or_else(|| SystemError::OverBudget {
        budget,
        smallest: Bytes(plans.smallest().map_or(0, |plan| plan.peak)),
    })?;
    Ok(FittedConfig {
        config: space.config(&plan.candidate),
        class: plan.class,
        peak: Bytes(plan.peak),
        seconds: plan.seconds,
    })
}

fn space(config: &Config, planner: &Planner) -> Result<ConfigSpace> {
    ConfigSpace::new(config, NAME, planner.target(), planner.half_precision(), || config.extent_of_data(NAME))
}
