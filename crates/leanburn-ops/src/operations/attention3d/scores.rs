//! What attention is computed from.

use burn::tensor::Tensor;
use leanburn_kernels::attention::AttentionShape;

/// Queries, keys and values, each `[batch_size * heads, head_channels, positions]`.
pub(super) type Projections = [Tensor<3>; 3];

/// How scores are computed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scores {
    /// Multiplies them.
    pub(super) scale: f64,
    /// The most queries at a time.
    pub(super) block: Option<usize>,
}

impl Scores {
    /// The shape of the attention for the kernels of the CPU.
    pub(super) fn shape(self, [query, key, _]: &Projections) -> AttentionShape {
        let [heads, head_channels, query_positions] = query.dims();
        AttentionShape {
            batch_size: 1,
            heads,
            head_channels,
            query_positions,
            key_positions: key.dims()[2],
            scale: self.scale as f32,
            block: self.block,
        }
    }
}
