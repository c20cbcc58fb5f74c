//! The enlarged volume, where a device needs it, and the sum over the copies of each voxel.

use burn::tensor::Tensor;
use leanburn_kernels::axis_map::AxisMap;

use super::folding::UpsampleConv;
use crate::cube;
use crate::engine::{Computation, Engine, Stored};
use crate::numerics::{cast_to, widen};
use crate::recording::Recorder;

/// The map of each axis.
fn maps(upsample: &UpsampleConv) -> [AxisMap; 3] {
    let [_, _, input @ ..] = upsample.input;
    std::array::from_fn(|axis| AxisMap::repeat(input[axis], upsample.factors[axis]))
}

/// The enlarged volume. The CPU has no kernel for it: it folds the kernel of the convolution wherever that can be done.
pub(super) struct Enlarge<'a> {
    pub(super) upsample: &'a UpsampleConv,
    pub(super) x: &'a Tensor<5>,
}

impl Computation for Enlarge<'_> {
    type Output = Tensor<5>;

    fn engine(&self) -> Engine {
        Engine::of(self.x)
    }

    fn recorded(self, _recorder: Recorder) -> Tensor<5> {
        self.composed()
    }

    fn on_cpu<E: Stored>(self) -> Tensor<5> {
        self.composed()
    }

    fn on_cube(self) -> Tensor<5> {
        cube::run(cube::Resample { x: self.x.clone(), maps: &maps(self.upsample) })
    }

    fn composed(self) -> Tensor<5> {
        let [batch_size, channels, depth, height, width] = self.upsample.input;
        let [d, h, w] = self.upsample.factors;
        let items = batch_size * channels;
        let apart: Tensor<7> = self.x.clone().reshape([items, depth, 1, height, 1, width, 1]);
        apart.expand([items, depth, d, height, h, width, w]).reshape(self.upsample.enlarged())
    }
}

/// The gradient of [`Enlarge`]'s volume: the sum over the copies of each voxel, in float32.
pub(super) struct EnlargeGradient<'a> {
    pub(super) upsample: &'a UpsampleConv,
    pub(super) gradient: Tensor<5>,
}

impl Computation for EnlargeGradient<'_> {
    type Output = Tensor<5>;

    fn engine(&self) -> Engine {
        Engine::of(&self.gradient)
    }

    fn recorded(self, _recorder: Recorder) -> Tensor<5> {
        self.composed()
    }

    fn on_cpu<E: Stored>(self) -> Tensor<5> {
        self.composed()
    }

    fn on_cube(self) -> Tensor<5> {
        let maps = maps(self.upsample).map(|map| map.transpose());
        cube::run(cube::Resample { x: self.gradient, maps: &maps })
    }

    fn composed(self) -> Tensor<5> {
        let dtype = self.gradient.dtype();
        let [batch_size, channels, depth, height, width] = self.upsample.input;
        let [d, h, w] = self.upsample.factors;
        let apart: Tensor<7> = widen(self.gradient).reshape([batch_size * channels, depth, d, height, h, width, w]);
        cast_to(apart.sum_dim(6).sum_dim(4).sum_dim(2).reshape(self.upsample.input), dtype)
    }
}
