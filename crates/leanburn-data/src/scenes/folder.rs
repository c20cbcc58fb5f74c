//! Road scenes of a folder: images, maps and cameras as files.
//!
//! The layout is that of nuScenes for maps in monocular work: [Roddick and Cipolla](https://arxiv.org/abs/2003.13402) make such maps of its tables.

use super::batch::SceneSample;
use super::calibration::{self, Calibration};
use super::classes::NUSCENES_CLASSES;
use super::config::{COLOURS, SceneConfig, SceneMap};
use crate::error::DataError;
use crate::volumes::zeros;
use image::{DynamicImage, ImageBuffer, ImageReader, Luma, RgbImage};
use leanburn_common::Camera;
use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

/// What ImageNet's colours have on average, from 0 to 255, and how far they are from it.
const NORMALIZATION: [[f32; COLOURS]; 2] = [[123.675, 116.28, 103.53], [58.395, 57.12, 57.375]];
const GREYS_AGAIN: &str = "Save it again with 16 bits a pixel: of a map a bit for each class, and bit 14 for what is hidden; depths in 256ths of a metre.";
/// What a metre is in an image of depths.
const METRE: f32 = 256.0;

type Greys = ImageBuffer<Luma<u16>, Vec<u16>>;
const PARTS: [&str; 2] = ["train", "val"];

/// What a model took of a channel, as a colour from 0 to 1.
pub(super) fn colour_of(channel: usize, value: f32) -> f32 {
    let [mean, deviation] = NORMALIZATION.map(|of| of[channel]);
    ((value * deviation + mean) / 255.0).clamp(0.0, 1.0)
}

/// Where the files of scenes are, and their cameras: those to train on, behind them those that are held out.
#[derive(Debug)]
pub(super) struct Folder {
    scenes: Vec<Scene>,
    train: usize,
}

#[derive(Debug)]
struct Scene {
    image: PathBuf,
    map: PathBuf,
    /// Where depths would be.
    depth: PathBuf,
    camera: Calibration,
}

impl Folder {
    /// Finds the scenes, in the order of their names. If depths are asked for, some of those to train on must have them.
    pub(super) fn open(root: &Path, with_depth: bool) -> Result<Self, DataError> {
        let [train, val] = [names(root, PARTS[0])?, names(root, PARTS[1])?];
        let wanted: HashSet<&str> = train.iter().chain(&val).map(String::as_str).collect();
        let cameras = calibration::read(root, &wanted)?;
        let of = |part: &str, name: &String| {
            let place = |folder: &str| root.join(folder).join(part).join(format!("{name}.png"));
            let (image, map) = (place("img_dir"), place("ann_bev_dir"));
            let missing = |expected, found: String| {
                let remedy = "Each map needs an image of the same name, and a camera.";
                DataError::Mismatch { path: map.clone(), expected, found, remedy }
            };
            if !image.is_file() {
                return Err(missing(format!("an image {}", image.display()), "none".into()));
            }
            let Some(&camera) = cameras.get(name) else {
                return Err(missing(format!("a camera {name:?} in calib.json or v1.0-trainval"), "none".into()));
            };
            let depth = root.join("ann_bev_dir").join(format!("{part}_depth")).join(format!("{name}.png"));
            Ok(Scene { image, map, depth, camera })
        };
        let parts = PARTS.into_iter().zip([&train, &val]);
        let scenes: Result<_, _> = parts
            .flat_map(|(part, names)| names.iter().map(move |name| (part, name)))
            .map(|(part, name)| of(part, name))
            .collect();
        let folder = Self { scenes: scenes?, train: train.len() };
        if with_depth && !folder.scenes[..folder.train].iter().any(|scene| scene.depth.is_file()) {
            let remedy = "Put depths there, 16-bit greys in 256ths of a metre, or leave `depth` out.";
            let place = root.join("ann_bev_dir").join("train_depth");
            return Err(DataError::malformed("depths, NAME.png, for some of the maps", "none", remedy).at(&place));
        }
        Ok(folder)
    }

    /// The files of the images, in the order of the scenes.
    pub(super) fn images(&self) -> impl Iterator<Item = &Path> {
        self.scenes.iter().map(|scene| scene.image.as_path())
    }

    /// Scenes to train on, and those that are held out.
    pub(super) fn count(&self) -> [usize; 2] {
        [self.train, self.scenes.len() - self.train]
    }

    /// Reads a scene; its image is brought to the size that is asked for.
    pub(super) fn sample(&self, config: &SceneConfig, scene: usize) -> Result<SceneSample, DataError> {
        let files = &self.scenes[scene];
        let image = decoded(&files.image)?.into_rgb8();
        let size = [image.height() as usize, image.width() as usize];
        let images_shape = [COLOURS, 1, config.image_size[0], config.image_size[1]];
        let mut images = zeros(&images_shape)?;
        resize(&image, config.image_size, &mut images);
        let map = self.map(&config.map, scene)?;
        let [rows, columns] = config.map.size();
        let map_shape = [NUSCENES_CLASSES.len() + 1, rows, columns];
        let cameras = vec![camera(&files.camera, size, config.image_size)];
        let mut depth = config.no_depth(1)?;
        if config.depth && files.depth.is_file() {
            resize_depth(&greys(&files.depth)?, config.image_size, &mut depth);
        }
        Ok(SceneSample { images, images_shape, depth, cameras, map, map_shape, scene })
    }

    /// Reads a map, 0 or 1: `[classes, rows, columns]`, and one layer more that says what is seen. The row that is nearest is the first.
    pub(super) fn map(&self, expected: &SceneMap, scene: usize) -> Result<Vec<u8>, DataError> {
        let path = &self.scenes[scene].map;
        let (pixels, [rows, columns]) = (greys(path)?, expected.size());
        if [pixels.height() as usize, pixels.width() as usize] != [rows, columns] {
            return Err(DataError::Mismatch {
                path: path.clone(),
                expected: format!("a map of {rows} rows and {columns} columns, as scenes.map has it"),
                found: format!("{} and {}", pixels.height(), pixels.width()),
                remedy: "Write the ground of the maps into scenes.map: x, z and cell.",
            });
        }
        let is = |class: usize| pixels.as_raw().iter().map(move |bits| (bits >> class & 1) as u8);
        let hidden = is(NUSCENES_CLASSES.len()).map(|hidden| 1 - hidden);
        Ok((0..NUSCENES_CLASSES.len()).flat_map(is).chain(hidden).collect())
    }
}

/// The names of a part's maps.
fn names(root: &Path, part: &str) -> Result<Vec<String>, DataError> {
    let folder = root.join("ann_bev_dir").join(part);
    let entries = fs::read_dir(&folder).map_err(|error| DataError::io(&folder, "list", error))?;
    let mut names = Vec::new();
    for entry in entries {
        let path = entry.map_err(|error| DataError::io(&folder, "list", error))?.path();
        if path.extension().is_some_and(|extension| extension == "png") {
            names.extend(path.file_stem().map(|stem| stem.to_string_lossy().into_owned()));
        }
    }
    if names.is_empty() && part == PARTS[0] {
        let remedy = "Put the maps of the training scenes there, or leave `data_root` out for synthetic scenes.";
        return Err(DataError::malformed("maps, NAME.png", "none", remedy).at(&folder));
    }
    names.sort();
    Ok(names)
}

fn decoded(path: &Path) -> Result<DynamicImage, DataError> {
    let read = |error| DataError::io(path, "read", error);
    let reader = ImageReader::open(path).map_err(read)?.with_guessed_format().map_err(read)?;
    reader.decode().map_err(|error| {
        DataError::malformed("a PNG image", error.to_string(), "Save the image again as PNG.").at(path)
    })
}

fn greys(path: &Path) -> Result<Greys, DataError> {
    match decoded(path)? {
        DynamicImage::ImageLuma16(pixels) => Ok(pixels),
        other => {
            let found = format!("{:?}", other.color());
            Err(DataError::malformed("an image of 16-bit greys", found, GREYS_AGAIN).at(path))
        }
    }
}

/// A camera at the origin, for an image of another size than its file's.
fn camera(calibration: &Calibration, file: [usize; 2], size: [usize; 2]) -> Camera {
    let of = calibration.size.unwrap_or(file);
    let [rows, columns] = [0, 1].map(|axis| size[axis] as f64 / of[axis] as f64);
    let [across, down, along] = calibration.intrinsics;
    let intrinsics = [across.map(|value| value * columns), down.map(|value| value * rows), along];
    Camera { intrinsics, ..Camera::pinhole(1.0, size) }
}

/// Between the four pixels around each place, as far apart as they are; normalized, `[3, height, width]`.
fn resize(image: &RgbImage, [height, width]: [usize; 2], values: &mut [f32]) {
    let [from_height, from_width] = [image.height() as usize, image.width() as usize];
    let around = |place: usize, to: usize, from: usize| {
        let place = ((place as f32 + 0.5) * from as f32 / to as f32 - 0.5).clamp(0.0, from as f32 - 1.0);
        let first = place as usize;
        (first, (first + 1).min(from - 1), place - first as f32)
    };
    let columns: Vec<_> = (0..width).map(|column| around(column, width, from_width)).collect();
    let pixels = image.as_raw();
    let at =
        |row: usize, column: usize, channel: usize| f32::from(pixels[(row * from_width + column) * COLOURS + channel]);
    for (channel, plane) in values.chunks_exact_mut(height * width).enumerate() {
        let [mean, deviation] = NORMALIZATION.map(|of| of[channel]);
        for (row, line) in plane.chunks_exact_mut(width).enumerate() {
            let (above, below, down) = around(row, height, from_height);
            for (value, &(left, right, across)) in line.iter_mut().zip(&columns) {
                let [upper, lower] = [above, below]
                    .map(|row| at(row, left, channel) * (1.0 - across) + at(row, right, channel) * across);
                *value = (upper * (1.0 - down) + lower * down - mean) / deviation;
            }
        }
    }
}

/// The nearest pixel's depth in metres: between two of them there may be nothing. `[height, width]`.
fn resize_depth(image: &Greys, [height, width]: [usize; 2], values: &mut [f32]) {
    let [from_height, from_width] = [image.height() as usize, image.width() as usize];
    for (pixel, value) in values.iter_mut().enumerate().take(height * width) {
        let [row, column] = [pixel / width * from_height / height, pixel % width * from_width / width];
        *value = f32::from(image.as_raw()[row * from_width + column]) / METRE;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenes::SceneDataset;
    use image::{GrayImage, Rgb};
    use std::fs::File;
    use std::io::Write;

    const MATRIX: &str = "[[40, 0, 8], [0, 30, 6], [0, 0, 1]]";

    /// Two scenes to train on and one that is held out; images of 12 x 16, maps of 4 x 5 cells.
    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (part, name) in [("train", "b"), ("train", "a"), ("val", "c")] {
            for kind in ["img_dir", "ann_bev_dir"] {
                fs::create_dir_all(folder.path().join(kind).join(part)).unwrap();
            }
            let red = name.as_bytes()[0];
            let image = RgbImage::from_fn(16, 12, |column, row| Rgb([red, column as u8, row as u8]));
            image.save(folder.path().join(format!("img_dir/{part}/{name}.png"))).unwrap();
            // the first row, which is nearest, is drivable; a cell of it is a barrier too; the last column is hidden
            let bits = |column: u32, row: u32| {
                u16::from(row == 0) | u16::from([column, row] == [2, 0]) << 13 | u16::from(column == 4) << 14
            };
            let map = ImageBuffer::<Luma<u16>, _>::from_fn(5, 4, |column, row| Luma([bits(column, row)]));
            map.save(folder.path().join(format!("ann_bev_dir/{part}/{name}.png"))).unwrap();
        }
        write(&folder, "calib.json", &format!(r#"{{"a": {MATRIX}, "b": {MATRIX}, "c": {MATRIX}, "d": {MATRIX}}}"#));
        folder
    }

    fn write(folder: &tempfile::TempDir, name: &str, text: &str) {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        File::create(path).unwrap().write_all(text.as_bytes()).unwrap();
    }

    fn config(folder: &tempfile::TempDir) -> SceneConfig {
        let map = SceneMap { x: [-2.5, 2.5], z: [1.0, 5.0], cell: 1.0 };
        SceneConfig { data_root: Some(folder.path().into()), image_size: [12, 16], map, ..SceneConfig::default() }
    }

    #[test]
    fn scenes_are_read_with_their_cameras() {
        let folder = folder();
        let scenes = SceneDataset::open(&config(&folder), 1).unwrap();
        assert_eq!((scenes.len(), scenes.val_len()), (2, 1));
        let sample = scenes.val_scene(0).unwrap();
        assert_eq!((sample.images_shape, sample.map_shape), ([3, 1, 12, 16], [15, 4, 5]));
        let colour = |channel: usize, pixel: usize| {
            (scenes.colour(channel, sample.images[channel * 192 + pixel]) * 255.0).round()
        };
        assert_eq!([0, 1, 2].map(|channel| colour(channel, 7 * 16 + 9)), [99.0, 9.0, 7.0]);
        assert!((sample.images[192] - (0.0 - 116.28) / 57.12).abs() < 1e-6);
        let taken: Vec<usize> = (0..15 * 20).filter(|at| sample.map[*at] == 1).collect();
        let seen = (0..20).filter(|cell| cell % 5 != 4).map(|cell| 14 * 20 + cell);
        assert_eq!(taken, (0..5).chain([13 * 20 + 2]).chain(seen).collect::<Vec<_>>());
        assert_eq!(sample.cameras[0].pixel([1.0, 0.5, 10.0]).unwrap().0, [12.0, 7.5]);
        let shares = scenes.shares().unwrap();
        assert_eq!((shares.len(), shares[0], shares[13], shares[1]), (14, 0.25, 1.0 / 16.0, 0.0));
        assert_eq!(
            scenes.prior().unwrap().iter().filter(|cell| **cell == 1).count(),
            5,
            "4 that are seen, and the barrier"
        );
    }

    #[test]
    fn an_image_of_another_size_is_resized_with_its_camera() {
        let folder = folder();
        let scenes = SceneDataset::open(&SceneConfig { image_size: [6, 32], ..config(&folder) }, 1).unwrap();
        let sample = scenes.val_scene(0).unwrap();
        let value = |channel: usize, row: usize, column: usize| {
            scenes.colour(channel, sample.images[(channel * 6 + row) * 32 + column]) * 255.0
        };
        // rows 0 and 1 together; a quarter of a pixel right of the first, and left of it none
        assert!(
            (value(2, 0, 5) - 0.5).abs() < 1e-3 && (value(1, 3, 1) - 0.25).abs() < 1e-3 && value(1, 3, 0).abs() < 1e-3
        );
        assert_eq!(sample.cameras[0].pixel([1.0, 0.5, 10.0]).unwrap().0, [24.0, 3.75]);
    }

    #[test]
    fn depths_are_read_where_they_are() {
        let folder = folder();
        let config = SceneConfig { depth: true, ..config(&folder) };
        assert!(SceneDataset::open(&config, 1).unwrap_err().to_string().contains("train_depth"));
        fs::create_dir(folder.path().join("ann_bev_dir/train_depth")).unwrap();
        let depths = Greys::from_fn(32, 24, |column, row| Luma([(column * 256 + row) as u16]));
        depths.save(folder.path().join("ann_bev_dir/train_depth/a.png")).unwrap();
        let scenes = SceneDataset::open(&config, 1).unwrap();
        let known = (0..2).map(|index| scenes.train_scene(index).unwrap()).find(|sample| sample.scene == 0).unwrap();
        assert_eq!((known.depth.len(), known.depth[3 * 16 + 5]), (12 * 16, 10.0 + 6.0 / 256.0));
        assert_eq!(scenes.val_scene(0).unwrap().depth, [0.0; 12 * 16], "not known");
    }

    #[test]
    fn cameras_are_found_in_the_tables_too() {
        let folder = folder();
        fs::remove_file(folder.path().join("calib.json")).unwrap();
        let image = |token: &str, sensor: &str| {
            format!(
                r#"{{"token": "{token}", "calibrated_sensor_token": "{sensor}", "height": 24, "width": 32, "fileformat": "jpg"}}"#
            )
        };
        let images = ["a", "b", "c", "not asked for"].map(|name| image(name, "front")).join(", ");
        write(&folder, "v1.0-trainval/sample_data.json", &format!("[{images}, {}]", image("sweep", "lidar")));
        let sensors = format!(
            r#"[{{"token": "lidar", "camera_intrinsic": []}}, {{"token": "front", "rotation": [1, 0, 0, 0], "camera_intrinsic": {MATRIX}}}]"#
        );
        write(&folder, "v1.0-trainval/calibrated_sensor.json", &sensors);
        let scenes = SceneDataset::open(&config(&folder), 1).unwrap();
        // the tables' pixels are half as large as those of the images here
        assert_eq!(scenes.val_scene(0).unwrap().cameras[0].pixel([1.0, 0.5, 10.0]).unwrap().0, [6.0, 3.75]);
        write(&folder, "v1.0-trainval/calibrated_sensor.json", "[{\"token\": 3}]");
        let error = SceneDataset::open(&config(&folder), 1).unwrap_err().to_string();
        assert!(error.contains("calibrated_sensor.json") && error.contains("line 1"), "{error}");
    }

    #[test]
    fn what_is_broken_is_named() {
        let open = |folder: &tempfile::TempDir| SceneDataset::open(&config(folder), 1);
        let first = |folder: &tempfile::TempDir| open(folder).unwrap().val_scene(0).unwrap_err().to_string();
        let place = |folder: &tempfile::TempDir, name: &str| folder.path().join(name);
        let one = folder();
        fs::remove_file(place(&one, "img_dir/train/a.png")).unwrap();
        let error = open(&one).unwrap_err().to_string();
        assert!(error.contains("ann_bev_dir/train/a.png") && error.contains("img_dir/train/a.png"), "{error}");
        let one = folder();
        write(&one, "calib.json", &format!(r#"{{"a": {MATRIX}, "b": {MATRIX}}}"#));
        assert!(open(&one).unwrap_err().to_string().contains("camera \"c\""));
        fs::remove_file(place(&one, "calib.json")).unwrap();
        assert!(open(&one).unwrap_err().to_string().contains("sample_data.json"));
        let one = folder();
        fs::write(place(&one, "img_dir/val/c.png"), b"no image").unwrap();
        assert!(first(&one).contains("c.png"));
        GrayImage::new(5, 4).save(place(&one, "ann_bev_dir/val/c.png")).unwrap();
        RgbImage::new(16, 12).save(place(&one, "img_dir/val/c.png")).unwrap();
        assert!(first(&one).contains("16-bit greys, found L8"));
        ImageBuffer::<Luma<u16>, _>::new(5, 5).save(place(&one, "ann_bev_dir/val/c.png")).unwrap();
        assert!(first(&one).contains("4 rows and 5 columns, as scenes.map has it, found 5 and 5"));
        let one = folder();
        fs::remove_dir_all(place(&one, "ann_bev_dir")).unwrap();
        assert!(open(&one).unwrap_err().is_not_found());
    }
}
