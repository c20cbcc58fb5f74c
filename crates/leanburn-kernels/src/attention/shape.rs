//! Shape of an attention, and how it is cut into tasks.

use crate::shape_error::{ShapeError, ShapeProblem};
use crate::size::{check_volume, product, sum};

/// Most lanes of a panel: three vectors of sixteen.
pub(super) const LANES: usize = 48;

/// Bytes for what rayon keeps, and other small things.
pub(super) const LISTS: usize = 4096;

/// Shape of an attention.
///
/// Queries, keys and values are `[batch_size, heads * head_channels, positions]`. Every value of this type was validated: no
/// extent is zero, and its volumes can be addressed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AttentionShape {
    pub(super) batch_size: usize,
    pub(super) heads: usize,
    /// Of queries, keys and values alike.
    pub(super) head_channels: usize,
    /// Of queries and outputs.
    pub(super) query_positions: usize,
    /// Of keys and values.
    pub(super) key_positions: usize,
    pub(super) scale: f32,
    pub(super) block: Option<usize>,
}

impl AttentionShape {
    /// Attention of queries `[batch_size, heads * head_channels, query_positions]` to keys and values `[batch_size, heads *
    /// head_channels, key_positions]`; `scale` multiplies the scores, usually by `1 / sqrt(head_channels)`.
    ///
    /// # Errors
    ///
    /// Where an extent is zero, or a volume takes more than 128 TiB.
    pub fn new(
        [batch_size, heads, head_channels]: [usize; 3],
        [query_positions, key_positions]: [usize; 2],
        scale: f32,
    ) -> Result<Self, ShapeError> {
        let extents = [
            ("batch", batch_size),
            ("heads", heads),
            ("channels of a head", head_channels),
            ("queries", query_positions),
            ("keys", key_positions),
        ];
        if let Some((name, _)) = extents.into_iter().find(|(_, extent)| *extent == 0) {
            return Err(ShapeProblem::Zero { name }.into());
        }
        check_volume("the queries", &[batch_size, heads, head_channels, query_positions])?;
        check_volume("the keys", &[batch_size, heads, head_channels, key_positions])?;
        Ok(Self { batch_size, heads, head_channels, query_positions, key_positions, scale, block: None })
    }

    /// The same with at most so many positions that a thread holds at a time, rounded down to whole panels of 48 but at least
    /// one; as many as is fastest if none.
    #[must_use]
    pub fn with_block(self, block: Option<usize>) -> Self {
        Self { block, ..self }
    }

    /// Number of the softmax's denominators, one for each query of each head.
    pub fn log_sum_exp_len(&self) -> usize {
        self.batch_size * self.heads * self.query_positions
    }

    /// Number of elements of the query, the output and their gradients.
    pub fn query_len(&self) -> usize {
        self.batch_size * self.heads * self.head_channels * self.query_positions
    }

    /// Number of elements of the key, the value and their gradients.
    pub fn key_len(&self) -> usize {
        self.batch_size * self.heads * self.head_channels * self.key_positions
    }

    /// Floating-point operations of forward: the scores, the sum of values, and for each group of queries one more reading
    /// of the keys and values. The largest number where they are more.
    pub fn flops(&self) -> u64 {
        let groups = self.query_positions.div_ceil(self.group(self.query_positions));
        sum(&[product(&[4, self.query_len(), self.key_positions]), product(&[2, groups, self.key_len()])]) as u64
    }

    /// Panics unless slices along queries and along keys have these lengths.
    pub(super) fn check(&self, along_queries: &[usize], along_keys: &[usize]) {
        let fits = |lens: &[usize], len| lens.iter().all(|found| *found == len);
        assert!(fits(along_queries, self.query_len()), "{self:?} has queries of {along_queries:?} elements");
        assert!(fits(along_keys, self.key_len()), "{self:?} has keys of {along_keys:?} elements");
    }

    /// Positions that one task holds in its lanes: whole panels, fewer where channels are many or tasks few.
    ///
    /// No result depends on it.
    pub(super) fn group(&self, positions: usize) -> usize {
        let most = (1024 / self.head_channels).clamp(1, 4);
        let most = self.block.map_or(most, |block| most.min((block / LANES).max(1)));
        let tasks = 4 * rayon::current_num_threads();
        let panels = self.batch_size * self.heads * positions.div_ceil(LANES);
        LANES * (panels / tasks).clamp(1, most)
    }
}
