//! The `leanburn` command as a library: configuration, run folders, reports and the commands themselves.

pub mod command;
pub mod config;
pub mod console;
pub mod device;
pub mod error;
pub mod guide_config;
pub mod planning;
pub mod progress;
pub mod report;
pub mod run_folder;
mod volume;
pub mod workload;
