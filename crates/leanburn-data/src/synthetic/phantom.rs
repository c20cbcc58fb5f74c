//! A synthetic head, as an image and as labels.

use crate::checks;
use crate::error::DataError;
use crate::random::{Stream, generator};
use crate::volumes::affine::IDENTITY;
use crate::volumes::{LabelMap, Volume, zeros};
use leanburn_common::{Validation, ValidationError};
use rand::{Rng, RngExt};
use rand_distr::{Distribution, StandardNormal};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

/// Synthetic volumes for trying things out; see [`phantom()`](crate::phantom()).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PhantomConfig {
    /// Number of volumes.
    pub count: usize,
    /// Voxels along x, y and z.
    pub shape: [usize; 3],
    /// Standard deviation of the noise; tissue has values 0 to 1.
    pub noise: f32,
}

impl Default for PhantomConfig {
    fn default() -> Self {
        Self { count: 8, shape: [64, 64, 64], noise: 0.02 }
    }
}

impl PhantomConfig {
    /// Everything that is wrong with the values.
    pub fn validate(&self) -> Vec<ValidationError> {
        let mut validation = Validation::default();
        checks::synthetic(&mut validation, self.count);
        checks::grid(&mut validation, "shape", self.shape);
        let sound = self.noise.is_finite() && self.noise >= 0.0;
        validation.check(sound, "noise", "0 or more", self.noise, "write a standard deviation, such as 0.02");
        validation.errors()
    }
}

/// The kinds of heads, as `data.classes` names them.
pub(crate) const PHANTOM_KINDS: [(&str, PhantomKind); 3] =
    [("t1", PhantomKind::T1), ("t2", PhantomKind::T2), ("wide_ventricles", PhantomKind::WideVentricles)];

/// What kind of head a phantom is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PhantomKind {
    /// White matter brighter than grey matter, dark fluid, as in a T1-weighted image.
    T1,
    /// The contrast of a T2-weighted image: bright fluid, grey matter brighter than white matter.
    T2,
    /// The first, with ventricles almost twice as wide.
    WideVentricles,
}

impl PhantomKind {
    /// The head of a first kind as one of this kind.
    fn change(self, head: &mut [Ellipsoid]) {
        match self {
            Self::T1 => {}
            Self::T2 => {
                let values = [0.10, 0.95, 0.60, 0.35, 0.95, 0.95];
                head.iter_mut().zip(values).for_each(|(ellipsoid, value)| ellipsoid.value = value);
            }
            Self::WideVentricles => {
                let radii = head[VENTRICLES].iter_mut().flat_map(|ventricle| &mut ventricle.radii);
                radii.for_each(|radius| *radius *= 1.8);
            }
        }
    }
}

/// Classes of [`phantom_labels`].
pub(crate) const PHANTOM_CLASSES: usize = 3;
const GREY_MATTER: u8 = 1;
const WHITE_MATTER: u8 = 2;
/// Where the ventricles are among the parts of a head.
const VENTRICLES: std::ops::Range<usize> = 4..6;

/// An ellipsoid about an axis that is turned in the x-y plane; lengths where the volume is 2 wide.
struct Ellipsoid {
    centre: [f64; 3],
    radii: [f64; 3],
    angle: f64,
    value: f32,
    class: u8,
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
fn head(kind: PhantomKind, random: &mut impl Rng) -> Vec<Ellipsoid> {
    let mut near = |value: f64| value * random.random_range(0.93..1.07);
    let mut nested = |scale: f64, value: f32, class: u8| Ellipsoid {
        centre: [0.0; 3],
        radii: [near(0.70 * scale), near(0.86 * scale), near(0.78 * scale)],
        angle: 0.0,
        value,
        class,
    };
    let (skull, fluid) = (nested(1.0, 0.95, 0), nested(0.91, 0.15, 0));
    let mut head = vec![skull, fluid, nested(0.84, 0.55, GREY_MATTER), nested(0.66, 0.80, WHITE_MATTER)];
    for side in [-1.0, 1.0] {
        head.push(Ellipsoid {
            centre: [side * near(0.16), near(0.05), near(0.08)],
            radii: [near(0.09), near(0.28), near(0.16)],
            angle: side * near(0.3),
            value: 0.12,
            class: 0,
        });
    }
    for _ in 0..8 {
        head.push(Ellipsoid {
            centre: [0, 1, 2].map(|_| random.random_range(-0.4..0.4)),
            radii: [0, 1, 2].map(|_| random.random_range(0.03..0.14)),
            angle: random.random_range(0.0..std::f64::consts::PI),
            value: random.random_range(0.2..1.0),
            class: 0,
        });
    }
    kind.change(&mut head);
    head
}

/// The centre of voxel `index` along an axis of `length` voxels, where the volume is 2 wide.
fn place(index: usize, length: usize) -> f64 {
    (2.0 * index as f64 + 1.0) / length as f64 - 1.0
}

/// What lies at a place; none in the background.
fn tissue(head: &[Ellipsoid], place: [f64; 3]) -> Option<&Ellipsoid> {
    head.iter().rev().find(|ellipsoid| ellipsoid.contains(place))
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
    phantom_of(PhantomKind::T1, shape, noise, seed)
}

/// The [`phantom()`] of a kind.
pub(crate) fn phantom_of(
    kind: PhantomKind,
    shape @ [width, height, depth]: [usize; 3],
    noise: f32,
    seed: u64,
) -> Result<Volume, DataError> {
    let mut data = zeros(&shape)?;
    let head = head(kind, &mut generator(seed, Stream::PhantomShape, 0));
    let plane = (height * depth).max(1);
    data.par_chunks_mut(plane).enumerate().for_each(|(x, plane)| {
        let mut random = generator(seed, Stream::PhantomNoise, x as u64);
        for (index, value) in plane.iter_mut().enumerate() {
            let voxel = [place(x, width), place(index / depth, height), place(index % depth, depth)];
            let normal: f32 = StandardNormal.sample(&mut random);
            *value = tissue(&head, voxel).map_or(0.0, |ellipsoid| ellipsoid.value) + noise * normal;
        }
    });
    Volume::new(data, [1, width, height, depth], IDENTITY)
}

/// The labels of the [`phantom()`] of the same shape and seed: 1 in grey matter, 2 in white matter, 0 elsewhere
/// (background, skull, fluid and the random spots).
///
/// # Errors
/// If an axis is empty, or there is no memory.
///
/// # Example
/// ```
/// let labels = leanburn_data::phantom_labels([32, 32, 24], 1)?;
/// assert!((0..3).all(|class| labels.data().contains(&class)));
/// # Ok::<(), leanburn_data::DataError>(())
/// ```
pub fn phantom_labels(shape: [usize; 3], seed: u64) -> Result<LabelMap, DataError> {
    phantom_labels_of(PhantomKind::T1, shape, seed)
}

/// The [`phantom_labels`] of a kind.
pub(crate) fn phantom_labels_of(
    kind: PhantomKind,
    shape @ [width, height, depth]: [usize; 3],
    seed: u64,
) -> Result<LabelMap, DataError> {
    let mut data = zeros(&shape)?;
    let head = head(kind, &mut generator(seed, Stream::PhantomShape, 0));
    let plane = (height * depth).max(1);
    data.par_chunks_mut(plane).enumerate().for_each(|(x, plane)| {
        for (index, label) in plane.iter_mut().enumerate() {
            let voxel = [place(x, width), place(index / depth, height), place(index % depth, depth)];
            *label = tissue(&head, voxel).map_or(0, |ellipsoid| ellipsoid.class);
        }
    });
    LabelMap::new(data, shape, IDENTITY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_lie_where_the_tissue_is() {
        let (volume, labels) = (phantom([24, 28, 20], 0.0, 3).unwrap(), phantom_labels([24, 28, 20], 3).unwrap());
        assert_eq!((labels.extent(), labels.affine()), (volume.extent(), volume.affine()));
        let mut counts = [0; PHANTOM_CLASSES];
        for (label, value) in labels.data().iter().zip(volume.data()) {
            counts[usize::from(*label)] += 1;
            assert!(*label == 0 || *value == [0.0, 0.55, 0.80][usize::from(*label)], "{label} at {value}");
            assert!(*label != 0 || ![0.55, 0.80].contains(value), "{value} without a label");
        }
        assert!(counts.iter().all(|count| *count > 300), "{counts:?}");
        assert!(phantom_labels([0, 4, 4], 0).unwrap_err().is_malformed());
    }

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
    fn kinds_differ_where_they_should() {
        let of = |kind| phantom_of(kind, [24, 28, 20], 0.0, 3).unwrap();
        let share = |volume: &Volume, value: f32| volume.data().iter().filter(|found| **found == value).count();
        let (t1, t2, wide) = (of(PhantomKind::T1), of(PhantomKind::T2), of(PhantomKind::WideVentricles));
        assert_eq!(t1, phantom([24, 28, 20], 0.0, 3).unwrap());
        assert_eq!((share(&t1, 0.80), share(&t1, 0.15)), (share(&t2, 0.35), share(&t2, 0.95) - share(&t1, 0.12)));
        assert!(share(&wide, 0.12) > 2 * share(&t1, 0.12));
        let labels = phantom_labels_of(PhantomKind::WideVentricles, [24, 28, 20], 3).unwrap();
        let white = labels.data().iter().filter(|label| **label == WHITE_MATTER).count();
        assert_eq!(white, share(&wide, 0.80));
    }

    #[test]
    fn rejects_what_is_no_volume() {
        assert!(phantom([0, 4, 4], 0.0, 0).unwrap_err().is_malformed());
        assert!(phantom([4, 4, 0], 0.0, 0).unwrap_err().is_malformed());
        assert!(phantom([usize::MAX, 2, 2], 0.0, 0).unwrap_err().is_too_large());
        assert!(phantom([4, 4, 4], f32::NAN, 0).unwrap_err().is_not_finite());
    }
}
