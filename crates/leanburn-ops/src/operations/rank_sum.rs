//! Sums over the processes that train one model, in the middle of a step.

use std::cell::RefCell;
use std::rc::Rc;

use burn::tensor::{Tensor, TensorData};

use super::operation::{AnyTensor, Operation, apply};
use crate::meanwhile::meanwhile;

type Sum = Rc<dyn Fn(&mut [f32])>;

thread_local! {
    static SUM: RefCell<Option<Sum>> = const { RefCell::new(None) };
}

/// Runs a forward and backward pass in which [`sum_over_ranks`] replaces values by what `sum` makes of them: their sums over all processes,
/// which call it as often, in the same order.
pub fn with_rank_sums<T>(sum: impl Fn(&mut [f32]) + 'static, run: impl FnOnce() -> T) -> T {
    let sum: Sum = Rc::new(sum);
    meanwhile(|sum| SUM.replace(sum), Some(sum), run)
}

/// Whether this runs [with sums over processes](with_rank_sums).
pub fn has_rank_sums() -> bool {
    SUM.with_borrow(Option::is_some)
}

/// The sum of a tensor over the processes that [train together](with_rank_sums), added in float32; the tensor itself without them.
///
/// Backward sums the gradient: what each process makes of the sum depends on the values of all.
///
/// # Memory
///
/// Saved for backward: nothing. Each sum is one exchange between the processes, and on a GPU waits for the device.
///
/// # Panics
///
/// In backward, if it does not run with the sums that forward has run with.
#[must_use]
pub fn sum_over_ranks<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    if !has_rank_sums() {
        return x;
    }
    let dims = x.dims();
    let x = x.reshape([1, 1, 1, 1, dims.iter().product()]);
    apply([x.into()], |[x], _| (summed(x.given()), RankSum)).reshape(dims)
}

#[derive(Clone, Debug)]
struct RankSum;

impl Operation<1> for RankSum {
    fn backward(self, gradient: Tensor<5>, _needed: [bool; 1]) -> [AnyTensor; 1] {
        [summed(gradient).into()]
    }
}

fn summed(x: Tensor<5>) -> Tensor<5> {
    let sum = SUM.with_borrow(Clone::clone).expect("backward runs in `with_rank_sums`, as forward did");
    let (dims, device, dtype) = (x.dims(), x.device(), x.dtype());
    let mut values: Vec<f32> = x.into_data().convert::<f32>().try_into_vec().expect("converted to f32");
    sum(&mut values);
    Tensor::from_data(TensorData::new(values, dims), (&device, dtype))
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;

    use super::*;
    use crate::backward;

    #[test]
    fn values_and_gradients_are_summed() {
        let x = Tensor::<2>::from_floats([[1.0, 2.0]], &Device::flex().autodiff()).require_grad();
        let values = |x: Tensor<2>| x.into_data().try_into_vec::<f32>().unwrap();
        assert_eq!(values(sum_over_ranks(x.clone())), [1.0, 2.0], "alone");
        let (y, gradient) = with_rank_sums(
            |values| values.iter_mut().for_each(|value| *value += 10.0),
            || {
                let y = sum_over_ranks(x.clone());
                let gradient = backward((y.clone() * 3.0).sum()).take(&x).unwrap();
                (y, gradient)
            },
        );
        assert_eq!((values(y), values(gradient)), (vec![11.0, 12.0], vec![13.0, 13.0]));
        assert!(!has_rank_sums());
    }
}
