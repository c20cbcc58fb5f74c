//! What CubeCL (CUDA, Vulkan, WebGPU, Metal, ROCm) does with memory.

mod pages;

use burn::backend::ir::{ModuleOperationIr, OperationIr, TensorIr};
use leanburn_common::Bytes;
use leanburn_ops::recording::Marker;

use crate::memory_model::{Effect, Kept, MemoryModel, Operand, Place, written_over};
use crate::operation::bytes_of;
use crate::{FlexMemory, Timeline};

/// The pool of a CubeCL device: tensors that are alive, each rounded up to the pool's alignment.
///
/// A convolution returns its channels last and needs them last; a volume with its channels first is copied first.
/// What gets its values from a volume with the channels last has them last too, and counts as not contiguous: what must
/// have them first copies it. Everything else is taken from the CPU's rules, which are Burn's. What autotuned products
/// of matrices and convolutions of Burn's own take while they run is not in it.
#[derive(Clone, Copy, Debug, Default)]
pub struct CubeMemory;

/// Bytes that an allocation is a multiple of.
const ALIGNMENT: u64 = 256;

/// Whether it is one of our convolutions, or the gradient of a weight.
fn is_convolution(operation: &OperationIr) -> bool {
    let OperationIr::Custom(call) = operation else { return false };
    matches!(Marker::of(call), Some(Marker::Kernel { name, .. }) if name.starts_with("convolve3d"))
}

/// Volumes and weights that have their channels first are copied, and volumes that are made have them last.
fn convolution(operation: &OperationIr, operands: &[Operand<'_>], workspace: Bytes) -> Effect {
    let has_channels = |tensor: &TensorIr| tensor.shape.len() == 5 && tensor.shape[1] > 1;
    let copied = operands.iter().filter(|operand| operand.is_contiguous && has_channels(operand.tensor));
    let workspace = workspace + copied.map(|operand| bytes_of(operand.tensor)).sum::<Bytes>();
    let mut effect = Effect { workspace, ..Effect::new_outputs(operation) };
    for (output, tensor) in effect.outputs.iter_mut().zip(operation.outputs()) {
        output.1 = !has_channels(tensor);
    }
    effect
}

impl MemoryModel for CubeMemory {
    fn effect(&self, operation: &OperationIr, operands: &[Operand<'_>]) -> Effect {
        match operation {
            OperationIr::Module(ModuleOperationIr::Conv3d(convolution)) => {
                let has_channels = |dims: &[usize]| dims[1] > 1;
                let is_first = operands[0].is_contiguous && has_channels(&convolution.x.shape);
                let workspace = if is_first { bytes_of(&convolution.x) } else { Bytes(0) };
                let outputs = vec![(Place::New, !has_channels(&convolution.out.shape))];
                Effect { outputs, workspace, kept: Kept::default() }
            }
            _ => Effect { workspace: Bytes(0), kept: Kept::default(), ..FlexMemory.effect(operation, operands) },
        }
    }

    /// A kernel takes its first volume as it lies, gives what it makes in the same order, and copies others that lie
    /// otherwise.
    fn kernel(
        &self,
        operation: &OperationIr,
        operands: &[Operand<'_>],
        workspace: Bytes,
        over: Option<usize>,
    ) -> Effect {
        let Some(first) = operands.first() else { return Effect::new_outputs(operation) };
        if is_convolution(operation) {
            return convolution(operation, operands, workspace);
        }
        let is_volume = |operand: &&Operand<'_>| operand.tensor.shape.len() == first.tensor.shape.len();
        let others = operands.iter().filter(is_volume);
        let copied = others.filter(|operand| operand.is_contiguous != first.is_contiguous);
        let workspace = workspace + copied.map(|operand| bytes_of(operand.tensor)).sum::<Bytes>();
        let mut effect = Effect { workspace, ..written_over(operation, operands, over) };
        for (output, tensor) in effect.outputs.iter_mut().zip(operation.outputs()) {
            output.1 = first.is_contiguous || tensor.shape.len() != first.tensor.shape.len();
        }
        effect
    }

    fn allocated(&self, bytes: Bytes) -> Bytes {
        Bytes(bytes.get().next_multiple_of(ALIGNMENT))
    }

    fn reserved(&self, timeline: &Timeline) -> Option<Bytes> {
        Some(Bytes(pages::reserved(timeline, ALIGNMENT)))
    }
}
