//! One computation on every engine, and the choice of the engine.

use burn::backend::DispatchDevice;
use burn::tensor::{DType, Tensor};

use super::cpu::{Stored, with_element};
use crate::gpu::is_gpu;
use crate::products::check_products;
use crate::recording::{Recorder, stands_for_cpu};

/// What computes on a tensor.
pub(crate) enum Engine {
    /// Nothing: the kernel that the CPU would run is written down.
    Recorded(Recorder),
    /// Our kernels on slices (`leanburn-kernels`), for values of this dtype.
    Cpu(DType),
    /// Our CubeCL kernels ([`cube`](crate::cube)) around Burn's products of matrices: launched on a GPU, or written down
    /// where a recording device stands for one.
    Cube,
    /// Burn's operations alone: float64, and devices of other kinds.
    Composed,
}

impl Engine {
    /// The engine of a tensor, by its device and its dtype.
    ///
    /// # Panics
    ///
    /// Panics on a GPU that [multiplies matrices wrong](check_products).
    pub(crate) fn of<const D: usize>(tensor: &Tensor<D>) -> Self {
        let (device, dtype) = (tensor.device(), tensor.dtype());
        if !matches!(dtype, DType::F32 | DType::F16 | DType::BF16) {
            return Self::Composed;
        }
        match Recorder::of(&device) {
            Some(recorder) if stands_for_cpu() => Self::Recorded(recorder),
            Some(_) => Self::Cube,
            None if is_gpu(&device) => {
                check_products(&device).unwrap_or_else(|wrong| panic!("{wrong}"));
                Self::Cube
            }
            None if matches!(device.as_dispatch(), DispatchDevice::Flex(_)) => Self::Cpu(dtype),
            None => Self::Composed,
        }
    }

    /// The same, with Burn's operations on the CPU: for what they compute better than our kernels.
    pub(crate) fn composed_on_cpu<const D: usize>(tensor: &Tensor<D>) -> Self {
        match Self::of(tensor) {
            Self::Recorded(_) | Self::Cpu(_) => Self::Composed,
            engine => engine,
        }
    }
}

/// The forward pass of an operation, or one of its gradients: its inputs, and how each engine computes it.
///
/// Inputs that are given up are owned, so that an engine may write over them; the others are borrowed.
pub(crate) trait Computation: Sized {
    /// What is computed.
    type Output;

    /// The engine, which is that of the main input.
    fn engine(&self) -> Engine;

    /// Writes the kernel call of [`on_cpu`](Self::on_cpu) down.
    fn recorded(self, recorder: Recorder) -> Self::Output;

    /// Computes on slices of the CPU's memory.
    fn on_cpu<E: Stored>(self) -> Self::Output;

    /// Computes with the CubeCL kernels; without one that fits, as it is composed.
    fn on_cube(self) -> Self::Output {
        self.composed()
    }

    /// Computes with Burn's operations.
    fn composed(self) -> Self::Output;
}

/// Runs a computation on its engine.
pub(crate) fn run<C: Computation>(computation: C) -> C::Output {
    match computation.engine() {
        Engine::Recorded(recorder) => computation.recorded(recorder),
        Engine::Cpu(dtype) => with_element!(dtype, E => computation.on_cpu::<E>()),
        Engine::Cube => computation.on_cube(),
        Engine::Composed => computation.composed(),
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;

    use super::*;
    use crate::recording::as_on_cpu;

    fn engine(device: &Device, dtype: DType) -> &'static str {
        match Engine::of(&Tensor::<1>::zeros([1], (device, dtype))) {
            Engine::Recorded(_) => "recorded",
            Engine::Cpu(found) if found == dtype => "cpu",
            Engine::Cpu(_) => "cpu, another dtype",
            Engine::Cube => "cube",
            Engine::Composed => "composed",
        }
    }

    #[test]
    fn device_and_dtype_choose_the_engine() {
        let kernels = [DType::F32, DType::F16, DType::BF16];
        let flex = Device::flex();
        assert_eq!(kernels.map(|dtype| engine(&flex, dtype)), ["cpu"; 3]);
        assert_eq!(engine(&flex, DType::F64), "composed");
        let recorder = Device::capture();
        let captured = recorder.capture_scope(|scope| {
            assert_eq!(kernels.map(|dtype| engine(&recorder, dtype)), ["cube"; 3]);
            assert_eq!(as_on_cpu(|| kernels.map(|dtype| engine(&recorder, dtype))), ["recorded"; 3]);
            assert_eq!(as_on_cpu(|| engine(&recorder, DType::F64)), "composed");
            assert_eq!(engine(&recorder, DType::F64), "composed");
            scope.complete([], [])
        });
        assert!(captured.is_ok());
    }
}
