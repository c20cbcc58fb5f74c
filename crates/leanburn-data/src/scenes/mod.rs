//! Synthetic road scenes: what cameras see of them, and maps of the ground.

mod batch;
mod config;
mod dataset;
mod prior;
mod render;
mod road;

pub use batch::{SceneBatch, SceneSample};
pub use config::{SceneConfig, SceneMap};
pub use dataset::SceneDataset;
pub use road::ROAD_CLASSES;
