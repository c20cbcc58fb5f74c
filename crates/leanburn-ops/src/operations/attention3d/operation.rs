//! Exact attention over the positions of a volume in memory that grows with their number, not with its square.

use burn::tensor::Tensor;
use leanburn_kernels::attention::AttentionShape;

use super::blocks;
use super::computations::{Backward, Forward};
use super::scores::{Projections, Scores};
use crate::engine::run;
use crate::operations::check::{assert_dtype, assert_not_empty, assert_volume, positions, valid};
use crate::operations::operation::{AnyTensor, Operation, apply};

/// Softmax attention of every position of a volume to every position of another, `softmax(scale Q^T K) V`, head by head.
///
/// Exact. Source: [Attention Is All You Need](https://arxiv.org/abs/1706.03762), in blocks as in
/// [FlashAttention-2](https://arxiv.org/abs/2307.08691): the scores are never stored: backward computes them again.
///
/// # Shapes
///
/// - query: `[batch_size, channels, depth, height, width]`, no axis empty; head `h` has channels `h channels / num_heads` and up
/// - key and value: `[batch_size, channels, ..]`, both of one size, which may differ from the query's, in its dtype
/// - output: as the query
///
/// # Memory
///
/// Saved for backward: queries, keys, values and the output, shared with their producers, and 4 bytes for each query of
/// each head. Workspace: on the CPU about 1 MiB for each thread; elsewhere a few blocks of at most 16 MiB of scores.
/// [`attention3d_in_blocks`] takes less.
///
/// # Numerics
///
/// Softmax and its statistics in float32 regardless of the dtype; on the CPU the products too.
///
/// # Panics
///
/// Panics if an axis is empty (an empty batch too), shapes or dtypes do not go together, there are no heads or they do not divide
/// the channels, or a volume takes more than 128 TiB.
#[must_use]
pub fn attention3d(query: Tensor<5>, key: Tensor<5>, value: Tensor<5>, num_heads: usize, scale: f64) -> Tensor<5> {
    attention3d_in_blocks(query, key, value, num_heads, scale, None)
}

/// Queries that [`attention3d`] takes at a time on other devices than the CPU: as many as have 4,194,304 scores.
#[must_use]
pub fn largest_attention_block(batch_size: usize, num_heads: usize, key_positions: usize) -> usize {
    blocks::largest_block(batch_size.saturating_mul(num_heads), key_positions)
}

/// [`attention3d`] of at most `block` queries at a time, which takes less memory and more time.
///
/// # Memory
///
/// As [`attention3d`]; the workspace is a few times `batch_size * num_heads * block * key positions` scores, on the CPU
/// that of `block` queries for each thread (whole panels of 48, at least one). A block that is larger than
/// [`largest_attention_block`] is that.
///
/// # Numerics
///
/// On the CPU the block changes no bit. Elsewhere the gradients of keys and values are summed block by block, and differ in
/// the last digits.
///
/// # Panics
///
/// As [`attention3d`].
#[must_use]
pub fn attention3d_in_blocks(
    query: Tensor<5>,
    key: Tensor<5>,
    value: Tensor<5>,
    num_heads: usize,
    scale: f64,
    block: Option<usize>,
) -> Tensor<5> {
    let scores = Scores { scale, block };
    check(&query, &key, &value, num_heads);
    let dims @ [batch_size, channels, ..] = query.dims();
    let key_dims = key.dims();
    apply([query.into(), key.into(), value.into()], |inputs, _| {
        let projections: Projections = inputs.map(|volume| {
            let rows = [(batch_size * num_heads) as i64, (channels / num_heads) as i64, -1];
            volume.given::<5>().reshape(rows)
        });
        let (output, log_sum_exp) = run(Forward { projections: projections.clone(), scores });
        let saved = log_sum_exp.map(|log_sum_exp| (output.clone(), log_sum_exp));
        (output.reshape(dims), Attention { projections, output: saved, scores, dims, key_dims })
    })
}

/// Panics if these are no queries, keys and values of so many heads.
fn check(query: &Tensor<5>, key: &Tensor<5>, value: &Tensor<5>, num_heads: usize) {
    const OPERATION: &str = "attention3d";
    for (name, volume) in [("query", query), ("key", key), ("value", value)] {
        assert_not_empty(OPERATION, name, volume);
        assert_dtype(OPERATION, name, volume, query.dtype());
    }
    let ([batch_size, channels, ..], [_, _, depth, height, width]) = (query.dims(), key.dims());
    assert!(
        num_heads > 0 && channels.is_multiple_of(num_heads),
        "{OPERATION}: num_heads is {num_heads}, expected a number that divides {channels} channels"
    );
    assert_volume(OPERATION, "key", key, [batch_size, channels, depth, height, width]);
    assert_volume(OPERATION, "value", value, key.dims());
    let positions = [query, key].map(|volume| positions(volume.dims()));
    valid(OPERATION, AttentionShape::new([batch_size, num_heads, channels / num_heads], positions, 1.0));
}

/// What [`attention3d`] saves.
#[derive(Clone, Debug)]
struct Attention {
    projections: Projections,
    /// The output and its statistics, where backward uses them.
    output: Option<(Tensor<3>, Tensor<2>)>,
    scores: Scores,
    dims: [usize; 5],
    key_dims: [usize; 5],
}

impl Operation<3> for Attention {
    fn backward(self, gradient: Tensor<5>, _needed: [bool; 3]) -> [AnyTensor; 3] {
        let Self { projections, output, scores, dims, key_dims } = self;
        let gradient = gradient.reshape(projections[0].dims());
        let [query, key, value] = match output {
            Some((output, log_sum_exp)) => run(Backward { projections, output, log_sum_exp, gradient, scores }),
            None => blocks::backward(projections, gradient, scores),
        };
        let volume = |tensor: Tensor<3>, dims: [usize; 5]| AnyTensor::from(tensor.reshape::<5, _>(dims));
        [volume(query, dims), volume(key, key_dims), volume(value, key_dims)]
    }
}
