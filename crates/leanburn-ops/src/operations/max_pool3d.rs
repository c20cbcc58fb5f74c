//! Max pooling that saves its input, and finds the maxima again in backward.

use burn::tensor::{IndexingUpdateOp, Int, Tensor};
use leanburn_kernels::ShapeError;
use leanburn_kernels::max_pool::{self, MaxPoolShape, PoolWindows};

use super::check::{assert_not_empty, valid};
use super::operation::{AnyTensor, Operation, apply};
use crate::cube;
use crate::engine::{Computation, CpuTensor, Engine, Stored, run};
use crate::recording::{Call, Recorder};

/// Windows of [`max_pool3d`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaxPool3d {
    /// Size of the window.
    pub kernel_size: [usize; 3],
    /// Steps between windows.
    pub stride: [usize; 3],
    /// Padding at both ends of each axis, at most half of the window; it is never the maximum.
    pub padding: [usize; 3],
    /// Steps between the voxels of a window.
    pub dilation: [usize; 3],
    /// Whether a last window may reach over the end.
    pub ceil_mode: bool,
}

impl MaxPool3d {
    /// Windows side by side, without padding.
    #[must_use]
    pub fn new(kernel_size: [usize; 3]) -> Self {
        Self { kernel_size, stride: kernel_size, padding: [0; 3], dilation: [1; 3], ceil_mode: false }
    }
}

/// The largest value of each window, as PyTorch's `max_pool3d`.
///
/// # Shapes
///
/// - input: `[batch_size, channels, depth, height, width]`, no axis empty
/// - output: `[batch_size, channels, ..]`, each axis
///   `(size + 2 padding - dilation (kernel_size - 1) - 1) / stride + 1`, rounded down, or up in `ceil_mode`
///
/// # Memory
///
/// Saved for backward: the input, shared with its producer; PyTorch saves 8 bytes for each output on top. Of equal
/// values the first in memory gets the gradient.
///
/// # Panics
///
/// Panics if an axis of the input is empty (an empty batch too); a kernel, stride or dilation is zero; a window is larger than the
/// padded volume or holds nothing of it; the padding is more than half of the kernel; or the input takes more than 128 TiB.
/// Backward panics on the CPU if a channel of an item has 2^32 values or more.
#[must_use]
pub fn max_pool3d(x: Tensor<5>, windows: MaxPool3d) -> Tensor<5> {
    let [batch_size, channels, input @ ..] = x.dims();
    let MaxPool3d { kernel_size: kernel, stride, padding, dilation, ceil_mode } = windows;
    let items = batch_size.saturating_mul(channels);
    let shape = MaxPoolShape { items, input, kernel, stride, padding, dilation, ceil_mode };
    pooled("max_pool3d", x, || shape.windows())
}

/// The largest value of as many windows as the output has voxels, as PyTorch's `adaptive_max_pool3d`.
///
/// Memory as [`max_pool3d`].
///
/// # Panics
///
/// Panics if an axis of the volume (the batch too) or of `size` is zero, or the input or the output takes more than 128 TiB.
#[must_use]
pub fn adaptive_max_pool3d(x: Tensor<5>, size: [usize; 3]) -> Tensor<5> {
    let [batch_size, channels, input @ ..] = x.dims();
    let items = batch_size.saturating_mul(channels);
    pooled("adaptive_max_pool3d", x, || PoolWindows::adaptive(items, input, size))
}

fn pooled(name: &str, x: Tensor<5>, windows: impl FnOnce() -> Result<PoolWindows, ShapeError>) -> Tensor<5> {
    assert_not_empty(name, "input", &x);
    let windows = valid(name, windows());
    apply([x.into()], |[x], _| {
        let x = x.given();
        (run(Forward { x: &x, windows: &windows }), MaxPool { x, windows })
    })
}

/// What [`max_pool3d`] saves.
#[derive(Clone, Debug)]
struct MaxPool {
    x: Tensor<5>,
    windows: PoolWindows,
}

impl Operation<1> for MaxPool {
    fn backward(self, gradient: Tensor<5>, _needed: [bool; 1]) -> [AnyTensor; 1] {
        [run(Backward { x: self.x, windows: &self.windows, gradient }).into()]
    }

    /// Rounding would change which value is the largest.
    const IS_EXACT: bool = true;

    fn exchange(&mut self, exchange: &mut dyn FnMut(&mut Tensor<5>)) {
        exchange(&mut self.x);
    }
}

/// The largest value of each window.
struct Forward<'a> {
    x: &'a Tensor<5>,
    windows: &'a PoolWindows,
}

impl Forward<'_> {
    fn output_dims(&self) -> [usize; 5] {
        let [batch_size, channels, ..] = self.x.dims();
        let [depth, height, width] = self.windows.output();
        [batch_size, channels, depth, height, width]
    }
}

impl Computation for Forward<'_> {
    type Output = Tensor<5>;

    fn engine(&self) -> Engine {
        Engine::of(self.x)
    }

    fn recorded(self, recorder: Recorder) -> Tensor<5> {
        let flops = self.x.shape().num_elements() as u64;
        let call = Call::new(recorder, "max_pool3d").reads(self.x).costs(flops, 0);
        call.record_one(self.output_dims(), self.x.dtype())
    }

    fn on_cpu<E: Stored>(self) -> Tensor<5> {
        let x = CpuTensor::of(self.x.clone());
        let mut y = CpuTensor::zeros::<E, 5>(self.output_dims());
        max_pool::max_pool(self.windows, x.values::<E>(), y.values_mut::<E>());
        y.into_tensor()
    }

    fn on_cube(self) -> Tensor<5> {
        cube::run(cube::MaxPool { x: self.x, windows: self.windows })
    }

    fn composed(self) -> Tensor<5> {
        (0..3).rev().fold(self.x.clone(), |x, axis| largest(&x, self.windows, axis))
    }
}

/// The gradient of the input: that of each output goes to the first maximum of its window.
struct Backward<'a> {
    x: Tensor<5>,
    windows: &'a PoolWindows,
    gradient: Tensor<5>,
}

impl Computation for Backward<'_> {
    type Output = Tensor<5>;

    fn engine(&self) -> Engine {
        Engine::of(&self.x)
    }

    fn recorded(self, recorder: Recorder) -> Tensor<5> {
        let (dims, dtype, flops) = (self.x.dims(), self.x.dtype(), self.x.shape().num_elements() as u64);
        let call = Call::new(recorder, "max_pool3d_gradient").takes(self.x).takes(self.gradient);
        call.costs(flops, max_pool::max_pool_backward_workspace(self.windows)).record_one(dims, dtype)
    }

    fn on_cpu<E: Stored>(self) -> Tensor<5> {
        let dims = self.x.dims();
        let (x, gradient) = (CpuTensor::of(self.x), CpuTensor::of(self.gradient));
        let mut x_gradient = CpuTensor::zeros::<E, 5>(dims);
        let (values, gradient) = (x.values::<E>(), gradient.values::<E>());
        max_pool::max_pool_backward(self.windows, values, gradient, x_gradient.values_mut::<E>());
        x_gradient.into_tensor()
    }

    fn on_cube(self) -> Tensor<5> {
        let Self { x, windows, gradient } = self;
        cube::run(cube::MaxPoolGradient { x, windows, gradient })
    }

    /// Width first, as in forward: of equal values the first in each row, then the first row, then the first plane.
    fn composed(self) -> Tensor<5> {
        let Self { x, windows, gradient } = self;
        let rows = largest(&x, windows, 2);
        let planes = largest(&rows, windows, 1);
        let gradient = largest_gradient(planes, windows, 0, gradient);
        let gradient = largest_gradient(rows, windows, 1, gradient);
        largest_gradient(x, windows, 2, gradient)
    }
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

/// The gradient of [`largest`]'s volume.
fn largest_gradient(x: Tensor<5>, windows: &PoolWindows, axis: usize, gradient: Tensor<5>) -> Tensor<5> {
    let axis_of_tensor = axis + 2;
    indices(&x, windows, axis).into_iter().enumerate().fold(x.zeros_like(), |sum, (output, inputs)| {
        let window = x.clone().select(axis_of_tensor, inputs.clone());
        let places = window.clone().argmax(axis_of_tensor);
        let gradient = gradient.clone().narrow(axis_of_tensor, output, 1);
        let part = window.zeros_like().scatter(axis_of_tensor, places, gradient, IndexingUpdateOp::Add);
        sum.select_assign(axis_of_tensor, inputs, part, IndexingUpdateOp::Add)
    })
}
