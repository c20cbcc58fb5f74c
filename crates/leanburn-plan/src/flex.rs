//! What Burn's CPU backend, Flex 0.22, does with memory.

use burn::backend::ir::OperationIr;

use crate::memory_model::{Effect, MemoryModel, Operand};

/// The heap of Burn's CPU backend.
#[derive(Clone, Copy, Debug, Default)]
pub struct FlexMemory;

impl MemoryModel for FlexMemory {
    fn effect(&self, operation: &OperationIr, _operands: &[Operand<'_>]) -> Effect {
        Effect::new_outputs(operation)
    }
}
