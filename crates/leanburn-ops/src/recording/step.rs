//! Where a training step begins.

use burn::tensor::Device;

use super::recorder::Recorder;

pub(super) const STEP: &str = "leanburn:step";

/// Marks that a training step begins; does nothing on a device that computes.
pub fn mark_step(device: &Device) {
    if let Some(recorder) = Recorder::of(device) {
        recorder.mark(STEP, Vec::new());
    }
}
