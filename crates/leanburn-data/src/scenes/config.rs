//! Which scenes there are, and what sees them.

use super::classes::{NUSCENES_CLASSES, ROAD_CLASSES};
use crate::checks;
use crate::error::DataError;
use crate::volumes::{count, zeros};
use leanburn_common::{Camera, Validation, ValidationError};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Road scenes with known cameras, as pairs of images and maps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SceneConfig {
    /// A folder with images, maps and cameras in the layout of nuScenes for maps; its scenes take the place of synthetic ones.
    ///
    /// It has `img_dir/train/NAME.png` with colours, `ann_bev_dir/train/NAME.png` with a bit for each class and one for what is hidden, the same
    /// below `val` for scenes that are held out; `ann_bev_dir/train_depth/NAME.png` where depths are asked for; and `calib.json` with a camera matrix for each name, or the tables `v1.0-trainval`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data_root: Option<PathBuf>,
    /// Number of synthetic scenes.
    pub count: usize,
    /// Rows and columns of an image.
    pub image_size: [usize; 2],
    /// Directions of the cameras of a scene in degrees to the right of ahead.
    pub camera_yaws: Vec<f64>,
    /// What an image shows of the horizon, in degrees.
    pub field_of_view: f64,
    /// Metres between the ground and the cameras.
    pub camera_height: f64,
    /// By how much cameras differ from scene to scene: 1 for some degrees and centimetres, 0 for cameras that never move.
    pub camera_jitter: f64,
    /// The ground that is mapped.
    pub map: SceneMap,
    /// The most vehicles of a scene.
    pub vehicles: usize,
    /// Whether it is known how far what each pixel shows is away.
    pub depth: bool,
    /// Standard deviation of the images' noise; black is 0, white 1.
    pub noise: f64,
    /// Share of the scenes that is held out.
    pub val_fraction: f64,
    /// Threads that make batches; 0 makes them in the caller's.
    pub num_workers: usize,
    /// Finished batches that may wait, rounded up to a multiple of `num_workers`.
    pub prefetch: usize,
}

/// A part of the ground, in metres from the cameras.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SceneMap {
    /// From the left to the right.
    pub x: [f64; 2],
    /// From the nearest to the farthest.
    pub z: [f64; 2],
    /// Side of a cell.
    pub cell: f64,
}

impl Default for SceneMap {
    fn default() -> Self {
        Self { x: [-25.0, 25.0], z: [1.0, 50.0], cell: 0.25 }
    }
}

impl SceneMap {
    /// Rows, the nearest first, and columns.
    pub fn size(&self) -> [usize; 2] {
        [self.z, self.x].map(|[from, to]| ((to - from) / self.cell).round() as usize)
    }

    /// The middle of a cell, `[x, z]`.
    pub(super) fn middle(&self, row: usize, column: usize) -> [f64; 2] {
        [(self.x[0], column), (self.z[0], row)].map(|(from, cell)| from + (cell as f64 + 0.5) * self.cell)
    }
}

impl Default for SceneConfig {
    fn default() -> Self {
        Self {
            data_root: None,
            count: 200,
            image_size: [600, 800],
            camera_yaws: vec![0.0],
            field_of_view: 70.0,
            camera_height: 1.6,
            camera_jitter: 1.0,
            map: SceneMap::default(),
            vehicles: 6,
            depth: false,
            noise: 0.02,
            val_fraction: 0.2,
            num_workers: 2,
            prefetch: 2,
        }
    }
}

/// Channels of an image.
pub(super) const COLOURS: usize = 3;
/// More cells than this along a side are taken for a typing error.
const MOST_CELLS: f64 = 4096.0;

impl SceneConfig {
    /// What the cells of a map may be, several at a time.
    pub fn classes(&self) -> &'static [&'static str] {
        if self.data_root.is_some() { &NUSCENES_CLASSES } else { &ROAD_CLASSES }
    }

    /// Everything that is wrong with the values.
    pub fn validate(&self) -> Vec<ValidationError> {
        let mut validation = Validation::default();
        if self.data_root.is_some() {
            let expected = "one camera, since each image of a folder has a map of its own";
            validation.check(
                self.camera_yaws.len() == 1,
                "camera_yaws",
                expected,
                self.camera_yaws.len(),
                "leave the key out",
            );
        }
        checks::synthetic(&mut validation, self.count);
        let [height, width] = self.image_size;
        let sound = height > 1 && width > 1 && count(&[COLOURS, self.camera_yaws.len(), height, width]).is_ok();
        let expected = "rows and columns, 2 or more each, that fit in memory";
        validation.check(sound, "image_size", expected, format!("{:?}", self.image_size), "use smaller images");
        let yaws = !self.camera_yaws.is_empty() && self.camera_yaws.iter().all(|yaw| yaw.is_finite());
        let (expected, found) = ("a direction in degrees for each camera", format!("{:?}", self.camera_yaws));
        validation.check(yaws, "camera_yaws", expected, found, "write [0] for one camera that looks ahead");
        let sound = self.field_of_view >= 5.0 && self.field_of_view <= 150.0;
        validation.check(sound, "field_of_view", "5 to 150 degrees", self.field_of_view, "write degrees, such as 70");
        let sound = self.camera_height > 0.0 && self.camera_height <= 100.0;
        validation.check(sound, "camera_height", "metres above 0, at most 100", self.camera_height, "write 1.6");
        let at_least_zero = [("camera_jitter", self.camera_jitter, 10.0), ("noise", self.noise, 1.0)];
        for (key, value, most) in at_least_zero {
            let expected = format!("a number from 0 to {most}");
            validation.check((0.0..=most).contains(&value), key, &expected, value, "write 0 for none");
        }
        validation.check(self.vehicles <= 1000, "vehicles", "at most 1000", self.vehicles, "write fewer");
        self.check_map(&mut validation);
        checks::val_fraction(&mut validation, self.val_fraction);
        checks::loading(&mut validation, self.num_workers, self.prefetch);
        validation.errors()
    }

    fn check_map(&self, validation: &mut Validation) {
        let SceneMap { x, z, cell } = self.map;
        let is_cell = cell.is_finite() && cell > 0.0;
        validation.check(is_cell, "map.cell", "metres above 0", cell, "write the side of a cell, such as 0.25");
        for (key, [from, to]) in [("map.x", x), ("map.z", z)] {
            let cells = (to - from) / cell;
            let is_range = from.is_finite() && to.is_finite() && to > from;
            let sound = is_range && (!is_cell || (cells <= MOST_CELLS && (cells - cells.round()).abs() < 1e-6));
            let expected = format!("[from, to] in metres, a whole number of cells of {cell}, at most {MOST_CELLS}");
            validation.check(sound, key, &expected, format!("[{from}, {to}]"), "write a range such as [-25, 25]");
        }
    }

    /// Depths that are not known yet, of so many cameras; none where they are not asked for.
    pub(super) fn no_depth(&self, cameras: usize) -> Result<Vec<f32>, DataError> {
        let [height, width] = self.image_size;
        if self.depth { zeros(&[cameras, height, width]) } else { Ok(Vec::new()) }
    }

    /// The cameras of a scene where nothing differs from scene to scene.
    pub fn cameras(&self) -> Vec<Camera> {
        self.camera_yaws.iter().map(|yaw| self.camera([*yaw, 0.0], 0.0)).collect()
    }

    /// A camera of a direction, to the right and down in degrees, so much higher than the others.
    pub(super) fn camera(&self, [yaw, pitch]: [f64; 2], higher: f64) -> Camera {
        let [_, width] = self.image_size;
        let focal_length = width as f64 / 2.0 / (self.field_of_view.to_radians() / 2.0).tan();
        let (turn, tilt) = (yaw.to_radians().sin_cos(), pitch.to_radians().sin_cos());
        let ((sin_yaw, cos_yaw), (sin_pitch, cos_pitch)) = (turn, tilt);
        let rotation = [
            [cos_yaw, -sin_yaw * sin_pitch, sin_yaw * cos_pitch],
            [0.0, cos_pitch, sin_pitch],
            [-sin_yaw, -cos_yaw * sin_pitch, cos_yaw * cos_pitch],
        ];
        Camera::pinhole(focal_length, self.image_size).turned(rotation).at([0.0, -self.camera_height - higher, 0.0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_is_found() {
        let keys = |config: SceneConfig| config.validate().into_iter().map(|error| error.key).collect::<Vec<_>>();
        let valid = SceneConfig::default;
        assert!(keys(valid()).is_empty());
        assert_eq!(keys(SceneConfig { count: 0, ..valid() }), ["count"]);
        assert_eq!(keys(SceneConfig { image_size: [1, 8], ..valid() }), ["image_size"]);
        assert_eq!(keys(SceneConfig { camera_yaws: vec![], ..valid() }), ["camera_yaws"]);
        assert_eq!(keys(SceneConfig { field_of_view: 180.0, ..valid() }), ["field_of_view"]);
        assert_eq!(keys(SceneConfig { camera_height: f64::NAN, ..valid() }), ["camera_height"]);
        assert_eq!(keys(SceneConfig { camera_jitter: -1.0, noise: 2.0, ..valid() }), ["camera_jitter", "noise"]);
        assert_eq!(keys(SceneConfig { vehicles: 1 << 20, ..valid() }), ["vehicles"]);
        let map = |map| keys(SceneConfig { map, ..valid() });
        assert_eq!(map(SceneMap { cell: 0.0, ..SceneMap::default() }), ["map.cell"]);
        assert_eq!(map(SceneMap { x: [5.0, -5.0], z: [1.0, 1.3], cell: 0.25 }), ["map.x", "map.z"]);
        assert_eq!(keys(SceneConfig { val_fraction: 1.0, ..valid() }), ["val_fraction"]);
    }

    #[test]
    fn scenes_of_a_folder_have_one_camera_and_classes_of_their_own() {
        let folder = SceneConfig { data_root: Some("nuScenes".into()), ..SceneConfig::default() };
        assert_eq!((folder.classes().len(), SceneConfig::default().classes().len()), (14, 5));
        assert!(folder.validate().is_empty());
        let [error] = &SceneConfig { camera_yaws: vec![0.0, 60.0], ..folder }.validate()[..] else {
            panic!("one error")
        };
        assert!(error.key == "camera_yaws", "{error}");
    }

    #[test]
    fn the_default_map_is_the_guides_and_cameras_look_where_they_should() {
        let config = SceneConfig { camera_yaws: vec![0.0, 90.0], ..SceneConfig::default() };
        assert_eq!(config.map.size(), [196, 200]);
        let middle = [399.5, 299.5];
        let seen: Vec<_> = config.cameras().iter().map(|camera| camera.point(middle, 10.0)).collect();
        let expected = [[0.0, -1.6, 10.0], [10.0, -1.6, 0.0]];
        assert!(seen.iter().flatten().zip(expected.iter().flatten()).all(|(a, b)| (a - b).abs() < 1e-9), "{seen:?}");
        let down = config.camera([0.0, 30.0], 0.0).point(middle, 2.0);
        assert!((down[1] - (2.0 * 0.5 - 1.6)).abs() < 1e-9, "{down:?}");
    }
}
