//! Scenes by their number.

use super::batch::SceneSample;
use super::config::SceneConfig;
use super::folder::{self, Folder};
use super::prior::Frequencies;
use super::{drawn, render};
use crate::error::DataError;
use crate::random::{Stream, generator};
use crate::sampling::split::share;
use rand::seq::SliceRandom;
use std::sync::OnceLock;

/// Road scenes: synthetic ones, each a pure function of the seed and its number, of which the last ones are held out; or those of a folder.
///
/// # Memory
/// Names and cameras of a folder's scenes: a scene is drawn, or read, when it is asked for.
///
/// # Example
/// ```
/// use leanburn_data::{ROAD_CLASSES, SceneConfig, SceneDataset};
///
/// let config = SceneConfig { count: 10, image_size: [24, 32], ..SceneConfig::default() };
/// let scenes = SceneDataset::open(&config, 7)?;
/// let scene = scenes.train_scene(0)?;
/// assert_eq!(scene.images_shape, [3, 1, 24, 32]);
/// assert_eq!(scene.map_shape, [ROAD_CLASSES.len() + 1, 196, 200]);
/// assert_eq!((scenes.len(), scenes.val_len()), (8, 2));
/// # Ok::<(), leanburn_data::DataError>(())
/// ```
#[derive(Debug)]
pub struct SceneDataset {
    config: SceneConfig,
    /// Of the order of training scenes.
    seed: u64,
    source: Source,
    /// Scenes to train on, and those that are held out, which come behind them.
    count: [usize; 2],
    /// The map that fits best, and the shares of the classes.
    prior: OnceLock<(Vec<u8>, Vec<f64>)>,
}

/// Where scenes come from.
#[derive(Debug)]
enum Source {
    Drawn { seed: u64 },
    Folder(Folder),
}

impl SceneDataset {
    /// The scenes of a configuration.
    ///
    /// # Errors
    /// Every validation error of the configuration; files that are missing, or do not belong together.
    pub fn open(config: &SceneConfig, seed: u64) -> Result<Self, DataError> {
        DataError::if_invalid(config.validate())?;
        let (source, count) = match &config.data_root {
            Some(root) => {
                let folder = Folder::open(root, config.depth)?;
                let count = folder.count();
                (Source::Folder(folder), count)
            }
            None => {
                let is_split = config.val_fraction > 0.0 && config.count > 1;
                let held_out = if is_split { share(config.count, config.val_fraction) } else { 0 };
                (Source::Drawn { seed }, [config.count - held_out, held_out])
            }
        };
        Ok(Self { config: config.clone(), seed, source, count, prior: OnceLock::new() })
    }

    /// Number of scenes to train on; one epoch has as many samples.
    pub fn len(&self) -> usize {
        self.count[0]
    }

    /// Whether there is nothing to train on, which no opened data set is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of scenes that are held out.
    pub fn val_len(&self) -> usize {
        self.count[1]
    }

    /// The images of a folder's scenes, in their fixed order; none of synthetic scenes.
    pub fn names(&self) -> Vec<String> {
        match &self.source {
            Source::Drawn { .. } => Vec::new(),
            Source::Folder(folder) => folder.images().map(|image| image.display().to_string()).collect(),
        }
    }

    /// The configuration it was opened with.
    pub fn config(&self) -> &SceneConfig {
        &self.config
    }

    /// Training sample `index`; indices run on over the epochs without end, each in an order of its own.
    ///
    /// # Errors
    /// If there is no memory, or a file cannot be read.
    pub fn train_scene(&self, index: u64) -> Result<SceneSample, DataError> {
        let count = self.len() as u64;
        let mut order: Vec<usize> = (0..self.len()).collect();
        order.shuffle(&mut generator(self.seed, Stream::EpochOrder, index / count));
        self.scene(order[(index % count) as usize])
    }

    /// Scene `index` of those that are held out.
    ///
    /// # Errors
    /// If `index` is not below [`SceneDataset::val_len`], there is no memory, or a file cannot be read.
    pub fn val_scene(&self, index: usize) -> Result<SceneSample, DataError> {
        if index >= self.val_len() {
            let expected = format!("a validation scene below {}", self.val_len());
            return Err(DataError::OutOfRange { expected, found: index.to_string() });
        }
        self.scene(self.len() + index)
    }

    /// The map that fits the training scenes best without looking at them: 0 or 1, `[classes, rows, columns]`. Of each class it has the
    /// cells that are of it in so many scenes that intersection over union is largest.
    ///
    /// # Errors
    /// If a map cannot be read.
    pub fn prior(&self) -> Result<&[u8], DataError> {
        Ok(&self.frequencies()?.0)
    }

    /// How often a cell that is seen in the training scenes is of each class.
    ///
    /// # Errors
    /// If a map cannot be read.
    pub fn shares(&self) -> Result<&[f64], DataError> {
        Ok(&self.frequencies()?.1)
    }

    fn frequencies(&self) -> Result<&(Vec<u8>, Vec<f64>), DataError> {
        if let Some(known) = self.prior.get() {
            return Ok(known);
        }
        let [rows, columns] = self.config.map.size();
        let mut frequencies = Frequencies::new(self.config.classes().len(), rows * columns);
        for scene in 0..self.len() {
            frequencies.add(&self.map(scene)?);
        }
        Ok(self.prior.get_or_init(|| (frequencies.best(), frequencies.shares())))
    }

    /// What a model took of a channel, as a colour from 0 to 1.
    pub fn colour(&self, channel: usize, value: f32) -> f32 {
        match &self.source {
            Source::Drawn { .. } => render::colour_of(value),
            Source::Folder(_) => folder::colour_of(channel, value),
        }
    }

    fn scene(&self, scene: usize) -> Result<SceneSample, DataError> {
        match &self.source {
            Source::Drawn { seed } => drawn::sample(&self.config, *seed, scene),
            Source::Folder(folder) => folder.sample(&self.config, scene),
        }
    }

    fn map(&self, scene: usize) -> Result<Vec<u8>, DataError> {
        match &self.source {
            Source::Drawn { seed } => Ok(drawn::map(&self.config, *seed, scene)),
            Source::Folder(folder) => folder.map(&self.config.map, scene),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenes::{ROAD_CLASSES, SceneMap};

    fn config() -> SceneConfig {
        let map = SceneMap { x: [-16.0, 16.0], z: [2.0, 34.0], cell: 1.0 };
        SceneConfig {
            count: 20,
            image_size: [48, 64],
            camera_yaws: vec![-50.0, 0.0, 50.0],
            map,
            ..SceneConfig::default()
        }
    }

    #[test]
    fn seed_and_number_decide_a_scene() {
        let scenes = |seed| SceneDataset::open(&config(), seed).unwrap();
        let (one, same, other) = (scenes(3), scenes(3), scenes(4));
        assert_eq!((one.len(), one.val_len()), (16, 4));
        assert_eq!(one.train_scene(5).unwrap(), same.train_scene(5).unwrap());
        assert_ne!(one.train_scene(5).unwrap().images, other.train_scene(5).unwrap().images);
        let epoch = |from: u64| {
            let mut numbers: Vec<_> = (from..from + 16).map(|index| one.train_scene(index).unwrap().scene).collect();
            let order = numbers.clone();
            numbers.sort_unstable();
            assert_eq!(numbers, (0..16).collect::<Vec<_>>(), "each once");
            order
        };
        assert_ne!(epoch(0), epoch(16));
        assert_eq!(one.val_scene(3).unwrap().scene, 19);
        assert!(one.val_scene(4).is_err());
    }

    /// The pixel that shows a cell of the map has the colour of its class: cameras and map belong together.
    #[test]
    fn cameras_see_the_map() {
        let config = SceneConfig { noise: 0.0, vehicles: 0, ..config() };
        let scenes = SceneDataset::open(&config, 1).unwrap();
        let [rows, columns] = config.map.size();
        let cells = rows * columns;
        let (mut seen, mut right) = (0, 0);
        for scene in 0..4 {
            let (road, _) = drawn::draw(&config, 1, scene);
            let sample = scenes.scene(scene).unwrap();
            for cell in (0..cells).filter(|cell| sample.map[ROAD_CLASSES.len() * cells + cell] == 1) {
                let [x, z] = config.map.middle(cell / columns, cell % columns);
                let pixels = sample.cameras.iter().enumerate();
                let (camera, [u, v]) = pixels
                    .filter_map(|(number, camera)| Some((number, camera.pixel([x, 0.0, z])?.0)))
                    .find(|(_, [u, v])| (0.0..63.0).contains(u) && (0.0..47.0).contains(v))
                    .unwrap_or((0, [0.0; 2]));
                let pixel = (v.round() as usize) * 64 + u.round() as usize;
                let value = |channel: usize| sample.images[(channel * 3 + camera) * 48 * 64 + pixel];
                let is_grass = value(1) > value(0) && value(1) > value(2);
                let is_bare = (0..4).all(|class| sample.map[class * cells + cell] == 0);
                // where the ground is one colour around the cell
                let around = [[-1.5, 0.0], [1.5, 0.0], [0.0, -1.5], [0.0, 1.5]];
                let classes = |[x, z]: [f64; 2]| road.classes(road.along([x, z]));
                if z < 15.0 && around.iter().all(|[dx, dz]| classes([x + dx, z + dz]) == classes([x, z])) {
                    seen += 1;
                    right += usize::from(is_grass == is_bare);
                }
            }
        }
        assert!(seen > 300 && right * 100 > seen * 97, "{right} of {seen}");
    }

    /// A camera finds again what it sees at the depth that it is said to have: on the ground, or above it on a vehicle.
    #[test]
    fn depths_are_those_of_what_is_seen() {
        let config = SceneConfig { depth: true, ..config() };
        let sample = SceneDataset::open(&config, 5).unwrap().train_scene(1).unwrap();
        assert_eq!(sample.depth.len(), 3 * 48 * 64);
        let (mut ground, mut above) = (0, 0);
        for (place, depth) in sample.depth.iter().enumerate().filter(|(_, depth)| **depth > 0.0) {
            let (camera, pixel) = (place / (48 * 64), place % (48 * 64));
            let [_, down, _] =
                sample.cameras[camera].point([(pixel % 64) as f64, (pixel / 64) as f64], f64::from(*depth));
            assert!((-2.3..1e-3).contains(&down), "{down}");
            *(if down > -1e-3 { &mut ground } else { &mut above }) += 1;
        }
        assert!(ground > 2000 && above > 10 && sample.depth.contains(&0.0), "{ground} {above}");
        let without = SceneDataset::open(&SceneConfig { depth: false, ..config }, 5).unwrap().train_scene(1).unwrap();
        assert!(without.depth.is_empty() && without.images == sample.images);
    }

    /// What is measured beside a model: better than nothing, and far from right.
    #[test]
    fn the_prior_is_a_map_of_its_own() {
        let scenes = SceneDataset::open(&config(), 2).unwrap();
        let prior = scenes.prior().unwrap();
        assert_eq!(prior.len(), 5 * 32 * 32);
        let taken: Vec<usize> =
            prior.chunks(32 * 32).map(|class| class.iter().filter(|cell| **cell == 1).count()).collect();
        assert!(taken.iter().all(|cells| *cells > 0) && taken[0] > taken[3], "{taken:?}");
    }
}
