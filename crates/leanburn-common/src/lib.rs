//! What every crate needs and none owns.
//!
//! - [`Bytes`]: a size in memory or on disk, printed in GiB.
//! - [`ValidationError`]: one wrong value of a configuration, as a library finds it, without a file.
//! - [`nearest()`]: the name that was probably meant.
//! - [`Camera`]: where the pixels of an image are in the world.
//! - [`atomic`]: files that appear whole or not at all.

pub mod atomic;
mod bytes;
mod camera;
mod nearest;
mod validation;

pub use bytes::{Bytes, ParseBytesError};
pub use camera::{Camera, Matrix3, Rays};
pub use nearest::{likeness, nearest};
pub use validation::{Validation, ValidationError, panic_if_invalid};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
