//! Rules that several configurations share.

use crate::volumes::count;
use leanburn_common::Validation;
use std::path::PathBuf;

/// More threads than this are taken for a typing error.
const MOST_WORKERS: usize = 256;
/// More waiting batches than this are taken for a typing error.
const MOST_BATCHES: usize = 4096;
/// More synthetic volumes than this are taken for a typing error.
const MOST_SYNTHETIC: usize = 1 << 20;

/// A number from 0 to 1.
pub(crate) fn fraction(validation: &mut Validation, key: &str, value: f64) {
    let sound = (0.0..=1.0).contains(&value);
    validation.check(sound, key, "a number from 0 to 1", value, "write a share, such as 0.5");
}

/// Lengths of a grid whose values fit in memory.
pub(crate) fn grid(validation: &mut Validation, key: &str, extent: [usize; 3]) {
    let sound = !extent.contains(&0) && count(&extent).is_ok();
    let expected = "three lengths of 1 or more voxels that fit in memory";
    validation.check(sound, key, expected, format!("{extent:?}"), "use a smaller grid");
}

/// The percentiles that become 0 and 1.
pub(crate) fn percentiles(validation: &mut Validation, percentiles: [f64; 2]) {
    let [low, high] = percentiles;
    let sound = 0.0 <= low && low < high && high <= 100.0;
    let (expected, found) = ("two ascending numbers from 0 to 100", format!("{percentiles:?}"));
    validation.check(sound, "percentiles", expected, found, "write the lower one first, such as [0.5, 99.5]");
}

/// The share that is held out.
pub(crate) fn val_fraction(validation: &mut Validation, fraction: f64) {
    let sound = (0.0..1.0).contains(&fraction);
    let expected = "0 (no validation) or more, and below 1";
    validation.check(sound, "val_fraction", expected, fraction, "hold out a smaller share, such as 0.2");
}

/// Threads and batches of a loader.
pub(crate) fn loading(validation: &mut Validation, num_workers: usize, prefetch: usize) {
    let expected = format!("at most {MOST_WORKERS} threads");
    validation.check(num_workers <= MOST_WORKERS, "num_workers", &expected, num_workers, "use fewer threads");
    let expected = format!("at most {MOST_BATCHES} batches");
    validation.check(prefetch <= MOST_BATCHES, "prefetch", &expected, prefetch, "prefetch fewer batches");
}

/// The number of synthetic volumes.
pub(crate) fn synthetic(validation: &mut Validation, count: usize) {
    let expected = format!("1 to {MOST_SYNTHETIC} volumes");
    validation.check((1..=MOST_SYNTHETIC).contains(&count), "count", &expected, count, "make at least one");
}

/// Names of files or folders; an empty list is sound.
pub(crate) fn paths(validation: &mut Validation, key: &str, paths: &[PathBuf]) {
    let sound = paths.iter().all(|path| !path.as_os_str().is_empty());
    validation.check(sound, key, "files or folders", "an empty name", "drop the empty name");
}
