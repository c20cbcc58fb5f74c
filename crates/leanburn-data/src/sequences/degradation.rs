//! What a coarse instrument sees of a field: blurred, and on fewer places.

use crate::error::DataError;
use crate::volumes::zeros;

/// Deviation of the blur, in places.
const DEVIATION: f64 = 1.2;
/// Places to each side that the blur reaches: a kernel of seven.
const REACH: isize = 3;

/// A linear map along an axis: for each output the first input that counts, and the weights from there on.
#[derive(Debug, Clone)]
struct AxisWeights(Vec<(usize, Vec<f64>)>);

/// Resizes planes, `[height, width]`, by a linear map along each axis.
#[derive(Debug, Clone)]
pub(super) struct Resize {
    from: [usize; 2],
    axes: [AxisWeights; 2],
}

impl Resize {
    /// A Gaussian blur of 7 x 7 places and a deviation of 1.2 with zeros around the field, then bicubic interpolation to a
    /// `factor`-th of the places with antialiasing: the pairs of [DiffSR](https://github.com/lizhihao2022/DiffSR). A factor divides
    /// both lengths.
    pub(super) fn degrade(from: [usize; 2], factor: usize) -> Self {
        let along = |length: usize| AxisWeights::bicubic(length, length / factor).after_blur(length);
        Self { from, axes: from.map(along) }
    }

    /// Bicubic interpolation to `factor` times the places.
    pub(super) fn enlarge(from: [usize; 2], factor: usize) -> Self {
        Self { from, axes: from.map(|length| AxisWeights::bicubic(length, length * factor)) }
    }

    /// The lengths of a result.
    pub(super) fn size(&self) -> [usize; 2] {
        [0, 1].map(|axis| self.axes[axis].0.len())
    }

    /// Planes one after the other, resized.
    ///
    /// # Errors
    /// If there is no memory.
    pub(super) fn apply(&self, planes: &[f32]) -> Result<Vec<f32>, DataError> {
        let ([height, width], [rows, columns]) = (self.from, self.size());
        let mut resized = zeros(&[planes.len() / (height * width), rows, columns])?;
        self.write(planes, &mut resized);
        Ok(resized)
    }

    /// The same into a place of the size of the results.
    pub(super) fn write(&self, planes: &[f32], resized: &mut [f32]) {
        let ([height, width], [rows, columns]) = (self.from, self.size());
        let mut across = vec![0.0_f64; height * columns];
        let pairs = planes.chunks_exact(height * width).zip(resized.chunks_exact_mut(rows * columns));
        for (plane, result) in pairs {
            for (line, sums) in plane.chunks_exact(width).zip(across.chunks_exact_mut(columns)) {
                for (sum, (first, weights)) in sums.iter_mut().zip(&self.axes[1].0) {
                    *sum = line[*first..].iter().zip(weights).map(|(value, weight)| f64::from(*value) * weight).sum();
                }
            }
            for (line, (first, weights)) in result.chunks_exact_mut(columns).zip(&self.axes[0].0) {
                for (column, value) in line.iter_mut().enumerate() {
                    let sums = across[first * columns + column..].iter().step_by(columns);
                    *value = sums.zip(weights).map(|(sum, weight)| sum * weight).sum::<f64>() as f32;
                }
            }
        }
    }
}

impl AxisWeights {
    /// Cubic convolution ([Keys, 1981](https://doi.org/10.1109/TASSP.1981.1163711), a = -0.5), as wide as a step of the result
    /// where that is more than a place: `torch.nn.functional.interpolate(mode="bicubic", antialias=True)`.
    fn bicubic(from: usize, to: usize) -> Self {
        let step = from as f64 / to as f64;
        let wide = step.max(1.0);
        let of_output = |output: usize| {
            let centre = step * (output as f64 + 0.5);
            let first = (centre - 2.0 * wide + 0.5).max(0.0) as usize;
            let last = ((centre + 2.0 * wide + 0.5) as usize).min(from);
            let weights: Vec<f64> = (first..last).map(|at| cubic((at as f64 - centre + 0.5) / wide)).collect();
            let sum: f64 = weights.iter().sum();
            (first, weights.iter().map(|weight| weight / sum).collect())
        };
        Self((0..to).map(of_output).collect())
    }

    /// The same map of what the blur makes of `length` inputs.
    fn after_blur(self, length: usize) -> Self {
        let kernel = (-REACH..=REACH).map(|at| (-(at as f64 / DEVIATION).powi(2) / 2.0).exp());
        let kernel: Vec<f64> = kernel.collect();
        let sum: f64 = kernel.iter().sum();
        let blurred = |(first, weights): (usize, Vec<f64>)| {
            let begin = first.saturating_sub(REACH as usize);
            let end = (first + weights.len() + REACH as usize).min(length);
            let mut spread = vec![0.0; end - begin];
            for (at, weight) in weights.iter().enumerate() {
                for (tap, share) in kernel.iter().enumerate() {
                    let place = (first + at + tap).checked_sub(REACH as usize).filter(|place| *place < length);
                    if let Some(place) = place {
                        spread[place - begin] += weight * share / sum;
                    }
                }
            }
            (begin, spread)
        };
        Self(self.0.into_iter().map(blurred).collect())
    }
}

fn cubic(at: f64) -> f64 {
    match at.abs() {
        at if at < 1.0 => (1.5 * at - 2.5) * at * at + 1.0,
        at if at < 2.0 => ((-0.5 * at + 2.5) * at - 4.0) * at + 2.0,
        _ => 0.0,
    }
}
