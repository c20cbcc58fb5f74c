//! The kernels as operations of Burn's backends, with fusion and without.

use burn::backend::fusion::custom::TensorSpec;
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Backend, backend_extension};
use burn::tensor::DType;
use burn_cubecl::CubeBackend;
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::tensor::CubeTensor;
use leanburn_kernels::Activation;
use leanburn_kernels::conv::ConvShape;

use super::volume::Volume;
use super::{conv, max_pool, norm, resample, statistics};
use crate::cube::parts::parts_of;

/// `[batch_size, channels]` in float32.
fn of_channels(x: &TensorSpec) -> TensorSpec {
    TensorSpec::new([x.shape[0], x.shape[1]].into(), DType::F32)
}

/// `[batch_size, channels, parts]` in float32.
fn of_parts(x: &TensorSpec) -> TensorSpec {
    TensorSpec::new([x.shape[0], x.shape[1], parts_of(x.shape.dims())].into(), DType::F32)
}

fn volume(x: &TensorSpec, dims: &[usize; 5]) -> TensorSpec {
    TensorSpec::new((*dims).into(), x.dtype)
}

/// What the kernels of this crate compute, on the devices that have them.
#[backend_extension(Cube, Fusion)]
pub(crate) trait CubeOps: Backend {
    /// The volume, with plain strides if its values are in that order.
    #[fusion(meta = TensorSpec::clone)]
    fn in_order(x: FloatTensor<Self>) -> FloatTensor<Self>;

    /// The mean of some positions of each channel, `[batch_size, channels]`.
    #[fusion(meta = of_channels)]
    fn sampled_mean(x: FloatTensor<Self>) -> FloatTensor<Self>;

    /// The parts of the sums of `x - origin`, and of its square, over each channel, `[batch_size, channels, parts]`;
    /// `origin` is `[batch_size, channels]`.
    #[fusion(meta = |x, _: &TensorSpec| (of_parts(x), of_parts(x)))]
    fn moments(x: FloatTensor<Self>, origin: FloatTensor<Self>) -> (FloatTensor<Self>, FloatTensor<Self>);

    /// `activation(scale * x + shift)`; scale and shift are `[batch_size, channels]`.
    #[fusion(meta = |x, _: &TensorSpec, _: &TensorSpec, _: &Activation| x.clone())]
    fn norm_act(
        x: FloatTensor<Self>,
        scale: FloatTensor<Self>,
        shift: FloatTensor<Self>,
        activation: Activation,
    ) -> FloatTensor<Self>;

    /// The parts of the sums over each channel of the gradient before the activation, and of it times `x - mean`,
    /// `[batch_size, channels, parts]`.
    #[fusion(meta = |x, _: &TensorSpec, _: &TensorSpec, _: &TensorSpec, _: &TensorSpec, _: &Activation| {
        (of_parts(x), of_parts(x))
    })]
    fn norm_act_sums(
        x: FloatTensor<Self>,
        gradient: FloatTensor<Self>,
        scale: FloatTensor<Self>,
        shift: FloatTensor<Self>,
        mean: FloatTensor<Self>,
        activation: Activation,
    ) -> (FloatTensor<Self>, FloatTensor<Self>);

    /// `gradient * activation'(scale * x + shift) * scale + centered_scale * (x - mean) + offset`.
    #[fusion(meta = |x, _: &TensorSpec, _: &TensorSpec, _: &TensorSpec, _: &TensorSpec, _: &TensorSpec,
        _: &TensorSpec, _: &Activation| x.clone())]
    fn norm_act_gradient(
        x: FloatTensor<Self>,
        gradient: FloatTensor<Self>,
        scale: FloatTensor<Self>,
        shift: FloatTensor<Self>,
        mean: FloatTensor<Self>,
        centered_scale: FloatTensor<Self>,
        offset: FloatTensor<Self>,
        activation: Activation,
    ) -> FloatTensor<Self>;

    /// A separable linear map of the three axes to a volume of `dims`.
    #[fusion(meta = |x, _: &TensorSpec, _: &TensorSpec, _: &TensorSpec, dims| volume(x, dims))]
    fn resample3d(
        x: FloatTensor<Self>,
        runs: IntTensor<Self>,
        starts: IntTensor<Self>,
        weights: FloatTensor<Self>,
        dims: [usize; 5],
    ) -> FloatTensor<Self>;

    /// The largest value of each window, a volume of `dims`.
    #[fusion(meta = |x, _: &TensorSpec, _: &TensorSpec, dims| volume(x, dims))]
    fn max_pool3d(
        x: FloatTensor<Self>,
        runs: IntTensor<Self>,
        inputs: IntTensor<Self>,
        dims: [usize; 5],
    ) -> FloatTensor<Self>;

    /// The gradient of [`max_pool3d`](Self::max_pool3d)'s volume.
    #[fusion(meta = |x, _: &TensorSpec, _: &TensorSpec, _: &TensorSpec, _: &TensorSpec, _: &TensorSpec| x.clone())]
    fn max_pool3d_gradient(
        x: FloatTensor<Self>,
        runs: IntTensor<Self>,
        inputs: IntTensor<Self>,
        runs_back: IntTensor<Self>,
        outputs: IntTensor<Self>,
        gradient: FloatTensor<Self>,
    ) -> FloatTensor<Self>;

    /// `conv3d(x, weight) + bias`; weight and bias are float32.
    #[fusion(meta = |x, _: &TensorSpec, _: &TensorSpec, shape| volume(x, &shape.output_dims()))]
    fn convolve3d(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        shape: ConvShape,
    ) -> FloatTensor<Self>;

    /// The parts of the gradient of a convolution's weight, in float32.
    #[fusion(meta = |_: &TensorSpec, _: &TensorSpec, shape| {
        TensorSpec::new(crate::cube::parts::dims_of_weight_parts(shape).into(), DType::F32)
    })]
    fn convolve3d_weight_gradient(
        x: FloatTensor<Self>,
        gradient: FloatTensor<Self>,
        shape: ConvShape,
    ) -> FloatTensor<Self>;
}

impl CubeOps for CubeBackend {
    fn in_order(x: CubeTensor) -> CubeTensor {
        Volume::of(x).in_order()
    }

    fn sampled_mean(x: CubeTensor) -> CubeTensor {
        statistics::sampled_mean(x)
    }

    fn moments(x: CubeTensor, origin: CubeTensor) -> (CubeTensor, CubeTensor) {
        statistics::moments(x, into_contiguous(origin)).into()
    }

    fn norm_act(x: CubeTensor, scale: CubeTensor, shift: CubeTensor, activation: Activation) -> CubeTensor {
        norm::norm_act(x, into_contiguous(scale), into_contiguous(shift), activation)
    }

    fn norm_act_sums(
        x: CubeTensor,
        gradient: CubeTensor,
        scale: CubeTensor,
        shift: CubeTensor,
        mean: CubeTensor,
        activation: Activation,
    ) -> (CubeTensor, CubeTensor) {
        norm::norm_act_sums(x, gradient, [scale, shift, mean].map(into_contiguous), activation).into()
    }

    fn norm_act_gradient(
        x: CubeTensor,
        gradient: CubeTensor,
        scale: CubeTensor,
        shift: CubeTensor,
        mean: CubeTensor,
        centered_scale: CubeTensor,
        offset: CubeTensor,
        activation: Activation,
    ) -> CubeTensor {
        let maps = [scale, shift, mean, centered_scale, offset].map(into_contiguous);
        norm::norm_act_gradient(x, gradient, maps, activation)
    }

    fn resample3d(
        x: CubeTensor,
        runs: CubeTensor,
        starts: CubeTensor,
        weights: CubeTensor,
        dims: [usize; 5],
    ) -> CubeTensor {
        resample::resample(x, [runs, starts, weights].map(into_contiguous), dims)
    }

    fn max_pool3d(x: CubeTensor, runs: CubeTensor, inputs: CubeTensor, dims: [usize; 5]) -> CubeTensor {
        max_pool::max_pool(x, [runs, inputs].map(into_contiguous), dims)
    }

    fn max_pool3d_gradient(
        x: CubeTensor,
        runs: CubeTensor,
        inputs: CubeTensor,
        runs_back: CubeTensor,
        outputs: CubeTensor,
        gradient: CubeTensor,
    ) -> CubeTensor {
        let windows = [runs, inputs].map(into_contiguous);
        max_pool::max_pool_gradient(x, windows, [runs_back, outputs].map(into_contiguous), gradient)
    }

    fn convolve3d(x: CubeTensor, weight: CubeTensor, bias: CubeTensor, shape: ConvShape) -> CubeTensor {
        conv::forward(x, weight, bias, &shape)
    }

    fn convolve3d_weight_gradient(x: CubeTensor, gradient: CubeTensor, shape: ConvShape) -> CubeTensor {
        conv::weight_gradient(x, gradient, &shape)
    }
}
