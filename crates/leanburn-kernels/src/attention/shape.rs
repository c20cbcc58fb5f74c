//! Shape of an attention, and how it is cut into tasks.

/// Most lanes of a panel: three vectors of sixteen.
pub(super) const LANES: usize = 48;

/// Bytes for what rayon keeps, and other small things.
pub(super) const LISTS: usize = 4096;

/// Shape of an attention.
///
/// Queries, keys and values are `[batch_size, heads * head_channels, positions]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AttentionShape {
    /// Items in the batch.
    pub batch_size: usize,
    /// Heads of each item.
    pub heads: usize,
    /// Channels of each head, of queries, keys and values alike.
    pub head_channels: usize,
    /// Positions of queries and outputs.
    pub query_positions: usize,
    /// Positions of keys and values.
    pub key_positions: usize,
    /// Multiplies the scores, usually `1 / sqrt(head_channels)`.
    pub scale: f32,
    /// The most positions that a thread holds at a time, rounded down to whole panels of 48 but at least one; as many as
    /// is fastest if none.
    pub block: Option<usize>,
}

impl AttentionShape {
    /// Number of elements of the query, the output and their gradients.
    pub fn query_len(&self) -> usize {
        self.batch_size * self.heads * self.head_channels * self.query_positions
    }

    /// Number of elements of the key, the value and their gradients.
    pub fn key_len(&self) -> usize {
        self.batch_size * self.heads * self.head_channels * self.key_positions
    }

    /// Floating-point operations of forward: the scores, the sum of values, and for each group of queries one more reading
    /// of the keys and values.
    pub fn flops(&self) -> u64 {
        let groups = self.query_positions.div_ceil(self.group(self.query_positions)) as u64;
        4 * self.query_len() as u64 * self.key_positions as u64 + 2 * groups * self.key_len() as u64
    }

    /// Panics unless slices along queries and along keys have these lengths.
    pub(super) fn check(&self, along_queries: &[usize], along_keys: &[usize]) {
        assert!(self.query_len() > 0 && self.key_len() > 0, "attention over nothing: {self:?}");
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
