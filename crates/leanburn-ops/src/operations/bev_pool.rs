//! Pooling of lifted features in a bird's-eye view that saves features and depths, and never their product.

use std::sync::Arc;

use burn::tensor::{Int, Tensor};
use leanburn_kernels::bev_pool::{self, BevCells, bev_pool_backward_workspace, bev_pool_workspace};

use super::check::{assert_dtype, assert_not_empty, assert_volume, positions};
use super::operation::{AnyTensor, Operation, apply};
use crate::engine::{Computation, CpuTensor, Engine, Stored, run};
use crate::numerics::{cast_to, widen};
use crate::recording::{Call, Recorder};

const OPERATION: &str = "bev_pool";

/// Sums in each cell of a grid the features of the points in it, each times its depth's probability.
///
/// A point is a pixel at a bin of its depth; `cells` says which cell it lies in. Source:
/// [Lift, Splat, Shoot](https://arxiv.org/abs/2008.05711); without the product of depths and features as in
/// [BEVPoolv2](https://arxiv.org/abs/2211.17111).
///
/// # Shapes
///
/// - features: `[batch_size, channels, cameras, height, width]`
/// - depth: `[batch_size, bins, cameras, height, width]`, of the features' dtype
/// - output: `[batch_size, channels, ..]` with the grid's depth, height and width
///
/// # Memory
///
/// Saved for backward: features and depth, shared with their producers. The cells take 8 bytes a point and 4 a cell, whatever the
/// channels; they are the caller's and made once for cameras that do not move.
///
/// # Numerics
///
/// On the CPU sums are in float64, in an order that depends on the shape alone. Elsewhere they are composed of Burn's operations in
/// float32, one for each point of the fullest cell, without atomics: the same bits in every run.
///
/// # Panics
///
/// Panics if an axis is empty, or features, depth and cells are of different items, pixels or bins.
#[must_use]
pub fn bev_pool(features: Tensor<5>, depth: Tensor<5>, cells: &Arc<BevCells>) -> Tensor<5> {
    assert_not_empty(OPERATION, "features", &features);
    let [batch_size, _, cameras, height, width] = features.dims();
    assert_volume(OPERATION, "depth", &depth, [batch_size, cells.bins(), cameras, height, width]);
    assert_dtype(OPERATION, "depth", &depth, features.dtype());
    let (found, expected) = ([cells.batch_size(), cells.pixels()], [batch_size, positions(features.dims())]);
    assert!(
        found == expected,
        "{OPERATION}: the cells are for [items, pixels] {found:?}, the features have {expected:?}"
    );
    apply([features.into(), depth.into()], |[features, depth], _| {
        let pool = BevPool { features: features.given(), depth: depth.given(), cells: cells.clone() };
        (run(Forward(&pool)), pool)
    })
}

/// What [`bev_pool`] saves.
#[derive(Clone, Debug)]
struct BevPool {
    features: Tensor<5>,
    depth: Tensor<5>,
    cells: Arc<BevCells>,
}

impl Operation<2> for BevPool {
    fn backward(self, gradient: Tensor<5>, needed: [bool; 2]) -> [AnyTensor; 2] {
        run(Backward { pool: self, gradient, needed }).map(AnyTensor::from)
    }

    fn exchange(&mut self, exchange: &mut dyn FnMut(&mut Tensor<5>)) {
        exchange(&mut self.features);
        exchange(&mut self.depth);
    }
}

impl BevPool {
    fn output_dims(&self) -> [usize; 5] {
        let ([batch_size, channels, ..], [depth, height, width]) = (self.features.dims(), self.cells.grid());
        [batch_size, channels, depth, height, width]
    }

    /// Multiplications and additions: one of each for each channel of a point.
    fn flops(&self) -> u64 {
        2 * (self.features.dims()[1] * self.cells.inside()) as u64
    }

    fn indices(&self, places: Vec<i32>) -> Tensor<1, Int> {
        Tensor::from_data(places.as_slice(), &self.features.device())
    }

    /// A volume as `[rows, items * columns]` in float32 at least, with a column of zeros behind.
    fn columns(volume: Tensor<5>) -> Tensor<2> {
        let [batch_size, rows, ..] = volume.dims();
        let columns = batch_size * positions(volume.dims());
        let volume: Tensor<2> = widen(volume).swap_dims(0, 1).reshape([rows, columns]);
        let zeros = Tensor::zeros([rows, 1], (&volume.device(), volume.dtype()));
        Tensor::cat(vec![volume, zeros], 1)
    }

    /// `[rows, items * columns]` as a volume of these dimensions.
    fn volume(columns: Tensor<2>, [batch_size, rows, depth, height, width]: [usize; 5], like: &Tensor<5>) -> Tensor<5> {
        let volume = columns.reshape([rows, batch_size, depth, height, width]).swap_dims(0, 1);
        cast_to(volume, like.dtype())
    }

    /// Where each pixel of each item has its cell at a bin, among the columns of what is pooled; the zeros of a point outside.
    fn cells_at(&self, bin: usize) -> Tensor<1, Int> {
        let (items, count) = (self.cells.batch_size(), self.cells.count());
        let place = |item: usize, cell: u32| match cell {
            BevCells::OUTSIDE => (items * count) as i32,
            cell => (item * count + cell as usize) as i32,
        };
        let of_item = |item: usize| self.cells.cells(item, bin).iter().map(move |cell| place(item, *cell));
        self.indices((0..items).flat_map(of_item).collect())
    }
}

struct Forward<'a>(&'a BevPool);

impl Computation for Forward<'_> {
    type Output = Tensor<5>;

    fn engine(&self) -> Engine {
        Engine::of(&self.0.features)
    }

    fn recorded(self, recorder: Recorder) -> Tensor<5> {
        let Self(pool) = self;
        let call = Call::new(recorder, OPERATION).reads(&pool.features).reads(&pool.depth);
        call.costs(pool.flops(), bev_pool_workspace(&pool.cells)).record_one(pool.output_dims(), pool.features.dtype())
    }

    fn on_cpu<E: Stored>(self) -> Tensor<5> {
        let Self(pool) = self;
        let mut output = CpuTensor::zeros::<E, 5>(pool.output_dims());
        let [features, depth] = [&pool.features, &pool.depth].map(|volume| CpuTensor::of(volume.clone()));
        bev_pool::bev_pool(&pool.cells, features.values::<E>(), depth.values::<E>(), output.values_mut::<E>());
        output.into_tensor()
    }

    /// The first point of every cell, then the second, and so on.
    fn composed(self) -> Tensor<5> {
        let Self(pool) = self;
        let (items, count, pixels) = (pool.cells.batch_size(), pool.cells.count(), pool.cells.pixels());
        let features = BevPool::columns(pool.features.clone());
        let [batch_size, bins, ..] = pool.depth.dims();
        let depth: Tensor<5> = pool.depth.clone().reshape([batch_size, 1, bins, pixels, 1]);
        let depth = BevPool::columns(depth);
        let points = |cell: usize| pool.cells.points(cell / count, cell % count);
        let fullest = (0..items * count).map(|cell| points(cell).len()).max().unwrap_or_default();
        let zeros = Tensor::zeros([pool.features.dims()[1], items * count], (&features.device(), features.dtype()));
        let sum = (0..fullest).fold(zeros, |sum, at| {
            let place = |cell: usize| match points(cell).get(at) {
                Some(&point) => {
                    let (item, point) = (cell / count, point as usize);
                    [item * bins * pixels + point, item * pixels + point % pixels]
                }
                None => [items * bins * pixels, items * pixels],
            };
            let places =
                |which: usize| pool.indices((0..items * count).map(|cell| place(cell)[which] as i32).collect());
            sum + features.clone().select(1, places(1)) * depth.clone().select(1, places(0))
        });
        BevPool::volume(sum, pool.output_dims(), &pool.features)
    }
}

/// The gradients that are needed.
struct Backward {
    pool: BevPool,
    gradient: Tensor<5>,
    needed: [bool; 2],
}

impl Computation for Backward {
    type Output = [Option<Tensor<5>>; 2];

    fn engine(&self) -> Engine {
        Engine::of(&self.pool.features)
    }

    fn recorded(self, recorder: Recorder) -> Self::Output {
        let Self { pool, gradient, needed } = self;
        let workspace = bev_pool_backward_workspace(&pool.cells, pool.features.dims()[1]);
        let flops = needed.iter().filter(|needed| **needed).count() as u64 * pool.flops();
        let shapes = [&pool.features, &pool.depth].map(|volume| (volume.dims(), volume.dtype()));
        let call = Call::new(recorder, "bev_pool_gradient").costs(flops, workspace);
        let call = call.takes(pool.features).takes(pool.depth).takes(gradient);
        let given = shapes.into_iter().zip(needed).filter(|(_, needed)| *needed);
        let mut outputs = given.fold(call, |call, ((dims, dtype), _)| call.gives(dims, dtype)).record();
        needed.map(|needed| needed.then(|| outputs.next_tensor()))
    }

    fn on_cpu<E: Stored>(self) -> Self::Output {
        let Self { pool, gradient, needed } = self;
        let volumes = [&pool.features, &pool.depth];
        let mut index = 0..;
        let mut gradients = needed.map(|needed| {
            let volume = volumes[index.next().expect("there is always one more")];
            needed.then(|| CpuTensor::zeros::<E, 5>(volume.dims()))
        });
        let [features, depth] = volumes.map(|volume| CpuTensor::of(volume.clone()));
        let gradient = CpuTensor::of(gradient);
        let outputs = gradients.each_mut().map(|gradient| gradient.as_mut().map(CpuTensor::values_mut::<E>));
        let operands = [features.values::<E>(), depth.values::<E>()];
        bev_pool::bev_pool_backward(&pool.cells, operands, gradient.values::<E>(), outputs);
        gradients.map(|gradient| gradient.map(CpuTensor::into_tensor))
    }

    /// At each bin the gradient of the pixels' cells is looked up.
    fn composed(self) -> Self::Output {
        let Self { pool, gradient, needed } = self;
        let [batch_size, bins, ..] = pool.depth.dims();
        let (pixels, gradient) = (pool.cells.pixels(), BevPool::columns(gradient));
        let [features, depth] = [&pool.features, &pool.depth].map(|volume| BevPool::columns(volume.clone()));
        let columns = |rows: Tensor<2>| rows.narrow(1, 0, batch_size * pixels);
        let features = columns(features);
        let at = |bin: usize| gradient.clone().select(1, pool.cells_at(bin));
        let of_features = needed[0].then(|| {
            let part = |bin: usize| at(bin) * columns(depth.clone().narrow(0, bin, 1));
            let sum = (0..bins).map(part).reduce(|sum, part| sum + part).expect("at least one bin");
            BevPool::volume(sum, pool.features.dims(), &pool.features)
        });
        let of_depth = needed[1].then(|| {
            let rows = (0..bins).map(|bin| (at(bin) * features.clone()).sum_dim(0)).collect();
            BevPool::volume(Tensor::cat(rows, 0), pool.depth.dims(), &pool.depth)
        });
        [of_features, of_depth]
    }
}
