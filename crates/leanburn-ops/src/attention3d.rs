//! Exact attention over the positions of a volume in memory that grows with their number, not with its square.

use burn::backend::DispatchTensor;
use burn::tensor::Tensor;

use crate::engine::attention::{self, Projections, Scores};
use crate::engine::attention_in_blocks;
use crate::operation::{Operation, apply};

/// Softmax attention of every position of a volume to every position of another, `softmax(scale Q^T K) V`, head by head.
///
/// Exact. Source: [Attention Is All You Need](https://arxiv.org/abs/1706.03762), in blocks as in
/// [FlashAttention-2](https://arxiv.org/abs/2307.08691): the scores are never stored, backward computes them again.
///
/// # Shapes
///
/// - query: `[batch_size, channels, depth, height, width]`; head `h` has channels `h channels / num_heads` and up
/// - key and value: `[batch_size, channels, ..]`, both of one size, which may differ from the query's
/// - output: as the query
///
/// # Memory
///
/// Held for backward: queries, keys, values and the output, shared with whoever made them, and 4 bytes for each query of
/// each head. Workspace: on the CPU about 1 MiB for each thread; elsewhere a few blocks of at most 16 MiB of scores.
/// [`attention3d_in_blocks`] takes less.
///
/// # Numerics
///
/// Softmax and its statistics in float32 whatever the dtype; on the CPU the products too.
///
/// # Panics
///
/// Panics if the shapes do not go together or the heads do not divide the channels.
pub fn attention3d(query: Tensor<5>, key: Tensor<5>, value: Tensor<5>, num_heads: usize, scale: f64) -> Tensor<5> {
    attention3d_in_blocks(query, key, value, num_heads, scale, None)
}

/// Queries that [`attention3d`] takes at a time on other devices than the CPU: as many as have 4,194,304 scores.
pub fn largest_attention_block(batch_size: usize, num_heads: usize, key_positions: usize) -> usize {
    attention_in_blocks::largest_block(batch_size.saturating_mul(num_heads), key_positions)
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
pub fn attention3d_in_blocks(
    query: Tensor<5>,
    key: Tensor<5>,
    value: Tensor<5>,
    num_heads: usize,
    scale: f64,
    block: Option<usize>,
) -> Tensor<5> {
    let scores = Scores { scale, block };
    let dims @ [batch_size, channels, ..] = query.dims();
    assert!(num_heads > 0 && channels.is_multiple_of(num_heads), "{num_heads} heads do not divide {channels} channels");
    assert!(
        key.dims() == value.dims() && key.dims()[..2] == dims[..2],
        "attention3d: query {dims:?}, key {:?} and value {:?} do not go together",
        key.dims(),
        value.dims()
    );
    let key_dims = key.dims();
    let inputs = [query, key, value].map(|tensor| Some(tensor.into_dispatch()));
    let output = apply(inputs, |inputs, _| {
        let projections = inputs.map(|tensor| {
            let tensor = Tensor::<5>::from_dispatch(tensor.expect("given"));
            tensor.reshape([(batch_size * num_heads) as i64, (channels / num_heads) as i64, -1])
        });
        let (output, log_sum_exp) = attention::forward(projections.clone(), scores);
        let kept = log_sum_exp.map(|log_sum_exp| (output.clone(), log_sum_exp));
        let operation = Attention { projections, kept, scores, dims, key_dims };
        (output.reshape::<5, _>(dims).into_dispatch(), operation)
    });
    Tensor::from_dispatch(output)
}

/// What [`attention3d`] keeps.
#[derive(Clone, Debug)]
struct Attention {
    projections: Projections,
    /// The output and its statistics, where backward uses them.
    kept: Option<(Tensor<3>, Tensor<2>)>,
    scores: Scores,
    dims: [usize; 5],
    key_dims: [usize; 5],
}

impl Operation<3> for Attention {
    fn backward(self, gradient: DispatchTensor, _needed: [bool; 3]) -> [Option<DispatchTensor>; 3] {
        let gradient = Tensor::<5>::from_dispatch(gradient).reshape(self.projections[0].dims());
        let [query, key, value] = attention::backward(self.projections, self.kept, gradient, self.scores);
        let volume = |tensor: Tensor<3>, dims: [usize; 5]| Some(tensor.reshape::<5, _>(dims).into_dispatch());
        [volume(query, self.dims), volume(key, self.key_dims), volume(value, self.key_dims)]
    }
}
