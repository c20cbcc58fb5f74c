//! Operations of this crate on the CubeCL devices, and on a device that records in their place.
//!
//! Convolutions and products of matrices are Burn's there, autotuned; what is made of many small operations in a
//! composition is one kernel here.

#[cfg(feature = "cube")]
mod kernels;
mod table;

#[cfg(feature = "cube")]
use burn::backend::DispatchDevice;
use burn::tensor::{DType, Tensor};
use leanburn_kernels::{Activation, axis_map::AxisMap, max_pool::PoolWindows};

use crate::recording::Call;

/// Floating-point operations for each value, roughly: sums and squares; a scale, a shift and an exponential; both again.
pub(crate) const FLOPS_OF_STATISTICS: u64 = 4;
pub(crate) const FLOPS_OF_NORM_ACT: u64 = 8;
pub(crate) const FLOPS_OF_SUMS: u64 = 10;

/// Units that share the positions of a channel at most, and positions that are worth one.
const MOST_PARTS: usize = 2048;
const POSITIONS_OF_A_PART: usize = 64;

/// How many units share the positions of a channel of a volume.
fn parts_of([_, _, depth, height, width]: [usize; 5]) -> usize {
    (depth * height * width / POSITIONS_OF_A_PART).clamp(1, MOST_PARTS)
}

/// Whether the operations of this module compute on the tensor, or are written down for it.
pub(crate) fn holds<const D: usize>(tensor: &Tensor<D>) -> bool {
    let is_float = matches!(tensor.dtype(), DType::F32 | DType::F16 | DType::BF16);
    is_float && (is_cube(tensor) || Call::on_cube("", tensor).is_some())
}

#[cfg(feature = "cube")]
fn is_cube<const D: usize>(tensor: &Tensor<D>) -> bool {
    matches!(tensor.device().as_dispatch(), DispatchDevice::Cube(_))
}

#[cfg(not(feature = "cube"))]
fn is_cube<const D: usize>(_tensor: &Tensor<D>) -> bool {
    false
}

/// Runs an operation of the kernels; tensors go in and come out as Burn's dispatch has them.
macro_rules! launch {
    ($operation:ident($($argument:expr),* $(,)?)) => {{
        #[cfg(feature = "cube")]
        {
            let output = <burn::backend::Dispatch as kernels::CubeOps>::$operation($($argument),*);
            crate::probe::look();
            output
        }
        #[cfg(not(feature = "cube"))]
        {
            $(let _ = $argument;)*
            nowhere()
        }
    }};
}

/// What is launched in a build that [`holds`] no tensor of a CubeCL device.
#[cfg(not(feature = "cube"))]
fn nowhere<T>() -> T {
    unreachable!("there is no CubeCL device in this build")
}

/// What a convolution of Burn's makes (a volume or the gradient of a weight), with the strides of a plain layout along axes
/// of length one, where any stride would do.
///
/// Burn's convolutions have the channels innermost: one channel has a stride of one, as the width then has. Burn 0.22.1
/// takes that for another order of the axes, and what it fuses reads wrong values (`one_channel_and_what_is_fused_behind_it`
/// in `tests/operations/gpu.rs`).
pub(crate) fn in_order(x: Tensor<5>) -> Tensor<5> {
    match is_cube(&x) && x.dims().contains(&1) {
        true => Tensor::from_dispatch(launch!(in_order(x.into_dispatch()))),
        false => x,
    }
}

/// The mean of some positions of each channel, `[batch_size, channels]`, float32.
pub(crate) fn sampled_mean(x: &Tensor<5>) -> Tensor<2> {
    if let Some(call) = Call::on_cube("sampled_mean", x) {
        return call.reads(x).record_one([x.dims()[0], x.dims()[1]], DType::F32);
    }
    Tensor::from_dispatch(launch!(sampled_mean(x.clone().into_dispatch())))
}

/// The sums of `x - origin`, and of its square, over each channel: each `[batch_size, channels]`, float32, as is `origin`.
pub(crate) fn moments(x: &Tensor<5>, origin: Tensor<2>) -> [Tensor<2>; 2] {
    if let Some(call) = Call::on_cube("moments", x) {
        return added_up(recorded_parts(call.reads(x).takes(origin).costs(FLOPS_OF_STATISTICS * values(x), 0), x));
    }
    let (sums, squares) = launch!(moments(x.clone().into_dispatch(), origin.into_dispatch()));
    added_up([sums, squares].map(Tensor::from_dispatch))
}

/// `activation(scale * x + shift)`; scale and shift are `[batch_size, channels]`, float32.
pub(crate) fn norm_act(x: Tensor<5>, [scale, shift]: [Tensor<2>; 2], activation: Activation) -> Tensor<5> {
    let (dims, dtype) = (x.dims(), x.dtype());
    if let Some(call) = Call::on_cube("norm_act", &x) {
        return call
            .costs(FLOPS_OF_NORM_ACT * values(&x), 0)
            .takes(x)
            .takes(scale)
            .takes(shift)
            .record_one(dims, dtype);
    }
    let [scale, shift] = [scale, shift].map(Tensor::into_dispatch);
    Tensor::from_dispatch(launch!(norm_act(x.into_dispatch(), scale, shift, activation)))
}

/// The sums over each channel of the gradient before the activation, and of it times `x - mean`: each
/// `[batch_size, channels]`, float32.
pub(crate) fn norm_act_sums(
    x: &Tensor<5>,
    gradient: &Tensor<5>,
    [scale, shift, mean]: [Tensor<2>; 3],
    activation: Activation,
) -> [Tensor<2>; 2] {
    if let Some(call) = Call::on_cube("norm_act_sums", x) {
        let call = call.reads(x).reads(gradient).takes(scale).takes(shift).takes(mean);
        return added_up(recorded_parts(call.costs(FLOPS_OF_SUMS * values(x), 0), x));
    }
    let [x, gradient] = [x, gradient].map(|volume| volume.clone().into_dispatch());
    let [scale, shift, mean] = [scale, shift, mean].map(Tensor::into_dispatch);
    let (sums, products) = launch!(norm_act_sums(x, gradient, scale, shift, mean, activation));
    added_up([sums, products].map(Tensor::from_dispatch))
}

/// `gradient * activation'(scale * x + shift) * scale + slant * (x - mean) + offset`, over the gradient where nobody else
/// holds it; `maps` are scale, shift, mean, slant and offset, each `[batch_size, channels]`, float32.
pub(crate) fn norm_act_gradient(
    x: Tensor<5>,
    gradient: Tensor<5>,
    maps: [Tensor<2>; 5],
    activation: Activation,
) -> Tensor<5> {
    let (dims, dtype) = (x.dims(), x.dtype());
    if let Some(call) = Call::on_cube("norm_act_gradient", &x) {
        let call = call.costs(FLOPS_OF_SUMS * values(&x), 0).takes(x).writes_over(gradient);
        return maps.into_iter().fold(call, Call::takes).record_one(dims, dtype);
    }
    let [x, gradient] = [x, gradient].map(Tensor::into_dispatch);
    let [scale, shift, mean, slant, offset] = maps.map(Tensor::into_dispatch);
    Tensor::from_dispatch(launch!(norm_act_gradient(x, gradient, scale, shift, mean, slant, offset, activation)))
}

/// A map of each axis.
pub(crate) fn resample3d(x: Tensor<5>, maps: &[AxisMap; 3]) -> Tensor<5> {
    let [batch_size, channels, ..] = x.dims();
    let [depth, height, width] = maps.each_ref().map(AxisMap::output_len);
    let dims = [batch_size, channels, depth, height, width];
    if let Some(call) = Call::on_cube("resample3d", &x) {
        let dtype = x.dtype();
        let flops = 8 * (dims.iter().product::<usize>() as u64).max(values(&x));
        return call.takes(x).costs(flops, 0).record_one(dims, dtype);
    }
    let ([runs, starts], weights) = table::of_maps(maps, &x.device());
    let [runs, starts] = [runs, starts].map(Tensor::into_dispatch);
    Tensor::from_dispatch(launch!(resample3d(x.into_dispatch(), runs, starts, weights.into_dispatch(), dims)))
}

/// The largest value of each window.
pub(crate) fn max_pool3d(x: &Tensor<5>, windows: &PoolWindows) -> Tensor<5> {
    let [batch_size, channels, ..] = x.dims();
    let [depth, height, width] = windows.output();
    let dims = [batch_size, channels, depth, height, width];
    if let Some(call) = Call::on_cube("max_pool3d", x) {
        return call.reads(x).costs(values(x), 0).record_one(dims, x.dtype());
    }
    let [runs, inputs] = table::of_windows(windows, &x.device()).map(Tensor::into_dispatch);
    Tensor::from_dispatch(launch!(max_pool3d(x.clone().into_dispatch(), runs, inputs, dims)))
}

/// The gradient of the volume: that of each output goes to the first maximum of its window.
pub(crate) fn max_pool3d_gradient(x: Tensor<5>, windows: &PoolWindows, gradient: Tensor<5>) -> Tensor<5> {
    if let Some(call) = Call::on_cube("max_pool3d_gradient", &x) {
        let (dims, dtype, flops) = (x.dims(), x.dtype(), values(&x));
        return call.takes(x).takes(gradient).costs(flops, 0).record_one(dims, dtype);
    }
    let [runs, inputs] = table::of_windows(windows, &x.device()).map(Tensor::into_dispatch);
    let [runs_back, outputs] = table::of_inputs(windows, &x.device()).map(Tensor::into_dispatch);
    let [x, gradient] = [x, gradient].map(Tensor::into_dispatch);
    Tensor::from_dispatch(launch!(max_pool3d_gradient(x, runs, inputs, runs_back, outputs, gradient)))
}

fn values(x: &Tensor<5>) -> u64 {
    x.shape().num_elements() as u64
}

/// The parts of two sums over each channel, written down.
fn recorded_parts(call: Call, x: &Tensor<5>) -> [Tensor<3>; 2] {
    let dims = [x.dims()[0], x.dims()[1], parts_of(x.dims())];
    let mut outputs = call.gives(dims, DType::F32).gives(dims, DType::F32).record();
    [(); 2].map(|()| Tensor::from_dispatch(outputs.next().expect("two outputs were asked for")))
}

fn added_up(parts: [Tensor<3>; 2]) -> [Tensor<2>; 2] {
    parts.map(|parts| {
        let [batch_size, channels, _] = parts.dims();
        parts.sum_dim(2).reshape([batch_size, channels])
    })
}
