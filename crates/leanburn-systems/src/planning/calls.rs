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
        let frontier = planner.search(&space, budget)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    /// What is searched for one budget alone, streamed segments too, against the plans for all.
    #[test]
    fn a_fit_is_the_fastest_of_all_plans_within_its_budget() {
        let text = "\
autoencoder: {num_channels: [8, 8], norm_num_groups: 8, num_res_blocks: 1, attention_levels: [false, false], training: {batch_size: 1}}
data: {phantom: {count: 2, shape: 32}, patch_size: 32}
device: {name: flex}
";
        let config = Config::parse(text, "test", &[]).unwrap();
        let planner = Planner::cpu();
        let space = config.space(&planner).unwrap();
        let all = planner.search(&space, Bytes(0)).unwrap();
        assert!(all.plans.iter().filter(|plan| !plan.candidate.stream.is_empty()).count() > 1, "{all:?}");
        for plan in all.plans.iter().step_by(6) {
            let fitted = config.fit(&planner.clone().within(plan.peak)).unwrap();
            let longer = fitted.seconds / plan.seconds;
            assert!(fitted.peak <= plan.peak && (1.0..=1.02).contains(&longer), "{longer} times {plan:?}: {fitted:?}");
        }
        let expected = all.plans[0].peak;
        let error = config.fit(&planner.within(expected - Bytes(1))).unwrap_err();
        let SystemError::DoesNotFit { smallest, .. } = error else { panic!("{error}") };
        assert_eq!(smallest, expected);
    }
}
