//! The kernels of max pooling.

use burn::tensor::{Device, Tensor};
use leanburn_kernels::max_pool::PoolWindows;

use super::kernel::Kernel;
use super::launch::launch;
use super::table;
use crate::recording::Call;

/// The largest value of each window.
pub(crate) struct MaxPool<'a> {
    pub(crate) x: &'a Tensor<5>,
    pub(crate) windows: &'a PoolWindows,
}

impl MaxPool<'_> {
    fn output_dims(&self) -> [usize; 5] {
        let [batch_size, channels, ..] = self.x.dims();
        let [depth, height, width] = self.windows.output();
        [batch_size, channels, depth, height, width]
    }
}

impl Kernel for MaxPool<'_> {
    const NAME: &'static str = "max_pool3d";
    type Output = Tensor<5>;

    fn device(&self) -> Device {
        self.x.device()
    }

    fn recorded(self, call: Call) -> Tensor<5> {
        let call = call.reads(self.x).costs(self.x.shape().num_elements() as u64, 0);
        call.record_one(self.output_dims(), self.x.dtype())
    }

    fn launched(self) -> Tensor<5> {
        let dims = self.output_dims();
        let [runs, inputs] = table::of_windows(self.windows, &self.x.device()).map(Tensor::into_dispatch);
        Tensor::from_dispatch(launch!(max_pool3d(self.x.clone().into_dispatch(), runs, inputs, dims)))
    }
}

/// The gradient of the volume: that of each output goes to the first maximum of its window.
pub(crate) struct MaxPoolGradient<'a> {
    pub(crate) x: Tensor<5>,
    pub(crate) windows: &'a PoolWindows,
    pub(crate) gradient: Tensor<5>,
}

impl Kernel for MaxPoolGradient<'_> {
    const NAME: &'static str = "max_pool3d_gradient";
    type Output = Tensor<5>;

    fn device(&self) -> Device {
        self.x.device()
    }

    fn recorded(self, call: Call) -> Tensor<5> {
        let (dims, dtype, flops) = (self.x.dims(), self.x.dtype(), self.x.shape().num_elements() as u64);
        call.takes(self.x).takes(self.gradient).costs(flops, 0).record_one(dims, dtype)
    }

    fn launched(self) -> Tensor<5> {
        let Self { x, windows, gradient } = self;
        let [runs, inputs] = table::of_windows(windows, &x.device()).map(Tensor::into_dispatch);
        let [runs_back, outputs] = table::of_inputs(windows, &x.device()).map(Tensor::into_dispatch);
        let [x, gradient] = [x, gradient].map(Tensor::into_dispatch);
        Tensor::from_dispatch(launch!(max_pool3d_gradient(x, runs, inputs, runs_back, outputs, gradient)))
    }
}
