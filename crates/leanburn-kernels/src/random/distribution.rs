//! What numbers are drawn from, and how a number is made of words.

use std::f64::consts::TAU;

/// The words of a generator are so many.
const WORDS: f64 = 4_294_967_296.0;

/// A distribution of numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Distribution {
    /// Each number between two is as likely as the others.
    Uniform {
        /// The least number.
        low: f64,
        /// The end, which rounding may reach.
        high: f64,
    },
    /// The normal distribution. No number is further from its mean than 6.7 deviations.
    Normal {
        /// Its mean.
        mean: f64,
        /// Its standard deviation.
        deviation: f64,
    },
}

impl Distribution {
    /// Uniform from 0 to 1.
    pub const UNIT: Self = Self::Uniform { low: 0.0, high: 1.0 };
    /// Normal with mean 0 and deviation 1.
    pub const STANDARD: Self = Self::Normal { mean: 0.0, deviation: 1.0 };

    /// Two numbers of two words.
    #[inline]
    pub(super) fn numbers(self, [first, second]: [u32; 2]) -> [f32; 2] {
        let [first, second] = [f64::from(first), f64::from(second)];
        match self {
            Self::Uniform { low, high } => [first, second].map(|word| (low + (high - low) / WORDS * word) as f32),
            Self::Normal { mean, deviation } => {
                let radius = deviation * (-2.0 * ((first + 1.0) / WORDS).ln()).sqrt();
                let (sine, cosine) = (TAU / WORDS * second).sin_cos();
                [mean + radius * cosine, mean + radius * sine].map(|number| number as f32)
            }
        }
    }
}
