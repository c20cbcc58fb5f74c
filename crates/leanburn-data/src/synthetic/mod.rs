//! Synthetic volumes, for trying things out and for tests.

mod phantom;
mod radar;

pub(crate) use phantom::{PHANTOM_CLASSES, PHANTOM_KINDS, PhantomKind, phantom_labels_of, phantom_of};
pub use phantom::{PhantomConfig, phantom, phantom_labels};
pub use radar::{RadarConfig, radar};
