use crate::affine::IDENTITY;
use crate::error::DataError;
use crate::random::{Stream, generator};
use crate::volume::{Volume, zeros};
use rand::{Rng, RngExt};
use rand_distr::{Distribution, StandardNormal};
use rayon::prelude::*;

/// An ellipsoid about an axis that is turned in the x-y plane; lengths where the volume is 2 wide.
struct Ellipsoid {
    centre: [f64; 3],
    radii: [f64; 3],
    angle: f64,
    value: f32,
}

impl Ellipsoid {
    fn contains(&self, [x, y, z]: [f64; 3]) -> bool {
        let [x, y, z] = [x - self.centre[0], y - self.centre[1], z - self.centre[2]];
        let (sine, cosine) = self.angle.sin_cos();
        let turned = [cosine * x + sine * y, cosine * y - sine * x, z];
        (0..3).map(|axis| (turned[axis] / self.radii[axis]).powi(2)).sum::<f64>() < 1.0
    }
}

/// Skull, fluid, grey and white matter, two ventricles and some random spots, after
/// [Shepp and Logan](https://doi.org/10.1109/TNS.1974.6499235); later ones cover earlier ones.
fn head(random: &mut impl Rng) -> Vec<Ellipsoid> {
    let mut near = |value: f64| value * random.random_range(0.93..1.07);
    let mut nested = |scale: f64, value: f32| Ellipsoid {
        centre: [0.0; 3],
        radii: [near(0.70 * scale), near(0.86 * scale), near(0.78 * scale)],
        angle: 0.0,
        value,
    };
    let mut head = vec![nested(1.0, 0.95), nested(0.91, 0.15), nested(0.84, 0.55), nested(0.66, 0.80)];
    for side in [-1.0, 1.0] {
        head.push(Ellipsoid {
            centre: [side * near(0.16), near(0.05), near(0.08)],
            radii: [near(0.09), near(0.28), near(0.16)],
            angle: side * near(0.3),
            value: 0.12,
        });
    }
    for _ in 0..8 {
        head.push(Ellipsoid {
            centre: [0, 1, 2].map(|_| random.random_range(-0.4..0.4)),
            radii: [0, 1, 2].map(|_| random.random_range(0.03..0.14)),
            angle: random.random_range(0.0..std::f64::consts::PI),
            value: random.random_range(0.2..1.0),
        });
    }
    head
}

/// A synthetic brain-like volume: nested ellipsoids of values 0 to 1 on a background of 0, and
/// Gaussian noise of standard deviation `noise`.
///
/// # Shapes
/// `[1, x, y, z]` for `shape = [x, y, z]`, voxels of 1 mm.
///
/// # Errors
/// If an axis is empty, the noise is not finite, or there is no memory.
///
/// # Example
/// ```
/// let volume = leanburn_data::phantom([32, 32, 24], 0.05, 1)?;
/// assert_eq!(volume.shape(), [1, 32, 32, 24]);
/// assert_eq!(volume, leanburn_data::phantom([32, 32, 24], 0.05, 1)?);
/// # Ok::<(), leanburn_data::DataError>(())
/// ```
pub fn phantom(shape: [usize; 3], noise: f32, seed: u64) -> Result<Volume, DataError> {
    let [width, height, depth] = shape;
    let mut data = zeros(&shape)?;
    let head = head(&mut generator(seed, Stream::PhantomShape, 0));
    let place = |index: usize, length: usize| (2.0 * index as f64 + 1.0) / length as f64 - 1.0;
    let plane = (height * depth).max(1);
    data.par_chunks_mut(plane).enumerate().for_each(|(x, plane)| {
        let mut random = generator(seed, Stream::PhantomNoise, x as u64);
        for (index, value) in plane.iter_mut().enumerate() {
            let voxel = [place(x, width), place(index / depth, height), place(index % depth, depth)];
            let tissue = head.iter().rev().find(|ellipsoid| ellipsoid.contains(voxel));
            let normal: f32 = StandardNormal.sample(&mut random);
            *value = tissue.map_or(0.0, |ellipsoid| ellipsoid.value) + noise * normal;
        }
    });
    Volume::new(data, [1, width, height, depth], IDENTITY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seed_decides() {
        let first = phantom([20, 16, 12], 0.1, 5).unwrap();
        assert_eq!(first, phantom([20, 16, 12], 0.1, 5).unwrap());
        assert_ne!(first, phantom([20, 16, 12], 0.1, 6).unwrap());
        let threads = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        assert_eq!(first, threads.install(|| phantom([20, 16, 12], 0.1, 5)).unwrap());
        assert_ne!(phantom([20, 16, 12], 0.0, 5).unwrap(), phantom([20, 16, 12], 0.0, 6).unwrap());
    }

    #[test]
    fn it_looks_like_a_head_with_noise() {
        let clean = phantom([32, 32, 32], 0.0, 1).unwrap();
        assert_eq!(clean.view()[[0, 0, 0, 0]], 0.0);
        let values: std::collections::BTreeSet<u32> = clean.data().iter().map(|value| value.to_bits()).collect();
        assert!(values.len() > 6, "only {} tissues", values.len());
        let noisy = phantom([32, 32, 32], 0.1, 1).unwrap();
        let count = clean.data().len() as f32;
        let pairs = noisy.data().iter().zip(clean.data());
        let variance: f32 = pairs.map(|(a, b)| (a - b).powi(2)).sum::<f32>() / count;
        assert!((variance.sqrt() - 0.1).abs() < 0.002, "{}", variance.sqrt());
    }

    #[test]
    fn refuses_what_is_no_volume() {
        assert!(phantom([0, 4, 4], 0.0, 0).unwrap_err().is_malformed());
        assert!(phantom([4, 4, 0], 0.0, 0).unwrap_err().is_malformed());
        assert!(phantom([usize::MAX, 2, 2], 0.0, 0).unwrap_err().is_too_large());
        assert!(phantom([4, 4, 4], f32::NAN, 0).unwrap_err().is_not_finite());
    }
}
