//! The configuration of flows.

use crate::volumes::count;
use leanburn_common::{Validation, ValidationError};
use serde::{Deserialize, Serialize};

/// The smallest grid of the solver: it can multiply all waves of the initial vorticity.
const SMALLEST: usize = 32;
/// The longest side of a grid that is not taken for a typing error.
const LONGEST: usize = 4096;
/// More time steps than this are taken for a typing error.
const MOST_STEPS: f64 = 1e9;

/// Flows to learn from; see [`NavierStokes`](super::NavierStokes).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NavierStokesConfig {
    /// Flows, each from an initial vorticity of its own.
    pub trajectories: usize,
    /// Frames of each.
    pub steps: usize,
    /// Positions along each side of a frame.
    pub size: usize,
    /// Positions along each side of the solver's grid: 32 or more. Frames of another `size` show the same flow.
    pub solver_size: usize,
    /// Kinematic viscosity.
    pub viscosity: f64,
    /// Amplitude of the force that keeps the flow going.
    pub forcing: f64,
    /// Time between two frames.
    pub interval: f64,
    /// Time before the first frame, in which the force shapes the flow.
    pub spin_up: f64,
    /// Largest time step of the solver.
    pub time_step: f64,
}

impl Default for NavierStokesConfig {
    fn default() -> Self {
        Self {
            trajectories: 20,
            steps: 20,
            size: 64,
            solver_size: 64,
            viscosity: 1e-3,
            forcing: 0.1,
            interval: 1.0,
            spin_up: 5.0,
            time_step: 0.02,
        }
    }
}

impl NavierStokesConfig {
    /// Everything that is wrong with the values.
    pub fn validate(&self) -> Vec<ValidationError> {
        let mut validation = Validation::default();
        for (key, value) in [("trajectories", self.trajectories), ("steps", self.steps)] {
            validation.check(value > 0, key, "1 or more", value, "make at least one");
        }
        let sides = [("size", self.size, 2), ("solver_size", self.solver_size, SMALLEST)];
        for (key, value, least) in sides {
            let expected = format!("{least} to {LONGEST} positions");
            validation.check((least..=LONGEST).contains(&value), key, &expected, value, "write a side, such as 64");
        }
        let frames = [self.trajectories, self.steps, self.size, self.size];
        let (fits, expected) = (count(&frames).is_ok(), "frames that fit in memory");
        validation.check(fits, "steps", expected, format!("{frames:?}"), "make fewer or smaller frames");
        for (key, value) in [("viscosity", self.viscosity), ("forcing", self.forcing), ("spin_up", self.spin_up)] {
            let sound = value.is_finite() && (0.0..=1e6).contains(&value);
            validation.check(sound, key, "a number from 0 to 1e6", value, "write a smaller number, such as 0.1");
        }
        for (key, value) in [("interval", self.interval), ("time_step", self.time_step)] {
            let sound = value.is_finite() && value > 0.0 && value <= 1e6;
            validation.check(sound, key, "a positive number of at most 1e6", value, "write a time, such as 0.02");
        }
        let steps = (self.spin_up + self.interval * self.steps as f64) / self.time_step * self.trajectories as f64;
        // What is not a number was reported above.
        let few = steps.is_nan() || steps <= MOST_STEPS;
        validation.check(few, "time_step", "at most 1e9 time steps", format!("{steps:.0}"), "make longer steps");
        validation.errors()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_is_found_at_once() {
        let config = NavierStokesConfig {
            trajectories: 0,
            steps: usize::MAX,
            size: 1,
            solver_size: 16,
            viscosity: -1.0,
            forcing: f64::NAN,
            interval: 0.0,
            spin_up: f64::INFINITY,
            time_step: 0.0,
        };
        let keys = |config: &NavierStokesConfig| -> Vec<String> {
            config.validate().into_iter().map(|error| error.key).collect()
        };
        let expected =
            ["trajectories", "size", "solver_size", "viscosity", "forcing", "spin_up", "interval", "time_step"];
        assert_eq!(keys(&config), expected);
        assert_eq!(keys(&NavierStokesConfig { trajectories: usize::MAX, ..config.clone() })[0], "size");
        assert_eq!(keys(&NavierStokesConfig { trajectories: 1 << 40, ..Default::default() }), ["steps", "time_step"]);
        assert_eq!(keys(&NavierStokesConfig { time_step: 1e-9, ..Default::default() }), ["time_step"]);
        assert_eq!(NavierStokesConfig::default().validate(), []);
    }
}
