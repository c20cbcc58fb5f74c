//! Which part of a volume is used when: the split, patches for training and validation, sliding windows.

pub(crate) mod foreground;
pub(crate) mod patch;
pub(crate) mod places;
mod sliding;
pub(crate) mod split;

pub use sliding::{Blending, SlidingWindow};
