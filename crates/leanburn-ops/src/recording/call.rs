//! A call of one of our kernels, as it is written down.

use burn::backend::DispatchTensor;
use burn::backend::ir::{CustomOpIr, ScalarIr, TensorIr};
use burn::tensor::{DType, Shape, Tensor};

use super::recorder::{Recorder, recorded};

pub(super) const KERNEL: &str = "leanburn:kernel:";

/// A call of a kernel, to be written down: its name, inputs, outputs and costs.
pub(crate) struct Call {
    recorder: Recorder,
    name: &'static str,
    inputs: Vec<TensorIr>,
    outputs: Vec<TensorIr>,
    over: Option<usize>,
    flops: u64,
    workspace: u64,
}

impl Call {
    /// A call without inputs, outputs and costs.
    pub(crate) fn new(recorder: Recorder, name: &'static str) -> Self {
        Self { recorder, name, inputs: Vec::new(), outputs: Vec::new(), over: None, flops: 0, workspace: 0 }
    }

    /// An input that stays alive.
    pub(crate) fn reads<const D: usize>(self, tensor: &Tensor<D>) -> Self {
        self.takes(tensor.clone())
    }

    /// An input that is given up.
    pub(crate) fn takes<const D: usize>(mut self, tensor: Tensor<D>) -> Self {
        self.inputs.push(recorded(tensor.into_dispatch()));
        self
    }

    /// An input that is given up; the first output is written over it if nothing else holds it.
    pub(crate) fn writes_over<const D: usize>(mut self, tensor: Tensor<D>) -> Self {
        self.over = Some(self.inputs.len());
        self.takes(tensor)
    }

    /// What the call costs: floating-point operations, and bytes of workspace, which are there only while it runs.
    pub(crate) fn costs(mut self, flops: u64, workspace: usize) -> Self {
        (self.flops, self.workspace) = (flops, workspace as u64);
        self
    }

    /// One more output.
    pub(crate) fn gives(mut self, dims: impl Into<Shape>, dtype: DType) -> Self {
        self.outputs.push(self.recorder.uninitialized(dims.into(), dtype));
        self
    }

    /// Writes the call down; its outputs.
    pub(crate) fn record(self) -> Outputs {
        let over = self.over.map_or(0, |index| index as u64 + 1);
        let operation = CustomOpIr {
            id: format!("{KERNEL}{}", self.name),
            inputs: self.inputs,
            outputs: self.outputs,
            scalars: [self.flops, self.workspace, over].map(ScalarIr::UInt).to_vec(),
        };
        Outputs(self.recorder.write(operation).collect::<Vec<_>>().into_iter())
    }

    /// Writes the call down; its outputs, of the same rank and dtype.
    pub(crate) fn record_all<const N: usize, const D: usize>(
        self,
        dims: [[usize; D]; N],
        dtype: DType,
    ) -> [Tensor<D>; N] {
        let mut outputs = dims.into_iter().fold(self, |call, dims| call.gives(dims, dtype)).record();
        [(); N].map(|()| outputs.next_tensor())
    }

    /// Writes the call down; its one output.
    pub(crate) fn record_one<const D: usize>(self, dims: [usize; D], dtype: DType) -> Tensor<D> {
        let [output] = self.record_all([dims], dtype);
        output
    }
}

/// The outputs of a call, in the order in which they were described.
pub(crate) struct Outputs(std::vec::IntoIter<DispatchTensor>);

impl Outputs {
    /// The next output.
    ///
    /// # Panics
    ///
    /// Panics if there is none left.
    pub(crate) fn next_tensor<const D: usize>(&mut self) -> Tensor<D> {
        Tensor::from_dispatch(self.0.next().expect("as many outputs as were described"))
    }
}
