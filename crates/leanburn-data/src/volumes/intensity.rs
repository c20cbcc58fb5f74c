//! Bringing values to a common range, and back.

use serde::{Deserialize, Serialize};

/// How the values of a volume are brought to a common range, over all channels together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Normalize {
    /// Clipped to two percentiles, which become 0 and 1.
    #[default]
    Percentile,
    /// The least value becomes 0, the greatest 1.
    MinMax,
    /// Mean 0, standard deviation 1.
    ZScore,
    /// As in the file.
    None,
}

impl Normalize {
    /// Normalizes `values` in place and returns what was done to them.
    ///
    /// `percentiles` (in percent, ascending) count for [`Normalize::Percentile`] alone, with linear
    /// interpolation between values as NumPy has it. Equal values become 0. `values` are finite.
    ///
    /// # Memory
    /// 16 KiB: percentiles are found without a copy of the values.
    pub fn apply(self, values: &mut [f32], percentiles: [f64; 2]) -> Intensity {
        if values.is_empty() {
            return Intensity::default();
        }
        let intensity = match self {
            Self::None => return Intensity::default(),
            Self::ZScore => z_score(values),
            Self::MinMax => {
                let (low, high) =
                    values.iter().fold((f32::MAX, f32::MIN), |(low, high), value| (low.min(*value), high.max(*value)));
                Intensity::onto_unit(low.into(), high.into())
            }
            Self::Percentile => {
                let [low, high] = percentiles.map(|percent| percentile(values, percent));
                values.iter_mut().for_each(|value| *value = value.max(low as f32).min(high as f32));
                Intensity::onto_unit(low, high)
            }
        };
        intensity.apply(values);
        if self != Self::ZScore {
            values.iter_mut().for_each(|value| *value = value.clamp(0.0, 1.0)); // rounding
        }
        intensity
    }
}

fn z_score(values: &[f32]) -> Intensity {
    let count = values.len() as f64;
    let mean = values.iter().map(|value| f64::from(*value)).sum::<f64>() / count;
    let variance = values.iter().map(|value| (f64::from(*value) - mean).powi(2)).sum::<f64>() / count;
    let scale = if variance > 0.0 { 1.0 / variance.sqrt() } else { 1.0 };
    Intensity { scale, offset: -mean * scale }
}

/// The percentile of values, between two of them on the line that joins them.
fn percentile(values: &[f32], percent: f64) -> f64 {
    let rank = (percent / 100.0).clamp(0.0, 1.0) * (values.len() - 1) as f64;
    let lower = nth(values, rank as usize);
    let above = values.iter().copied().filter(|value| value.total_cmp(&lower).is_gt()).min_by(f32::total_cmp);
    let not_above = values.iter().filter(|value| value.total_cmp(&lower).is_le()).count();
    let next = above.filter(|_| not_above <= rank as usize + 1).unwrap_or(lower);
    f64::from(lower) + rank.fract() * (f64::from(next) - f64::from(lower))
}

/// The value at a place of the sorted values, found digit by digit: each pass counts how many of the values that begin as the
/// wanted one have which digit next.
fn nth(values: &[f32], mut place: usize) -> f32 {
    const DIGITS: [u32; 3] = [11, 11, 10];
    let (mut found, mut rest) = (0, u32::BITS);
    for bits in DIGITS {
        let begins = |key: u32| rest == u32::BITS || key >> rest == found;
        let mut counts = vec![0_usize; 1 << bits];
        for key in values.iter().map(|value| ordered(*value)).filter(|key| begins(*key)) {
            counts[(key >> (rest - bits)) as usize & ((1 << bits) - 1)] += 1;
        }
        let mut digit = 0;
        while place >= counts[digit] {
            place -= counts[digit];
            digit += 1;
        }
        (found, rest) = (found << bits | digit as u32, rest - bits);
    }
    f32::from_bits(if found >> 31 == 1 { found ^ 1 << 31 } else { !found })
}

/// A number that is the greater the greater the value, in the order of [`f32::total_cmp`].
fn ordered(value: f32) -> u32 {
    let bits = value.to_bits();
    if bits >> 31 == 1 { !bits } else { bits ^ 1 << 31 }
}

/// The line `normalized = value * scale + offset`, so that a result can be converted to input units.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Intensity {
    /// Factor.
    pub scale: f64,
    /// Summand.
    pub offset: f64,
}

impl Default for Intensity {
    /// Leaves values as they are.
    fn default() -> Self {
        Self { scale: 1.0, offset: 0.0 }
    }
}

impl Intensity {
    /// `low` becomes 0 and `high` becomes 1; where they are equal, both become 0.
    fn onto_unit(low: f64, high: f64) -> Self {
        let scale = if high > low { 1.0 / (high - low) } else { 1.0 };
        Self { scale, offset: -low * scale }
    }

    /// Input units to normalized ones, in place.
    pub fn apply(&self, values: &mut [f32]) {
        for value in values {
            *value = (f64::from(*value) * self.scale + self.offset) as f32;
        }
    }

    /// Normalized values back to input units, in place. What was clipped stays clipped.
    pub fn invert(&self, values: &mut [f32]) {
        for value in values {
            *value = ((f64::from(*value) - self.offset) / self.scale) as f32;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERCENTILES: [f64; 2] = [10.0, 90.0];

    fn ramp() -> Vec<f32> {
        (0..11).rev().map(|value| value as f32 * 2.0 + 5.0).collect()
    }

    #[test]
    fn percentiles_clip_and_scale() {
        let mut values = ramp();
        let intensity = Normalize::Percentile.apply(&mut values, PERCENTILES);
        assert_eq!((values[0], values[10]), (1.0, 0.0));
        assert_eq!((values[1], values[9], values[5]), (1.0, 0.0, 0.5));
        intensity.invert(&mut values);
        assert!((values[0] - 23.0).abs() < 1e-5 && (values[3] - 19.0).abs() < 1e-5);
        // Between two values: numpy.percentile([0, 1, 2, 10], [25, 90]) is [0.75, 7.6].
        let [low, high] = [25.0, 90.0].map(|percent| percentile(&[10.0, 0.0, 2.0, 1.0], percent));
        assert!((low - 0.75).abs() < 1e-12 && (high - 7.6).abs() < 1e-12);
    }

    #[test]
    fn values_are_found_in_their_order_without_sorting() {
        let mut values: Vec<f32> = (0..1000).map(|index| ((index * 7919) % 257) as f32 * 0.37 - 40.0).collect();
        values.extend([-0.0, 0.0, f32::MAX, f32::MIN, f32::MIN_POSITIVE, -1e-42, 1e-42, -40.0]);
        let mut sorted = values.clone();
        sorted.sort_by(f32::total_cmp);
        for (place, expected) in sorted.iter().enumerate() {
            assert_eq!(nth(&values, place).to_bits(), expected.to_bits(), "place {place}");
        }
        // one that is there often has itself as the next
        assert_eq!(percentile(&[1.0, 1.0, 1.0, 5.0], 40.0), 1.0);
        assert_eq!((percentile(&[3.0], 50.0), percentile(&[3.0, 4.0], 100.0)), (3.0, 4.0));
    }

    #[test]
    fn min_max_and_z_score() {
        let mut values = ramp();
        let intensity = Normalize::MinMax.apply(&mut values, PERCENTILES);
        assert_eq!((values[0], values[5], values[10]), (1.0, 0.5, 0.0));
        intensity.invert(&mut values);
        assert!(values.iter().zip(ramp()).all(|(a, b)| (a - b).abs() < 1e-4));

        let mut values = ramp();
        let intensity = Normalize::ZScore.apply(&mut values, PERCENTILES);
        let mean: f32 = values.iter().sum::<f32>() / 11.0;
        let variance: f32 = values.iter().map(|value| value * value).sum::<f32>() / 11.0;
        assert!(mean.abs() < 1e-6 && (variance - 1.0).abs() < 1e-5);
        intensity.invert(&mut values);
        assert!(values.iter().zip(ramp()).all(|(a, b)| (a - b).abs() < 1e-4));
    }

    #[test]
    fn constant_and_extreme_volumes_stay_finite() {
        for kind in [Normalize::Percentile, Normalize::MinMax, Normalize::ZScore, Normalize::None] {
            let mut values = vec![7.5; 9];
            let intensity = kind.apply(&mut values, PERCENTILES);
            let expected = if kind == Normalize::None { 7.5 } else { 0.0 };
            assert_eq!(values, [expected; 9], "{kind:?}");
            intensity.invert(&mut values);
            assert_eq!(values, [7.5; 9], "{kind:?}");
            let mut wide = vec![f32::MIN, 0.0, f32::MAX];
            kind.apply(&mut wide, [0.0, 100.0]);
            assert!(wide.iter().all(|value| value.is_finite()), "{kind:?}");
            assert_eq!(kind.apply(&mut [], PERCENTILES), Intensity::default());
        }
    }
}
