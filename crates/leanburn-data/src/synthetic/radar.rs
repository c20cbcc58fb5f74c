//! Synthetic radar scenes: sparse volumes of four channels.

use crate::checks;
use crate::error::DataError;
use crate::random::{Stream, generator};
use crate::volumes::affine::IDENTITY;
use crate::volumes::{Volume, zeros};
use leanburn_common::{Validation, ValidationError};
use rand::{Rng, RngExt};
use serde::{Deserialize, Serialize};

/// Synthetic radar scenes for trying things out; see [`radar()`](crate::radar()).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RadarConfig {
    /// Number of scenes.
    pub count: usize,
    /// Voxels upwards, ahead and across.
    pub shape: [usize; 3],
    /// Vehicles of a scene.
    pub vehicles: usize,
    /// Share of the voxels that are false returns.
    pub speckle: f64,
}

impl Default for RadarConfig {
    fn default() -> Self {
        Self { count: 8, shape: [32, 128, 128], vehicles: 6, speckle: 0.001 }
    }
}

/// More in one scene are taken for a typing error.
const MOST_VEHICLES: usize = 1024;

impl RadarConfig {
    /// Everything that is wrong with the values.
    pub fn validate(&self) -> Vec<ValidationError> {
        let mut validation = Validation::default();
        checks::synthetic(&mut validation, self.count);
        checks::grid(&mut validation, "shape", self.shape);
        let expected = format!("at most {MOST_VEHICLES}");
        validation.check(self.vehicles <= MOST_VEHICLES, "vehicles", &expected, self.vehicles, "use fewer vehicles");
        checks::fraction(&mut validation, "speckle", self.speckle);
        validation.errors()
    }
}

/// Occupancy, intensity, radial velocity and elevation variance.
const CHANNELS: usize = 4;
/// How much of what the radar could see it does see.
const DETECTED: f64 = 0.7;

/// A box on the ground; lengths where the scene is 2 wide, 1 high and 2 long.
struct Vehicle {
    centre: [f64; 2],
    half: [f64; 2],
    height: f64,
    heading: f64,
    /// Along the heading, -1 to 1.
    speed: f64,
    intensity: f64,
}

impl Vehicle {
    fn draw(random: &mut impl Rng) -> Self {
        Self {
            centre: [random.random_range(0.15..1.85), random.random_range(-0.85..0.85)],
            half: [random.random_range(0.06..0.12), random.random_range(0.03..0.05)],
            height: random.random_range(0.12..0.30),
            heading: random.random_range(0.0..std::f64::consts::TAU),
            speed: random.random_range(-1.0..1.0),
            intensity: random.random_range(0.5..1.0),
        }
    }

    fn contains(&self, [up, ahead, across]: [f64; 3]) -> bool {
        let [ahead, across] = [ahead - self.centre[0], across - self.centre[1]];
        let (sine, cosine) = self.heading.sin_cos();
        let (along, aside) = (cosine * ahead + sine * across, cosine * across - sine * ahead);
        along.abs() < self.half[0] && aside.abs() < self.half[1] && up < self.height
    }

    /// The part of its speed that leads away from the radar, which stands at the origin.
    fn radial_velocity(&self, [_, ahead, across]: [f64; 3]) -> f64 {
        let distance = ahead.hypot(across).max(1e-9);
        self.speed * (self.heading.cos() * ahead + self.heading.sin() * across) / distance
    }
}

/// What the radar measures in one voxel; `None` where it sees nothing.
///
/// Every voxel draws the same number of random values, so that no voxel depends on its neighbours.
fn detect(place: [f64; 3], ground: bool, scene: &[Vehicle], speckle: f64, random: &mut impl Rng) -> Option<[f64; 3]> {
    let [chance, fading, spread, doppler]: [f64; 4] = std::array::from_fn(|_| random.random());
    let distance = place[1].hypot(place[2]);
    if let Some(vehicle) = scene.iter().find(|vehicle| vehicle.contains(place)) {
        let intensity = vehicle.intensity * (0.6 + 0.4 * fading) / (1.0 + 0.3 * distance);
        return (chance < DETECTED).then(|| [intensity, vehicle.radial_velocity(place), 0.2 + 0.4 * spread]);
    }
    if ground && chance < 0.4 * (-distance).exp() {
        return Some([0.05 + 0.15 * fading, 0.0, 0.05 * spread]);
    }
    (chance >= 1.0 - speckle).then_some([0.3 * fading, 2.0 * doppler - 1.0, spread])
}

/// A synthetic radar scene: boxes that drive over a ground, and speckle; most voxels are empty.
///
/// The channels are occupancy (0 or 1), intensity (0 to 1), radial velocity (-1 to 1, positive away
/// from the radar) and elevation variance (0 to 1), all 0 where nothing is seen. The radar stands
/// in the middle of the near edge of the lowest plane. Normalize with [`Normalize::None`]: most
/// voxels are 0, and so are both percentiles.
///
/// # Shapes
/// `[4, depth, height, width]` for `shape = [depth, height, width]`: upwards, ahead and across.
///
/// # Errors
/// If an axis is empty or there is no memory.
///
/// # Example
/// ```
/// let scene = leanburn_data::radar([8, 32, 32], 3, 0.001, 1)?;
/// assert_eq!(scene.shape(), [4, 8, 32, 32]);
/// # Ok::<(), leanburn_data::DataError>(())
/// ```
///
/// [`Normalize::None`]: crate::Normalize::None
pub fn radar(shape: [usize; 3], vehicles: usize, speckle: f64, seed: u64) -> Result<Volume, DataError> {
    let [depth, height, width] = shape;
    let mut data = zeros(&[CHANNELS, depth, height, width])?;
    let mut random = generator(seed, Stream::RadarScene, 0);
    let scene: Vec<Vehicle> = (0..vehicles).map(|_| Vehicle::draw(&mut random)).collect();
    let place = |index: usize, length: usize| (index as f64 + 0.5) / length as f64;
    let voxels = depth * height * width;
    for up in 0..depth {
        let mut random = generator(seed, Stream::RadarReturns, up as u64);
        for row in 0..height * width {
            let (ahead, across) = (row / width, row % width);
            let place = [place(up, depth), 2.0 * place(ahead, height), 2.0 * place(across, width) - 1.0];
            if let Some(features) = detect(place, up == 0, &scene, speckle, &mut random) {
                let voxel = up * height * width + row;
                data[voxel] = 1.0;
                features.iter().enumerate().for_each(|(at, value)| data[(at + 1) * voxels + voxel] = *value as f32);
            }
        }
    }
    Volume::new(data, [CHANNELS, depth, height, width], IDENTITY)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn occupied(scene: &Volume) -> usize {
        scene.data()[..scene.data().len() / 4].iter().filter(|value| **value == 1.0).count()
    }

    #[test]
    fn the_seed_decides() {
        let first = radar([8, 32, 24], 4, 0.01, 5).unwrap();
        assert_eq!(first, radar([8, 32, 24], 4, 0.01, 5).unwrap());
        assert_ne!(first, radar([8, 32, 24], 4, 0.01, 6).unwrap());
        assert_ne!(radar([8, 32, 24], 4, 0.0, 5).unwrap(), radar([8, 32, 24], 4, 0.0, 6).unwrap());
    }

    #[test]
    fn scenes_are_sparse_and_their_channels_agree() {
        let RadarConfig { shape, vehicles, speckle, .. } = RadarConfig::default();
        for seed in 0..3 {
            let scene = radar(shape, vehicles, speckle, seed).unwrap();
            let voxels = scene.data().len() / 4;
            let share = occupied(&scene) as f64 / voxels as f64;
            assert!((0.003..0.03).contains(&share), "{share} of the voxels are occupied");
            for (voxel, occupancy) in scene.data()[..voxels].iter().enumerate() {
                let [intensity, velocity, variance] = [1, 2, 3].map(|channel| scene.data()[channel * voxels + voxel]);
                if *occupancy == 0.0 {
                    assert_eq!([intensity, velocity, variance], [0.0; 3]);
                } else {
                    assert_eq!(*occupancy, 1.0);
                    assert!((0.0..=1.0).contains(&intensity) && (0.0..=1.0).contains(&variance));
                    assert!((-1.0..=1.0).contains(&velocity));
                }
            }
        }
    }

    #[test]
    fn vehicles_move_and_speckle_is_as_dense_as_asked() {
        let shape = [16, 64, 64];
        let empty = radar(shape, 0, 0.0, 1).unwrap();
        let voxels = 16 * 64 * 64;
        assert!(occupied(&empty) > 100, "there is ground");
        assert_eq!(empty.data()[64 * 64..voxels].iter().filter(|value| **value != 0.0).count(), 0, "and no more");
        assert_eq!(empty.data()[2 * voxels..3 * voxels].iter().filter(|value| **value != 0.0).count(), 0);
        let driven = radar(shape, 8, 0.0, 1).unwrap();
        let moving = driven.data()[2 * voxels..3 * voxels].iter().filter(|value| **value != 0.0).count();
        assert!(moving > 100, "{moving} moving voxels");
        let speckled = radar(shape, 0, 0.02, 1).unwrap();
        let share = (occupied(&speckled) - occupied(&empty)) as f64 / voxels as f64;
        assert!((share - 0.02).abs() < 0.002, "{share}");
    }

    #[test]
    fn rejects_what_is_no_scene() {
        assert!(radar([0, 4, 4], 1, 0.0, 0).unwrap_err().is_malformed());
        assert!(radar([4, 4, 0], 1, 0.0, 0).unwrap_err().is_malformed());
        assert!(radar([usize::MAX, 2, 2], 1, 0.0, 0).unwrap_err().is_too_large());
        assert!(radar([4, 4, 4], 1, f64::NAN, 0).is_ok(), "no share is no speckle");
    }
}
