//! Overlap and distance of sets of voxels.

use super::lengths::check_lengths;
use crate::error::DataError;
use crate::volumes::count;

/// Whether a voxel is occupied: its absolute value is above the threshold, which no value that is not a number is.
fn is_occupied(value: f32, threshold: f32) -> bool {
    value.abs() > threshold
}

/// Voxels that both sets hold, over voxels that either holds; 1 where both are empty.
///
/// A voxel is occupied where its absolute value is above `threshold`, which no value that is not a number is.
///
/// # Errors
/// If the slices are empty or of different lengths.
///
/// # Example
/// ```
/// use leanburn_data::metrics::intersection_over_union;
/// let overlap = intersection_over_union(&[0.9, 0.7, 0.1], &[1.0, 0.0, 0.0], 0.5)?;
/// assert_eq!(overlap, 0.5);
/// # Ok::<(), leanburn_data::DataError>(())
/// ```
pub fn intersection_over_union(prediction: &[f32], truth: &[f32], threshold: f32) -> Result<f64, DataError> {
    check_lengths(prediction.len(), truth.len())?;
    let (mut both, mut either) = (0_u64, 0_u64);
    for (prediction, truth) in prediction.iter().zip(truth) {
        let (prediction, truth) = (is_occupied(*prediction, threshold), is_occupied(*truth, threshold));
        both += u64::from(prediction && truth);
        either += u64::from(prediction || truth);
    }
    Ok(if either == 0 { 1.0 } else { both as f64 / either as f64 })
}

/// Mean distances between two sets of voxels, in voxels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChamferDistance {
    /// From a predicted voxel to the nearest true one: large where things are made up.
    pub prediction_to_truth: f64,
    /// From a true voxel to the nearest predicted one: large where things are missed.
    pub truth_to_prediction: f64,
}

impl ChamferDistance {
    /// The mean of both directions.
    pub fn mean(&self) -> f64 {
        (self.prediction_to_truth + self.truth_to_prediction) / 2.0
    }
}

/// The mean distance from the voxels of each set to the nearest one of the other.
///
/// A voxel is occupied where its absolute value is above `threshold`. If one set alone is empty, both
/// distances are infinite; if both are, 0.
///
/// # Shapes
/// Both slices `[depth, height, width]` for `extent = [depth, height, width]`.
///
/// # Memory
/// 8 bytes a voxel. The time grows with the number of voxels, not with how many are occupied.
///
/// # Errors
/// If the slices are not of that shape, or it is empty.
pub fn chamfer_distance(
    prediction: &[f32],
    truth: &[f32],
    extent: [usize; 3],
    threshold: f32,
) -> Result<ChamferDistance, DataError> {
    check_lengths(prediction.len(), truth.len())?;
    Ok(ChamferDistance {
        prediction_to_truth: one_way(prediction, truth, extent, threshold)?,
        truth_to_prediction: one_way(truth, prediction, extent, threshold)?,
    })
}

fn one_way(from: &[f32], to: &[f32], extent: [usize; 3], threshold: f32) -> Result<f64, DataError> {
    let to: Vec<bool> = to.iter().map(|value| is_occupied(*value, threshold)).collect();
    if !to.contains(&true) {
        return Ok(if from.iter().any(|value| is_occupied(*value, threshold)) { f64::INFINITY } else { 0.0 });
    }
    let distances = squared_distances(&to, extent)?;
    let occupied = from.iter().zip(&distances).filter(|(value, _)| is_occupied(**value, threshold));
    let (sum, voxels) = occupied.fold((0.0, 0_u64), |(sum, voxels), (_, squared)| (sum + squared.sqrt(), voxels + 1));
    Ok(if voxels == 0 { f64::INFINITY } else { sum / voxels as f64 })
}

/// The squared distance from every voxel to the nearest occupied one, exactly; infinite if there is
/// none.
///
/// The lower envelope of parabolas, line by line along one axis after the other. Source:
/// [Distance Transforms of Sampled Functions](https://doi.org/10.4086/toc.2012.v008a019).
///
/// # Shapes
/// `[depth, height, width]` for `extent = [depth, height, width]`, the last axis fastest.
///
/// # Errors
/// If the slice is not of that shape, or it is empty.
pub fn squared_distances(occupied: &[bool], extent: [usize; 3]) -> Result<Vec<f64>, DataError> {
    let voxels = count(&extent)?;
    if voxels != occupied.len() || voxels == 0 {
        let expected = format!("{voxels} voxels for extent {extent:?}, 1 or more");
        return Err(DataError::malformed(expected, occupied.len().to_string(), "Give the extent of the voxels."));
    }
    let mut distances: Vec<f64> = occupied.iter().map(|occupied| if *occupied { 0.0 } else { f64::INFINITY }).collect();
    for axis in 0..3 {
        let (length, step) = (extent[axis], extent[axis + 1..].iter().product::<usize>());
        let mut envelope = Envelope::default();
        let mut line = vec![0.0; length];
        for index in 0..voxels / length {
            let start = index / step * step * length + index % step;
            line.iter_mut().enumerate().for_each(|(at, value)| *value = distances[start + at * step]);
            envelope.build(&line);
            envelope.read(&line, |at, value| distances[start + at * step] = value);
        }
    }
    Ok(distances)
}

/// The parabolas `(x - at)^2 + line[at]` that are lowest somewhere, and where each begins to be.
#[derive(Default)]
struct Envelope {
    lowest: Vec<(usize, f64)>,
}

impl Envelope {
    fn build(&mut self, line: &[f64]) {
        self.lowest.clear();
        for (at, height) in line.iter().enumerate().filter(|(_, height)| height.is_finite()) {
            let mut begin = f64::NEG_INFINITY;
            while let Some((other, other_begin)) = self.lowest.last() {
                let (x, other_x) = (at as f64, *other as f64);
                begin = ((height + x * x) - (line[*other] + other_x * other_x)) / (2.0 * (x - other_x));
                if begin > *other_begin {
                    break;
                }
                self.lowest.pop();
                begin = f64::NEG_INFINITY;
            }
            self.lowest.push((at, begin));
        }
    }

    fn read(&self, line: &[f64], mut write: impl FnMut(usize, f64)) {
        let mut current = 0;
        for at in 0..line.len() {
            while self.lowest.get(current + 1).is_some_and(|(_, begin)| *begin <= at as f64) {
                current += 1;
            }
            if let Some((lowest, _)) = self.lowest.get(current) {
                write(at, (at as f64 - *lowest as f64).powi(2) + line[*lowest]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn overlap_counts_voxels() {
        let (prediction, truth) = ([0.9, 0.6, 0.5, f32::NAN], [1.0, 0.0, 1.0, 1.0]);
        assert_eq!(intersection_over_union(&prediction, &truth, 0.5).unwrap(), 0.25);
        assert_eq!(intersection_over_union(&truth, &truth, 0.5).unwrap(), 1.0);
        assert_eq!(intersection_over_union(&[0.0; 2], &[0.0; 2], 0.5).unwrap(), 1.0);
        assert_eq!(intersection_over_union(&[1.0, 0.0], &[0.0; 2], 0.5).unwrap(), 0.0);
        assert!(intersection_over_union(&[1.0], &[0.0; 2], 0.5).unwrap_err().is_malformed());
        assert!(intersection_over_union(&[], &[], 0.5).unwrap_err().is_malformed());
    }

    #[test]
    fn chamfer_distinguishes_the_made_up_from_the_missed() {
        let extent = [2, 4, 5];
        let grid = |voxels: &[[usize; 3]]| {
            let mut grid = vec![0.0; 40];
            voxels.iter().for_each(|[z, y, x]| grid[(z * 4 + y) * 5 + x] = 1.0);
            grid
        };
        let (one, two) = (grid(&[[0, 0, 0]]), grid(&[[0, 0, 0], [0, 3, 4]]));
        let distance = chamfer_distance(&one, &two, extent, 0.5).unwrap();
        assert_eq!(distance, ChamferDistance { prediction_to_truth: 0.0, truth_to_prediction: 2.5 });
        assert_eq!(distance.mean(), 1.25);
        assert_eq!(chamfer_distance(&two, &one, extent, 0.5).unwrap().prediction_to_truth, 2.5);
        let empty = grid(&[]);
        assert_eq!(chamfer_distance(&empty, &empty, extent, 0.5).unwrap().mean(), 0.0);
        for (prediction, truth) in [(&one, &empty), (&empty, &one)] {
            let distance = chamfer_distance(prediction, truth, extent, 0.5).unwrap();
            assert_eq!([distance.prediction_to_truth, distance.truth_to_prediction], [f64::INFINITY; 2]);
        }
        assert!(chamfer_distance(&one, &two[1..], extent, 0.5).unwrap_err().is_malformed());
        assert!(chamfer_distance(&one, &two, [2, 4, 4], 0.5).unwrap_err().is_malformed());
        assert!(chamfer_distance(&one, &two, [usize::MAX, 4, 4], 0.5).unwrap_err().is_too_large());
        assert!(squared_distances(&[], [0, 1, 1]).unwrap_err().is_malformed());
    }

    /// As in the loss: a negative value is there, too.
    #[test]
    fn occupied_is_what_is_far_from_zero() {
        let (prediction, truth) = ([-0.9, 0.0, 0.0], [0.9, 0.4, -0.9]);
        assert_eq!(intersection_over_union(&prediction, &truth, 0.5).unwrap(), 0.5);
        let distance = chamfer_distance(&prediction, &truth, [1, 1, 3], 0.5).unwrap();
        assert_eq!(distance, ChamferDistance { prediction_to_truth: 0.0, truth_to_prediction: 1.0 });
    }

    proptest! {
        #[test]
        fn distances_are_those_of_trying_every_pair(
            extent in [1_usize..6, 1_usize..6, 1_usize..9],
            chosen in proptest::collection::vec(0_usize..1000, 0..8),
        ) {
            let voxels = extent.iter().product::<usize>();
            let place = |index: usize| [index / extent[2] / extent[1], index / extent[2] % extent[1], index % extent[2]];
            let mut occupied = vec![false; voxels];
            chosen.iter().for_each(|index| occupied[index % voxels] = true);
            let found = squared_distances(&occupied, extent).unwrap();
            for (index, found) in found.iter().enumerate() {
                let squared = |other: usize| -> f64 {
                    place(index).iter().zip(place(other)).map(|(a, b)| (*a as f64 - b as f64).powi(2)).sum()
                };
                let nearest = (0..voxels).filter(|other| occupied[*other]).map(squared).fold(f64::INFINITY, f64::min);
                prop_assert_eq!(*found, nearest);
            }
        }
    }
}
