//! How similar two fields look: PSNR and SSIM, on planes and on volumes.

use super::lengths::check_lengths;
use crate::error::DataError;

/// Keeps the logarithm of an exact prediction finite.
const SMALLEST: f64 = 1e-12;

/// The peak signal-to-noise ratio in decibels, `20 log10(range of the truth) - 10 log10(mean squared error)`; 3 more are half of the
/// squared error.
///
/// # Errors
/// If the slices are empty or of different lengths.
///
/// # Example
/// ```
/// use leanburn_data::metrics::peak_signal_to_noise_ratio;
/// let ratio = peak_signal_to_noise_ratio(&[0.1, 0.9], &[0.0, 1.0])?;
/// assert!((ratio - 20.0).abs() < 1e-5);
/// # Ok::<(), leanburn_data::DataError>(())
/// ```
pub fn peak_signal_to_noise_ratio(prediction: &[f32], truth: &[f32]) -> Result<f64, DataError> {
    check_lengths(prediction.len(), truth.len())?;
    let square = |(prediction, truth): (&f32, &f32)| (f64::from(*prediction) - f64::from(*truth)).powi(2);
    let error = prediction.iter().zip(truth).map(square).sum::<f64>() / truth.len() as f64;
    Ok(20.0 * range(truth).log10() - 10.0 * (error + SMALLEST).log10())
}

/// The structural similarity of two fields, 1 where they are the same: means, variances and the covariance of each position and its
/// neighbours are compared, and the mean is taken over all positions.
///
/// Source: [Wang et al. 2004](https://doi.org/10.1109/TIP.2003.819861), with averages over 3 positions along each axis as in
/// [DiffSR](https://github.com/lizhihao2022/DiffSR), where what is outside counts as zero, and constants of 0.01 and 0.03 of the range of
/// the truth.
///
/// # Shapes
/// Both slices `[depth, height, width]` for `extent = [depth, height, width]`; an axis of length 1 is none.
///
/// # Memory
/// 48 bytes a position.
///
/// # Errors
/// If the slices are not of that shape, or it is empty.
pub fn structural_similarity(prediction: &[f32], truth: &[f32], extent: [usize; 3]) -> Result<f64, DataError> {
    let positions = extent.iter().copied().fold(1, usize::saturating_mul);
    check_lengths(prediction.len(), positions)?;
    check_lengths(truth.len(), positions)?;
    let around = |value: &dyn Fn(usize) -> f64| averages((0..positions).map(value).collect(), extent);
    let (x, y) = (|at: usize| f64::from(prediction[at]), |at: usize| f64::from(truth[at]));
    let means = [around(&x), around(&y)];
    let products = [around(&|at| x(at) * x(at)), around(&|at| y(at) * y(at)), around(&|at| x(at) * y(at))];
    let [of_means, of_variances] = [0.01, 0.03].map(|share| (share * range(truth)).powi(2));
    let similarity = |at: usize| {
        let [mean_x, mean_y] = [means[0][at], means[1][at]];
        let variances = products[0][at] - mean_x * mean_x + products[1][at] - mean_y * mean_y;
        let covariance = products[2][at] - mean_x * mean_y;
        let above = (2.0 * mean_x * mean_y + of_means) * (2.0 * covariance + of_variances);
        above / ((mean_x * mean_x + mean_y * mean_y + of_means) * (variances + of_variances) + SMALLEST)
    };
    Ok((0..positions).map(similarity).sum::<f64>() / positions as f64)
}

/// The largest value less the smallest.
fn range(values: &[f32]) -> f64 {
    let (low, high) = values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high): (f64, f64), value| {
        (low.min(f64::from(*value)), high.max(f64::from(*value)))
    });
    (high - low).max(SMALLEST)
}

/// Means over 3 positions along each axis that is longer than 1, with zeros outside.
fn averages(mut values: Vec<f64>, extent: [usize; 3]) -> Vec<f64> {
    for axis in (0..3).filter(|axis| extent[*axis] > 1) {
        let step: usize = extent[axis + 1..].iter().product();
        let place = |at: usize| at / step % extent[axis];
        let sum = |at: usize| {
            let before = if place(at) > 0 { values[at - step] } else { 0.0 };
            let behind = if place(at) + 1 < extent[axis] { values[at + step] } else { 0.0 };
            (before + values[at] + behind) / 3.0
        };
        values = (0..values.len()).map(sum).collect();
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    /// On a plane and on a volume, as numpy computes them.
    #[test]
    fn ratios_and_similarities_are_those_of_the_reference() {
        let cases: Value = serde_json::from_str(include_str!("../../tests/fixtures/similarity.json")).unwrap();
        for case in cases.as_array().unwrap() {
            let values = |key: &str| -> Vec<f32> { serde_json::from_value(case[key].clone()).unwrap() };
            let extent: [usize; 3] = serde_json::from_value(case["extent"].clone()).unwrap();
            let (prediction, truth) = (values("prediction"), values("truth"));
            let ratio = peak_signal_to_noise_ratio(&prediction, &truth).unwrap();
            let similarity = structural_similarity(&prediction, &truth, extent).unwrap();
            let error = [ratio - case["psnr"].as_f64().unwrap(), similarity - case["ssim"].as_f64().unwrap()];
            assert!(error.iter().all(|error| error.abs() < 1e-9), "{extent:?}: {error:?}");
        }
    }

    #[test]
    fn equal_fields_are_as_similar_as_can_be() {
        let field: Vec<f32> = (0..24).map(|at| (at as f32 * 0.7).sin()).collect();
        for extent in [[1, 4, 6], [2, 3, 4], [24, 1, 1]] {
            assert!((structural_similarity(&field, &field, extent).unwrap() - 1.0).abs() < 1e-5);
        }
        assert!(peak_signal_to_noise_ratio(&field, &field).unwrap() > 120.0);
        let opposite: Vec<f32> = field.iter().map(|value| -value).collect();
        assert!(structural_similarity(&opposite, &field, [1, 4, 6]).unwrap() < 0.0);
    }

    #[test]
    fn fields_must_have_the_values_of_their_shape() {
        assert!(peak_signal_to_noise_ratio(&[0.0], &[0.0, 1.0]).unwrap_err().is_malformed());
        assert!(structural_similarity(&[0.0; 5], &[0.0; 6], [1, 2, 3]).unwrap_err().is_malformed());
        assert!(structural_similarity(&[0.0; 6], &[0.0; 6], [1, 2, 4]).unwrap_err().is_malformed());
        assert!(structural_similarity(&[], &[], [0, 1, usize::MAX]).unwrap_err().is_malformed());
    }
}
