//! Where backward begins at a gradient that is given.

use burn::tensor::Tensor;

use super::operation::{AnyTensor, Operation, apply};
use crate::autodiff::inner;

/// A value whose gradient, whatever it is, gives `output` this one.
pub(crate) fn given_gradient<const D: usize>(output: Tensor<D>, gradient: Tensor<D>) -> Tensor<5> {
    let gradient = Tensor::<D>::from_dispatch(inner(gradient.into_dispatch()));
    let value = Tensor::zeros([1; 5], (&gradient.device(), gradient.dtype()));
    apply([output.into()], |_, _| (value, GivenGradient(gradient)))
}

#[derive(Clone, Debug)]
struct GivenGradient<const D: usize>(Tensor<D>);

impl<const D: usize> Operation<1> for GivenGradient<D> {
    fn backward(self, _one: Tensor<5>, _needed: [bool; 1]) -> [AnyTensor; 1] {
        [self.0.into()]
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;

    use super::*;
    use crate::backward_from;

    fn values(tensor: Tensor<2>) -> Vec<f32> {
        tensor.into_data().try_into_vec().unwrap()
    }

    #[test]
    fn the_gradient_is_that_of_the_products() {
        let device = Device::flex().autodiff();
        let x = Tensor::<2>::from_floats([[1.0, 2.0, 3.0]], &device).require_grad();
        let gradient = Tensor::from_floats([[5.0, -7.0, 0.5]], &Device::flex());
        let found = backward_from(x.clone() * x.clone(), gradient.clone()).take(&x).unwrap();
        assert_eq!(values(found), [10.0, -28.0, 3.0]);
        let y = x.clone() * x.clone();
        let of_the_sum = crate::backward((y * Tensor::from_inner(gradient)).sum()).take(&x).unwrap();
        assert_eq!(values(of_the_sum), [10.0, -28.0, 3.0]);
    }

    #[test]
    #[should_panic(expected = "expected a gradient of [1, 2], found one of [2, 1]")]
    fn a_gradient_of_another_shape_is_rejected() {
        let x = Tensor::<2>::zeros([1, 2], &Device::flex().autodiff()).require_grad();
        let _ = backward_from(x, Tensor::zeros([2, 1], &Device::flex()));
    }
}
