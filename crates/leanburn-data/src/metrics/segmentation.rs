//! The Dice score of label maps.

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
    check_lengths(prediction.len(), truth.len())?;
    if let Some(label) = prediction.iter().chain(truth).find(|label| usize::from(**label) >= num_classes) {
        let expected = format!("labels below {num_classes}");
        return Err(DataError::malformed(
            expected,
            label.to_string(),
            "Give the number of classes with the background.",
        ));
    }
    let (mut both, mut sizes) = (vec![0_u64; num_classes], vec![0_u64; num_classes]);
    for (prediction, truth) in prediction.iter().zip(truth) {
        sizes[usize::from(*prediction)] += 1;
        sizes[usize::from(*truth)] += 1;
        both[usize::from(*prediction)] += u64::from(prediction == truth);
    }
    Ok(both.iter().zip(&sizes).map(|(both, sizes)| overlap(*both, *sizes)).collect())
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
