//! The device that records, and how a marker gets into what it writes down.

use burn::backend::ir::{CustomOpIr, OperationIr, ScalarIr, TensorId, TensorIr};
use burn::backend::{BackendTensor, Capture, DispatchDevice, DispatchTensor};
use burn::tensor::{DType, Device, Shape};
use burn_capture::CaptureChannel;
use burn_router::{Client, RouterClient, get_client};

use crate::autodiff::{inner, lower_discrete, lower_plain, raise_plain};

/// Whether the device records operations instead of running them.
pub fn is_recording(device: &Device) -> bool {
    matches!(device.clone().without_autodiff().as_dispatch(), DispatchDevice::Capture(_))
}

/// What writes operations down on a recording device.
pub(crate) struct Recorder(Client<CaptureChannel>);

impl Recorder {
    /// The recorder of a device; `None` where the device computes.
    pub(crate) fn of(device: &Device) -> Option<Self> {
        match device.clone().without_autodiff().as_dispatch() {
            DispatchDevice::Capture(device) => Some(Self(get_client::<CaptureChannel>(device))),
            _ => None,
        }
    }

    /// Writes a marker down.
    pub(super) fn mark(&self, id: impl Into<String>, inputs: Vec<TensorIr>) {
        self.mark_with(id, inputs, Vec::new());
    }

    /// Writes a marker with numbers down.
    pub(super) fn mark_with(&self, id: impl Into<String>, inputs: Vec<TensorIr>, scalars: Vec<ScalarIr>) {
        let marker = CustomOpIr { id: id.into(), inputs, outputs: Vec::new(), scalars };
        self.0.register_op(OperationIr::Custom(marker));
    }

    /// Runs `run` between two markers; the first has the inputs.
    pub(super) fn between<T>(
        &self,
        begin: impl Into<String>,
        inputs: Vec<TensorIr>,
        end: &'static str,
        run: impl FnOnce() -> T,
    ) -> T {
        self.mark(begin, inputs);
        let result = run();
        self.mark(end, Vec::new());
        result
    }

    /// A tensor that an operation is about to make.
    pub(super) fn uninitialized(&self, dims: Shape, dtype: DType) -> TensorIr {
        TensorIr::uninit(self.0.create_empty_handle(), dims, dtype)
    }

    /// Writes an operation down; its outputs.
    pub(super) fn write(&self, operation: CustomOpIr) -> impl Iterator<Item = DispatchTensor> {
        self.0.register(OperationIr::Custom(operation)).into_iter().map(raise_plain::<Capture>)
    }
}

/// The number of a recorded tensor.
pub(crate) fn number(tensor: &DispatchTensor) -> TensorId {
    recorded(tensor.clone()).id
}

/// A recorded tensor, with autodiff or without, as operations are written down with it.
pub(super) fn recorded(tensor: DispatchTensor) -> TensorIr {
    match lower_discrete::<Capture>(&tensor) {
        Some(BackendTensor::Int(labels)) => labels.into_ir(),
        Some(BackendTensor::Bool(mask)) => mask.into_ir(),
        _ => lower_plain::<Capture>(inner(tensor)).into_ir(),
    }
}
