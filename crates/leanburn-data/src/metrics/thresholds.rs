//! The best segmentation that two intensity thresholds can give: a baseline for a model of three classes.

use super::lengths::check_lengths;
use super::segmentation::{mean_of_present, overlap};
use crate::error::DataError;

/// Bins of the histogram: 8-bit images have each of their values in a bin of its own.
const BINS: usize = 1024;

/// Two thresholds `low <= high` and what they reach: `x < low` is class 0, `low <= x < high` class 1, `x >= high` class 2.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TwoThresholds {
    /// The least value of class 1, or of class 2 where no value is in class 1.
    pub low: f32,
    /// The least value of class 2; infinite where no value is in class 2.
    pub high: f32,
    /// Dice scores of classes 1 and 2, as [`dice`](super::dice).
    pub dice: [f64; 2],
    /// Their mean; of the one that is a number, if one alone is.
    pub mean: f64,
}

/// The pair of thresholds with the largest mean Dice score of classes 1 and 2, among all pairs of borders between the bins of a
/// histogram of 1,024 equal bins from the least to the greatest value.
///
/// The thresholds are values of the image, so that classifying by them gives exactly these scores. Labels above 2 count as
/// class 0. Of equally good pairs the first is taken.
///
/// # Shapes
/// Both slices hold one number a voxel, in the same order.
///
/// # Errors
/// If the slices are empty or of different lengths, a value is not finite, or neither class 1 nor class 2 is there.
///
/// # Example
/// ```
/// use leanburn_data::metrics::best_two_thresholds;
/// let best = best_two_thresholds(&[0.1, 0.4, 0.5, 0.9], &[0, 1, 1, 2])?;
/// assert_eq!((best.low, best.high, best.mean), (0.4, 0.9, 1.0));
/// # Ok::<(), leanburn_data::DataError>(())
/// ```
pub fn best_two_thresholds(values: &[f32], labels: &[u8]) -> Result<TwoThresholds, DataError> {
    check_lengths(values.len(), labels.len())?;
    if let Some(value) = values.iter().find(|value| !value.is_finite()) {
        return Err(DataError::malformed("finite values", value.to_string(), "Mask or replace the others."));
    }
    let histogram = Histogram::of(values, labels);
    let [all, tissue_1, tissue_2] = histogram.at_least[0];
    if tissue_1 + tissue_2 == 0 {
        let found = format!("neither in {all} voxels");
        return Err(DataError::malformed("voxels of class 1 or 2", found, "Give the labels of the same part."));
    }
    let mut best: Option<TwoThresholds> = None;
    for low in 0..=BINS {
        for high in low..=BINS {
            let candidate = histogram.thresholds(low, high);
            if best.is_none_or(|best| candidate.mean > best.mean) {
                best = Some(candidate);
            }
        }
    }
    best.ok_or_else(|| DataError::malformed("at least one pair of thresholds", "none", "Report this."))
}

/// How many voxels lie in a bin or above it.
struct Histogram {
    /// For each bin, and one past the last: all voxels, those of class 1, those of class 2.
    at_least: Vec<[u64; 3]>,
    /// The least value in each bin or above it; infinite past the last.
    least: Vec<f32>,
}

impl Histogram {
    fn of(values: &[f32], labels: &[u8]) -> Self {
        let bounds = |(low, high): (f32, f32), value: &f32| (low.min(*value), high.max(*value));
        let (low, high) = values.iter().fold((f32::INFINITY, f32::NEG_INFINITY), bounds);
        let width = f64::from(high) - f64::from(low);
        let scale = if width > 0.0 { BINS as f64 / width } else { 0.0 };
        let (mut at_least, mut least) = (vec![[0; 3]; BINS + 1], vec![f32::INFINITY; BINS + 1]);
        for (value, label) in values.iter().zip(labels) {
            let bin = (((f64::from(*value) - f64::from(low)) * scale) as usize).min(BINS - 1);
            at_least[bin][0] += 1;
            if let class @ 1..=2 = usize::from(*label) {
                at_least[bin][class] += 1;
            }
            least[bin] = least[bin].min(*value);
        }
        for bin in (0..BINS).rev() {
            let above = at_least[bin + 1];
            at_least[bin].iter_mut().zip(above).for_each(|(count, above)| *count += above);
            least[bin] = least[bin].min(least[bin + 1]);
        }
        Self { at_least, least }
    }

    /// Class 1 from bin `low` on, class 2 from bin `high` on.
    fn thresholds(&self, low: usize, high: usize) -> TwoThresholds {
        let (from_low, from_high, total) = (self.at_least[low], self.at_least[high], self.at_least[0]);
        let dice = [
            overlap(from_low[1] - from_high[1], from_low[0] - from_high[0] + total[1]),
            overlap(from_high[2], from_high[0] + total[2]),
        ];
        TwoThresholds { low: self.least[low], high: self.least[high], dice, mean: mean_of_present(dice.iter()) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::segmentation::{dice, mean_dice};
    use super::*;

    fn classify(values: &[f32], low: f32, high: f32) -> Vec<u8> {
        values.iter().map(|value| u8::from(*value >= low) + u8::from(*value >= high)).collect()
    }

    #[test]
    fn no_pair_of_values_is_better() {
        let values: Vec<f32> = (0..60).map(|index| (index * 37 % 23) as f32 / 23.0).collect();
        let labels: Vec<u8> =
            values.iter().enumerate().map(|(i, v)| ((v * 3.0) as u8 + u8::from(i % 7 == 0)) % 3).collect();
        let best = best_two_thresholds(&values, &labels).unwrap();
        let score = |low: f32, high: f32| dice(&classify(&values, low, high), &labels, 3).unwrap();
        let found = score(best.low, best.high);
        assert_eq!((best.dice[0], best.dice[1]), (found[1], found[2]));
        assert_eq!(best.mean, mean_dice(&found));
        let mut borders = values.clone();
        borders.push(f32::INFINITY);
        for low in &borders {
            for high in borders.iter().filter(|high| *high >= low) {
                assert!(mean_dice(&score(*low, *high)) <= best.mean, "{low} {high}");
            }
        }
        assert!(best.mean < 1.0);
    }

    #[test]
    fn a_class_may_be_absent_and_values_may_be_equal() {
        let best = best_two_thresholds(&[0.0, 1.0, 1.0], &[0, 1, 1]).unwrap();
        assert_eq!((best.low, best.dice[0], best.mean), (1.0, 1.0, 1.0));
        assert!(best.high.is_infinite() && best.dice[1].is_nan());
        let flat = best_two_thresholds(&[3.0; 4], &[0, 1, 1, 0]).unwrap();
        assert_eq!((flat.low, flat.dice[0]), (3.0, 2.0 / 3.0));
        assert!(best_two_thresholds(&[0.0; 2], &[0, 7]).unwrap_err().to_string().contains("neither"));
        assert!(best_two_thresholds(&[f32::NAN], &[1]).unwrap_err().is_malformed());
        assert!(best_two_thresholds(&[0.0], &[1, 1]).unwrap_err().is_malformed());
    }
}
