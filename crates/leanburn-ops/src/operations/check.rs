//! What operations ask of their arguments. The messages name the operation, the tensor and its axes, what was expected and
//! what was found.

use burn::tensor::{DType, Tensor};
use leanburn_kernels::ShapeError;

/// The axes of a volume.
const AXES: [&str; 5] = ["batch_size", "channels", "depth", "height", "width"];

/// Panics if a shape is not valid.
#[track_caller]
pub(crate) fn valid<T>(operation: &str, shape: Result<T, ShapeError>) -> T {
    shape.unwrap_or_else(|error| panic!("{operation}: {error}"))
}

/// Panics if a volume is empty along an axis: no operation takes an empty batch.
#[track_caller]
pub(crate) fn assert_not_empty(operation: &str, name: &str, volume: &Tensor<5>) {
    let dims = volume.dims();
    if let Some(axis) = dims.iter().position(|size| *size == 0) {
        panic!("{operation}: the {name} is {dims:?}, expected {} of at least 1", AXES[axis]);
    }
}

/// Panics unless a tensor has these dimensions, each with the name of its axis.
#[track_caller]
pub(crate) fn assert_dims<const D: usize>(
    operation: &str,
    name: &str,
    tensor: &Tensor<D>,
    expected: [(&str, usize); D],
) {
    let dims = tensor.dims();
    if expected.map(|(_, size)| size) != dims {
        let expected: Vec<String> = expected.iter().map(|(axis, size)| format!("{axis} {size}")).collect();
        panic!("{operation}: the {name} is {dims:?}, expected [{}]", expected.join(", "));
    }
}

/// Panics unless a volume has these dimensions.
#[track_caller]
pub(crate) fn assert_volume(operation: &str, name: &str, volume: &Tensor<5>, expected: [usize; 5]) {
    assert_dims(operation, name, volume, std::array::from_fn(|axis| (AXES[axis], expected[axis])));
}

/// Panics unless a tensor has the dtype of the operation's input.
#[track_caller]
pub(crate) fn assert_dtype<const D: usize>(operation: &str, name: &str, tensor: &Tensor<D>, expected: DType) {
    let found = tensor.dtype();
    assert!(found == expected, "{operation}: the {name} is {found:?}, expected {expected:?} as the input is");
}

/// Panics if a parameter is wider than float32 where the input is not.
#[track_caller]
pub(crate) fn assert_parameter<const D: usize>(operation: &str, name: &str, parameter: &Tensor<D>, input: DType) {
    let (found, narrow) = (parameter.dtype(), [DType::F32, DType::F16, DType::BF16]);
    assert!(
        narrow.contains(&found) || !narrow.contains(&input),
        "{operation}: the {name} is {found:?}, expected F32, F16 or BF16 for an input of {input:?}"
    );
}

/// Panics unless an optional vector has one value for each of so many channels, and a parameter's dtype.
#[track_caller]
pub(crate) fn assert_per_channel(
    operation: &str,
    name: &str,
    vector: Option<&Tensor<1>>,
    channels: usize,
    input: DType,
) {
    if let Some(vector) = vector {
        assert_dims(operation, name, vector, [("channels", channels)]);
        assert_parameter(operation, name, vector, input);
    }
}

/// Positions of a volume, or the largest number.
pub(crate) fn positions([_, _, size @ ..]: [usize; 5]) -> usize {
    size.into_iter().fold(1, usize::saturating_mul)
}
