//! Where an operation of this crate begins and ends, and when backward has gone through it.

use burn::backend::{DispatchTensor, TensorMetadata};
use burn::tensor::Device;

use super::recorder::{Recorder, recorded};

pub(super) const OPERATION: &str = "leanburn:operation";
pub(super) const OPERATION_END: &str = "leanburn:operation-end";
pub(super) const OPERATION_CONSUMED: &str = "leanburn:operation-consumed";

/// Runs `operation` on its inputs, marked with them on a recording device.
pub(crate) fn in_operation<T, const N: usize>(
    inputs: [Option<DispatchTensor>; N],
    operation: impl FnOnce([Option<DispatchTensor>; N]) -> T,
) -> T {
    let present = inputs.iter().flatten();
    let Some(recorder) = present.clone().next().and_then(|input| Recorder::of(&Device::new(input.device()))) else {
        return operation(inputs);
    };
    let marked = present.cloned().map(recorded).collect();
    recorder.between(OPERATION, marked, OPERATION_END, || operation(inputs))
}

/// Marks that backward has gone through an operation; does nothing on a device that computes.
pub(crate) fn operation_consumed(device: &Device) {
    if let Some(recorder) = Recorder::of(device) {
        recorder.mark(OPERATION_CONSUMED, Vec::new());
    }
}
