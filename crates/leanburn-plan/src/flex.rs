//! What Burn's CPU backend, Flex 0.22, does with memory.
//!
//! Read off its sources and checked against the heap (`tests/flex_memory.rs`). Three rules make most of it: views cost
//! nothing; an element-wise operation writes over an operand that nothing else holds and that lies in row-major order, the
//! left one first; whatever needs row-major values copies those that are not. What is known and not modelled: an output
//! that is a part of a larger buffer counts as not contiguous, and a reversed axis as a permuted one.

mod convolution;
mod elementwise;
mod gemm;
mod index;
mod inputs;
mod matmul;
mod reduce;
mod resampling;
mod view;

use burn::backend::ir::{
    ActivationOperationIr, BaseOperationIr, BoolOperationIr, FloatOperationIr, IntOperationIr, ModuleOperationIr,
    NumericOperationIr, OperationIr, TensorIr,
};
use leanburn_common::Bytes;

use crate::graphs::GraphMetadata;
use crate::memory_model::{Effect, MemoryModel, Operand};
use elementwise::{binary, mask_where, over_first, scalar, unary};
use inputs::{Inputs, bytes, elements, is_half, new_output};

/// The heap of Burn's CPU backend.
///
/// Scratch memory of matrix products is that of this processor: it follows the sizes of its caches and its vectors. Each thread keeps as
/// much as the second-level cache from the first product on that needs it, which is counted for all threads that may run one.
#[derive(Clone, Copy, Debug, Default)]
pub struct FlexMemory;

/// Graph metadata: negligible in comparison with a volume, but a quarter of the heap of a small model.
///
/// Places are those of the tables in Burn's autodiff. The rest is fitted to what the heap held without tensors' values after each of
/// 9,218 operations of 42 steps, of 34 to 218 weights: half of them come out within 18 KB, three quarters within 33 KB. A step of one
/// of Burn's own small operations takes more than is said here (about 250 bytes).
const GRAPH_METADATA: GraphMetadata = GraphMetadata {
    lasting: 940,
    tensor: 380,
    leaf: 1000,
    orphan: 1100,
    step: 30,
    input: 520,
    place: 120,
    backward_place: 67,
    segment: 4200,
    segment_tensor: 1200,
    running_tensor: 200,
};

impl MemoryModel for FlexMemory {
    fn effect(&self, operation: &OperationIr, operands: &[Operand<'_>]) -> Effect {
        let inputs = Inputs::new(operands);
        let effect = match operation {
            OperationIr::BaseFloat(base) | OperationIr::BaseInt(base) | OperationIr::BaseBool(base) => {
                base_effect(base, &inputs)
            }
            OperationIr::NumericFloat(_, numeric) | OperationIr::NumericInt(_, numeric) => {
                numeric_effect(numeric, &inputs)
            }
            OperationIr::Float(_, float) => float_effect(float, &inputs),
            OperationIr::Int(int) => int_effect(int, &inputs),
            OperationIr::Bool(bool) => bool_effect(bool, &inputs),
            OperationIr::Activation(activation) => activation_effect(activation, &inputs),
            OperationIr::Module(module) => module_effect(module, &inputs),
            _ => None,
        };
        match effect {
            Some(effect) => effect,
            None => Effect { workspace: Bytes(0), ..Effect::new_outputs(operation) },
        }
    }

    fn graph_metadata(&self) -> GraphMetadata {
        GRAPH_METADATA
    }
}

/// `None`: a new output for each of the operation's, and no workspace.
fn base_effect(operation: &BaseOperationIr, inputs: &Inputs<'_>) -> Option<Effect> {
    use BaseOperationIr::*;
    Some(match operation {
        Reshape(_) => view::reshape(inputs),
        SwapDims(swap) => view::swap_dims(inputs, swap.dim1, swap.dim2),
        Permute(permute) => view::permute(inputs, &permute.axes),
        Flip(_) | Unfold(_) => view::strided(),
        Expand(expand) => view::same_or_strided(inputs, &expand.out),
        Slice(slice) => view::same_or_strided(inputs, &slice.out),
        SliceAssign(_) => index::assign(inputs, inputs.copy(1), 0),
        Cat(_) => index::cat(inputs),
        Select(_) | Gather(_) => new_output(inputs.copies() + inputs.as_index(1)),
        SelectAssign(_) | Scatter(_) => {
            index::assign(inputs, inputs.copy(1) + inputs.copy(2) + inputs.as_index(1), inputs.copy(0))
        }
        MaskWhere(mask) => mask_where(inputs, &mask.out),
        MaskFill(mask) => over_first(inputs, &mask.out),
        RepeatDim(repeat) if repeat.times == 1 => view::same(inputs),
        Cast(cast) if cast.input.dtype == cast.out.dtype => view::same(inputs),
        RepeatDim(repeat) => new_output(inputs.copies() + bytes(&repeat.out)),
        Cast(_) => new_output(inputs.copies()),
        // Zeros are made as bytes and copied to where numbers may lie.
        Zeros(op) | Empty(op) => new_output(bytes(&op.out)),
        _ => return None,
    })
}

fn numeric_effect(operation: &NumericOperationIr, inputs: &Inputs<'_>) -> Option<Effect> {
    use NumericOperationIr::*;
    Some(match operation {
        Add(op) | Sub(op) | Mul(op) | Div(op) | Rem(op) => binary(inputs, &op.out),
        AddScalar(_) | SubScalar(_) | MulScalar(_) | DivScalar(_) | RemScalar(_) | PowiScalar(_) => scalar(inputs),
        Abs(_) | Neg(_) | Sign(_) | Clamp(_) | ClampMin(_) | ClampMax(_) => unary(inputs),
        Mean(_) => new_output(reduce::mean(inputs)),
        SumDim(op) => new_output(reduce::sum_dim(inputs, op.axis, &op.out)),
        MeanDim(op) => new_output(reduce::mean_dim(inputs, op.axis, &op.out)),
        SumDims(op) => new_output(reduce::sum_dims(inputs, &op.axes, &op.out)),
        MaxDim(_) | MinDim(_) | CumSum(_) | CumProd(_) | CumMin(_) | CumMax(_) | Pad(_) => new_output(inputs.copies()),
        MaxAbs(_) | MaxAbsDim(_) => new_output(scalar_workspace(inputs)),
        MaxDimWithIndices(op) => reduce::with_indices(inputs.copy(0), &op.out_indices),
        MinDimWithIndices(op) => reduce::with_indices(inputs.copy(0), &op.out_indices),
        ArgMax(op) | ArgMin(op) => new_output(reduce::arg(inputs, op.axis, &op.out)),
        _ => return None,
    })
}

fn float_effect(operation: &FloatOperationIr, inputs: &Inputs<'_>) -> Option<Effect> {
    use FloatOperationIr::*;
    Some(match operation {
        Exp(_) | Log(_) | Log1p(_) | Erf(_) | Sqrt(_) | Recip(_) | Tanh(_) => unary(inputs),
        Cos(_) | Cosh(_) | Sin(_) | Sinh(_) | Tan(_) => unary(inputs),
        ArcCos(_) | ArcCosh(_) | ArcSin(_) | ArcSinh(_) | ArcTan(_) | ArcTanh(_) => unary(inputs),
        Round(_) | Floor(_) | Ceil(_) | Trunc(_) => unary(inputs),
        PowfScalar(_) => scalar(inputs),
        Powf(op) | Hypot(op) | ArcTan2(op) => binary(inputs, &op.out),
        Matmul(_) => new_output(matmul::matmul(inputs)),
        IntoInt(_) | IsNan(_) | IsInf(_) => new_output(inputs.copies()),
        _ => return None,
    })
}

fn int_effect(operation: &IntOperationIr, inputs: &Inputs<'_>) -> Option<Effect> {
    use IntOperationIr::*;
    Some(match operation {
        IntoFloat(_) => new_output(inputs.copies()),
        BitwiseAnd(op) | BitwiseOr(op) | BitwiseXor(op) => binary(inputs, &op.out),
        BitwiseAndScalar(_) | BitwiseOrScalar(_) | BitwiseXorScalar(_) => scalar(inputs),
        _ => return None,
    })
}

fn bool_effect(operation: &BoolOperationIr, inputs: &Inputs<'_>) -> Option<Effect> {
    use BoolOperationIr::*;
    Some(match operation {
        IntoFloat(_) | IntoInt(_) => new_output(inputs.copies()),
        Not(_) => scalar(inputs),
        And(op) | Or(op) | Xor(op) => binary(inputs, &op.out),
    })
}

fn activation_effect(operation: &ActivationOperationIr, inputs: &Inputs<'_>) -> Option<Effect> {
    use ActivationOperationIr::*;
    Some(match operation {
        Relu(_) | LeakyRelu(_) | Gelu(_) | Sigmoid(_) | HardSigmoid(_) | LogSigmoid(_) => unary(inputs),
        ReluBackward(op) | GeluBackward(op) | SigmoidBackward(op) | LogSigmoidBackward(op) | PRelu(op) => {
            binary(inputs, &op.out)
        }
        Softmax(op) => elementwise::softmax(inputs, op.axis),
        LogSoftmax(_) => elementwise::log_softmax(inputs),
        Softmin(op) if op.axis + 1 == op.input.shape.num_dims() => new_output(scalar_workspace(inputs)),
        _ => return None,
    })
}

/// The input changed in place is not the result but an intermediate: a copy of it if something else holds it.
fn scalar_workspace(inputs: &Inputs<'_>) -> u64 {
    if inputs.writable(0) { 0 } else { inputs.bytes(0) }
}

fn module_effect(operation: &ModuleOperationIr, inputs: &Inputs<'_>) -> Option<Effect> {
    use ModuleOperationIr::*;
    Some(match operation {
        BatchNorm(op) => over_first(inputs, &op.out),
        Embedding(_) => new_output(inputs.copies() + inputs.as_index(1)),
        EmbeddingBackward(op) => new_output(bytes(&op.out).max(inputs.copies() + inputs.as_index(2))),
        Linear(_) => new_output(matmul::linear(inputs)),
        LinearXBackward(_) => new_output(matmul::linear_x_backward(inputs)),
        LinearWeightBackward(_) => new_output(matmul::linear_weight_backward(inputs)),
        LinearBiasBackward(op) => new_output(matmul::linear_bias_backward(inputs, &op.out)),
        LayerNorm(op) if is_half(op.out.dtype) => new_output(widened(inputs, &op.out)),
        LayerNorm(_) => new_output(inputs.copies()),
        _ => return resampling::effect(operation, inputs).or_else(|| convolution::effect(operation, inputs)),
    })
}

/// Half-precision inputs in f32, with their contiguous copies or with the output in f32; or the output in both, when it is narrowed.
fn widened(inputs: &Inputs<'_>, output: &TensorIr) -> u64 {
    let halves = (0..inputs.count()).filter(|&input| is_half(inputs.dtype(input)));
    let wide: u64 = halves.map(|input| 4 * inputs.elements(input)).sum();
    let wide_output = 4 * elements(output);
    (wide + inputs.copies().max(wide_output)).max(bytes(output) + wide_output) - bytes(output)
}
