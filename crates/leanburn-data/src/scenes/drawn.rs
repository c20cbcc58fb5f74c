//! Road scenes that are drawn from a seed.

use super::batch::SceneSample;
use super::classes::ROAD_CLASSES;
use super::config::{COLOURS, SceneConfig};
use super::render;
use super::road::Road;
use crate::error::DataError;
use crate::random::{Stream, generator};
use crate::volumes::zeros;
use leanburn_common::Camera;
use rand::RngExt;
use rand_distr::{Distribution, StandardNormal};

/// How far cameras are turned and moved from scene to scene: to the right, down, and up; degrees and metres.
const JITTER: [f64; 3] = [3.0, 2.0, 0.15];

/// A scene of this seed and number: what its cameras see, and its map.
pub(super) fn sample(config: &SceneConfig, seed: u64, scene: usize) -> Result<SceneSample, DataError> {
    let (road, cameras) = draw(config, seed, scene);
    let [height, width] = config.image_size;
    let images_shape = [COLOURS, cameras.len(), height, width];
    let mut images = zeros(&images_shape)?;
    let mut depth = config.no_depth(cameras.len())?;
    let mut noise = generator(seed, Stream::SceneNoise, scene as u64);
    for (number, camera) in cameras.iter().enumerate() {
        render::image(&road, camera, config.image_size, |pixel, colour, distance| {
            if let Some(depth) = depth.get_mut(number * height * width + pixel) {
                *depth = distance as f32;
            }
            for (channel, value) in colour.into_iter().enumerate() {
                let random: f64 = StandardNormal.sample(&mut noise);
                let place = (channel * cameras.len() + number) * height * width + pixel;
                images[place] = render::normalized(value + config.noise * random);
            }
        });
    }
    let map = render::map(&road, &cameras, config);
    let [rows, columns] = config.map.size();
    let map_shape = [ROAD_CLASSES.len() + 1, rows, columns];
    Ok(SceneSample { images, images_shape, depth, cameras, map, map_shape, scene })
}

/// The map of a scene alone.
pub(super) fn map(config: &SceneConfig, seed: u64, scene: usize) -> Vec<u8> {
    let (road, cameras) = draw(config, seed, scene);
    render::map(&road, &cameras, config)
}

/// A scene's road and cameras.
pub(super) fn draw(config: &SceneConfig, seed: u64, scene: usize) -> (Road, Vec<Camera>) {
    let mut rng = generator(seed, Stream::Scene, scene as u64);
    let road = Road::draw(config, &mut rng);
    let [turned, tilted, higher] = JITTER.map(|most| config.camera_jitter * most * rng.random_range(-1.0..1.0));
    let camera = |yaw: &f64| config.camera([yaw + turned, tilted], higher);
    (road, config.camera_yaws.iter().map(camera).collect())
}
