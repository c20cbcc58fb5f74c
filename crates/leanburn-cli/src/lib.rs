//! The `leanburn` command as a library: arguments, tables, progress, report pages. What it does is done by `leanburn-systems`.

pub mod command;
pub mod console;
pub mod diagnostic;
pub mod error;
pub mod progress;
pub mod report;
