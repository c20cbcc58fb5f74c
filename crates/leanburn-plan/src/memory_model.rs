//! What a device does with memory: the seam between a recording and its timeline.

use std::fmt;

use burn::backend::ir::{OperationIr, TensorIr};
use leanburn_common::Bytes;

use crate::graphs::GraphMetadata;
use crate::operation::bytes_of;
use crate::{Timeline, bound};

/// An input of an operation, as it stands when the operation runs.
#[derive(Clone, Copy, Debug)]
pub struct Operand<'a> {
    /// Id, shape and dtype.
    pub tensor: &'a TensorIr,
    /// Whether its values lie in row-major order without gaps.
    pub is_contiguous: bool,
    /// Whether nothing else holds its memory, nor will: the operation may write over it.
    pub is_unique: bool,
}

/// Where an output's values go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// New memory.
    New,
    /// The memory of this input, in the order of [`OperationIr::inputs`]: a view of it, or written over.
    Input(usize),
}

/// What an operation does with memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effect {
    /// Where each output goes and whether it is contiguous, in the order of [`OperationIr::outputs`].
    pub outputs: Vec<(Place, bool)>,
    /// What is there only while the operation runs.
    pub workspace: Bytes,
    /// What the threads that run it keep from then on.
    pub kept: Kept,
}

/// Scratch memory that each thread keeps from the first operation on that needs it. Whatever the number of such operations, a thread has
/// it once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// Of the thread that trains.
    pub by_caller: Bytes,
    /// Of all threads of the pool: any of them may have run a part.
    pub by_pool: Bytes,
}

impl Kept {
    /// What is kept after both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self { by_caller: self.by_caller.max(other.by_caller), by_pool: self.by_pool.max(other.by_pool) }
    }

    /// All of it. A thread of the pool that trains is counted once.
    pub fn total(self) -> Bytes {
        match rayon::current_thread_index() {
            Some(_) => self.by_caller.max(self.by_pool),
            None => self.by_caller + self.by_pool,
        }
    }
}

impl Effect {
    /// One new contiguous output for each of the operation's, and no workspace.
    pub fn new_outputs(operation: &OperationIr) -> Self {
        let outputs = operation.outputs().map(|_| (Place::New, true)).collect();
        Self { outputs, workspace: Bytes(0), kept: Kept::default() }
    }
}

/// How a device allocates.
pub trait MemoryModel: fmt::Debug {
    /// What an operation does with memory; `operands` are its inputs in the order of [`OperationIr::inputs`].
    fn effect(&self, operation: &OperationIr, operands: &[Operand<'_>]) -> Effect;

    /// What a kernel of ours does with memory; it says itself how much workspace it has, and over which input its first
    /// output is written if nothing else holds it.
    ///
    /// Here as on the CPU: inputs that are not contiguous are copied.
    fn kernel(
        &self,
        operation: &OperationIr,
        operands: &[Operand<'_>],
        workspace: Bytes,
        over: Option<usize>,
    ) -> Effect {
        let copies = operands.iter().filter(|operand| !operand.is_contiguous).map(|operand| bytes_of(operand.tensor));
        let workspace = workspace + copies.sum::<Bytes>();
        Effect { workspace, ..written_over(operation, operands, over) }
    }

    /// What an allocation of `bytes` takes.
    fn allocated(&self, bytes: Bytes) -> Bytes {
        bytes
    }

    /// What the allocator takes from the device for a step, free gaps and padding included; `None` where it takes
    /// what is asked for.
    fn reserved(&self, _timeline: &Timeline) -> Option<Bytes> {
        None
    }

    /// What the device must have for a step, gaps and padding of a pool included, with a plan's [margin](bound).
    fn needed(&self, timeline: &Timeline) -> Bytes {
        bound(self.taken(timeline))
    }

    /// The same without the margin.
    fn taken(&self, timeline: &Timeline) -> Bytes {
        self.reserved(timeline).unwrap_or_default().max(timeline.peak())
    }

    /// Graph metadata in the same memory; none where tensors are on another device than autodiff.
    fn graph_metadata(&self) -> GraphMetadata {
        GraphMetadata::default()
    }
}

/// New outputs, but for the first where it fits over an input that nothing else holds.
pub(crate) fn written_over(operation: &OperationIr, operands: &[Operand<'_>], over: Option<usize>) -> Effect {
    let mut effect = Effect::new_outputs(operation);
    let fits = |operand: &Operand<'_>| {
        operand.is_unique
            && operation.outputs().next().is_some_and(|output| bytes_of(output) == bytes_of(operand.tensor))
    };
    if let (Some(input), Some(output)) = (over.filter(|&input| fits(&operands[input])), effect.outputs.first_mut()) {
        *output = (Place::Input(input), true);
    }
    effect
}
