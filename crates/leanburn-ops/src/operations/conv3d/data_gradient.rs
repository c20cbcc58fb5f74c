//! The gradient of a convolution's input on every engine.

use burn::tensor::Tensor;
use leanburn_kernels::axis_map::AxisMap;
use leanburn_kernels::conv::{self, ConvSettings, ConvShape, Input};

use super::composed;
use super::patches::{self, are_patches};
use crate::cube;
use crate::engine::{Computation, CpuTensor, Engine, Stored, float32_bytes, to_f32, with_element};
use crate::operations::check::valid;
use crate::recording::{Call, Recorder};

/// The gradient of the convolution's input (behind norm and activation) from the gradient of its output.
pub(crate) struct DataGradient<'a> {
    pub(crate) gradient: &'a Tensor<5>,
    pub(crate) weight: &'a Tensor<5>,
    pub(crate) shape: &'a ConvShape,
}

impl Computation for DataGradient<'_> {
    type Output = Tensor<5>;

    fn engine(&self) -> Engine {
        match are_patches(self.shape, self.gradient.dtype()) {
            true => Engine::composed_on_cpu(self.gradient),
            false => Engine::of(self.gradient),
        }
    }

    fn recorded(self, recorder: Recorder) -> Tensor<5> {
        let shape = self.shape;
        let workspace = float32_bytes(self.weight)
            + with_element!(self.gradient.dtype(), E => conv::data_gradient_workspace::<E>(shape));
        let call = Call::new(recorder, "conv3d_data_gradient").reads(self.gradient).reads(self.weight);
        call.costs(data_gradient_flops(shape), workspace).record_one(shape.input_dims(), self.gradient.dtype())
    }

    fn on_cpu<E: Stored>(self) -> Tensor<5> {
        let shape = self.shape;
        let gradient = CpuTensor::of(self.gradient.clone());
        let weight = to_f32(self.weight);
        let values = conv::data_gradient_allocating(shape, Input::plain(gradient.values::<E>()), &weight, None);
        CpuTensor::from_vec(values, shape.input_dims()).into_tensor()
    }

    /// The gradient of the output, with zeros between the strides, convolved with the kernel turned around.
    fn on_cube(self) -> Tensor<5> {
        let Self { gradient, weight, shape } = self;
        let ConvSettings { stride, dilation, padding, groups } = shape.settings();
        let ([_, _, input @ ..], [_, _, kernel @ ..]) = (shape.input_dims(), shape.weight_dims());
        let reach: [usize; 3] = std::array::from_fn(|axis| dilation[axis] * (kernel[axis] - 1));
        if (0..3).any(|axis| padding[axis].iter().any(|padding| *padding > reach[axis])) {
            return self.composed();
        }
        let maps: [AxisMap; 3] = std::array::from_fn(|axis| {
            let [before, after] = padding[axis];
            let length = input[axis] + before + after - reach[axis];
            AxisMap::every(length, stride[axis]).transpose()
        });
        let gradient = match maps.iter().all(AxisMap::is_identity) {
            true => gradient.clone(),
            false => cube::run(cube::Resample { x: gradient.clone(), maps: &maps }),
        };
        let padding = std::array::from_fn(|axis| padding[axis].map(|padding| reach[axis] - padding));
        let (weight, settings) = (turned(weight, groups), ConvSettings { stride: [1; 3], dilation, padding, groups });
        let shape = valid("conv3d's gradient", ConvShape::new(gradient.dims(), weight.dims(), settings));
        cube::run(cube::Convolve { x: gradient, weight: &weight, bias: None, shape: &shape })
    }

    fn composed(self) -> Tensor<5> {
        if are_patches(self.shape, self.gradient.dtype()) {
            return patches::data_gradient(self.gradient.clone(), self.weight, self.shape);
        }
        composed::data_gradient(self.gradient.clone(), self.weight, self.shape)
    }
}

/// Floating-point operations of a data gradient: for each input those outputs that see it, which of a slab are fewer than all that see the
/// slab.
pub(crate) fn data_gradient_flops(shape: &ConvShape) -> u64 {
    let [batch_size, _, input @ ..] = shape.input_dims();
    let positions = input.iter().fold(batch_size as u64, |positions, length| positions.saturating_mul(*length as u64));
    let apart = shape.settings().stride.iter().product::<usize>().max(1) as u64;
    shape.flops().min((2 * shape.weight_len() as u64).saturating_mul(positions) / apart)
}

/// `[out, in / groups, ..]` to `[in, out / groups, ..]`, turned around on every axis.
fn turned(weight: &Tensor<5>, groups: usize) -> Tensor<5> {
    let [channels_out, per_group, depth, height, width] = weight.dims();
    let out_per_group = channels_out / groups;
    let apart: Tensor<6> = weight.clone().reshape([groups, out_per_group, per_group, depth, height, width]);
    let swapped = apart.swap_dims(1, 2).reshape([groups * per_group, out_per_group, depth, height, width]);
    swapped.flip([2, 3, 4])
}
