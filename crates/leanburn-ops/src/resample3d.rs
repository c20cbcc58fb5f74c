//! Resampling and average pooling: separable linear maps, whose backward is the transposed map and keeps no tensor.

use burn::backend::DispatchTensor;
use burn::tensor::Tensor;
use leanburn_kernels::axis_map::{AxisMap, AxisMapError};

use crate::engine::resample;
use crate::operation::{Operation, apply};

/// How values between voxels are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interpolation {
    /// The nearest voxel below, as PyTorch's `nearest`.
    Nearest,
    /// Between the nearest voxels of each axis.
    Trilinear {
        /// Whether the centres of the corner voxels stay where they are; else the outer edges of the volume do.
        align_corners: bool,
    },
}

/// Windows of [`avg_pool3d`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AvgPool3d {
    /// Size of the window.
    pub kernel_size: [usize; 3],
    /// Steps between windows.
    pub stride: [usize; 3],
    /// Zeros at both ends of each axis, at most half of the window.
    pub padding: [usize; 3],
    /// Whether the zeros of the padding count in the mean.
    pub count_include_pad: bool,
    /// Whether a last window may reach over the end.
    pub ceil_mode: bool,
}

impl AvgPool3d {
    /// Windows side by side, without padding.
    pub fn new(kernel_size: [usize; 3]) -> Self {
        Self { kernel_size, stride: kernel_size, padding: [0; 3], count_include_pad: true, ceil_mode: false }
    }
}

/// Resamples a volume to another size, any ratio for each axis.
///
/// Values as PyTorch's `interpolate(size=..)`.
///
/// # Shapes
///
/// - input: `[batch_size, channels, depth, height, width]`
/// - output: `[batch_size, channels, size..]`
///
/// # Memory
///
/// Holds nothing for backward. Workspace on the CPU: a few rows for each thread; elsewhere one volume between axes.
///
/// # Numerics
///
/// Weights are float32, also for float64 volumes.
///
/// # Panics
///
/// Panics if an axis of the volume or of `size` is zero.
pub fn interpolate3d(x: Tensor<5>, size: [usize; 3], interpolation: Interpolation) -> Tensor<5> {
    let dims = x.dims();
    mapped("interpolate3d", x, |axis| match interpolation {
        Interpolation::Nearest => AxisMap::nearest(dims[axis + 2], size[axis]),
        Interpolation::Trilinear { align_corners } => AxisMap::linear(dims[axis + 2], size[axis], align_corners),
    })
}

/// The mean of each window, as PyTorch's `avg_pool3d`.
///
/// Shapes and memory as [`interpolate3d`]; each axis of the output is `(size + 2 padding - kernel_size) / stride + 1`,
/// rounded down, or up in `ceil_mode`.
///
/// # Panics
///
/// Panics if a window is empty or larger than the padded volume, or the padding is more than half of it.
pub fn avg_pool3d(x: Tensor<5>, windows: AvgPool3d) -> Tensor<5> {
    let dims = x.dims();
    let AvgPool3d { kernel_size, stride, padding, count_include_pad, ceil_mode } = windows;
    mapped("avg_pool3d", x, |axis| {
        let padding = [padding[axis]; 2];
        AxisMap::average(dims[axis + 2], kernel_size[axis], stride[axis], padding, count_include_pad, ceil_mode)
    })
}

/// The mean of as many windows as the output has voxels, as PyTorch's `adaptive_avg_pool3d`.
///
/// Shapes, memory and panics as [`interpolate3d`].
pub fn adaptive_avg_pool3d(x: Tensor<5>, size: [usize; 3]) -> Tensor<5> {
    let dims = x.dims();
    mapped("adaptive_avg_pool3d", x, |axis| AxisMap::adaptive_average(dims[axis + 2], size[axis]))
}

/// Applies one map to each axis.
fn mapped(name: &str, x: Tensor<5>, map: impl Fn(usize) -> Result<AxisMap, AxisMapError>) -> Tensor<5> {
    let maps = [0, 1, 2].map(|axis| match map(axis) {
        Ok(map) => map,
        Err(error) => panic!("{name}, axis {axis}: {error}"),
    });
    let output = apply([Some(x.into_dispatch())], |[x], _| {
        let y = resample::resample3d(Tensor::from_dispatch(x.expect("given")), &maps);
        (y.into_dispatch(), Mapped { maps })
    });
    Tensor::from_dispatch(output)
}

/// What backward needs: the maps, a few numbers for each axis.
#[derive(Clone, Debug)]
struct Mapped {
    maps: [AxisMap; 3],
}

impl Operation<1> for Mapped {
    fn backward(self, gradient: DispatchTensor, _needed: [bool; 1]) -> [Option<DispatchTensor>; 1] {
        let maps = self.maps.each_ref().map(AxisMap::transpose);
        [Some(resample::resample3d(Tensor::from_dispatch(gradient), &maps).into_dispatch())]
    }
}
