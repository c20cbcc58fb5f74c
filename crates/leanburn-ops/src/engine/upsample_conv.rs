//! Nearest-neighbour enlargement by whole factors and a convolution behind it, without the enlarged volume.
//!
//! The elements of the kernel that fall on the same small voxel can be added before they meet it: enlargement by `f` and
//! a kernel of `k` are a transposed convolution with stride `f` and a kernel of `f + k - 1`. For `f = 2, k = 3` that is
//! 8 products for each output instead of 27. Sub-pixel convolution, as in
//! [Shi et al.](https://arxiv.org/abs/1609.05158), with tied weights.

use burn::tensor::{Tensor, ops::ConvOptions};
use leanburn_kernels::{axis_map::AxisMap, conv::ConvShape};

use super::conv::{self, Entry};
use super::conv_transpose::{
    recorded, recorded_data_gradient, recorded_weight_gradient, transposed, transposed_data_gradient,
    transposed_weight_gradient,
};
use crate::cpu::{CpuTensor, float32_bytes, to_f32};
use crate::cube;
use crate::numerics::{cast_to, widen};
use crate::recording::Call;

/// Enlargement and convolution: what both paths need to know.
#[derive(Clone, Debug)]
pub(crate) struct UpsampleConv {
    /// Dimensions of the small volume.
    input: [usize; 5],
    /// Dimensions of the weight.
    weight: [usize; 5],
    factors: [usize; 3],
    options: ConvOptions<3>,
}

impl UpsampleConv {
    /// # Panics
    ///
    /// Panics if a factor is zero, a stride or dilation is not one, or channels, groups and kernel do not go together.
    pub(crate) fn new(input: [usize; 5], weight: [usize; 5], factors: [usize; 3], options: ConvOptions<3>) -> Self {
        assert!(!factors.contains(&0), "upsample_conv3d: factors {factors:?} must be at least one");
        assert!(
            options.stride == [1; 3] && options.dilation == [1; 3],
            "upsample_conv3d: stride {:?} and dilation {:?} must be one",
            options.stride,
            options.dilation
        );
        let this = Self { input, weight, factors, options };
        conv::shape(this.enlarged(), weight, &this.options);
        this
    }

    /// Dimensions of the enlarged volume.
    fn enlarged(&self) -> [usize; 5] {
        let [batch_size, channels, depth, height, width] = self.input;
        let [d, h, w] = self.factors;
        [batch_size, channels, depth * d, height * h, width * w]
    }

    /// The convolution whose transpose this is; `None` where its padding would be negative.
    fn folded(&self) -> Option<ConvShape> {
        let whole = conv::shape(self.enlarged(), self.weight, &self.options);
        let fits = |axis: usize| whole.padding[axis].iter().all(|padding| *padding < whole.kernel[axis]);
        if !(0..3).all(fits) {
            return None;
        }
        Some(ConvShape {
            batch_size: whole.batch_size,
            channels_in: whole.channels_out,
            channels_out: whole.channels_in,
            groups: whole.groups,
            input: whole.output(),
            kernel: std::array::from_fn(|axis| whole.kernel[axis] + self.factors[axis] - 1),
            stride: self.factors,
            dilation: [1; 3],
            padding: std::array::from_fn(|axis| whole.padding[axis].map(|padding| whole.kernel[axis] - 1 - padding)),
        })
    }

    /// Adds the elements of the kernel that meet the same voxel; `[channels_in, channels_out / groups, ..]`.
    fn fold(&self, weight: &[f32], shape: &ConvShape) -> Vec<f32> {
        let mut folded = vec![0.0; shape.weight_len()];
        self.for_each_pair(shape, |at, folded_at| folded[folded_at] += weight[at]);
        folded
    }

    /// The gradient of the weight from that of the folded one.
    fn unfold(&self, folded: &[f32], shape: &ConvShape) -> Vec<f32> {
        let mut weight = vec![0.0; self.weight.iter().product()];
        self.for_each_pair(shape, |at, folded_at| weight[at] += folded[folded_at]);
        weight
    }

    /// Every element of the weight with every element of the folded weight that it is part of.
    fn for_each_pair(&self, shape: &ConvShape, mut visit: impl FnMut(usize, usize)) {
        let [channels_out, per_group, kernel @ ..] = self.weight;
        let out_per_group = channels_out / shape.groups;
        let [_, folded_height, folded_width] = shape.kernel;
        let taps: usize = kernel.iter().product();
        let folded_taps: usize = shape.kernel.iter().product();
        for channel_out in 0..channels_out {
            let (group, local_out) = (channel_out / out_per_group, channel_out % out_per_group);
            for local_in in 0..per_group {
                let at = (channel_out * per_group + local_in) * taps;
                let folded_at = ((group * per_group + local_in) * out_per_group + local_out) * folded_taps;
                for tap in 0..taps {
                    let place = [tap / (kernel[1] * kernel[2]), tap / kernel[2] % kernel[1], tap % kernel[2]];
                    let runs: [_; 3] = std::array::from_fn(|axis| {
                        let first = kernel[axis] - 1 - place[axis];
                        first..first + self.factors[axis]
                    });
                    for d in runs[0].clone() {
                        for h in runs[1].clone() {
                            for w in runs[2].clone() {
                                visit(at + tap, folded_at + (d * folded_height + h) * folded_width + w);
                            }
                        }
                    }
                }
            }
        }
    }

    /// `conv3d(nearest(x), weight) + bias`.
    pub(crate) fn forward(&self, x: &Tensor<5>, weight: &Tensor<5>, bias: Option<&Tensor<1>>) -> Tensor<5> {
        if let (Some(call), Some(shape)) = (Call::on("upsample_conv3d", x), self.folded()) {
            return recorded(call, &shape, x, weight, float32_bytes(weight) + folded_bytes(&shape));
        }
        match self.folded().filter(|_| CpuTensor::holds(x)) {
            Some(shape) => transposed(&shape, x, &self.fold(&to_f32(weight), &shape), bias),
            None => conv::forward(&self.repeat(x), &Entry::plain(), weight, bias, None, &self.options),
        }
    }

    /// The gradient of the small volume.
    pub(crate) fn data_gradient(&self, gradient: &Tensor<5>, weight: &Tensor<5>) -> Tensor<5> {
        if let (Some(call), Some(shape)) = (Call::on("upsample_conv3d_data_gradient", gradient), self.folded()) {
            let copies = float32_bytes(weight) + folded_bytes(&shape);
            return recorded_data_gradient(call, &shape, gradient, weight, copies);
        }
        match self.folded().filter(|_| CpuTensor::holds(gradient)) {
            Some(shape) => transposed_data_gradient(&shape, gradient, &self.fold(&to_f32(weight), &shape)),
            None => self.repeat_backward(conv::data_gradient(gradient, weight, self.enlarged(), &self.options)),
        }
    }

    /// The gradient of the weight, in the weight's shape and dtype.
    pub(crate) fn weight_gradient(&self, x: &Tensor<5>, gradient: &Tensor<5>, weight: &Tensor<5>) -> Tensor<5> {
        if let (Some(call), Some(shape)) = (Call::on("upsample_conv3d_weight_gradient", x), self.folded()) {
            return recorded_weight_gradient(call, &shape, x, gradient, weight, folded_bytes(&shape));
        }
        match self.folded().filter(|_| CpuTensor::holds(x)) {
            Some(shape) => {
                let sums = self.unfold(&transposed_weight_gradient(&shape, x, gradient), &shape);
                cast_to(CpuTensor::from_vec(sums, self.weight).into_tensor(), weight.dtype())
            }
            None => conv::weight_gradient(&self.repeat(x), &Entry::plain(), gradient, weight, &self.options),
        }
    }

    /// The enlargement of each axis.
    fn maps(&self) -> [AxisMap; 3] {
        let [_, _, input @ ..] = self.input;
        std::array::from_fn(|axis| AxisMap::repeat(input[axis], self.factors[axis]))
    }

    /// The enlarged volume.
    fn repeat(&self, x: &Tensor<5>) -> Tensor<5> {
        let [batch_size, channels, depth, height, width] = self.input;
        let [d, h, w] = self.factors;
        if cube::holds(x) {
            return cube::resample3d(x.clone(), &self.maps());
        }
        let items = batch_size * channels;
        let apart: Tensor<7> = x.clone().reshape([items, depth, 1, height, 1, width, 1]);
        apart.expand([items, depth, d, height, h, width, w]).reshape(self.enlarged())
    }

    /// The sum over the copies of each voxel, in float32.
    fn repeat_backward(&self, gradient: Tensor<5>) -> Tensor<5> {
        if cube::holds(&gradient) {
            return cube::resample3d(gradient, &self.maps().map(|map| map.transpose()));
        }
        let dtype = gradient.dtype();
        let [batch_size, channels, depth, height, width] = self.input;
        let [d, h, w] = self.factors;
        let apart: Tensor<7> = widen(gradient).reshape([batch_size * channels, depth, d, height, h, width, w]);
        cast_to(apart.sum_dim(6).sum_dim(4).sum_dim(2).reshape(self.input), dtype)
    }
}

/// Bytes of the folded weight.
fn folded_bytes(shape: &ConvShape) -> usize {
    shape.weight_len() * size_of::<f32>()
}
