//! A road with what lies beside it and what stands on it.

use super::classes::ROAD_CLASSES;
use super::config::SceneConfig;
use rand::{Rng, RngExt};

/// Half of the width of the median strip.
const DIVIDER: f64 = 0.5;
/// A crossing's length along the road, and how far before the crossing road it lies.
const CROSSING: [f64; 2] = [4.0, 1.5];
/// Length of a stripe of a crossing and of the gap behind it, across the road.
const STRIPE: f64 = 1.0;

/// A straight road, a second one across it or none, and vehicles. The ground is flat, at a height of 0.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Road {
    /// Sine and cosine of its direction.
    heading: [f64; 2],
    /// How far its middle lies to the right.
    offset: f64,
    half_width: f64,
    walkway: f64,
    /// Where along the road another one crosses it, and half of its width.
    across: Option<[f64; 2]>,
    pub(super) vehicles: Vec<Vehicle>,
    /// How bright the day is.
    pub(super) light: f64,
}

/// A box on the road.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Vehicle {
    /// Across and along the road.
    place: [f64; 2],
    /// Half of the width and of the length, and the height.
    half: [f64; 2],
    height: f64,
    pub(super) colour: [f64; 3],
}

impl Road {
    /// A scene.
    pub(super) fn draw(config: &SceneConfig, rng: &mut impl Rng) -> Self {
        let angle: f64 = rng.random_range(-0.4..0.4);
        let half_width = rng.random_range(4.0..8.0);
        let far = config.map.z[1].max(20.0);
        let across = rng.random_bool(0.6).then(|| [rng.random_range(12.0..far), rng.random_range(3.5..6.5)]);
        let count = if config.vehicles == 0 { 0 } else { rng.random_range(0..=config.vehicles) };
        let vehicle = |rng: &mut dyn Rng| {
            let side = if rng.random_bool(0.5) { 1.0 } else { -1.0 };
            Vehicle {
                place: [side * rng.random_range(0.35..0.7) * half_width, rng.random_range(5.0..far)],
                half: [rng.random_range(0.85..1.1), rng.random_range(1.9..2.8)],
                height: rng.random_range(1.4..2.2),
                colour: std::array::from_fn(|_| rng.random_range(0.1..0.95)),
            }
        };
        Self {
            heading: [angle.sin(), angle.cos()],
            offset: rng.random_range(-0.7..0.7) * half_width,
            half_width,
            walkway: rng.random_range(1.5..3.5),
            across,
            light: rng.random_range(0.7..1.2),
            vehicles: (0..count).map(|_| vehicle(rng)).collect(),
        }
    }

    /// A place on the ground, `[x, z]`, as across and along the road.
    pub(super) fn along(&self, [x, z]: [f64; 2]) -> [f64; 2] {
        let [sin, cos] = self.heading;
        [x * cos - z * sin - self.offset, x * sin + z * cos]
    }

    /// The same of a direction.
    pub(super) fn turned(&self, [x, z]: [f64; 2]) -> [f64; 2] {
        let [sin, cos] = self.heading;
        [x * cos - z * sin, x * sin + z * cos]
    }

    /// Which of the [`ROAD_CLASSES`] a place is, across and along the road.
    pub(super) fn classes(&self, place: [f64; 2]) -> [bool; ROAD_CLASSES.len()] {
        let [across, along] = place;
        let is_road = across.abs() < self.half_width;
        let to_other = self.across.map(|[at, half_width]| (along - at).abs() - half_width);
        let is_other = to_other.is_some_and(|distance| distance < 0.0);
        let is_crossing = is_road
            && self.across.is_some_and(|[at, half_width]| {
                let before = at - half_width - along;
                (CROSSING[1]..CROSSING[0] + CROSSING[1]).contains(&before)
            });
        let beside = |distance: f64| (0.0..self.walkway).contains(&distance);
        let is_walkway =
            !is_road && !is_other && (beside(across.abs() - self.half_width) || to_other.is_some_and(beside));
        let is_divider = across.abs() < DIVIDER && !is_other && !is_crossing;
        let is_vehicle = self.vehicles.iter().any(|vehicle| vehicle.covers(place));
        [is_road || is_other, is_crossing, is_walkway, is_divider, is_vehicle]
    }

    /// The colour of the ground at a place, across and along the road.
    pub(super) fn colour(&self, place: [f64; 2]) -> [f64; 3] {
        let [is_drivable, is_crossing, is_walkway, is_divider, _] = self.classes(place);
        let is_stripe = (place[0] / STRIPE).rem_euclid(2.0) < 1.0;
        match (is_crossing && is_stripe, is_divider, is_drivable, is_walkway) {
            (true, ..) => [0.95; 3],
            (_, true, ..) => [0.8, 0.65, 0.15],
            (_, _, true, _) => [0.3, 0.3, 0.32],
            (_, _, _, true) => [0.62, 0.58, 0.55],
            _ => [0.25, 0.42, 0.18],
        }
    }
}

impl Vehicle {
    fn covers(&self, place: [f64; 2]) -> bool {
        (0..2).all(|axis| (place[axis] - self.place[axis]).abs() < self.half[axis])
    }

    /// How far along a ray it is hit, and on which of its sides: across, along the road or on top. Heights grow upwards.
    pub(super) fn hit(&self, origin: [f64; 3], direction: [f64; 3]) -> Option<(f64, usize)> {
        let [across, along] = self.place;
        let low = [across - self.half[0], along - self.half[1], 0.0];
        let high = [across + self.half[0], along + self.half[1], self.height];
        let (mut near, mut far, mut side) = (0.0, f64::INFINITY, 0);
        for axis in 0..3 {
            let ends = [low, high].map(|end| (end[axis] - origin[axis]) / direction[axis]);
            if direction[axis] == 0.0 {
                if origin[axis] <= low[axis] || origin[axis] >= high[axis] {
                    return None;
                }
                continue;
            }
            let (enters, leaves) = (ends[0].min(ends[1]), ends[0].max(ends[1]));
            if enters > near {
                (near, side) = (enters, axis);
            }
            far = far.min(leaves);
        }
        (near > 0.0 && near < far).then_some((near, side))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn road() -> Road {
        let vehicle = Vehicle { place: [2.0, 10.0], half: [1.0, 2.0], height: 1.5, colour: [0.5; 3] };
        Road {
            heading: [0.0, 1.0],
            offset: 1.0,
            half_width: 5.0,
            walkway: 2.0,
            across: Some([30.0, 4.0]),
            vehicles: vec![vehicle],
            light: 1.0,
        }
    }

    #[test]
    fn a_place_may_be_of_several_classes() {
        let road = road();
        let named = |place: [f64; 2]| {
            let classes = road.classes(road.along(place));
            ROAD_CLASSES.into_iter().zip(classes).filter(|(_, is)| *is).map(|(name, _)| name).collect::<Vec<_>>()
        };
        assert_eq!(named([1.2, 5.0]), ["drivable", "divider"]);
        assert_eq!(named([3.0, 10.0]), ["drivable", "vehicle"]);
        assert_eq!(named([1.2, 22.0]), ["drivable", "crossing"]);
        assert_eq!(named([7.0, 5.0]), ["walkway"]);
        assert_eq!(named([9.0, 5.0]), [""; 0]);
        assert_eq!(named([20.0, 29.0]), ["drivable"], "the road across");
        assert_eq!(named([20.0, 35.0]), ["walkway"], "beside it");
    }

    #[test]
    fn a_ray_hits_the_nearest_side() {
        let vehicle = road().vehicles[0];
        assert_eq!(vehicle.hit([2.0, 0.0, 1.0], [0.0, 1.0, 0.0]), Some((8.0, 1)));
        assert_eq!(vehicle.hit([2.0, 10.0, 3.5], [0.0, 0.0, -1.0]), Some((2.0, 2)));
        assert_eq!(vehicle.hit([2.0, 0.0, 1.6], [0.0, 1.0, 0.0]), None, "above it");
        assert_eq!(vehicle.hit([2.0, 20.0, 1.0], [0.0, 1.0, 0.0]), None, "behind");
    }
}
