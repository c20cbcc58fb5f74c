//! Loss scaling, so that small gradients survive half precision.

use leanburn_common::{Validation, ValidationError};
use serde::{Deserialize, Serialize};

/// How the loss is scaled before backward.
///
/// Source: Micikevicius et al., [Mixed Precision Training](https://arxiv.org/abs/1710.03740), section 3.2.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LossScale {
    /// The same factor at every step; 1 means none.
    Static(f64),
    /// As large as it goes: grows after a run of good steps, backs off after a bad one.
    Dynamic {
        /// Factor of the first step.
        initial: f64,
        /// What the factor is multiplied with after `growth_interval` good steps in a row.
        growth: f64,
        /// What the factor is multiplied with after a step with infinite or undefined gradients.
        back_off: f64,
        /// Good steps in a row before the factor grows.
        growth_interval: u32,
    },
}

impl LossScale {
    /// No scaling: for f32 and bf16.
    pub const NONE: Self = Self::Static(1.0);

    /// The values PyTorch's gradient scaler starts with.
    pub const DYNAMIC: Self = Self::Dynamic { initial: 65536.0, growth: 2.0, back_off: 0.5, growth_interval: 2000 };

    /// Everything that is wrong with the numbers.
    #[must_use]
    pub fn validate(&self) -> Vec<ValidationError> {
        const POSITIVE: &str = "a finite number above 0";
        let is_positive = |value: f64| value.is_finite() && value > 0.0;
        let mut validation = Validation::default();
        match *self {
            Self::Static(scale) => {
                validation.check(is_positive(scale), "static", POSITIVE, scale, "1 is no scaling");
            }
            Self::Dynamic { initial, growth, back_off, growth_interval } => {
                validation.check(is_positive(initial), "initial", POSITIVE, initial, "PyTorch's is 65536");
                let grows = growth.is_finite() && growth >= 1.0;
                validation.check(grows, "growth", "a finite number of at least 1", growth, "PyTorch's is 2");
                let backs_off = back_off > 0.0 && back_off < 1.0;
                validation.check(backs_off, "back_off", "a number between 0 and 1", back_off, "PyTorch's is 0.5");
                let help = "PyTorch's is 2000";
                validation.check(growth_interval > 0, "growth_interval", "at least 1", growth_interval, help);
            }
        }
        validation.errors()
    }
}

/// A loss scale in use.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LossScaler {
    config: LossScale,
    scale: f64,
    good_steps: u32,
}

impl LossScaler {
    /// Starts at the configured factor.
    pub fn new(config: LossScale) -> Self {
        let scale = match config {
            LossScale::Static(scale) => scale,
            LossScale::Dynamic { initial, .. } => initial,
        };
        Self { config, scale, good_steps: 0 }
    }

    /// What it was made from.
    pub fn config(&self) -> LossScale {
        self.config
    }

    /// The factor of the current step.
    pub fn scale(&self) -> f64 {
        self.scale
    }

    /// Grows or backs off, by whether the step's gradients were finite.
    pub fn update(&mut self, finite: bool) {
        let LossScale::Dynamic { growth, back_off, growth_interval, .. } = self.config else {
            return;
        };
        if !finite {
            // down to 2^-24 there are halves left to scale; below that the loss itself is at fault
            self.scale = (self.scale * back_off).max(f64::from(2f32.powi(-24)));
            self.good_steps = 0;
        } else {
            self.good_steps += 1;
            if self.good_steps == growth_interval {
                self.scale = (self.scale * growth).min(f64::from(2f32.powi(32)));
                self.good_steps = 0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: LossScale = LossScale::Dynamic { initial: 8.0, growth: 2.0, back_off: 0.5, growth_interval: 3 };

    #[test]
    fn grows_after_a_run_of_good_steps_only() {
        let mut scaler = LossScaler::new(SHORT);
        let scales: Vec<f64> = [true, true, false, true, true, true, true]
            .map(|finite| {
                scaler.update(finite);
                scaler.scale()
            })
            .into();
        assert_eq!(scales, [8.0, 8.0, 4.0, 4.0, 4.0, 8.0, 8.0]);
    }

    #[test]
    fn a_static_scale_stays() {
        let mut scaler = LossScaler::new(LossScale::Static(512.0));
        scaler.update(false);
        assert_eq!(scaler.scale(), 512.0);
    }

    #[test]
    fn never_reaches_zero_or_infinity() {
        let mut scaler = LossScaler::new(SHORT);
        (0..2000).for_each(|_| scaler.update(false));
        assert!(scaler.scale() > 0.0);
        (0..2000).for_each(|_| scaler.update(true));
        assert!(scaler.scale() <= f64::from(2f32.powi(32)));
    }
}
