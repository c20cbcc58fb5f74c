//! The `scenes` section; its struct belongs to `leanburn-data`, which documents the keys.

use leanburn_data::{SceneConfig, SceneMap};

use crate::yaml::{MANY, PerPlane, Section};

pub(crate) fn read_scenes(section: &mut Section<'_>) -> SceneConfig {
    let default = SceneConfig::default();
    SceneConfig {
        data_root: section.get("data_root", default.data_root),
        count: section.number("count", default.count, 1..),
        image_size: section.number("image_size", PerPlane(default.image_size), 1..=MANY).0,
        camera_yaws: section.get("camera_yaws", default.camera_yaws),
        field_of_view: section.get("field_of_view", default.field_of_view),
        camera_height: section.get("camera_height", default.camera_height),
        camera_jitter: section.get("camera_jitter", default.camera_jitter),
        map: section.section("map", |section| SceneMap {
            x: section.get("x", default.map.x),
            z: section.get("z", default.map.z),
            cell: section.get("cell", default.map.cell),
        }),
        vehicles: section.number("vehicles", default.vehicles, 0..=MANY),
        depth: section.get("depth", default.depth),
        noise: section.get("noise", default.noise),
        val_fraction: section.number("val_fraction", default.val_fraction, 0..1),
        num_workers: section.number("num_workers", default.num_workers, 0..=MANY),
        prefetch: section.number("prefetch", default.prefetch, 0..=MANY),
    }
}
