//! Road scenes: what cameras see of them, and maps of the ground; synthetic ones, and those of a folder.

mod batch;
mod calibration;
mod classes;
mod config;
mod dataset;
mod drawn;
mod folder;
mod prior;
mod render;
mod road;

pub use batch::{SceneBatch, SceneSample};
pub use classes::{NUSCENES_CLASSES, ROAD_CLASSES};
pub use config::{SceneConfig, SceneMap};
pub use dataset::SceneDataset;
