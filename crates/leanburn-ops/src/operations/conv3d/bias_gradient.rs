//! The gradient of a convolution's bias on every engine.

use burn::tensor::{DType, Tensor};
use leanburn_kernels::{Activation, conv};

use crate::cube;
use crate::engine::{Computation, CpuTensor, Engine, Stored};
use crate::numerics::cast_to;
use crate::recording::{Call, Recorder};

/// The gradient of the bias: the sum of each channel, `[channels]`, in the bias's dtype.
pub(crate) struct BiasGradient<'a> {
    pub(crate) gradient: &'a Tensor<5>,
    pub(crate) dtype: DType,
}

impl Computation for BiasGradient<'_> {
    type Output = Tensor<1>;

    fn engine(&self) -> Engine {
        Engine::of(self.gradient)
    }

    fn recorded(self, recorder: Recorder) -> Tensor<1> {
        let flops = self.gradient.shape().num_elements() as u64;
        let call = Call::new(recorder, "conv3d_bias_gradient").reads(self.gradient).costs(flops, 0);
        call.record_one([self.gradient.dims()[1]], self.dtype)
    }

    fn on_cpu<E: Stored>(self) -> Tensor<1> {
        let [batch_size, channels, ..] = self.gradient.dims();
        let gradient = CpuTensor::of(self.gradient.clone());
        let mut sums = vec![0.0; channels];
        conv::bias_gradient(batch_size, channels, gradient.values::<E>(), &mut sums);
        cast_to(CpuTensor::from_vec(sums, [channels]).into_tensor(), self.dtype)
    }

    fn on_cube(self) -> Tensor<1> {
        let Self { gradient, dtype } = self;
        let [batch_size, channels, ..] = gradient.dims();
        let zeros = Tensor::<2>::zeros([batch_size, channels], (&gradient.device(), DType::F32));
        let (scale, shift, mean) = (zeros.ones_like(), zeros.clone(), zeros);
        let activation = Activation::None;
        let [sums, _] = cube::run(cube::NormActSums { x: gradient, gradient, scale, shift, mean, activation });
        cast_to(sums.sum_dim(0).reshape([channels]), dtype)
    }

    fn composed(self) -> Tensor<1> {
        let [batch_size, channels, ..] = self.gradient.dims();
        let rows: Tensor<3> = self.gradient.clone().reshape([batch_size as i64, channels as i64, -1]);
        cast_to(rows.sum_dim(2).sum_dim(0).reshape([channels]), self.dtype)
    }
}
