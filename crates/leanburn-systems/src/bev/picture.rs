//! What a scene's cameras see, its map, and maps that were made of it.

use image::RgbImage;
use leanburn_data::{SceneDataset, SceneSample};

use crate::error::Result;
use crate::picture::scene;

/// Draws a scene beside its map, and beside further maps, `[classes, rows, columns]` each.
pub(crate) fn draw(data: &SceneDataset, sample: &SceneSample, further: &[(&'static str, &[u8])]) -> Result<RgbImage> {
    let [_, cameras, height, width] = sample.images_shape;
    let [layers, rows, columns] = sample.map_shape;
    let plane = height * width;
    let pixel = |camera: usize, pixel: usize| {
        [0, 1, 2].map(|channel| {
            let value = sample.images[(channel * cameras + camera) * plane + pixel];
            (data.colour(channel, value) * 255.0).round() as u8
        })
    };
    let images: Vec<Vec<[u8; 3]>> =
        (0..cameras).map(|camera| (0..plane).map(|at| pixel(camera, at)).collect()).collect();
    let (truth, seen) = sample.map.split_at((layers - 1) * rows * columns);
    let maps: Vec<(&'static str, &[u8])> = [("map", truth)].into_iter().chain(further.iter().copied()).collect();
    Ok(scene(&images, [height, width], &maps, seen, [rows, columns])?)
}
