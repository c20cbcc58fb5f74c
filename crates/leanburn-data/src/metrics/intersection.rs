//! Intersection over union of classes that do not exclude each other.

use super::segmentation::mean_of_present;
use crate::error::DataError;

/// Intersections and unions of every class, over several maps: their cells are those of one large map.
///
/// Source: [The Distribution of the Flora in the Alpine Zone](https://doi.org/10.1111/j.1469-8137.1912.tb05611.x).
///
/// # Memory
/// Two numbers a class, however many maps there are.
///
/// # Example
/// ```
/// use leanburn_data::metrics::IntersectionCounts;
/// let mut counts = IntersectionCounts::new(2);
/// // two classes of two cells; the second is seen in neither class
/// counts.add(&[1, 1, 0, 1], &[1, 0, 0, 0], &[1, 0])?;
/// counts.add(&[1, 1, 1, 0], &[0, 1, 1, 0], &[1, 1])?;
/// assert_eq!(counts.scores(), [2.0 / 3.0, 1.0]);
/// assert!((counts.mean() - 5.0 / 6.0).abs() < 1e-12);
/// # Ok::<(), leanburn_data::DataError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IntersectionCounts {
    both: Vec<u64>,
    either: Vec<u64>,
}

impl IntersectionCounts {
    /// No cell yet.
    pub fn new(num_classes: usize) -> Self {
        Self { both: vec![0; num_classes], either: vec![0; num_classes] }
    }

    /// Counts the cells of a map that are seen.
    ///
    /// # Shapes
    /// `prediction` and `truth` are 0 or 1, `[classes, cells]`; `seen` is 0 or 1 for each cell.
    ///
    /// # Errors
    /// If the lengths do not fit; nothing is counted then.
    pub fn add(&mut self, prediction: &[u8], truth: &[u8], seen: &[u8]) -> Result<(), DataError> {
        let expected = self.both.len() * seen.len();
        if expected == 0 || prediction.len() != expected || truth.len() != expected {
            let found = format!("{} and {} values", prediction.len(), truth.len());
            let remedy = "Give a value for each class and cell of both maps.";
            return Err(DataError::malformed(format!("{expected} values, more than none"), found, remedy));
        }
        let classes = prediction.chunks(seen.len()).zip(truth.chunks(seen.len()));
        for ((both, either), (prediction, truth)) in self.both.iter_mut().zip(&mut self.either).zip(classes) {
            for ((prediction, truth), seen) in prediction.iter().zip(truth).zip(seen).filter(|(_, seen)| **seen != 0) {
                *both += u64::from(prediction & truth & seen);
                *either += u64::from((prediction | truth) & seen);
            }
        }
        Ok(())
    }

    /// Of each class intersection over union; not a number (NaN) for a class that is nowhere.
    pub fn scores(&self) -> Vec<f64> {
        self.both.iter().zip(&self.either).map(|(both, either)| *both as f64 / *either as f64).collect()
    }

    /// The mean over the classes that are somewhere.
    pub fn mean(&self) -> f64 {
        mean_of_present(self.scores().iter())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_that_is_nowhere_does_not_count() {
        let mut counts = IntersectionCounts::new(3);
        counts.add(&[1, 0, 0, 0, 0, 1], &[1, 1, 0, 0, 0, 1], &[1, 1]).unwrap();
        assert_eq!(counts.scores()[..1], [0.5]);
        assert!(counts.scores()[1].is_nan());
        assert_eq!(counts.mean(), 0.75);
        assert!(IntersectionCounts::new(1).mean().is_nan());
    }

    #[test]
    fn lengths_must_fit() {
        let mut counts = IntersectionCounts::new(2);
        assert!(counts.add(&[0; 4], &[0; 3], &[1; 2]).unwrap_err().is_malformed());
        assert!(counts.add(&[], &[], &[]).unwrap_err().is_malformed());
        assert_eq!(counts, IntersectionCounts::new(2));
    }
}
