//! YAML in, typed values out, every error at once with its line and column.
//!
//! ```text
//! text --tree--> nodes with places --overrides--> nodes --Section--> typed values
//!                                                    \___ errors, all of them ___/
//! ```
//!
//! A section of a configuration is a struct with a function that reads it from a [`Section`], one line a key: name, default,
//! limits. Nothing else knows the keys: unknown ones are those that nobody asked for. Nothing here knows a system.

mod choice;
mod config_error;
mod limits;
mod overrides;
mod reader;
mod suggest;
mod tree;
mod values;

pub use choice::Choice;
pub use config_error::{ConfigError, ConfigErrorKind, ConfigErrors, Place};
pub use limits::{Limits, MANY, POSITIVE};
pub use reader::Section;
pub use values::{PerAxis, PerLevel, PerPlane, Read, Wrong};

pub(crate) use overrides::{apply, put};
pub(crate) use reader::Reader;
pub use tree::{Entry, Node, Value};
pub(crate) use tree::{MAX_BYTES, too_large};
