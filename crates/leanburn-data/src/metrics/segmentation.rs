//! The Dice score of label maps, of one or of several together.

use super::lengths::check_lengths;
use crate::error::DataError;

/// The Dice score of every class: `2 |A ∩ B| / (|A| + |B|)`, with `A` the voxels of the class in the prediction and `B` those in
/// the truth.
///
/// Not a number (NaN) for a class that is in neither; 0 for a class that is in one of them alone. Source:
/// [Measures of the Amount of Ecologic Association Between Species](https://doi.org/10.2307/1932409).
///
/// # Shapes
/// Both slices hold one label a voxel, in the same order. The result has `num_classes` entries.
///
/// # Errors
/// If the slices are empty or of different lengths, or a label is not below `num_classes`.
///
/// # Example
/// ```
/// use leanburn_data::metrics::{dice, mean_dice};
/// let scores = dice(&[0, 1, 1, 2], &[0, 1, 2, 2], 4)?;
/// assert_eq!(scores[..3], [1.0, 2.0 / 3.0, 2.0 / 3.0]);
/// assert!(scores[3].is_nan(), "no voxel has class 3");
/// assert_eq!(mean_dice(&scores), 2.0 / 3.0);
/// # Ok::<(), leanburn_data::DataError>(())
/// ```
pub fn dice(prediction: &[u8], truth: &[u8], num_classes: usize) -> Result<Vec<f64>, DataError> {
    let mut counts = DiceCounts::new(num_classes);
    counts.add(prediction, truth)?;
    Ok(counts.scores())
}

/// The counts behind [`dice`], over several label maps: their voxels are those of one large map.
///
/// # Example
/// ```
/// use leanburn_data::metrics::DiceCounts;
/// let mut counts = DiceCounts::new(2);
/// counts.add(&[0, 1], &[0, 1])?;
/// counts.add(&[1, 1], &[0, 1])?;
/// assert_eq!(counts.scores(), [2.0 / 3.0, 4.0 / 5.0]);
/// # Ok::<(), leanburn_data::DataError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiceCounts {
    /// For each class, voxels that have it in prediction and truth.
    both: Vec<u64>,
    /// For each class, its voxels in the prediction and its voxels in the truth together.
    sizes: Vec<u64>,
}

impl DiceCounts {
    /// No voxel yet.
    pub fn new(num_classes: usize) -> Self {
        Self { both: vec![0; num_classes], sizes: vec![0; num_classes] }
    }

    /// Counts the voxels of a label map.
    ///
    /// # Errors
    /// If the slices are empty or of different lengths, or a label is not below the number of classes; nothing is counted then.
    pub fn add(&mut self, prediction: &[u8], truth: &[u8]) -> Result<(), DataError> {
        check_lengths(prediction.len(), truth.len())?;
        let num_classes = self.sizes.len();
        if let Some(label) = prediction.iter().chain(truth).find(|label| usize::from(**label) >= num_classes) {
            let expected = format!("labels below {num_classes}");
            let remedy = "Give the number of classes with the background.";
            return Err(DataError::malformed(expected, label.to_string(), remedy));
        }
        for (prediction, truth) in prediction.iter().zip(truth) {
            self.sizes[usize::from(*prediction)] += 1;
            self.sizes[usize::from(*truth)] += 1;
            self.both[usize::from(*prediction)] += u64::from(prediction == truth);
        }
        Ok(())
    }

    /// The scores of the classes, as [`dice`] gives them.
    pub fn scores(&self) -> Vec<f64> {
        self.both.iter().zip(&self.sizes).map(|(both, sizes)| overlap(*both, *sizes)).collect()
    }
}

/// The Dice score of one class: voxels in both sets, and the sum of the sizes of the sets.
pub(super) fn overlap(both: u64, sizes: u64) -> f64 {
    2.0 * both as f64 / sizes as f64
}

/// The mean of the scores of [`dice`] without class 0, the background, and without classes that are in neither label map; not a
/// number if no class is left.
pub fn mean_dice(scores: &[f64]) -> f64 {
    mean_of_present(scores.iter().skip(1))
}

/// The mean of the numbers that are numbers.
pub(super) fn mean_of_present<'a>(scores: impl Iterator<Item = &'a f64>) -> f64 {
    let (sum, count) =
        scores.filter(|score| !score.is_nan()).fold((0.0, 0), |(sum, count), score| (sum + score, count + 1));
    sum / f64::from(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dice_is_twice_the_overlap_over_both_sizes() {
        let (prediction, truth) = ([0, 0, 1, 1, 1, 3], [0, 1, 1, 1, 2, 2]);
        let scores = dice(&prediction, &truth, 5).unwrap();
        assert_eq!(scores[..4], [2.0 / 3.0, 2.0 * 2.0 / 6.0, 0.0, 0.0]);
        assert!(scores[4].is_nan());
        // numpy.mean of classes 1 to 3
        assert!((mean_dice(&scores) - (2.0 / 3.0) / 3.0).abs() < 1e-15);
        assert_eq!(dice(&truth, &truth, 3).unwrap(), [1.0; 3]);
    }

    #[test]
    fn label_maps_are_counted_together() {
        let (prediction, truth) = ([0, 0, 1, 1, 1, 2], [0, 1, 1, 1, 2, 2]);
        let mut counts = DiceCounts::new(3);
        counts.add(&prediction[..2], &truth[..2]).unwrap();
        let before = counts.clone();
        assert!(counts.add(&[0, 3], &[0, 0]).is_err() && counts == before, "nothing is counted of a wrong map");
        counts.add(&prediction[2..], &truth[2..]).unwrap();
        assert_eq!(counts.scores(), dice(&prediction, &truth, 3).unwrap());
    }

    #[test]
    fn the_background_alone_has_no_mean() {
        assert!(mean_dice(&dice(&[0, 0], &[0, 0], 3).unwrap()).is_nan());
        assert!(mean_dice(&[]).is_nan());
    }

    #[test]
    fn labels_must_fit() {
        assert!(dice(&[0, 3], &[0, 0], 3).unwrap_err().to_string().contains("below 3, found 3"));
        assert!(dice(&[0, 0], &[3, 0], 3).unwrap_err().is_malformed());
        assert!(dice(&[0], &[0, 0], 3).unwrap_err().is_malformed());
        assert!(dice(&[], &[], 3).unwrap_err().is_malformed());
    }
}
