//! The pooling and its gradients.

use super::cells::BevCells;
use crate::Stored;
use crate::parallel::{busy, for_each};

/// Channels of a task: a point is looked up once for all of them.
const BLOCK: usize = 8;

/// Bytes that [`bev_pool`](super::bev_pool) takes besides its inputs and its output: none but 32 bytes for each eight channels of an item.
pub fn bev_pool_workspace(_cells: &BevCells) -> usize {
    0
}

/// Bytes that [`bev_pool_backward`](super::bev_pool_backward) takes at most: eight rows of pixels in float64 for each thread.
pub fn bev_pool_backward_workspace(cells: &BevCells, channels: usize) -> usize {
    let tasks = cells.batch_size().saturating_mul(channels.div_ceil(BLOCK).max(cells.bins()));
    busy(tasks) * BLOCK * cells.pixels() * size_of::<f64>()
}

/// Channels of the features, and all of the slices' lengths as they must be.
fn channels<E>(cells: &BevCells, features: &[E], depth: &[E], pooled: &[E]) -> usize {
    let items = cells.batch_size();
    let channels = features.len() / (items * cells.pixels()).max(1);
    assert_eq!(features.len(), items * channels * cells.pixels(), "features are [batch_size, channels, pixels]");
    assert_eq!(depth.len(), items * cells.bins() * cells.pixels(), "depths are [batch_size, bins, pixels]");
    assert_eq!(pooled.len(), items * channels * cells.count(), "what is pooled is [batch_size, channels, cells]");
    channels
}

/// Parts of `values`, `[batch_size, rows, length]`, with so many rows at most, each with its item and its first row.
fn tasks<E>(values: &mut [E], rows: usize, length: usize, most: usize) -> Vec<(usize, usize, &mut [E])> {
    let items = values.chunks_mut((rows * length).max(1)).enumerate();
    let parts = items.flat_map(|(item, values)| {
        values.chunks_mut((most * length).max(1)).enumerate().map(move |(part, values)| (item, part * most, values))
    });
    parts.collect()
}

/// [`bev_pool`](super::bev_pool) of an element.
pub(crate) fn bev_pool_on<E: Stored>(cells: &BevCells, features: &[E], depth: &[E], output: &mut [E]) {
    let channels = channels(cells, features, depth, output);
    let (pixels, count, all) = (cells.pixels(), cells.count(), cells.bins() * cells.pixels());
    let work = cells.inside() * channels;
    for_each(tasks(output, channels, count, BLOCK), work, |(item, channel, output)| {
        let rows = output.len() / count;
        let features = &features[(item * channels + channel) * pixels..][..rows * pixels];
        let depth = &depth[item * all..][..all];
        for cell in 0..count {
            let mut sums = [0.0f64; BLOCK];
            for &point in cells.points(item, cell) {
                let (weight, pixel) = (f64::from(depth[point as usize].to_f32()), point as usize % pixels);
                for (row, sum) in sums[..rows].iter_mut().enumerate() {
                    *sum += weight * f64::from(features[row * pixels + pixel].to_f32());
                }
            }
            for (row, sum) in sums[..rows].iter().enumerate() {
                output[row * count + cell] = E::from_f32(*sum as f32);
            }
        }
    });
}

/// [`bev_pool_backward`](super::bev_pool_backward) of an element.
pub(crate) fn bev_pool_backward_on<E: Stored>(
    cells: &BevCells,
    [features, depth]: [&[E]; 2],
    gradient: &[E],
    [of_features, of_depth]: [Option<&mut [E]>; 2],
) {
    let channels = channels(cells, features, depth, gradient);
    let (pixels, count, work) = (cells.pixels(), cells.count(), cells.inside() * channels);
    if let Some(output) = of_features {
        assert_eq!(output.len(), features.len(), "the gradient of the features has their shape");
        for_each(tasks(output, channels, pixels, BLOCK), work, |(item, channel, output)| {
            let rows = output.len() / pixels;
            let gradient = &gradient[(item * channels + channel) * count..][..rows * count];
            features_gradient(cells, item, depth, gradient, output);
        });
    }
    if let Some(output) = of_depth {
        assert_eq!(output.len(), depth.len(), "the gradient of the depths has their shape");
        for_each(tasks(output, cells.bins(), pixels, 1), work, |(item, bin, output)| {
            let features = &features[item * channels * pixels..][..channels * pixels];
            let gradient = &gradient[item * channels * count..][..channels * count];
            depth_gradient(cells.cells(item, bin), features, gradient, count, output);
        });
    }
}

/// The gradient of some channels of the features: over the bins, the depth times the gradient of the point's cell.
fn features_gradient<E: Stored>(cells: &BevCells, item: usize, depth: &[E], gradient: &[E], output: &mut [E]) {
    let (pixels, count) = (cells.pixels(), cells.count());
    let mut sums = vec![0.0f64; output.len()];
    for bin in 0..cells.bins() {
        let depth = &depth[(item * cells.bins() + bin) * pixels..][..pixels];
        for (pixel, (&cell, depth)) in cells.cells(item, bin).iter().zip(depth).enumerate() {
            if cell != BevCells::OUTSIDE {
                let weight = f64::from(depth.to_f32());
                for (sums, gradient) in sums.chunks_exact_mut(pixels).zip(gradient.chunks_exact(count)) {
                    sums[pixel] += weight * f64::from(gradient[cell as usize].to_f32());
                }
            }
        }
    }
    narrow(&sums, output);
}

/// The gradient of the depths at a bin: over the channels, the feature times the gradient of the point's cell.
fn depth_gradient<E: Stored>(cells: &[u32], features: &[E], gradient: &[E], count: usize, output: &mut [E]) {
    let mut sums = vec![0.0f64; output.len()];
    for (features, gradient) in features.chunks_exact(output.len()).zip(gradient.chunks_exact(count)) {
        for ((sum, &cell), feature) in sums.iter_mut().zip(cells).zip(features) {
            if cell != BevCells::OUTSIDE {
                *sum += f64::from(feature.to_f32()) * f64::from(gradient[cell as usize].to_f32());
            }
        }
    }
    narrow(&sums, output);
}

fn narrow<E: Stored>(sums: &[f64], output: &mut [E]) {
    output.iter_mut().zip(sums).for_each(|(output, sum)| *output = E::from_f32(*sum as f32));
}
