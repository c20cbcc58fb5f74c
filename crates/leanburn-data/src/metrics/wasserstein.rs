//! How far two sets of vectors are from each other, as distributions.

use crate::error::DataError;
use crate::random::{Stream, generator};
use rand::RngExt;
use rand_distr::{Distribution, StandardNormal};
use rayon::prelude::*;

/// The sliced 2-Wasserstein distance of two sets of vectors: the root of the mean, over the directions, of the squared 2-Wasserstein
/// distance of the projections.
///
/// `SW_2^2 = mean_u W_2^2({<u, x>}, {<u, y>})`; along a line `W_2^2` is the integral of the squared difference of the quantiles, exact for
/// sets of different sizes too. Source: [Bonneel et al.](https://doi.org/10.1007/s10851-014-0506-3). Equal to POT's
/// `ot.sliced_wasserstein_distance` on the same directions.
///
/// # Shapes
/// `one`: `[vectors, features]`, `other`: `[other_vectors, features]`, `directions`: `[directions, features]`, of length 1 each.
///
/// # Errors
/// If there are no features, no vectors, or no directions, or a slice is no multiple of the features.
///
/// # Example
/// ```
/// use leanburn_data::metrics::{sliced_wasserstein, unit_directions};
/// let shifted = sliced_wasserstein(&[0.0, 1.0], &[2.0, 3.0], 1, &unit_directions(1, 4, 0))?;
/// assert!((shifted - 2.0).abs() < 1e-6);
/// # Ok::<(), leanburn_data::DataError>(())
/// ```
pub fn sliced_wasserstein(one: &[f32], other: &[f32], features: usize, directions: &[f32]) -> Result<f64, DataError> {
    for (what, values) in [("the first set", one), ("the second set", other), ("the directions", directions)] {
        if features == 0 || values.is_empty() || !values.len().is_multiple_of(features) {
            let expected = format!("vectors of {features} features, one or more, in {what}");
            let found = format!("{} values", values.len());
            return Err(DataError::malformed(expected, found, "Give sets of vectors of one length."));
        }
    }
    let squares: Vec<f64> = directions
        .par_chunks(features)
        .map(|direction| squared_along_a_line(&projected(one, direction), &projected(other, direction)))
        .collect();
    Ok((squares.iter().sum::<f64>() / squares.len() as f64).sqrt())
}

/// So many directions, of length 1 and independent of each other, drawn from a seed: `[count, features]`.
pub fn unit_directions(features: usize, count: usize, seed: u64) -> Vec<f32> {
    let mut random = generator(seed, Stream::Directions, features as u64);
    let mut directions = Vec::with_capacity(count * features);
    for _ in 0..count {
        let direction: Vec<f64> = (0..features).map(|_| StandardNormal.sample(&mut random)).collect();
        let length = direction.iter().map(|value| value * value).sum::<f64>().sqrt().max(f64::MIN_POSITIVE);
        directions.extend(direction.into_iter().map(|value| (value / length) as f32));
    }
    directions
}

/// Neighbourhoods of a volume as vectors, for [`sliced_wasserstein`]: all channels of cubes of `side` places a side, or less where the
/// volume is smaller; `count` of them at places drawn from a seed.
///
/// Whole volumes are too few vectors in too many dimensions to say much of their distribution; their neighbourhoods are many, and are
/// what [Karras et al.](https://arxiv.org/abs/1710.10196) compare.
///
/// # Shapes
/// `[channels, x, y, z]` gives `[count, channels * cube]`.
pub fn local_patches(volume: &[f32], shape: [usize; 4], side: usize, count: usize, seed: u64) -> Vec<f32> {
    let [channels, extent @ ..] = shape;
    let size = extent.map(|length| length.min(side));
    let [_, height, width] = extent;
    let mut random = generator(seed, Stream::LocalPatches, 0);
    let mut patches = Vec::with_capacity(count * channels * size.iter().product::<usize>());
    for _ in 0..count {
        let [z, y, x] = [0, 1, 2].map(|axis| random.random_range(0..=extent[axis] - size[axis]));
        for channel in volume.chunks(extent.iter().product::<usize>().max(1)).take(channels) {
            for (plane, row) in (z..z + size[0]).flat_map(|plane| (y..y + size[1]).map(move |row| (plane, row))) {
                patches.extend(&channel[(plane * height + row) * width + x..][..size[2]]);
            }
        }
    }
    patches
}

/// The projections of vectors on a direction, in ascending order.
fn projected(vectors: &[f32], direction: &[f32]) -> Vec<f64> {
    let along = |vector: &[f32]| vector.iter().zip(direction).map(|(x, u)| f64::from(*x) * f64::from(*u)).sum();
    let mut projections: Vec<f64> = vectors.chunks(direction.len()).map(along).collect();
    projections.sort_by(f64::total_cmp);
    projections
}

/// The squared 2-Wasserstein distance of two sorted sets of numbers, each of which weighs as much as the others of its set.
fn squared_along_a_line(one: &[f64], other: &[f64]) -> f64 {
    let (count, other_count) = (one.len() as u128, other.len() as u128);
    let (mut sum, mut at) = (0.0, 0_u128);
    let (mut first, mut second) = (0, 0);
    // ranks in units of 1 / (count * other_count), in which both sets have whole steps
    while first < one.len() && second < other.len() {
        let (end, other_end) = ((first as u128 + 1) * other_count, (second as u128 + 1) * count);
        let next = end.min(other_end);
        sum += (next - at) as f64 * (one[first] - other[second]).powi(2);
        at = next;
        first += usize::from(end == next);
        second += usize::from(other_end == next);
    }
    sum / (count * other_count) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `make_metric_values.py`, NumPy in float64: quantiles by `numpy.repeat` up to the least common multiple of the sizes.
    #[test]
    fn it_is_what_numpy_computes() {
        let set = |count: usize, features: usize, phase: f64| -> Vec<f32> {
            (0..count * features).map(|index| ((0.37 * index as f64 + phase).sin() * (1.0 + phase)) as f32).collect()
        };
        let mut directions = set(5, 3, 0.5);
        for direction in directions.chunks_mut(3) {
            let length = direction.iter().map(|value| value * value).sum::<f32>().sqrt();
            direction.iter_mut().for_each(|value| *value /= length);
        }
        for (count, other, expected) in SLICED {
            let found = sliced_wasserstein(&set(count, 3, 0.0), &set(other, 3, 0.8), 3, &directions).unwrap();
            assert!((found - expected).abs() < 1e-6, "{count} and {other}: {found}, expected {expected}");
        }
    }

    const SLICED: [(usize, usize, f64); 3] = [(4, 4, 1.337342977), (6, 9, 1.008762324), (7, 4, 1.195622296)];

    #[test]
    fn it_is_a_distance_of_distributions() {
        let directions = unit_directions(2, 16, 1);
        assert!(directions.chunks(2).all(|u| (u[0].hypot(u[1]) - 1.0).abs() < 1e-6));
        assert_ne!(directions, unit_directions(2, 16, 2));
        let one = [0.0, 1.0, 2.0, -1.0, 0.5, 3.0];
        let turned = [0.5, 3.0, 0.0, 1.0, 2.0, -1.0];
        assert_eq!(sliced_wasserstein(&one, &turned, 2, &directions).unwrap(), 0.0, "order does not matter");
        let twice: Vec<f32> = one.iter().chain(&one).copied().collect();
        assert!(sliced_wasserstein(&one, &twice, 2, &directions).unwrap() < 1e-12, "nor does the size of a set");
        for (other, features) in [(&one[..5], 2), (&one[..0], 2), (&one[..], 0)] {
            assert!(sliced_wasserstein(&one, other, features, &directions).unwrap_err().is_malformed());
        }
    }

    #[test]
    fn patches_are_neighbourhoods_of_all_channels() {
        let volume: Vec<f32> = (0..2 * 3 * 4 * 5).map(|index| index as f32).collect();
        let patches = local_patches(&volume, [2, 3, 4, 5], 3, 50, 7);
        assert_eq!(patches.len(), 50 * 2 * 27);
        let mut corners = std::collections::BTreeSet::new();
        for patch in patches.chunks(54) {
            let offset = |index: usize| patch[index] - patch[0];
            assert_eq!([offset(1), offset(3), offset(9), offset(27)], [1.0, 5.0, 20.0, 60.0]);
            corners.insert(patch[0] as usize);
        }
        // all planes, two rows and three columns to begin at
        assert_eq!(corners.into_iter().collect::<Vec<_>>(), [0, 1, 2, 5, 6, 7]);
        assert_eq!(local_patches(&volume, [2, 3, 4, 5], 9, 1, 0), volume);
    }
}
