//! What every crate needs and none owns.
//!
//! - [`Bytes`]: a size in memory or on disk, printed in GiB.
//! - [`ValidationError`]: one wrong value of a configuration, as a library finds it, without a file.
//! - [`nearest()`]: the name that was probably meant.
//! - [`atomic`]: files that appear whole or not at all.

pub mod atomic;
mod bytes;
mod nearest;
mod validation;

pub use bytes::{Bytes, ParseBytesError};
pub use nearest::{likeness, nearest};
pub use validation::{Validation, ValidationError, panic_if_invalid};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
