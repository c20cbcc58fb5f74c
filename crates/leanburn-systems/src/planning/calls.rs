//! Plans and fits of a configuration, one call each.

use leanburn_common::Bytes;
use leanburn_plan::{Class, Space};
use leanburn_train::planning::{Planner, StepPlan};

use super::ConfigSpace;
use crate::config::Config;
use crate::error::{Result, SystemError};

/// A configuration that fits a budget.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct FittedConfig {
    /// The configuration, with the batch split and the segments to recompute that are the fastest.
    pub config: Config,
    /// Class of its changes.
    pub class: Class,
    /// The most that the step may hold, with a [margin](leanburn_plan::bound) and other bytes.
    pub peak: Bytes,
    /// Seconds of the step, by the device's rates.
    pub seconds: f64,
}

impl Config {
    /// What a training step of this configuration will need on the planner's device, with everything in it that begins later
    /// in a run. Where neither `patch_size` nor `voxel_size` is set, the first sample is read for its size.
    ///
    /// # Example
    ///
    /// ```
    /// use leanburn_data::DataConfig;
    /// use leanburn_systems::{AutoencoderSection, Config};
    /// use leanburn_train::planning::Planner;
    ///
    /// let data = DataConfig { voxel_size: Some([128, 128, 64]), paths: vec!["scans".into()], ..DataConfig::default() };
    /// let config = Config::new(AutoencoderSection::new(vec![32, 64, 64])).with_data(data);
    /// let plan = config.plan(&Planner::card("rtx-4090")?)?;
    /// assert_eq!(plan.fits(), Some(true));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// What keeps the configuration from being built or recorded.
    pub fn plan(&self, planner: &Planner) -> Result<StepPlan> {
        let space = self.space(planner)?;
        let candidate = space.configured();
        let recording = space.record(&candidate)?;
        let planner = planner.clone().with_more_bytes(space.other_bytes(&candidate));
        Ok(planner.plan_recorded(&recording, candidate.accumulation, candidate.recorded()))
    }

    /// The fastest way to train this configuration within the planner's budget, with the changes that the planner allows: the
    /// split of the batch and which segments are recomputed, then half precision, then a smaller model or task.
    ///
    /// # Errors
    ///
    /// [`SystemError::DoesNotFit`] with the smallest budget that would do, and as [`plan`](Self::plan).
    pub fn fit(&self, planner: &Planner) -> Result<FittedConfig> {
        let Some(budget) = planner.budget() else { return Err(SystemError::NoBudget) };
        let space = self.space(planner)?;
        let frontier = planner.search(&space)?;
        let Some(plan) = frontier.within(budget) else {
            let smallest = frontier.smallest().map_or(Bytes(0), |plan| plan.peak);
            return Err(SystemError::DoesNotFit { budget, smallest, allowed: planner.allowed() });
        };
        Ok(FittedConfig {
            config: space.config(&plan.candidate),
            class: plan.class,
            peak: plan.peak,
            seconds: plan.seconds,
        })
    }

    fn space(&self, planner: &Planner) -> Result<ConfigSpace> {
        let name = "the configuration";
        ConfigSpace::new(self, name, planner, || self.data_size(name))
    }
}
