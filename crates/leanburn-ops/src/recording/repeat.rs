//! What is recorded once and runs several times.

use burn::backend::ir::ScalarIr;
use burn::tensor::Device;

use super::recorder::Recorder;

pub(super) const REPEAT: &str = "leanburn:repeat";
pub(super) const REPEAT_END: &str = "leanburn:repeat-end";

/// Runs `run`; on a recording device it is marked as what is done to each part of a whole.
pub(crate) fn repeated<T>(device: &Device, whole: usize, part: usize, run: impl FnOnce() -> T) -> T {
    let Some(recorder) = Recorder::of(device) else { return run() };
    recorder.mark_with(REPEAT, Vec::new(), [whole, part].map(|size| ScalarIr::UInt(size as u64)).to_vec());
    let result = run();
    recorder.mark(REPEAT_END, Vec::new());
    result
}
