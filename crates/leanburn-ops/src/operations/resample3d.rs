//! Resampling and average pooling: separable linear maps, whose backward is the transposed map and saves no tensor.

use burn::tensor::{Tensor, TensorData};
use leanburn_kernels::axis_map::AxisMap;
use leanburn_kernels::{ShapeError, check_volume, resample};

use super::check::{assert_not_empty, valid};
use super::operation::{AnyTensor, Operation, apply};
use crate::cube;
use crate::engine::{Computation, CpuTensor, Engine, Stored, run};
use crate::numerics::cast_to;
use crate::recording::{Call, Recorder};

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
    #[must_use]
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
/// - input: `[batch_size, channels, depth, height, width]`, no axis empty
/// - output: `[batch_size, channels, size..]`
///
/// # Memory
///
/// Saves nothing for backward. Workspace on the CPU: a few rows for each thread; elsewhere one volume between axes.
///
/// # Numerics
///
/// Weights are float32, also for float64 volumes.
///
/// # Panics
///
/// Panics if an axis of the volume (the batch too) or of `size` is zero, or the input or the output takes more than 128 TiB.
#[must_use]
pub fn interpolate3d(x: Tensor<5>, size: [usize; 3], interpolation: Interpolation) -> Tensor<5> {
    let dims = x.dims();
    mapped(
        "interpolate3d",
        x,
        |axis| Ok(size[axis]),
        |axis| match interpolation {
            Interpolation::Nearest => AxisMap::nearest(dims[axis + 2], size[axis]),
            Interpolation::Trilinear { align_corners } => AxisMap::linear(dims[axis + 2], size[axis], align_corners),
        },
    )
}

/// The mean of each window, as PyTorch's `avg_pool3d`.
///
/// Shapes and memory as [`interpolate3d`]; each axis of the output is `(size + 2 padding - kernel_size) / stride + 1`,
/// rounded down, or up in `ceil_mode`.
///
/// # Panics
///
/// Panics if an axis of the input is empty (an empty batch too); a kernel or stride is zero; a window is larger than the padded
/// volume; the padding is more than half of the kernel; or the input takes more than 128 TiB.
#[must_use]
pub fn avg_pool3d(x: Tensor<5>, windows: AvgPool3d) -> Tensor<5> {
    let dims = x.dims();
    let AvgPool3d { kernel_size, stride, padding, count_include_pad, ceil_mode } = windows;
    let average = |axis: usize| (dims[axis + 2], kernel_size[axis], stride[axis], [padding[axis]; 2]);
    let size = |axis| {
        let (from, kernel, stride, padding) = average(axis);
        AxisMap::average_len(from, kernel, stride, padding, ceil_mode)
    };
    mapped("avg_pool3d", x, size, |axis| {
        let (from, kernel, stride, padding) = average(axis);
        AxisMap::average(from, kernel, stride, padding, count_include_pad, ceil_mode)
    })
}

/// The mean of as many windows as the output has voxels, as PyTorch's `adaptive_avg_pool3d`.
///
/// Shapes, memory and panics as [`interpolate3d`].
#[must_use]
pub fn adaptive_avg_pool3d(x: Tensor<5>, size: [usize; 3]) -> Tensor<5> {
    let dims = x.dims();
    let map = |axis| AxisMap::adaptive_average(dims[axis + 2], size[axis]);
    mapped("adaptive_avg_pool3d", x, |axis| Ok(size[axis]), map)
}

/// Applies one map to each axis, which leads to this size of it: the volumes are checked before there are maps.
fn mapped(
    name: &str,
    x: Tensor<5>,
    size: impl Fn(usize) -> Result<usize, ShapeError>,
    map: impl Fn(usize) -> Result<AxisMap, ShapeError>,
) -> Tensor<5> {
    assert_not_empty(name, "input", &x);
    let size = |axis| valid(name, size(axis).map_err(|error| error.along(axis)));
    let [depth, height, width] = [0, 1, 2].map(size);
    let [batch_size, channels, ..] = x.dims();
    valid(name, check_volume("the input", &x.dims()));
    valid(name, check_volume("the output", &[batch_size, channels, depth, height, width]));
    let maps = [0, 1, 2].map(|axis| valid(name, map(axis).map_err(|error| error.along(axis))));
    apply([x.into()], |[x], _| (run(Resample { x: x.given(), maps: &maps }), Mapped { maps }))
}

/// A volume without autodiff in another size, [trilinear](Interpolation::Trilinear) with outer edges that stay.
pub(crate) fn resize_trilinear(x: Tensor<5>, size: [usize; 3]) -> Tensor<5> {
    let [_, _, from @ ..] = x.dims();
    run(Resample { x, maps: &linear_maps(from, size) })
}

/// The gradient of a volume of size `from` that was [resized](resize_trilinear), from that of the result.
pub(crate) fn resize_trilinear_gradient(gradient: Tensor<5>, from: [usize; 3]) -> Tensor<5> {
    let [_, _, size @ ..] = gradient.dims();
    let maps = linear_maps(from, size);
    run(Resample { x: gradient, maps: &maps.each_ref().map(AxisMap::transpose) })
}

fn linear_maps(from: [usize; 3], to: [usize; 3]) -> [AxisMap; 3] {
    [0, 1, 2].map(|axis| {
        valid("interpolate3d", AxisMap::linear(from[axis], to[axis], false).map_err(|error| error.along(axis)))
    })
}

/// What backward needs: the maps, a few numbers for each axis.
#[derive(Clone, Debug)]
struct Mapped {
    maps: [AxisMap; 3],
}

impl Operation<1> for Mapped {
    fn backward(self, gradient: Tensor<5>, _needed: [bool; 1]) -> [AnyTensor; 1] {
        let maps = self.maps.each_ref().map(AxisMap::transpose);
        [run(Resample { x: gradient, maps: &maps }).into()]
    }
}

/// One map applied to each axis, depth first.
struct Resample<'a> {
    x: Tensor<5>,
    maps: &'a [AxisMap; 3],
}

impl Resample<'_> {
    fn output_dims(&self) -> [usize; 5] {
        let [batch_size, channels, ..] = self.x.dims();
        let [depth, height, width] = self.maps.each_ref().map(AxisMap::output_len);
        [batch_size, channels, depth, height, width]
    }
}

impl Computation for Resample<'_> {
    type Output = Tensor<5>;

    fn engine(&self) -> Engine {
        Engine::of(&self.x)
    }

    fn recorded(self, recorder: Recorder) -> Tensor<5> {
        let (dims, dtype) = (self.output_dims(), self.x.dtype());
        let flops = 8 * dims.iter().product::<usize>().max(self.x.shape().num_elements()) as u64;
        Call::new(recorder, "resample3d").takes(self.x).costs(flops, 0).record_one(dims, dtype)
    }

    fn on_cpu<E: Stored>(self) -> Tensor<5> {
        let dims @ [batch_size, channels, ..] = self.output_dims();
        let x = CpuTensor::of(self.x);
        let mut y = CpuTensor::zeros::<E, 5>(dims);
        resample::resample(batch_size * channels, self.maps.each_ref(), x.values::<E>(), y.values_mut::<E>());
        y.into_tensor()
    }

    fn on_cube(self) -> Tensor<5> {
        cube::run(cube::Resample { x: self.x, maps: self.maps })
    }

    /// One product with a small matrix for each axis.
    fn composed(self) -> Tensor<5> {
        let Self { x, maps } = self;
        let dtype = x.dtype();
        maps.iter().enumerate().filter(|(_, map)| !map.is_identity()).fold(x, |x, (axis, map)| {
            let mut dims = x.dims();
            let [before, after] = [&dims[..axis + 2], &dims[axis + 3..]].map(|dims| dims.iter().product::<usize>());
            let matrix = TensorData::new(map.dense(), [1, map.output_len(), map.input_len()]);
            let matrix = cast_to(Tensor::<3>::from_data(matrix, &x.device()), dtype);
            let rows: Tensor<3> = x.reshape([before, map.input_len(), after]);
            dims[axis + 2] = map.output_len();
            matrix.expand([before, map.output_len(), map.input_len()]).matmul(rows).reshape(dims)
        })
    }
}
