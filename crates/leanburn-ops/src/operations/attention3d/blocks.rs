//! Attention as a composition of Burn's operations, in blocks of queries.

use burn::tensor::{DType, Tensor, activation::softmax};

use super::scores::{Projections, Scores};
use crate::numerics::cast_to;
use crate::recording::{Call, Recorder, repeated};

/// The most scores that are held at a time, in elements.
const SCORES_AT_A_TIME: usize = 1 << 22;

/// Queries of a block where no smaller block is asked for.
pub(super) fn largest_block(heads: usize, key_positions: usize) -> usize {
    (SCORES_AT_A_TIME / heads.saturating_mul(key_positions).max(1)).max(1)
}

/// The queries in blocks of one length; the last block may be shorter.
///
/// A recording has the last whole block only, marked as repeated, and one call that stands for the blocks before it: at
/// 65,536 positions there would be a hundred thousand operations.
struct Blocks {
    positions: usize,
    length: usize,
}

impl Blocks {
    fn of(query: &Tensor<3>, key: &Tensor<3>, scores: Scores) -> Self {
        let [heads, _, positions] = query.dims();
        let largest = largest_block(heads, key.dims()[2]);
        let length = scores.block.map_or(largest, |block| block.min(largest)).clamp(1, positions.max(1));
        Self { positions, length }
    }

    /// First query and number of queries of each block.
    fn all(&self) -> impl Iterator<Item = (usize, usize)> {
        let (positions, length) = (self.positions, self.length);
        (0..positions).step_by(length).map(move |first| (first, length.min(positions - first)))
    }

    /// A call that stands for the blocks before the last whole one, if `tensor` is recorded and there are some.
    fn before(&self, tensor: &Tensor<3>) -> Option<(Call, usize)> {
        let before = self.positions - self.length;
        let recorder = Recorder::of(&tensor.device()).filter(|_| before > 0)?;
        Some((Call::new(recorder, "attention3d_blocks"), before))
    }
}

/// `softmax(scale query^T key)` of a block of queries, in float32, `[.., queries, keys]`.
fn weights(query: Tensor<3>, key: &Tensor<3>, scale: f64) -> Tensor<3> {
    let scores = query.swap_dims(1, 2).matmul(key.clone());
    let scores = if scores.dtype() == DType::F64 { scores } else { cast_to(scores, DType::F32) };
    softmax(scores * scale, 2)
}

/// The output.
pub(super) fn forward([query, key, value]: Projections, scores: Scores) -> Tensor<3> {
    let transposed = value.swap_dims(1, 2);
    let blocks = Blocks::of(&query, &key, scores);
    let attend = |(first, length): (usize, usize)| {
        let weights = weights(query.clone().narrow(2, first, length), &key, scores.scale);
        cast_to(weights, transposed.dtype()).matmul(transposed.clone()).swap_dims(1, 2)
    };
    let outputs = match blocks.before(&query) {
        None => blocks.all().map(attend).collect(),
        Some((call, before)) => {
            let [heads, channels, _] = query.dims();
            let others = call.record_one([heads, channels, before], query.dtype());
            let device = query.device();
            vec![others, repeated(&device, blocks.positions, blocks.length, || attend((before, blocks.length)))]
        }
    };
    Tensor::cat(outputs, 2)
}

/// The gradients of queries, keys and values.
pub(super) fn backward(projections: Projections, gradient: Tensor<3>, scores: Scores) -> Projections {
    let blocks = Blocks::of(&projections[0], &projections[1], scores);
    let (mut queries, mut sums) = (Vec::new(), None);
    match blocks.before(&gradient) {
        None => {
            for block in blocks.all() {
                queries.push(add_block(&projections, &gradient, scores.scale, block, &mut sums));
            }
        }
        Some((call, before)) => {
            let [heads, channels, keys] = projections[1].dims();
            let dims = [[heads, channels, before], [heads, channels, keys], [heads, channels, keys]];
            let [query_gradient, key_gradient, value_gradient] = call.record_all(dims, gradient.dtype());
            queries.push(query_gradient);
            sums = Some([key_gradient, value_gradient]);
            queries.push(repeated(&gradient.device(), blocks.positions, blocks.length, || {
                add_block(&projections, &gradient, scores.scale, (before, blocks.length), &mut sums)
            }));
        }
    }
    let [key_gradient, value_gradient] = sums.expect("a volume has a position");
    [Tensor::cat(queries, 2), key_gradient, value_gradient]
}

/// The gradient of a block of queries; adds what it gives the keys and values to `sums`.
fn add_block(
    [query, key, value]: &Projections,
    gradient: &Tensor<3>,
    scale: f64,
    (first, length): (usize, usize),
    sums: &mut Option<[Tensor<3>; 2]>,
) -> Tensor<3> {
    let dtype = query.dtype();
    let [query, gradient] = [query, gradient].map(|tensor| tensor.clone().narrow(2, first, length));
    let weights = weights(query.clone(), key, scale);
    let value_gradient = gradient.clone().matmul(cast_to(weights.clone(), dtype));
    let along = cast_to(gradient.swap_dims(1, 2).matmul(value.clone()), weights.dtype());
    let mean = (along.clone() * weights.clone()).sum_dim(2);
    let scores = cast_to((along - mean) * weights * scale, dtype);
    let query_gradient = key.clone().matmul(scores.clone().swap_dims(1, 2));
    let key_gradient = query.matmul(scores);
    *sums = Some(match sums.take() {
        None => [key_gradient, value_gradient],
        Some([keys, values]) => [keys + key_gradient, values + value_gradient],
    });
    query_gradient
}
