//! The parts of a training step: backward, first and second runs of recomputed segments, the update, what runs without autodiff.

use burn::backend::{DispatchAutodiffContext, DispatchTensor, TensorMetadata};
use burn::tensor::Device;

use super::recorder::{Recorder, recorded};

pub(super) const PASS_END: &str = "leanburn:pass-end";

/// A part of a training step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Pass {
    /// From a loss, or from the outputs of a second run, to gradients.
    Backward,
    /// The run of a recomputed segment that records no graph. Its marker has the segment's tensors as inputs.
    FirstRun,
    /// Within backward, the run of a recomputed segment that records one.
    SecondRun,
    /// From gradients to new weights.
    Update,
    /// Within forward, what runs without autodiff: networks that a loss compares with.
    Plain,
}

impl Pass {
    const ALL: [(Self, &'static str); 5] = [
        (Self::Backward, "leanburn:backward"),
        (Self::FirstRun, "leanburn:first-run"),
        (Self::SecondRun, "leanburn:second-run"),
        (Self::Update, "leanburn:update"),
        (Self::Plain, "leanburn:plain"),
    ];

    fn id(self) -> &'static str {
        Self::ALL.iter().find(|(pass, _)| *pass == self).expect("all are listed").1
    }

    pub(super) fn of_id(id: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, pass)| *pass == id).map(|(pass, _)| *pass)
    }
}

/// Runs `pass`, marked as such on a recording device.
pub fn in_pass<T>(pass: Pass, device: &Device, run: impl FnOnce() -> T) -> T {
    match Recorder::of(device) {
        None => run(),
        Some(recorder) => recorder.between(pass.id(), Vec::new(), PASS_END, run),
    }
}

/// Runs the first run of a recomputed segment, marked with its tensors under autodiff on a recording device.
pub(crate) fn in_first_run<T>(tensors: Vec<DispatchTensor>, run: impl FnOnce(Vec<DispatchTensor>) -> T) -> T {
    let under_autodiff = tensors.iter().filter(|tensor| tensor.autodiff != DispatchAutodiffContext::Disabled);
    let device = under_autodiff.clone().next().map(|tensor| Device::new(tensor.device()));
    let Some(recorder) = device.and_then(|device| Recorder::of(&device)) else { return run(tensors) };
    let inputs = under_autodiff.cloned().map(recorded).collect();
    recorder.between(Pass::FirstRun.id(), inputs, PASS_END, || run(tensors))
}
