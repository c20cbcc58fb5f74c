//! The dtype of the activation decides: the one rule of mixed precision.

use burn::tensor::{DType, Tensor};

/// `tensor` in `dtype`; the tensor itself, and no operation on the graph, where it has that dtype already.
///
/// The shape is any, and stays. The gradient comes back in the tensor's own dtype.
#[must_use]
pub fn cast_to<const D: usize>(tensor: Tensor<D>, dtype: DType) -> Tensor<D> {
    if tensor.dtype() == dtype { tensor } else { tensor.cast(dtype) }
}

/// `tensor`, of any shape, in float32 if it is float16 or bfloat16; wider tensors stay as they are.
#[must_use]
pub fn widen<const D: usize>(tensor: Tensor<D>) -> Tensor<D> {
    match tensor.dtype() {
        DType::F16 | DType::BF16 => tensor.cast(DType::F32),
        _ => tensor,
    }
}

/// Runs `compute` in float32 on a tensor of any shape, and gives the result in the dtype of the input.
#[must_use]
pub fn in_wide<const D: usize>(tensor: Tensor<D>, compute: impl FnOnce(Tensor<D>) -> Tensor<D>) -> Tensor<D> {
    let dtype = tensor.dtype();
    cast_to(compute(widen(tensor)), dtype)
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;

    use super::*;

    #[test]
    fn a_gradient_comes_back_in_the_dtype_of_its_tensor() {
        let device = Device::flex().autodiff();
        for dtype in [DType::F16, DType::BF16] {
            let x = Tensor::<1>::from_floats([1.0, 2.0], &device).require_grad();
            let y = cast_to(x.clone(), dtype);
            assert_eq!(y.dtype(), dtype);
            let gradient = x.grad(&(y.clone() * y).sum().backward()).unwrap();
            assert_eq!(gradient.dtype(), DType::F32);
            assert_eq!(gradient.into_data().try_to_vec::<f32>().unwrap(), [2.0, 4.0]);
        }
    }

    #[test]
    fn only_half_precision_is_widened() {
        let device = Device::flex();
        for (dtype, expected) in
            [(DType::F16, DType::F32), (DType::BF16, DType::F32), (DType::F32, DType::F32), (DType::F64, DType::F64)]
        {
            let x = Tensor::<1>::from_data([1.0], (&device, dtype));
            assert_eq!(widen(x.clone()).dtype(), expected);
            let seen = in_wide(x, |x| {
                assert_eq!(x.dtype(), expected);
                x
            });
            assert_eq!(seen.dtype(), dtype);
        }
    }
}
