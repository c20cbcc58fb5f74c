//! What a decoder gives on its way to the logits.

/// A level of a decoder below the one that gives the logits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecoderLevel {
    /// Channels of what the level gives.
    pub channels: usize,
    /// By how much its depth, height and width are smaller than those of the volume.
    pub downsampling: [usize; 3],
}
