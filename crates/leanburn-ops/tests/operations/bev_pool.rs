//! Pooling in a bird's-eye view.

use std::sync::Arc;

use burn::prelude::*;
use burn::tensor::TensorData;
use leanburn_ops::{BevCells, backward, bev_pool};
use proptest::prelude::*;

use crate::case::{Case, cases};

/// Items, bins, cameras, height and width.
type Frustum = [usize; 5];

/// Cells of all points by a hash of their place; some points lie outside, some cells are empty.
fn cells_of([items, bins, cameras, height, width]: Frustum, grid: [usize; 3], seed: u32) -> Arc<BevCells> {
    let (pixels, count) = (cameras * height * width, grid.iter().product::<usize>() as u32);
    let cell = |place: u32| match place.wrapping_add(seed).wrapping_mul(2_654_435_761) >> 7 {
        hash if hash % 4 == 0 => BevCells::OUTSIDE,
        hash => hash % count,
    };
    Arc::new(BevCells::new(bins, pixels, grid, (0..(items * bins * pixels) as u32).map(cell).collect()))
}

/// The product of all depths and features, and one product of matrices for each item.
fn plain(features: &Tensor<5>, depth: &Tensor<5>, cells: &BevCells) -> Tensor<5> {
    let ([items, channels, ..], bins) = (features.dims(), depth.dims()[1]);
    let (pixels, count, [planes, rows, columns]) = (cells.pixels(), cells.count(), cells.grid());
    let one_hot = |item: usize| {
        let mut values = vec![0.0; bins * pixels * count];
        for bin in 0..bins {
            let inside = cells.cells(item, bin).iter().enumerate().filter(|(_, cell)| **cell != BevCells::OUTSIDE);
            inside.for_each(|(pixel, cell)| values[(bin * pixels + pixel) * count + *cell as usize] = 1.0);
        }
        let data = TensorData::new(values, [bins * pixels, count]);
        Tensor::<2>::from_data(data, (&features.device(), features.dtype()))
    };
    let pooled = (0..items).map(|item| {
        let features: Tensor<3> = features.clone().narrow(0, item, 1).reshape([channels, 1, pixels]);
        let depth: Tensor<3> = depth.clone().narrow(0, item, 1).reshape([1, bins, pixels]);
        let points: Tensor<2> = (features * depth).reshape([channels, bins * pixels]);
        points.matmul(one_hot(item)).reshape([1, channels, planes, rows, columns])
    });
    Tensor::cat(pooled.collect(), 0)
}

proptest! {
    #![proptest_config(cases(12))]

    #[test]
    fn bev_pool_of_any_cells(
        channels in 1usize..20,
        frustum in [1usize..3, 1usize..5, 1usize..3, 1usize..4, 1usize..5],
        grid in [1usize..3, 1usize..5, 1usize..5],
        seed in any::<u32>(),
    ) {
        let [items, bins, cameras, height, width] = frustum;
        let cells = cells_of(frustum, grid, seed);
        let volumes = vec![[items, channels, cameras, height, width], [items, bins, cameras, height, width]];
        let (ours, theirs) = (cells.clone(), cells);
        Case { volumes, ..Case::default() }.check(
            move |(x, _, _)| bev_pool(x[0].clone(), x[1].clone(), &ours),
            move |(x, _, _)| plain(&x[0], &x[1], &theirs),
        );
    }
}

/// The sizes of a camera of 600 x 800 pixels: 49 bins, 18 x 25 pixels, 64 channels, 98 x 100 cells.
const LARGE: Frustum = [1, 49, 1, 18, 25];
const GRID: [usize; 3] = [1, 98, 100];
const CHANNELS: usize = 64;

fn values(salt: usize, length: usize) -> Vec<f32> {
    (0..length).map(|place| ((place * 7919 + salt) % 1009) as f32 / 1009.0 - 0.3).collect()
}

/// As Lift, Splat, Shoot does it, in float64: points sorted by their cells, the cumulative sum of their products, and its differences.
fn cumulative_sums(features: &[f32], depth: &[f32], cells: &BevCells) -> Vec<f64> {
    let (pixels, count) = (cells.pixels(), cells.count());
    let mut points: Vec<(u32, usize)> = (0..cells.bins())
        .flat_map(|bin| (0..pixels).map(move |pixel| (cells.cells(0, bin)[pixel], bin * pixels + pixel)))
        .filter(|(cell, _)| *cell != BevCells::OUTSIDE)
        .collect();
    points.sort_by_key(|(cell, _)| *cell);
    let mut pooled = vec![0.0; CHANNELS * count];
    for channel in 0..CHANNELS {
        let (mut sum, mut before) = (0.0, 0.0);
        for (at, (cell, point)) in points.iter().enumerate() {
            sum += f64::from(depth[*point]) * f64::from(features[channel * pixels + point % pixels]);
            if points.get(at + 1).is_none_or(|(next, _)| next != cell) {
                pooled[channel * count + *cell as usize] = sum - before;
                before = sum;
            }
        }
    }
    pooled
}

#[test]
fn bev_pool_is_the_cumulative_sum_with_the_same_bits_in_every_run() {
    let [items, bins, cameras, height, width] = LARGE;
    let (pixels, cells) = (cameras * height * width, cells_of(LARGE, GRID, 1));
    let (features, depth) = (values(1, CHANNELS * pixels), values(2, bins * pixels));
    let run = || {
        let device = Device::flex().autodiff();
        let leaf = |values: &[f32], rows: usize| {
            let data = TensorData::new(values.to_vec(), [items, rows, cameras, height, width]);
            Tensor::<5>::from_data(data, &device).require_grad()
        };
        let (features, depth) = (leaf(&features, CHANNELS), leaf(&depth, bins));
        let pooled = bev_pool(features.clone(), depth.clone(), &cells);
        let mut gradients = backward((pooled.clone() * pooled.clone()).sum());
        let gradients = [features, depth].map(|leaf| gradients.take(&leaf).unwrap().into_data());
        (pooled.into_data().try_to_vec::<f32>().unwrap(), gradients)
    };
    let (pooled, gradients) = run();
    let expected = cumulative_sums(&features, &depth, &cells);
    let largest = expected.iter().fold(0.0f64, |largest, value| largest.max(value.abs()));
    let error = pooled.iter().zip(&expected).map(|(a, b)| (f64::from(*a) - b).abs()).fold(0.0, f64::max);
    assert!(error < 1e-6 * largest.max(1.0), "{error:e} of {largest}");
    for threads in [1, 3] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        assert!(pool.install(run) == (pooled.clone(), gradients.clone()), "{threads} threads give other bits");
    }
}

#[test]
#[should_panic = "bev_pool: the cells are for [items, pixels] [1, 450], the features have [1, 400]"]
fn cells_of_other_pixels_are_rejected() {
    let device = Device::flex();
    let (features, depth) = (Tensor::zeros([1, 2, 1, 16, 25], &device), Tensor::zeros([1, 49, 1, 16, 25], &device));
    _ = bev_pool(features, depth, &cells_of(LARGE, GRID, 0));
}
