//! How alike volumes look, at several scales.

use super::lengths::check_lengths;
use crate::error::DataError;
use rayon::prelude::*;

/// Structural similarity of volumes at several scales, from 0 to 1: 1 for equal ones.
///
/// `prod_s max(cs_s, 0)^w_s`, with the similarity itself in place of its part `cs` at the last scale; means of neighbouring pairs lead from a
/// scale to the next. Source: [Wang et al.](https://doi.org/10.1109/ACSSC.2003.1292216). Equal to MONAI's `MultiScaleSSIMMetric` in
/// three dimensions with the same windows and weights.
#[derive(Debug, Clone, PartialEq)]
pub struct MsSsim {
    /// Voxels of the Gaussian window along each axis, odd.
    pub window: [usize; 3],
    /// The weight of each scale, the finest first.
    pub weights: Vec<f64>,
    /// Difference of the largest and the smallest value that there can be.
    pub data_range: f64,
}

/// Voxels of the window where the volume is large enough.
const WINDOW: usize = 11;

/// Deviation of the window in voxels.
const DEVIATION: f64 = 1.5;

/// The weights of five scales, of the paper.
const WEIGHTS: [f64; 5] = [0.0448, 0.2856, 0.3001, 0.2363, 0.1333];

/// The constants that keep quotients from being those of noise, as shares of the range of values.
const STABILITY: [f64; 2] = [0.01, 0.03];

/// A scale: the mean similarity, and its part that knows contrast and structure alone.
struct Scale {
    similarity: f64,
    structure: f64,
}

impl MsSsim {
    /// As many of the paper's five scales, from the finest on, as a volume of an extent has room for, with windows of 11 voxels, or as many
    /// as there are along a short axis. The weights of fewer scales are divided by their sum.
    ///
    /// There is room for a scale where each axis, halved as often as it takes to get there, has 11 voxels or more.
    pub fn of_extent(extent: [usize; 3], data_range: f64) -> Self {
        let window = extent.map(|length| if length < WINDOW { (length.max(1) - 1) / 2 * 2 + 1 } else { WINDOW });
        let has_room = |scales: &usize| extent.iter().all(|length| length >> (scales - 1) >= WINDOW);
        let scales = (1..=WEIGHTS.len()).rev().find(has_room).unwrap_or(1);
        let sum = WEIGHTS[..scales].iter().sum::<f64>();
        Self { window, weights: WEIGHTS[..scales].iter().map(|weight| weight / sum).collect(), data_range }
    }

    /// The number of scales.
    pub fn scales(&self) -> usize {
        self.weights.len()
    }

    /// The similarity of two volumes `[channels, x, y, z]`.
    ///
    /// # Errors
    /// If they are empty, of other lengths than their shape, or too small for the windows at some scale.
    pub fn similarity(&self, one: &[f32], other: &[f32], shape: [usize; 4]) -> Result<f64, DataError> {
        check_lengths(one.len(), other.len())?;
        check_lengths(one.len(), shape.iter().product())?;
        let [channels, mut extent @ ..] = shape;
        let wide = |values: &[f32]| values.iter().map(|value| f64::from(*value)).collect::<Vec<f64>>();
        let (mut one, mut other) = (wide(one), wide(other));
        let mut product = 1.0;
        for (scale, weight) in self.weights.iter().enumerate() {
            if extent.iter().zip(self.window).any(|(length, window)| *length < window) {
                let expected = format!("at least {:?} voxels at each of {} scales", self.window, self.weights.len());
                let found = format!("{extent:?} at scale {}", scale + 1);
                return Err(DataError::malformed(expected, found, "Take fewer scales, or smaller windows."));
            }
            let places = extent.iter().product::<usize>();
            let pairs = one.chunks(places).zip(other.chunks(places));
            let found: Vec<Scale> = pairs.map(|(one, other)| self.scale(one, other, extent)).collect();
            let mean = |part: fn(&Scale) -> f64| found.iter().map(part).sum::<f64>() / channels as f64;
            let is_last = scale + 1 == self.weights.len();
            let factor = if is_last { mean(|found| found.similarity) } else { mean(|found| found.structure) };
            product *= factor.max(0.0).powf(*weight);
            if !is_last {
                let halved = |volume: &[f64]| volume.chunks(places).flat_map(|one| halved(one, extent)).collect();
                (one, other) = (halved(&one), halved(&other));
                extent = extent.map(|length| length / 2);
            }
        }
        Ok(product)
    }

    /// One channel at one scale.
    fn scale(&self, one: &[f64], other: &[f64], extent: [usize; 3]) -> Scale {
        let product = |one: &[f64], other: &[f64]| one.iter().zip(other).map(|(x, y)| x * y).collect::<Vec<f64>>();
        let maps = [one.to_vec(), other.to_vec(), product(one, one), product(other, other), product(one, other)];
        let maps: Vec<Vec<f64>> = maps.into_par_iter().map(|map| smoothed(map, extent, self.window)).collect();
        let [c1, c2] = STABILITY.map(|share| (share * self.data_range).powi(2));
        let (mut similarity, mut structure) = (0.0, 0.0);
        let [x, y, xx, yy, xy] = &maps[..] else { unreachable!("five maps were smoothed") };
        for ((((x, y), xx), yy), xy) in x.iter().zip(y).zip(xx).zip(yy).zip(xy) {
            let alike = (2.0 * (xy - x * y) + c2) / ((xx - x * x) + (yy - y * y) + c2);
            structure += alike;
            similarity += alike * (2.0 * x * y + c1) / (x * x + y * y + c1);
        }
        let places = maps[0].len() as f64;
        Scale { similarity: similarity / places, structure: structure / places }
    }
}

/// The mean of a measure over all pairs of different items; nothing of fewer than two.
///
/// # Errors
/// Those of the measure.
pub fn mean_pairwise<T>(
    items: &[T],
    measure: impl Fn(&T, &T) -> Result<f64, DataError>,
) -> Result<Option<f64>, DataError> {
    let pairs = (0..items.len()).flat_map(|second| (0..second).map(move |first| (first, second)));
    let values = pairs.map(|(first, second)| measure(&items[first], &items[second])).collect::<Result<Vec<_>, _>>()?;
    Ok((!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64))
}

/// Means weighted by a Gaussian window, where it lies in the volume as a whole.
fn smoothed(mut volume: Vec<f64>, mut extent: [usize; 3], window: [usize; 3]) -> Vec<f64> {
    for axis in 0..3 {
        let weights = gaussian(window[axis]);
        let inner: usize = extent[axis + 1..].iter().product();
        let (length, kept) = (extent[axis], extent[axis] + 1 - window[axis]);
        let mut next = Vec::with_capacity(volume.len() / length * kept);
        for line in volume.chunks(length * inner) {
            next.extend((0..kept * inner).map(|index| {
                weights.iter().enumerate().map(|(step, weight)| weight * line[index + step * inner]).sum::<f64>()
            }));
        }
        extent[axis] = kept;
        volume = next;
    }
    volume
}

fn gaussian(length: usize) -> Vec<f64> {
    let middle = (length as f64 - 1.0) / 2.0;
    let weights = (0..length).map(|index| (-((index as f64 - middle) / DEVIATION).powi(2) / 2.0).exp());
    let weights: Vec<f64> = weights.collect();
    let sum = weights.iter().sum::<f64>();
    weights.into_iter().map(|weight| weight / sum).collect()
}

/// Means of cubes of two voxels a side; a last odd voxel is left out.
fn halved(volume: &[f64], [depth, height, width]: [usize; 3]) -> Vec<f64> {
    let mut result = Vec::with_capacity(volume.len() / 8);
    for (z, y, x) in
        (0..depth / 2).flat_map(|z| (0..height / 2).flat_map(move |y| (0..width / 2).map(move |x| (z, y, x))))
    {
        let corner = (2 * z * height + 2 * y) * width + 2 * x;
        let row = |start: usize| volume[start] + volume[start + 1];
        let plane = |start: usize| row(start) + row(start + width);
        result.push((plane(corner) + plane(corner + height * width)) / 8.0);
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    fn volume(shape: [usize; 4], phase: f64) -> Vec<f32> {
        (0..shape.iter().product::<usize>())
            .map(|index| (0.5 + 0.4 * (0.05 * index as f64 + phase).sin() * (0.013 * index as f64).cos()) as f32)
            .collect()
    }

    /// `make_metric_values.py`: MONAI 1.6.1's `compute_ms_ssim` with the same windows and weights, in float32.
    #[test]
    fn it_is_what_monai_computes() {
        for (shape, window, weights, expected) in MONAI {
            let metric = MsSsim { window, weights: weights.into(), data_range: 1.0 };
            for (phase, expected) in [0.1, 0.9].into_iter().zip(*expected) {
                let found = metric.similarity(&volume(shape, 0.0), &volume(shape, phase), shape).unwrap();
                assert!((found - expected).abs() < 2e-5, "{shape:?} {phase}: {found}, expected {expected}");
            }
        }
    }

    type Case = ([usize; 4], [usize; 3], &'static [f64], &'static [f64; 2]);

    const MONAI: [Case; 3] = [
        ([1, 24, 22, 26], [11, 11, 11], &[0.4, 0.6], &[0.9932553, 0.6548223]),
        ([2, 26, 24, 22], [5, 5, 5], &[0.2, 0.3, 0.5], &[0.9960986, 0.6858361]),
        ([1, 8, 16, 17], [7, 11, 11], &[1.0], &[0.9950380, 0.6237731]),
    ];

    #[test]
    fn equal_volumes_are_alike_and_small_ones_have_fewer_scales() {
        let shape = [1, 24, 24, 24];
        let metric = MsSsim::of_extent([24; 3], 1.0);
        assert_eq!((metric.scales(), metric.window), (2, [11; 3]));
        assert!((metric.weights.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        let one = volume(shape, 0.0);
        assert!((metric.similarity(&one, &one, shape).unwrap() - 1.0).abs() < 1e-12);
        assert!(metric.similarity(&one, &volume(shape, 2.0), shape).unwrap() < 0.5);
        let scales = |extent| MsSsim::of_extent(extent, 1.0).scales();
        assert_eq!([[48; 3], [96; 3], [176; 3], [16, 64, 64]].map(scales), [3, 4, 5, 1]);
        let thin = MsSsim::of_extent([8, 64, 64], 1.0);
        assert_eq!((thin.window, thin.scales()), ([7, 11, 11], 1));
        assert!(MsSsim { weights: vec![0.2; 5], ..metric }.similarity(&one, &one, shape).unwrap_err().is_malformed());
    }

    #[test]
    fn pairs_are_of_different_items() {
        let gap = |one: &f64, other: &f64| Ok((one - other).abs());
        assert_eq!(mean_pairwise(&[0.0, 1.0, 3.0], gap).unwrap(), Some(2.0));
        assert_eq!(mean_pairwise(&[1.0], gap).unwrap(), None);
    }
}
