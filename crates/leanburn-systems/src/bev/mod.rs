//! Maps of the ground from the images of cameras: Lift, Splat, Shoot with a Swin transformer.

mod batch;
mod objective;
mod picture;
mod section;
mod system;
mod workload;

pub use batch::SceneViews;
pub use objective::BevObjectiveSection;
pub use section::{BackboneSection, BevSection};
pub use workload::BevWorkload;

pub(crate) use picture::draw;
