//! Changes of the values of one channel.

use super::bias_field::BiasField;
use super::{blur, low_resolution};
use crate::error::DataError;
use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};
use std::fmt;

/// The least range and deviation that values are divided by.
const LEAST: f64 = 1e-7;

/// One change of the values of a channel.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Change {
    /// Times a smooth field.
    BiasField(BiasField),
    /// Plus Gaussian noise of this share of the values' deviation.
    Noise { deviation: f64, seed: u64 },
    /// Gaussian of these deviations in voxels.
    Blur([f64; 3]),
    /// Times a factor.
    Brightness(f64),
    /// Distances from the mean times a factor, within the range of the values.
    Contrast(f64),
    /// As if scanned at a share of the resolution.
    LowResolution(f64),
    /// [`Change::Gamma`] of the negative values.
    InvertedGamma(f64),
    /// The values, as shares of their range, to this power; mean and deviation stay.
    Gamma(f64),
}

impl Change {
    /// Makes the change in place.
    ///
    /// # Errors
    /// If there is no memory for a copy at low resolution.
    pub(crate) fn apply(&self, values: &mut [f32], extent: [usize; 3]) -> Result<(), DataError> {
        match self {
            Self::BiasField(field) => field.multiply(values, extent),
            Self::Noise { deviation, seed } => noise(values, *deviation, *seed),
            Self::Blur(deviations) => blur::gaussian(values, extent, *deviations),
            Self::Brightness(factor) => map(values, |value| value * factor),
            Self::Contrast(factor) => contrast(values, *factor),
            Self::LowResolution(share) => return low_resolution::lower(values, extent, *share),
            Self::InvertedGamma(exponent) => {
                map(values, |value| -value);
                gamma(values, *exponent);
                map(values, |value| -value);
            }
            Self::Gamma(exponent) => gamma(values, *exponent),
        }
        Ok(())
    }
}

fn map(values: &mut [f32], function: impl Fn(f64) -> f64) {
    values.iter_mut().for_each(|value| *value = function(f64::from(*value)) as f32);
}

/// Mean and standard deviation.
fn moments(values: &[f32]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().map(|value| f64::from(*value)).sum::<f64>() / count;
    let variance = values.iter().map(|value| (f64::from(*value) - mean).powi(2)).sum::<f64>() / count;
    (mean, variance.sqrt())
}

fn range(values: &[f32]) -> (f64, f64) {
    let (low, high) =
        values.iter().fold((f32::MAX, f32::MIN), |(low, high), value| (low.min(*value), high.max(*value)));
    (low.into(), high.into())
}

fn noise(values: &mut [f32], deviation: f64, seed: u64) {
    let deviation = (deviation * moments(values).1) as f32;
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    values.iter_mut().for_each(|value| {
        let normal: f32 = StandardNormal.sample(&mut random);
        *value += deviation * normal;
    });
}

fn contrast(values: &mut [f32], factor: f64) {
    let ((mean, _), (low, high)) = (moments(values), range(values));
    map(values, |value| ((value - mean) * factor + mean).clamp(low, high));
}

fn gamma(values: &mut [f32], exponent: f64) {
    let ((mean, deviation), (low, high)) = (moments(values), range(values));
    let width = (high - low).max(LEAST);
    map(values, |value| ((value - low) / width).powf(exponent) * width + low);
    let (new_mean, new_deviation) = moments(values);
    let scale = deviation / new_deviation.max(LEAST);
    map(values, |value| (value - new_mean) * scale + mean);
}

impl fmt::Display for Change {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BiasField(_) => write!(out, "bias field"),
            Self::Noise { deviation, .. } => write!(out, "noise {deviation:.2}"),
            Self::Blur([x, y, z]) => write!(out, "blur {x:.1}, {y:.1}, {z:.1}"),
            Self::Brightness(factor) => write!(out, "brightness {factor:.2}"),
            Self::Contrast(factor) => write!(out, "contrast {factor:.2}"),
            Self::LowResolution(share) => write!(out, "resolution {share:.2}"),
            Self::InvertedGamma(exponent) => write!(out, "inverted gamma {exponent:.2}"),
            Self::Gamma(exponent) => write!(out, "gamma {exponent:.2}"),
        }
    }
}
