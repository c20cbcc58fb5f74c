//! Errors of a forecast, and its skill against persistence.

use super::lengths::check_lengths;
use crate::error::DataError;

/// `sqrt(mean((prediction - truth)^2))`; not a number if a value is.
///
/// # Errors
/// If the slices are empty or of different lengths.
///
/// # Example
/// ```
/// use leanburn_data::metrics::root_mean_squared_error;
/// assert_eq!(root_mean_squared_error(&[1.0, 5.0], &[1.0, 3.0])?, 2.0_f64.sqrt());
/// # Ok::<(), leanburn_data::DataError>(())
/// ```
pub fn root_mean_squared_error(prediction: &[f32], truth: &[f32]) -> Result<f64, DataError> {
    Ok(mean(prediction, truth, |error| error * error)?.sqrt())
}

/// `mean(|prediction - truth|)`; not a number if a value is.
///
/// # Errors
/// If the slices are empty or of different lengths.
pub fn mean_absolute_error(prediction: &[f32], truth: &[f32]) -> Result<f64, DataError> {
    mean(prediction, truth, f64::abs)
}

/// The relative L2 error `|prediction - truth| / |truth|`; infinite where the truth is zero and the prediction is not.
///
/// # Errors
/// If the slices are empty or of different lengths.
///
/// # Example
/// ```
/// use leanburn_data::metrics::relative_error;
/// assert!((relative_error(&[3.0, 1.0], &[3.0, 4.0])? - 0.6).abs() < 1e-12);
/// # Ok::<(), leanburn_data::DataError>(())
/// ```
pub fn relative_error(prediction: &[f32], truth: &[f32]) -> Result<f64, DataError> {
    let error = root_mean_squared_error(prediction, truth)?;
    let size = root_mean_squared_error(&vec![0.0; truth.len()], truth)?;
    Ok(if error == 0.0 { 0.0 } else { error / size })
}

/// Skill against persistence, `1 - rmse / rmse_persistence`: 1 is perfect, 0 is as good as taking
/// the last known frame for the forecast, and less than 0 is worse than that.
///
/// Where persistence is perfect, a perfect forecast has skill 0 and any other minus infinity.
///
/// # Errors
/// If the slices are empty or of different lengths.
pub fn skill(prediction: &[f32], truth: &[f32], persistence: &[f32]) -> Result<f64, DataError> {
    let error = root_mean_squared_error(prediction, truth)?;
    let reference = root_mean_squared_error(persistence, truth)?;
    Ok(if error == 0.0 && reference == 0.0 { 0.0 } else { 1.0 - error / reference })
}

fn mean(prediction: &[f32], truth: &[f32], cost: impl Fn(f64) -> f64) -> Result<f64, DataError> {
    check_lengths(prediction.len(), truth.len())?;
    let pairs = prediction.iter().zip(truth);
    let sum: f64 = pairs.map(|(prediction, truth)| cost(f64::from(*prediction) - f64::from(*truth))).sum();
    Ok(sum / truth.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_those_of_the_textbook() {
        let (prediction, truth) = ([1.0, -2.0, 4.0, 0.0], [0.0, 0.0, 0.0, 2.0]);
        assert_eq!(root_mean_squared_error(&prediction, &truth).unwrap(), 2.5);
        assert_eq!(mean_absolute_error(&prediction, &truth).unwrap(), 2.25);
        // In 32 bits, the sum of these squares would stop growing at 2^24.
        let ones = vec![1.0; (1 << 24) + 4096];
        assert_eq!(mean_absolute_error(&ones, &vec![0.0; ones.len()]).unwrap(), 1.0);
        // Nor may a difference overflow.
        assert!(root_mean_squared_error(&[f32::MAX], &[f32::MIN]).unwrap().is_finite());
        assert!(mean_absolute_error(&[f32::NAN, 0.0], &[0.0; 2]).unwrap().is_nan());
    }

    #[test]
    fn skill_is_measured_against_persistence() {
        let (truth, persistence) = ([3.0, 5.0], [1.0, 3.0]);
        assert_eq!(skill(&truth, &truth, &persistence).unwrap(), 1.0);
        assert_eq!(skill(&persistence, &truth, &persistence).unwrap(), 0.0);
        assert_eq!(skill(&[2.0, 4.0], &truth, &persistence).unwrap(), 0.5);
        assert_eq!(skill(&[9.0, 11.0], &truth, &persistence).unwrap(), -2.0);
        assert_eq!(skill(&truth, &truth, &truth).unwrap(), 0.0);
        assert_eq!(skill(&persistence, &truth, &truth).unwrap(), f64::NEG_INFINITY);
    }

    #[test]
    fn relative_errors_are_of_the_truth() {
        let error = |prediction: &[f32]| relative_error(prediction, &[0.0, 8.0, 6.0]).unwrap();
        assert!((error(&[0.0; 3]) - 1.0).abs() < 1e-12 && (error(&[3.0, 4.0, 6.0]) - 0.5).abs() < 1e-12);
        assert_eq!((error(&[0.0, 8.0, 6.0]), relative_error(&[1.0], &[0.0]).unwrap()), (0.0, f64::INFINITY));
        assert!(relative_error(&[1.0], &[1.0, 2.0]).unwrap_err().is_malformed());
    }

    #[test]
    fn lengths_must_agree() {
        for (prediction, truth) in [(&[1.0][..], &[1.0, 2.0][..]), (&[], &[])] {
            assert!(root_mean_squared_error(prediction, truth).unwrap_err().is_malformed());
            assert!(mean_absolute_error(prediction, truth).unwrap_err().is_malformed());
            assert!(skill(prediction, truth, truth).unwrap_err().is_malformed());
        }
        assert!(skill(&[1.0], &[1.0], &[]).unwrap_err().is_malformed());
    }
}
