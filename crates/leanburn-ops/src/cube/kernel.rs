//! A kernel with its arguments: launched on a GPU, or written down on a recording device.

use burn::tensor::Device;

use crate::recording::{Call, Recorder};

/// A kernel of this crate with its arguments.
pub(crate) trait Kernel: Sized {
    /// What a recording calls it.
    const NAME: &'static str;

    /// What it computes.
    type Output;

    /// The device of its tensors.
    fn device(&self) -> Device;

    /// Writes inputs, costs and outputs of the call down.
    fn recorded(self, call: Call) -> Self::Output;

    /// Launches it.
    fn launched(self) -> Self::Output;
}

/// Runs a kernel, on a device that has [`Engine::Cube`](crate::engine::Engine::Cube).
pub(crate) fn run<K: Kernel>(kernel: K) -> K::Output {
    match Recorder::of(&kernel.device()) {
        Some(recorder) => kernel.recorded(Call::new(recorder, K::NAME)),
        None => kernel.launched(),
    }
}
