//! What is read off a single recorded operation.

use std::fmt::{self, Write};

use burn::backend::ir::{ModuleOperationIr, NumericOperationIr, OperationIr, TensorIr};
use burn::tensor::DType;
use leanburn_common::Bytes;
use leanburn_ops::recording::Marker;

/// Size of a tensor's values.
pub(crate) fn bytes_of(tensor: &TensorIr) -> Bytes {
    Bytes((tensor.shape.num_elements() * tensor.dtype.size()) as u64)
}

/// Whether the largest tensor of an operation is in half precision.
pub(crate) fn is_half(operation: &OperationIr) -> bool {
    let largest = operation.inputs().chain(operation.outputs()).max_by_key(|tensor| tensor.shape.num_elements());
    largest.is_some_and(|tensor| matches!(tensor.dtype, DType::F16 | DType::BF16))
}

/// A short name, such as `conv3d` or `mul_scalar`.
pub(crate) fn name_of(operation: &OperationIr) -> String {
    if let OperationIr::Custom(custom) = operation {
        return match Marker::of(custom) {
            Some(Marker::Kernel { name, .. }) => name.to_string(),
            _ => custom.id.clone(),
        };
    }
    // The variants are named for Burn's operations: NumericFloat(F32, Add(..)).
    let mut beginning = Beginning(String::new());
    let _ = write!(beginning, "{operation:?}"); // stops where the beginning is complete
    let is_name = |part: &&str| part.chars().next().is_some_and(char::is_alphabetic) && !is_dtype(part);
    let mut parts = beginning.0.split(['(', ' ', ',', '{']).filter(|part| !part.is_empty()).skip(1);
    snake_case(parts.find(is_name).unwrap_or("operation"))
}

/// The first letters of what is written: the names are there, and the rest would take most of a plan's time.
struct Beginning(String);

impl fmt::Write for Beginning {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.push_str(text);
        if self.0.len() < 64 { Ok(()) } else { Err(fmt::Error) }
    }
}

fn is_dtype(part: &str) -> bool {
    matches!(
        part,
        "F64" | "F32" | "F16" | "BF16" | "I64" | "I32" | "I16" | "I8" | "U64" | "U32" | "U16" | "U8" | "Bool"
    )
}

fn snake_case(name: &str) -> String {
    let mut snake = String::new();
    for (index, letter) in name.char_indices() {
        if letter.is_uppercase() && index > 0 {
            snake.push('_');
        }
        snake.extend(letter.to_lowercase());
    }
    snake
}

/// Floating-point operations: exact for products, one for each value otherwise.
pub(crate) fn flops_of(operation: &OperationIr) -> u64 {
    if let OperationIr::Custom(custom) = operation {
        return match Marker::of(custom) {
            Some(Marker::Kernel { flops, .. }) => flops,
            _ => 0,
        };
    }
    let values = |tensor: &TensorIr| tensor.shape.num_elements() as u64;
    let last = |tensor: &TensorIr| tensor.shape.last().copied().unwrap_or(1) as u64;
    // Each output of a convolution is a sum over the input channels of its group and the kernel.
    let taps = |weight: &TensorIr| values(weight) / weight.shape.first().copied().unwrap_or(1).max(1) as u64;
    let largest = || operation.inputs().chain(operation.outputs()).map(values).max().unwrap_or(0);
    match operation {
        OperationIr::BaseFloat(_) => 0,
        OperationIr::Float(_, burn::backend::ir::FloatOperationIr::Matmul(matmul)) => {
            2 * values(&matmul.out) * last(&matmul.lhs)
        }
        OperationIr::NumericFloat(_, NumericOperationIr::Full(_)) => 0,
        OperationIr::Module(ModuleOperationIr::Conv3d(conv)) => 2 * values(&conv.out) * taps(&conv.weight),
        OperationIr::Module(ModuleOperationIr::Conv3dXBackward(conv)) => {
            2 * values(&conv.output_grad) * taps(&conv.weight)
        }
        OperationIr::Module(ModuleOperationIr::Conv3dWeightBackward(conv)) => {
            2 * values(&conv.output_grad) * taps(&conv.weight)
        }
        _ => largest(),
    }
}
