//! A latent: mean and deviation of what an encoder says of a sample.

use std::borrow::Cow;

use leanburn_data::DataError;
use serde::{Deserialize, Serialize};

use crate::error::Result;

/// The latent of a sample.
#[derive(Debug, Clone)]
pub(super) struct Latent {
    /// The volume that it is of.
    pub name: String,
    /// `[channels, depth, height, width]`.
    pub shape: [usize; 4],
    /// The class of the volume, where the data has classes.
    pub class: Option<usize>,
    pub mean: Vec<f32>,
    pub deviation: Vec<f32>,
}

impl From<Latent> for Cow<'_, Latent> {
    fn from(latent: Latent) -> Self {
        Self::Owned(latent)
    }
}

impl Latent {
    /// The latent multiplied by a factor.
    pub fn scale(&mut self, factor: f64) {
        let values = self.mean.iter_mut().chain(&mut self.deviation);
        values.for_each(|value| *value = (f64::from(*value) * factor) as f32);
    }
}

/// How far latents spread: their means, and what is drawn about these.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Spread {
    /// What brings their deviation to 1.
    pub scale: f64,
    /// Which part of their variance is noise: what is drawn about their means.
    pub noise: f64,
}

/// How far so many latents spread.
///
/// # Errors
///
/// Those of reading a latent.
pub(super) fn spread<'a>(
    count: usize,
    latent: impl Fn(usize) -> std::result::Result<Cow<'a, Latent>, DataError>,
) -> Result<Spread> {
    let sum_of = |part: &dyn Fn(&Latent) -> &[f32], term: &dyn Fn(f64) -> f64| -> Result<f64> {
        let mut sum = 0.0;
        for number in 0..count {
            let latent = latent(number)?;
            part(&latent).iter().for_each(|value| sum += term(f64::from(*value)));
        }
        Ok(sum)
    };
    let mean: &dyn Fn(&Latent) -> &[f32] = &|latent| &latent.mean;
    let values = sum_of(mean, &|_| 1.0)?.max(1.0);
    let centre = sum_of(mean, &|value| value)? / values;
    let about = sum_of(mean, &|value| (value - centre).powi(2))?;
    let within = sum_of(&|latent| &latent.deviation, &|value| value.powi(2))?;
    let variance = (about + within) / values;
    Ok(match variance > 0.0 {
        true => Spread { scale: 1.0 / variance.sqrt(), noise: within / (about + within) },
        false => Spread { scale: 1.0, noise: 0.0 },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spread_counts_means_and_what_is_drawn_about_them() {
        let latent = |mean: [f32; 2], deviation: [f32; 2]| Latent {
            name: String::new(),
            shape: [1, 1, 1, 2],
            class: None,
            mean: mean.into(),
            deviation: deviation.into(),
        };
        // variance of the means 9, mean square of the deviations 16
        let of = |latents: &[Latent]| spread(latents.len(), |number| Ok(latents[number].clone().into())).unwrap();
        let Spread { scale, noise } = of(&[latent([7.0, 1.0], [4.0, 4.0]), latent([1.0, 7.0], [0.0, 32f32.sqrt()])]);
        assert!((scale - 0.2).abs() < 1e-7 && (noise - 0.64).abs() < 1e-7, "{scale} {noise}");
        assert_eq!(of(&[latent([3.0, 3.0], [0.0, 0.0])]), Spread { scale: 1.0, noise: 0.0 });
    }
}
