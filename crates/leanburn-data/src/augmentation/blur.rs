//! Gaussian blur, one axis after the other.

/// The kernel ends at this many standard deviations, as SciPy's.
const TRUNCATED_AT: f64 = 4.0;

/// Blurs `[x, y, z]` in place by a Gaussian of these standard deviations in voxels. Beyond the border the outermost voxel counts on.
///
/// # Memory
/// Two rows of voxels.
pub(super) fn gaussian(values: &mut [f32], extent: [usize; 3], deviations: [f64; 3]) {
    let mut stride = 1;
    for axis in (0..3).rev() {
        let length = extent[axis];
        if deviations[axis] > 0.0 {
            let kernel = kernel(deviations[axis]);
            let mut line = vec![0.0; length + kernel.len() - 1];
            for first in (0..values.len()).filter(|first| first / stride % length == 0) {
                blur_line(values, first, stride, &kernel, &mut line);
            }
        }
        stride *= length;
    }
}

/// Blurs the values from `first` on, `stride` apart; `line` holds them with the border on both sides.
fn blur_line(values: &mut [f32], first: usize, stride: usize, kernel: &[f32], line: &mut [f32]) {
    let radius = kernel.len() / 2;
    let length = line.len() - 2 * radius;
    for (place, value) in line.iter_mut().enumerate() {
        *value = values[first + place.saturating_sub(radius).min(length - 1) * stride];
    }
    for index in 0..length {
        let sum = line[index..].iter().zip(kernel).map(|(value, weight)| value * weight).sum();
        values[first + index * stride] = sum;
    }
}

/// An odd number of weights that add up to 1.
fn kernel(deviation: f64) -> Vec<f32> {
    let radius = (TRUNCATED_AT * deviation + 0.5) as i64;
    let weights: Vec<f64> = (-radius..=radius).map(|at| (-0.5 * (at as f64 / deviation).powi(2)).exp()).collect();
    let sum: f64 = weights.iter().sum();
    weights.iter().map(|weight| (weight / sum) as f32).collect()
}
