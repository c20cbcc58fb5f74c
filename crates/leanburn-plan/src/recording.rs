//! A training step as a list of operations.

use burn::backend::ir::OperationIr;
use burn::backend::{Capture, Dispatch, DispatchDevice, set_default_dtypes};
use burn::tensor::Device;
use leanburn_ops::recording::as_on_cpu;

use crate::record_error::{RecordError, or_obstacle};
use crate::simulation::simulate;
use crate::{MemoryModel, Timeline};

/// The operations of a step in order, forward and backward.
#[derive(Clone, Debug)]
pub struct Recording {
    operations: Vec<OperationIr>,
}

/// What a recording stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Target {
    /// The CPU, where the operations of `leanburn-ops` are kernels of our own.
    #[default]
    Cpu,
    /// A device where they are made of Burn's operations.
    Gpu,
}

/// Runs `step` on a recording device with autodiff. It builds modules on that device, computes a loss, and runs backward
/// through [`leanburn_ops::backward`] (Burn's own rejects a recorded loss).
///
/// # Memory
///
/// A few hundred bytes an operation; no tensor has values. Time and memory do not depend on the tensors' sizes.
///
/// What is recorded is the last use of a tensor, not when its variable is dropped: one that a variable holds beyond its last use is
/// planned as gone. Pass tensors on by value where they are used last; that saves the memory, too.
///
/// # Errors
///
/// [`RecordError`] if the step does what cannot be recorded, with what to write instead: it seeds the device, reads a value, calls
/// Burn's own `backward`, or has tensors of another device. Burn says so by a panic, which is caught here; the process's panic hook
/// has reported it before. Any other panic goes on.
///
/// # Example
///
/// ```
/// use burn::nn::LinearConfig;
/// use burn::prelude::*;
///
/// use leanburn_common::Bytes;
/// use leanburn_plan::{FlexMemory, Target};
///
/// let (recording, ()) = leanburn_plan::record(Target::Cpu, |device| {
///     let layer = LinearConfig::new(1024, 1024).init(device);
///     let x = Tensor::<2>::zeros([65536, 1024], device);
///     let _ = leanburn_ops::backward(layer.forward(x).sum()).take_module(&layer);
/// })?;
/// let peak = recording.timeline(&FlexMemory).peak();
/// assert!(peak > Bytes::mib(512)); // and no gigabyte was touched
/// # Ok::<(), leanburn_plan::RecordError>(())
/// ```
pub fn record<T>(target: Target, step: impl FnOnce(&Device) -> T) -> Result<(Recording, T), RecordError> {
    let device = Device::capture();
    let mut result = None;
    let captured = or_obstacle(|| {
        device.capture_scope(|scope| {
            take_dtypes_of_the_cpu(&device);
            let step = || step(&device.clone().autodiff());
            result = Some(match target {
                Target::Cpu => as_on_cpu(step),
                Target::Gpu => step(),
            });
            scope.complete([], [])
        })
    });
    match captured? {
        Ok(captured) => Ok((Recording { operations: captured.graph.operations }, result.expect("the step has run"))),
        Err(error) => Err(RecordError::incomplete(error)),
    }
}

/// Has floats and integers be those that the CPU makes where nobody names a dtype; a recording device's own integers are twice as wide.
/// A card's are as wide as the CPU's.
fn take_dtypes_of_the_cpu(device: &Device) {
    let (own, cpu) = (device.settings(), Device::flex().settings());
    let (float, int, bool) = (cpu.float_dtype, cpu.int_dtype, own.bool_dtype);
    const NEW: &str = "a new device, which takes any dtype";
    let device = device.as_dispatch();
    set_default_dtypes::<Dispatch>(device, float, int, bool).expect(NEW);
    if let DispatchDevice::Capture(device) = device {
        set_default_dtypes::<Capture>(device, float, int, bool).expect(NEW); // autodiff asks the device underneath
    }
}

impl Recording {
    /// The operations in order.
    pub fn operations(&self) -> &[OperationIr] {
        &self.operations
    }

    /// What lives when, on a device that allocates as `memory` says.
    ///
    /// If [training steps](leanburn_ops::recording::mark_step) are marked, the last of them; else everything.
    pub fn timeline(&self, memory: &dyn MemoryModel) -> Timeline {
        simulate(&self.operations, memory)
    }
}

#[cfg(test)]
mod tests {
    use burn::nn::{Linear, LinearConfig};
    use burn::tensor::Tensor;
    use leanburn_ops::{Residency, ResidencyPolicy, backward};

    use super::*;
    use crate::{Cause, FlexMemory};

    const LAYERS: usize = 8;
    const ACTIVATION: u64 = 4096 * 64 * 4;

    fn peak(residency: Residency) -> u64 {
        let recording = record(Target::Cpu, |device| {
            let policy = ResidencyPolicy { default: residency, ..ResidencyPolicy::default() };
            let layers: Vec<Linear> = (0..LAYERS).map(|_| LinearConfig::new(64, 64).init(device)).collect();
            let x = Tensor::<2>::zeros([4096, 64], device);
            let y = layers.iter().fold(x, |x, layer| {
                policy.run("layer", layer, x, |layer: &Linear, x: Tensor<2>| layer.forward(x).tanh().sin())
            });
            assert_eq!(backward(y.sum()).take_module(&layers).len(), 2 * LAYERS);
        });
        let timeline = recording.unwrap().0.timeline(&FlexMemory);
        timeline.peak().get() - timeline.most(Cause::Workspace).get() // what threads keep follows the processor
    }

    #[test]
    fn the_peak_shows_saved_activations() {
        let (kept, recomputed) = (peak(Residency::Keep) / ACTIVATION, peak(Residency::Recompute) / ACTIVATION);
        let layers = LAYERS as u64;
        assert!((2 * layers..3 * layers + 6).contains(&kept), "{kept} activations");
        assert!((layers..layers + 8).contains(&recomputed), "{recomputed} activations");
    }
}
