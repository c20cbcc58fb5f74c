//! Max pooling that keeps its input, and finds the maxima again in backward.

use burn::tensor::{IndexingUpdateOp, Int, Tensor};
use leanburn_kernels::max_pool::{self, PoolWindows};

use crate::cpu::{CpuTensor, with_element};
use crate::cube;
use crate::recording::Call;

/// The largest value of each window.
pub(crate) fn forward(x: &Tensor<5>, windows: &PoolWindows) -> Tensor<5> {
    let [batch_size, channels, ..] = x.dims();
    let [depth, height, width] = windows.output();
    let dims = [batch_size, channels, depth, height, width];
    if let Some(call) = Call::on("max_pool3d", x) {
        return call.reads(x).costs(x.shape().num_elements() as u64, 0).record_one(dims, x.dtype());
    }
    if cube::holds(x) {
        return cube::max_pool3d(x, windows);
    }
    if !CpuTensor::holds(x) {
        return (0..3).rev().fold(x.clone(), |x, axis| largest(&x, windows, axis));
    }
    let x = CpuTensor::of(x.clone());
    with_element!(x.dtype(), E => {
        let mut y = CpuTensor::zeros::<E, 5>(dims);
        max_pool::max_pool(windows, x.values::<E>(), y.values_mut::<E>());
        y.into_tensor()
    })
}

/// The gradient of the input: that of each output goes to the first maximum of its window.
pub(crate) fn backward(x: Tensor<5>, windows: &PoolWindows, gradient: Tensor<5>) -> Tensor<5> {
    let dims = x.dims();
    if let Some(call) = Call::on("max_pool3d_gradient", &x) {
        let (flops, dtype) = (x.shape().num_elements() as u64, x.dtype());
        let workspace = max_pool::max_pool_backward_workspace(windows);
        return call.takes(x).takes(gradient).costs(flops, workspace).record_one(dims, dtype);
    }
    if cube::holds(&x) {
        return cube::max_pool3d_gradient(x, windows, gradient);
    }
    if CpuTensor::holds(&x) {
        let (x, gradient) = (CpuTensor::of(x), CpuTensor::of(gradient));
        return with_element!(x.dtype(), E => {
            let mut x_gradient = CpuTensor::zeros::<E, 5>(dims);
            max_pool::max_pool_backward(windows, x.values::<E>(), gradient.values::<E>(), x_gradient.values_mut::<E>());
            x_gradient.into_tensor()
        });
    }
    // Width first, as in forward: of equal values the first in each row, then the first row, then the first plane.
    let rows = largest(&x, windows, 2);
    let planes = largest(&rows, windows, 1);
    let gradient = largest_backward(planes, windows, 0, gradient);
    let gradient = largest_backward(rows, windows, 1, gradient);
    largest_backward(x, windows, 2, gradient)
}

/// The inputs of each window of one axis, as indices.
fn indices(x: &Tensor<5>, windows: &PoolWindows, axis: usize) -> Vec<Tensor<1, Int>> {
    let index = |output| {
        let inputs: Vec<i32> = windows.window(axis, output).map(|input| input as i32).collect();
        Tensor::from_data(inputs.as_slice(), &x.device())
    };
    (0..windows.output()[axis]).map(index).collect()
}

/// The largest value of each window along one axis.
fn largest(x: &Tensor<5>, windows: &PoolWindows, axis: usize) -> Tensor<5> {
    let window = |inputs| x.clone().select(axis + 2, inputs).max_dim(axis + 2);
    Tensor::cat(indices(x, windows, axis).into_iter().map(window).collect(), axis + 2)
}

fn largest_backward(x: Tensor<5>, windows: &PoolWindows, axis: usize, gradient: Tensor<5>) -> Tensor<5> {
    let axis_of_tensor = axis + 2;
    indices(&x, windows, axis).into_iter().enumerate().fold(x.zeros_like(), |sum, (output, inputs)| {
        let window = x.clone().select(axis_of_tensor, inputs.clone());
        let places = window.clone().argmax(axis_of_tensor);
        let gradient = gradient.clone().narrow(axis_of_tensor, output, 1);
        let share = window.zeros_like().scatter(axis_of_tensor, places, gradient, IndexingUpdateOp::Add);
        sum.select_assign(axis_of_tensor, inputs, share, IndexingUpdateOp::Add)
    })
}
