//! Scenes as a model takes them, one and several together.

use crate::error::DataError;
use crate::volumes::zeros;
use leanburn_common::Camera;
use std::path::PathBuf;

/// A scene: what its cameras saw, where they stood, and its map.
#[derive(Debug, Clone, PartialEq)]
pub struct SceneSample {
    /// Normalized colours, `[3, cameras, height, width]`.
    pub images: Vec<f32>,
    /// `[3, cameras, height, width]`.
    pub images_shape: [usize; 4],
    /// Metres along the camera's axis to what each pixel shows, 0 where it is not known, `[cameras, height, width]`; empty where it is not
    /// asked for.
    pub depth: Vec<f32>,
    /// The cameras.
    pub cameras: Vec<Camera>,
    /// 0 or 1, `[classes + 1, rows, columns]`: whether a cell is of a class, and behind the classes whether it lies before a camera.
    pub map: Vec<u8>,
    /// `[classes + 1, rows, columns]`.
    pub map_shape: [usize; 3],
    /// Its number.
    pub scene: usize,
}

/// Several scenes, one behind the other.
#[derive(Debug, Clone, PartialEq)]
pub struct SceneBatch {
    /// Normalized colours, `[batch_size, 3, cameras, height, width]`.
    pub images: Vec<f32>,
    /// `[batch_size, 3, cameras, height, width]`.
    pub images_shape: [usize; 5],
    /// `[batch_size, 1, cameras, height, width]`, or empty; see [`SceneSample::depth`].
    pub depth: Vec<f32>,
    /// The cameras of each scene.
    pub cameras: Vec<Vec<Camera>>,
    /// 0 or 1, `[batch_size, classes + 1, 1, rows, columns]`; see [`SceneSample::map`].
    pub map: Vec<u8>,
    /// `[batch_size, classes + 1, 1, rows, columns]`.
    pub map_shape: [usize; 5],
}

impl SceneBatch {
    /// Puts so many scenes together as they come; no more than one of them is in memory.
    pub(crate) fn gather(
        batch_size: usize,
        mut scenes: impl Iterator<Item = Result<SceneSample, DataError>>,
    ) -> Result<Self, DataError> {
        let mut next = || {
            let too_few = || {
                DataError::malformed("a scene for each place of a batch", "fewer", "Ask for a batch size of 1 or more.")
            };
            scenes.next().unwrap_or_else(|| Err(too_few()))
        };
        let first = next()?;
        let ([colours, cameras, height, width], [layers, rows, columns]) = (first.images_shape, first.map_shape);
        let images_shape = [batch_size, colours, cameras, height, width];
        let mut batch = Self {
            images: zeros(&images_shape)?,
            images_shape,
            depth: if first.depth.is_empty() { Vec::new() } else { zeros(&[batch_size, cameras, height, width])? },
            cameras: Vec::with_capacity(batch_size),
            map: vec![0; batch_size * layers * rows * columns],
            map_shape: [batch_size, layers, 1, rows, columns],
        };
        batch.put(first)?;
        for _ in 1..batch_size {
            batch.put(next()?)?;
        }
        Ok(batch)
    }

    fn put(&mut self, scene: SceneSample) -> Result<(), DataError> {
        let place = self.cameras.len();
        let (images, map) = (scene.images.len(), scene.map.len());
        if self.images.len() != images * self.images_shape[0] || self.map.len() != map * self.images_shape[0] {
            return Err(DataError::Mismatch {
                path: PathBuf::from(format!("scene {}", scene.scene)),
                expected: format!(
                    "images and maps of the sizes of the batch, {:?} and {:?}",
                    self.images_shape, self.map_shape
                ),
                found: format!("{:?} and {:?}", scene.images_shape, scene.map_shape),
                remedy: "Put scenes of one configuration together.",
            });
        }
        self.images[place * images..][..images].copy_from_slice(&scene.images);
        let depth = scene.depth.len();
        self.depth[place * depth..][..depth].copy_from_slice(&scene.depth);
        self.map[place * map..][..map].copy_from_slice(&scene.map);
        self.cameras.push(scene.cameras);
        Ok(())
    }
}
