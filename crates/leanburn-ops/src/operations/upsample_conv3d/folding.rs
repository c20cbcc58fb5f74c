//! The kernel of an enlargement and a convolution, folded into one.
//!
//! The elements of the kernel that fall on the same small voxel can be added before they meet it: enlargement by `f` and
//! a kernel of `k` are a transposed convolution with stride `f` and a kernel of `f + k - 1`. For `f = 2, k = 3` that is
//! 8 products for each output instead of 27. Sub-pixel convolution, as in
//! [Shi et al.](https://arxiv.org/abs/1609.05158), with tied weights.

use burn::tensor::ops::ConvOptions;
use leanburn_kernels::conv::ConvShape;

use crate::operations::conv_transpose3d::Transposed;
use crate::operations::conv3d::shape;

/// An enlargement, and the convolution behind it.
#[derive(Clone, Debug)]
pub(super) struct UpsampleConv {
    /// Dimensions of the small volume.
    pub(super) input: [usize; 5],
    /// Dimensions of the weight.
    pub(super) weight: [usize; 5],
    pub(super) factors: [usize; 3],
    pub(super) options: ConvOptions<3>,
}

impl UpsampleConv {
    /// # Panics
    ///
    /// Panics if a factor is zero, a stride or dilation is not one, or channels, groups and kernel do not go together.
    pub(super) fn new(input: [usize; 5], weight: [usize; 5], factors: [usize; 3], options: ConvOptions<3>) -> Self {
        assert!(!factors.contains(&0), "upsample_conv3d: factors {factors:?} must be at least one");
        assert!(
            options.stride == [1; 3] && options.dilation == [1; 3],
            "upsample_conv3d: stride {:?} and dilation {:?} must be one",
            options.stride,
            options.dilation
        );
        let this = Self { input, weight, factors, options };
        shape(this.enlarged(), weight, &this.options);
        this
    }

    /// Dimensions of the enlarged volume.
    pub(super) fn enlarged(&self) -> [usize; 5] {
        let [batch_size, channels, depth, height, width] = self.input;
        let [d, h, w] = self.factors;
        [batch_size, channels, depth * d, height * h, width * w]
    }

    /// The convolution whose transpose this is; `None` where its padding would be negative.
    pub(super) fn folded(&self) -> Option<Folded<'_>> {
        let whole = shape(self.enlarged(), self.weight, &self.options);
        let fits = |axis: usize| whole.padding[axis].iter().all(|padding| *padding < whole.kernel[axis]);
        if !(0..3).all(fits) {
            return None;
        }
        let shape = ConvShape {
            batch_size: whole.batch_size,
            channels_in: whole.channels_out,
            channels_out: whole.channels_in,
            groups: whole.groups,
            input: whole.output(),
            kernel: std::array::from_fn(|axis| whole.kernel[axis] + self.factors[axis] - 1),
            stride: self.factors,
            dilation: [1; 3],
            padding: std::array::from_fn(|axis| whole.padding[axis].map(|padding| whole.kernel[axis] - 1 - padding)),
        };
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

    /// Bytes of the folded weight.
    pub(super) fn weight_bytes(&self) -> usize {
        self.shape().weight_len() * size_of::<f32>()
    }

    /// Adds the elements of the kernel that meet the same voxel; `[channels_in, channels_out / groups, ..]`.
    pub(super) fn fold(&self, weight: &[f32]) -> Vec<f32> {
        let mut folded = vec![0.0; self.shape().weight_len()];
        self.for_each_pair(|at, folded_at| folded[folded_at] += weight[at]);
        folded
    }

    /// The gradient of the weight from that of the folded one.
    pub(super) fn unfold(&self, folded: &[f32]) -> Vec<f32> {
        let mut weight = vec![0.0; self.upsample.weight.iter().product()];
        self.for_each_pair(|at, folded_at| weight[at] += folded[folded_at]);
        weight
    }

    /// Every element of the weight with every element of the folded weight that it is part of.
    fn for_each_pair(&self, mut visit: impl FnMut(usize, usize)) {
        let shape = self.shape();
        let [channels_out, per_group, kernel @ ..] = self.upsample.weight;
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
                        first..first + self.upsample.factors[axis]
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
}
