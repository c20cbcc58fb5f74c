//! The kernel of separable linear maps.

use burn::tensor::{Device, Tensor};
use leanburn_kernels::axis_map::AxisMap;

use super::kernel::Kernel;
use super::launch::launch;
use super::table;
use crate::recording::Call;

/// A map of each axis applied to the volume.
pub(crate) struct Resample<'a> {
    pub(crate) x: Tensor<5>,
    pub(crate) maps: &'a [AxisMap; 3],
}

impl Resample<'_> {
    fn output_dims(&self) -> [usize; 5] {
        let [batch_size, channels, ..] = self.x.dims();
        let [depth, height, width] = self.maps.each_ref().map(AxisMap::output_len);
        [batch_size, channels, depth, height, width]
    }
}

impl Kernel for Resample<'_> {
    const NAME: &'static str = "resample3d";
    type Output = Tensor<5>;

    fn device(&self) -> Device {
        self.x.device()
    }

    fn recorded(self, call: Call) -> Tensor<5> {
        let (dims, dtype) = (self.output_dims(), self.x.dtype());
        let flops = 8 * dims.iter().product::<usize>().max(self.x.shape().num_elements()) as u64;
        call.takes(self.x).costs(flops, 0).record_one(dims, dtype)
    }

    fn launched(self) -> Tensor<5> {
        let dims = self.output_dims();
        let ([runs, starts], weights) = table::of_maps(self.maps, &self.x.device());
        let [runs, starts] = [runs, starts].map(Tensor::into_dispatch);
        Tensor::from_dispatch(launch!(resample3d(self.x.into_dispatch(), runs, starts, weights.into_dispatch(), dims)))
    }
}
