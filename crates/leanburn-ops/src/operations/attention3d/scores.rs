//! What attention is computed from.

use burn::tensor::Tensor;
use leanburn_kernels::attention::AttentionShape;

use crate::operations::check::valid;

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
        let positions = [query_positions, key.dims()[2]];
        valid("attention3d", AttentionShape::new([1, heads, head_channels], positions, self.scale as f32))
            .with_block(self.block)
    }
}
