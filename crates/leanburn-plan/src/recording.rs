//! A training step as a list of operations.

use std::collections::HashMap;

use burn::backend::ir::{OperationIr, TensorId};
use burn::tensor::Device;

/// A step that cannot be recorded.
#[derive(Debug, thiserror::Error)]
#[error("the step cannot be recorded: {reason}; build its modules and tensors on the device that it is given")]
pub struct RecordError {
    reason: String,
}

/// The operations of a step in order, forward and backward.
#[derive(Clone, Debug)]
pub struct Recording {
    operations: Vec<OperationIr>,
}

/// Runs `step` on a recording device with autodiff. It builds modules on that device, computes a loss, and runs backward
/// through [`leanburn_ops::backward`] (Burn's own refuses a recorded loss).
///
/// # Memory
///
/// A few hundred bytes an operation; no tensor has values. Time and memory do not depend on the tensors' sizes.
///
/// # Errors
///
/// [`RecordError`] if the step leaves the device.
///
/// # Example
///
/// ```
/// use burn::nn::LinearConfig;
/// use burn::prelude::*;
///
/// let recording = leanburn_plan::record(|device| {
///     let layer = LinearConfig::new(1024, 1024).init(device);
///     let x = Tensor::<2>::zeros([65536, 1024], device);
///     let _ = leanburn_ops::backward(layer.forward(x).sum()).take_module(&layer);
/// })?;
/// assert!(recording.peak_live_bytes() > 2 * 65536 * 1024 * 4); // and no gigabyte was touched
/// # Ok::<(), leanburn_plan::RecordError>(())
/// ```
pub fn record(step: impl FnOnce(&Device)) -> Result<Recording, RecordError> {
    let device = Device::capture();
    let captured = device.capture_scope(|scope| {
        step(&device.clone().autodiff());
        scope.complete([], [])
    });
    match captured {
        Ok(captured) => Ok(Recording { operations: captured.graph.operations }),
        Err(error) => Err(RecordError { reason: format!("{error:?}") }),
    }
}

impl Recording {
    /// The operations in order.
    pub fn operations(&self) -> &[OperationIr] {
        &self.operations
    }

    /// The most bytes of tensors that are alive at once. A tensor lives from the operation that makes it to the last one
    /// that reads it; every tensor counts for itself.
    pub fn peak_live_bytes(&self) -> u64 {
        let mut last_use: HashMap<TensorId, usize> = HashMap::new();
        for (index, operation) in self.operations.iter().enumerate() {
            last_use.extend(operation.inputs().chain(operation.outputs()).map(|tensor| (tensor.id, index)));
        }
        let mut alive: HashMap<TensorId, u64> = HashMap::new();
        let (mut live, mut peak) = (0, 0);
        for (index, operation) in self.operations.iter().enumerate() {
            for tensor in operation.outputs() {
                let bytes = (tensor.shape.num_elements() * tensor.dtype.size()) as u64;
                if alive.insert(tensor.id, bytes).is_none() {
                    live += bytes;
                }
            }
            peak = peak.max(live);
            for tensor in operation.inputs().chain(operation.outputs()) {
                if last_use[&tensor.id] == index {
                    live -= alive.remove(&tensor.id).unwrap_or(0);
                }
            }
        }
        peak
    }
}

#[cfg(test)]
mod tests {
    use burn::nn::{Linear, LinearConfig};
    use burn::tensor::Tensor;
    use leanburn_ops::{Residency, ResidencyPolicy, backward};

    use super::*;

    const LAYERS: usize = 8;
    const ACTIVATION: u64 = 4096 * 64 * 4;

    fn peak(residency: Residency) -> u64 {
        let recording = record(|device| {
            let policy = ResidencyPolicy { default: residency, rules: Vec::new() };
            let layers: Vec<Linear> = (0..LAYERS).map(|_| LinearConfig::new(64, 64).init(device)).collect();
            let x = Tensor::<2>::zeros([4096, 64], device);
            let y = layers.iter().fold(x, |x, layer| {
                policy.run("layer", layer, x, |layer: &Linear, x: Tensor<2>| layer.forward(x).tanh().sin())
            });
            assert_eq!(backward(y.sum()).take_module(&layers).len(), 2 * LAYERS);
        });
        recording.unwrap().peak_live_bytes()
    }

    #[test]
    fn the_peak_shows_what_is_kept() {
        let (kept, recomputed) = (peak(Residency::Keep) / ACTIVATION, peak(Residency::Recompute) / ACTIVATION);
        let layers = LAYERS as u64;
        assert!((2 * layers..3 * layers + 6).contains(&kept), "{kept} activations");
        assert!((layers..layers + 8).contains(&recomputed), "{recomputed} activations");
    }
}
