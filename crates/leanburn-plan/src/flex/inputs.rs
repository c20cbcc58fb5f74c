//! The inputs of an operation, by number.

use burn::backend::ir::TensorIr;
use burn::tensor::DType;
use leanburn_common::Bytes;

use crate::memory_model::{Effect, Kept, Operand, Place};

/// Bytes that an operation needs while it runs, and what its threads keep.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Workspace {
    pub(super) bytes: u64,
    pub(super) kept: Kept,
}

impl From<u64> for Workspace {
    fn from(bytes: u64) -> Self {
        Self { bytes, kept: Kept::default() }
    }
}

impl Workspace {
    /// With so many bytes more.
    pub(super) fn and(self, bytes: u64) -> Self {
        Self { bytes: self.bytes + bytes, ..self }
    }
}

/// One new contiguous output.
pub(super) fn new_output(workspace: impl Into<Workspace>) -> Effect {
    let Workspace { bytes, kept } = workspace.into();
    Effect { outputs: vec![(Place::New, true)], workspace: Bytes(bytes), kept }
}

/// One output in an input's memory.
pub(super) fn in_memory_of(input: usize, is_contiguous: bool) -> Effect {
    Effect { outputs: vec![(Place::Input(input), is_contiguous)], ..new_output(0) }
}

pub(super) fn elements(tensor: &TensorIr) -> u64 {
    tensor.shape.iter().fold(1, |product: u64, &size| product.saturating_mul(size as u64))
}

pub(super) fn bytes(tensor: &TensorIr) -> u64 {
    elements(tensor).saturating_mul(tensor.dtype.size() as u64)
}

/// Whether values of this dtype are half as wide as f32.
pub(super) fn is_half(dtype: DType) -> bool {
    matches!(dtype, DType::F16 | DType::BF16)
}

/// The inputs of an operation, by number.
pub(super) struct Inputs<'a>(&'a [Operand<'a>]);

impl<'a> Inputs<'a> {
    pub(super) fn new(operands: &'a [Operand<'a>]) -> Self {
        Self(operands)
    }

    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    pub(super) fn tensor(&self, input: usize) -> &'a TensorIr {
        self.0[input].tensor
    }

    pub(super) fn dims(&self, input: usize) -> &'a [usize] {
        &self.tensor(input).shape
    }

    pub(super) fn dtype(&self, input: usize) -> DType {
        self.tensor(input).dtype
    }

    pub(super) fn elements(&self, input: usize) -> u64 {
        elements(self.tensor(input))
    }

    pub(super) fn bytes(&self, input: usize) -> u64 {
        bytes(self.tensor(input))
    }

    pub(super) fn is_contiguous(&self, input: usize) -> bool {
        self.0[input].is_contiguous
    }

    /// Bytes of the input's contiguous copy; 0 if it is contiguous already.
    pub(super) fn copy(&self, input: usize) -> u64 {
        if self.is_contiguous(input) { 0 } else { self.bytes(input) }
    }

    /// Bytes of the contiguous copies of all inputs.
    pub(super) fn copies(&self) -> u64 {
        (0..self.count()).map(|input| self.copy(input)).sum()
    }

    /// Bytes of the indices in the width that Flex looks them up with; 0 if they are that wide already.
    pub(super) fn as_index(&self, input: usize) -> u64 {
        if self.dtype(input) == DType::I64 { 0 } else { 8 * self.elements(input) }
    }

    /// Whether a result may be written over the input: nothing else holds it, another of the inputs included, and its
    /// values lie in order.
    pub(super) fn writable(&self, input: usize) -> bool {
        let Operand { tensor, is_contiguous, is_unique } = self.0[input];
        is_contiguous && is_unique && self.0.iter().filter(|other| other.tensor.id == tensor.id).count() == 1
    }

    /// Whether a result of this shape may be written over the input.
    pub(super) fn writable_as(&self, input: usize, output: &TensorIr) -> bool {
        self.writable(input) && self.tensor(input).shape == output.shape
    }
}
