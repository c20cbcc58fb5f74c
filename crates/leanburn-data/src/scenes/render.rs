//! What a camera sees of a road, and what it can see of the map.

use super::classes::ROAD_CLASSES;
use super::config::{COLOURS, SceneConfig};
use super::road::Road;
use leanburn_common::Camera;

/// How much darker the sides of a vehicle are than its top: across, along the road, on top.
const SHADES: [f64; 3] = [0.6, 0.75, 1.0];
/// What images have of 0 to 1 less, and what they are then divided by.
const NORMALIZATION: [f64; 2] = [0.45, 0.25];

/// Calls `put` with each pixel's number, its colour, from 0 to 1 as long as it is not too bright, and its depth, 0 where it shows the sky.
pub(super) fn image(
    road: &Road,
    camera: &Camera,
    [height, width]: [usize; 2],
    mut put: impl FnMut(usize, [f64; COLOURS], f64),
) {
    let rays = camera.rays();
    for pixel in 0..height * width {
        let [row, column] = [pixel / width, pixel % width];
        let (colour, depth) = hit(road, rays.origin(), rays.direction([column as f64, row as f64]));
        put(pixel, colour.map(|value| value * road.light), depth);
    }
}

/// Brings a colour to the range that models take.
pub(super) fn normalized(value: f64) -> f32 {
    ((value - NORMALIZATION[0]) / NORMALIZATION[1]) as f32
}

/// What a model took, as a colour from 0 to 1.
pub(super) fn colour_of(value: f32) -> f32 {
    (f64::from(value) * NORMALIZATION[1] + NORMALIZATION[0]).clamp(0.0, 1.0) as f32
}

/// What a ray hits first, a vehicle, the ground or the sky, and how far along it.
fn hit(road: &Road, origin: [f64; 3], direction: [f64; 3]) -> ([f64; 3], f64) {
    // across, along and above the road
    let [from, to] = [road.along([origin[0], origin[2]]), road.turned([direction[0], direction[2]])];
    let (from, to) = ([from[0], from[1], -origin[1]], [to[0], to[1], -direction[1]]);
    let hits = road.vehicles.iter().filter_map(|vehicle| Some((vehicle, vehicle.hit(from, to)?)));
    if let Some((vehicle, (distance, side))) = hits.min_by(|(_, (one, _)), (_, (other, _))| one.total_cmp(other)) {
        return (vehicle.colour.map(|value| value * SHADES[side]), distance);
    }
    if to[2] < 0.0 {
        let distance = from[2] / -to[2];
        return (road.colour([from[0] + distance * to[0], from[1] + distance * to[1]]), distance);
    }
    let height = (to[2] / to[0].hypot(to[1]).max(1e-9)).min(1.0);
    ([0.75 - 0.35 * height, 0.82 - 0.25 * height, 0.9], 0.0)
}

/// The map, 0 or 1: `[classes, rows, columns]`, and one layer more that says which cells lie before a camera. What stands between is not looked
/// at.
pub(super) fn map(road: &Road, cameras: &[Camera], config: &SceneConfig) -> Vec<u8> {
    let [rows, columns] = config.map.size();
    let cells = rows * columns;
    let mut map = vec![0; (ROAD_CLASSES.len() + 1) * cells];
    for cell in 0..cells {
        let [x, z] = config.map.middle(cell / columns, cell % columns);
        for (class, is) in road.classes(road.along([x, z])).into_iter().enumerate() {
            map[class * cells + cell] = u8::from(is);
        }
        let is_seen = cameras.iter().any(|camera| is_seen(camera, [x, 0.0, z], config.image_size));
        map[ROAD_CLASSES.len() * cells + cell] = u8::from(is_seen);
    }
    map
}

fn is_seen(camera: &Camera, point: [f64; 3], [height, width]: [usize; 2]) -> bool {
    let lies_in = |place: f64, length: usize| place >= -0.5 && place < length as f64 - 0.5;
    camera.pixel(point).is_some_and(|([u, v], _)| lies_in(u, width) && lies_in(v, height))
}
