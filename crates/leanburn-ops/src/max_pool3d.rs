//! Max pooling.

use burn::backend::DispatchTensor;
use burn::tensor::Tensor;
use leanburn_kernels::axis_map::AxisMapError;
use leanburn_kernels::max_pool::{MaxPoolShape, PoolWindows};

use crate::engine::max_pool;
use crate::operation::{Operation, apply};

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
    pub fn new(kernel_size: [usize; 3]) -> Self {
        Self { kernel_size, stride: kernel_size, padding: [0; 3], dilation: [1; 3], ceil_mode: false }
    }
}

/// The largest value of each window, as PyTorch's `max_pool3d`.
///
/// # Shapes
///
/// - input: `[batch_size, channels, depth, height, width]`
/// - output: `[batch_size, channels, ..]`, each axis
///   `(size + 2 padding - dilation (kernel_size - 1) - 1) / stride + 1`, rounded down, or up in `ceil_mode`
///
/// # Memory
///
/// Held for backward: the input, shared with whoever made it; PyTorch holds 8 bytes for each output on top. Of equal
/// values the first in memory gets the gradient.
///
/// # Panics
///
/// Panics if a window is empty or larger than the padded volume, or the padding is more than half of it.
pub fn max_pool3d(x: Tensor<5>, windows: MaxPool3d) -> Tensor<5> {
    let [batch_size, channels, input @ ..] = x.dims();
    let MaxPool3d { kernel_size: kernel, stride, padding, dilation, ceil_mode } = windows;
    let shape = MaxPoolShape { items: batch_size * channels, input, kernel, stride, padding, dilation, ceil_mode };
    pooled("max_pool3d", x, shape.windows())
}

/// The largest value of as many windows as the output has voxels, as PyTorch's `adaptive_max_pool3d`.
///
/// Memory as [`max_pool3d`].
///
/// # Panics
///
/// Panics if an axis of the volume or of `size` is zero.
pub fn adaptive_max_pool3d(x: Tensor<5>, size: [usize; 3]) -> Tensor<5> {
    let [batch_size, channels, input @ ..] = x.dims();
    let windows = PoolWindows::adaptive(batch_size * channels, input, size);
    pooled("adaptive_max_pool3d", x, windows)
}

fn pooled(name: &str, x: Tensor<5>, windows: Result<PoolWindows, AxisMapError>) -> Tensor<5> {
    let windows = windows.unwrap_or_else(|error| panic!("{name}: {error}"));
    let output = apply([Some(x.into_dispatch())], |[x], _| {
        let x = Tensor::from_dispatch(x.expect("given"));
        (max_pool::forward(&x, &windows).into_dispatch(), MaxPool { x, windows })
    });
    Tensor::from_dispatch(output)
}

/// What [`max_pool3d`] keeps.
#[derive(Clone, Debug)]
struct MaxPool {
    x: Tensor<5>,
    windows: PoolWindows,
}

impl Operation<1> for MaxPool {
    fn backward(self, gradient: DispatchTensor, _needed: [bool; 1]) -> [Option<DispatchTensor>; 1] {
        [Some(max_pool::backward(self.x, &self.windows, Tensor::from_dispatch(gradient)).into_dispatch())]
    }
}
