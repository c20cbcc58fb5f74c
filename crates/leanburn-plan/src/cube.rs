//! What CubeCL (CUDA, Vulkan, WebGPU, Metal, ROCm) does with memory.

mod pages;

use burn::backend::ir::OperationIr;

use crate::memory_model::{Effect, MemoryModel, Operand};
use crate::{FlexMemory, Timeline};

/// The pool of a CubeCL device: tensors that are alive, each rounded up to the pool's alignment.
///
/// Views and writing in place are taken from the CPU's rules, which are Burn's. What the pool holds in reserve beyond that,
/// and what autotuned kernels take while they run, is not in it.
#[derive(Clone, Copy, Debug, Default)]
pub struct CubeMemory;

/// Bytes that an allocation is a multiple of.
const ALIGNMENT: u64 = 256;

impl CubeMemory {
    /// Bytes that the allocator takes from the device for a step, free gaps and padding included.
    pub fn reserved(timeline: &Timeline) -> u64 {
        pages::reserved(timeline, ALIGNMENT)
    }
}

impl MemoryModel for CubeMemory {
    fn effect(&self, operation: &OperationIr, operands: &[Operand<'_>]) -> Effect {
        Effect { workspace: 0, ..FlexMemory.effect(operation, operands) }
    }

    fn allocated(&self, bytes: u64) -> u64 {
        bytes.next_multiple_of(ALIGNMENT)
    }
}
