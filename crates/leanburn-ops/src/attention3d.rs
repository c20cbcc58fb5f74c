//! Exact attention over the positions of a volume in memory that grows with their number, not with its square.

use burn::backend::DispatchTensor;
use burn::tensor::Tensor;

use crate::engine::attention::{self, Projections};
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
/// each head. Workspace: on the CPU about 1 MiB for each thread; elsewhere a few blocks of 16 MiB of scores.
///
/// # Numerics
///
/// Softmax and its statistics in float32 whatever the dtype; on the CPU the products too.
///
/// # Panics
///
/// Panics if the shapes do not go together or the heads do not divide the channels.
pub fn attention3d(query: Tensor<5>, key: Tensor<5>, value: Tensor<5>, num_heads: usize, scale: f64) -> Tensor<5> {
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
        let (output, log_sum_exp) = attention::forward(projections.clone(), scale);
        let kept = log_sum_exp.map(|log_sum_exp| (output.clone(), log_sum_exp));
        let operation = Attention { projections, kept, scale, dims, key_dims };
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
    scale: f64,
    dims: [usize; 5],
    key_dims: [usize; 5],
}

impl Operation<3> for Attention {
    fn backward(self, gradient: DispatchTensor, _needed: [bool; 3]) -> [Option<DispatchTensor>; 3] {
        let gradient = Tensor::<5>::from_dispatch(gradient).reshape(self.projections[0].dims());
        let [query, key, value] = attention::backward(self.projections, self.kept, gradient, self.scale);
        let volume = |tensor: Tensor<3>, dims: [usize; 5]| Some(tensor.reshape::<5, _>(dims).into_dispatch());
        [volume(query, self.dims), volume(key, self.key_dims), volume(value, self.key_dims)]
    }
}
