//! Which named segment of a model is being recorded.

use std::cell::Cell;
use std::sync::Arc;

use burn::tensor::Device;

use super::recorder::Recorder;
use crate::meanwhile::meanwhile;

pub(super) const SEGMENT: &str = "leanburn:segment:";
pub(super) const SEGMENT_END: &str = "leanburn:segment-end";
pub(super) const STREAMABLE: &str = "leanburn:streamable:";

thread_local! {
    static NAME: Cell<Option<Arc<str>>> = const { Cell::new(None) };
}

/// Runs `segment`, marked by its name on a recording device.
pub(crate) fn in_segment<T>(name: &str, device: Option<&Device>, segment: impl FnOnce() -> T) -> T {
    let Some(recorder) = device.and_then(Recorder::of) else { return segment() };
    meanwhile(
        |name| NAME.replace(name),
        Some(name.into()),
        || recorder.between(format!("{SEGMENT}{name}"), Vec::new(), SEGMENT_END, segment),
    )
}

/// Marks that the segment called `name` could be streamed, if `is_streamable` says so; does nothing on a device that computes.
pub(crate) fn mark_streamable(name: &str, device: &Device, is_streamable: impl FnOnce() -> bool) {
    if let Some(recorder) = Recorder::of(device).filter(|_| is_streamable()) {
        recorder.mark(format!("{STREAMABLE}{name}"), Vec::new());
    }
}

/// The innermost segment that is being recorded.
pub(crate) fn current_segment() -> Option<Arc<str>> {
    let name = NAME.take();
    NAME.set(name.clone());
    name
}
