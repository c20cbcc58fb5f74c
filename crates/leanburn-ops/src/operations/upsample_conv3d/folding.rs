//! The kernel of an enlargement and a convolution, folded into one.
//!
//! The elements of the kernel that fall on the same small voxel can be added before they meet it: enlargement by `f` and
//! a kernel of `k` are a transposed convolution with stride `f` and a kernel of `f + k - 1`. For `f = 2, k = 3` that is
//! 8 products for each output instead of 27. Sub-pixel convolution, as in
//! [Shi et al.](https://arxiv.org/abs/1609.05158), with tied weights.

use std::ops::Range;

use burn::tensor::{DType, Tensor};
use leanburn_kernels::conv::{ConvSettings, ConvShape};

use crate::operations::check::assert_not_empty;
use crate::operations::conv_transpose3d::Transposed;
use crate::operations::conv3d::Convolution;

/// An enlargement, and the convolution behind it.
#[derive(Clone, Debug)]
pub(crate) struct UpsampleConv {
    /// Dimensions of the small volume.
    pub(super) input: [usize; 5],
    pub(super) factors: [usize; 3],
    /// The convolution of the enlarged volume.
    pub(super) shape: ConvShape,
}

impl UpsampleConv {
    /// # Panics
    ///
    /// Panics if a factor is zero, a stride or dilation is not one, or shapes and dtypes do not go together.
    pub(crate) fn new(x: &Tensor<5>, factors: [usize; 3], convolution: &Convolution) -> Self {
        const OPERATION: &str = "upsample_conv3d";
        let options = &convolution.options;
        assert!(!factors.contains(&0), "{OPERATION}: factors are {factors:?}, expected at least 1");
        assert!(
            options.stride == [1; 3] && options.dilation == [1; 3],
            "{OPERATION}: stride is {:?} and dilation {:?}, expected 1",
            options.stride,
            options.dilation
        );
        assert_not_empty(OPERATION, "input", x);
        Self::of(x.dims(), x.dtype(), factors, convolution)
    }

    /// Of a volume of these dimensions, with arguments that are known to be valid but for the shape.
    pub(crate) fn of(input: [usize; 5], dtype: DType, factors: [usize; 3], convolution: &Convolution) -> Self {
        let mut enlarged = input;
        // What is too large for a number is too large for a volume.
        enlarged[2..].iter_mut().zip(factors).for_each(|(size, factor)| *size = size.saturating_mul(factor));
        Self { input, factors, shape: convolution.shape("upsample_conv3d", enlarged, dtype) }
    }

    /// Dimensions of the result.
    pub(crate) fn output_dims(&self) -> [usize; 5] {
        self.shape.output_dims()
    }

    /// Dimensions of the enlarged volume.
    pub(super) fn enlarged(&self) -> [usize; 5] {
        self.shape.input_dims()
    }

    /// The convolution whose transpose this is; `None` where its padding would be negative, or its weight too large.
    pub(super) fn folded(&self) -> Option<Folded<'_>> {
        let [channels_out, per_group, kernel @ ..] = self.shape.weight_dims();
        let ConvSettings { padding, groups, .. } = self.shape.settings();
        let fits = |axis: usize| padding[axis].iter().all(|padding| *padding < kernel[axis]);
        if !(0..3).all(fits) {
            return None;
        }
        let [depth, height, width] = std::array::from_fn(|axis| kernel[axis] + self.factors[axis] - 1);
        let weight = [per_group * groups, channels_out / groups, depth, height, width];
        let settings = ConvSettings {
            stride: self.factors,
            dilation: [1; 3],
            padding: std::array::from_fn(|axis| padding[axis].map(|padding| kernel[axis] - 1 - padding)),
            groups,
        };
        let shape = ConvShape::new(self.shape.output_dims(), weight, settings).ok()?;
        Some(Folded { transposed: Transposed(shape), upsample: self })
    }
}

/// The transposed convolution that takes the place of enlargement and convolution.
#[derive(Debug)]
pub(super) struct Folded<'a> {
    pub(super) transposed: Transposed,
    pub(super) upsample: &'a UpsampleConv,
}

impl Folded<'_> {
    fn shape(&self) -> &ConvShape {
        &self.transposed.0
    }

    /// Bytes of the folded weight, and of what says how it is folded.
    pub(super) fn bytes(&self) -> usize {
        self.shape().weight_len() * size_of::<f32>() + self.pairs_len() * size_of::<(usize, usize)>()
    }

    /// Adds the elements of the kernel that meet the same voxel; `[channels_in, channels_out / groups, ..]`.
    pub(super) fn fold(&self, weight: &[f32]) -> Vec<f32> {
        let mut folded = vec![0.0; self.shape().weight_len()];
        self.for_each_kernel(|at, folded_at, pairs| {
            let (kernel, folded) = (&weight[at], &mut folded[folded_at]);
            pairs.iter().for_each(|&(tap, folded_tap)| folded[folded_tap] += kernel[tap]);
        });
        folded
    }

    /// The gradient of the weight from that of the folded one.
    pub(super) fn unfold(&self, folded: &[f32]) -> Vec<f32> {
        let mut weight = vec![0.0; self.upsample.shape.weight_len()];
        self.for_each_kernel(|at, folded_at, pairs| {
            let (kernel, folded) = (&mut weight[at], &folded[folded_at]);
            pairs.iter().for_each(|&(tap, folded_tap)| kernel[tap] += folded[folded_tap]);
        });
        weight
    }

    /// Where each kernel of two channels lies in the weight and in the folded weight, and every element of it with every element of the
    /// folded one that it is part of.
    fn for_each_kernel(&self, mut visit: impl FnMut(Range<usize>, Range<usize>, &[(usize, usize)])) {
        let [channels_out, per_group, kernel @ ..] = self.upsample.shape.weight_dims();
        let [_, out_per_group, folded @ ..] = self.shape().weight_dims();
        let [taps, folded_taps]: [usize; 2] = [kernel, folded].map(|sizes| sizes.iter().product());
        let pairs = self.pairs(kernel, folded);
        for channel_out in 0..channels_out {
            let (group, local_out) = (channel_out / out_per_group, channel_out % out_per_group);
            for local_in in 0..per_group {
                let at = (channel_out * per_group + local_in) * taps;
                let folded_at = ((group * per_group + local_in) * out_per_group + local_out) * folded_taps;
                visit(at..at + taps, folded_at..folded_at + folded_taps, &pairs);
            }
        }
    }

    /// Every element of a kernel with every element of the folded one that it is part of.
    fn pairs(&self, kernel: [usize; 3], [_, folded_height, folded_width]: [usize; 3]) -> Vec<(usize, usize)> {
        let mut pairs = Vec::with_capacity(self.pairs_len());
        for tap in 0..kernel.iter().product() {
            let place = [tap / (kernel[1] * kernel[2]), tap / kernel[2] % kernel[1], tap % kernel[2]];
            let runs: [_; 3] = std::array::from_fn(|axis| {
                let first = kernel[axis] - 1 - place[axis];
                first..first + self.upsample.factors[axis]
            });
            for d in runs[0].clone() {
                for h in runs[1].clone() {
                    pairs.extend(runs[2].clone().map(|w| (tap, (d * folded_height + h) * folded_width + w)));
                }
            }
        }
        pairs
    }

    fn pairs_len(&self) -> usize {
        let [_, _, kernel @ ..] = self.upsample.shape.weight_dims();
        kernel.iter().chain(&self.upsample.factors).product()
    }
}
