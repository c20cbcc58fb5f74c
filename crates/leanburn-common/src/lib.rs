//! What every crate needs and none owns.
//!
//! - [`Bytes`]: a size in memory or on disk, printed in GiB.
//! - [`ValidationError`]: one wrong value of a configuration, as a library finds it, without a file.
//! - [`atomic`]: files that appear whole or not at all.

pub mod atomic;
mod bytes;
mod validation;

pub use bytes::{Bytes, ParseBytesError};
pub use validation::{Validation, ValidationError, panic_if_invalid};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
