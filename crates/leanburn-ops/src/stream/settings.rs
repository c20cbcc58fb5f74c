//! How a segment is streamed: planes of a slab, and which volumes are stored whole in between.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How a segment is streamed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct StreamSettings {
    /// Planes of a slab, of the deepest volume of the segment. The first slab and the last may have a few more or fewer.
    pub slab_planes: usize,
    /// The volumes that are stored whole while the segment runs.
    pub keep: StreamKeep,
    /// Of one more volume the share that is stored too, in percent: the first slabs of the one that saves most work for its size. More
    /// memory for less time, in between what `keep` offers. Nothing more is stored where several processes hold the volume.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub cached_percent: u8,
}

fn is_nothing(percent: &u8) -> bool {
    *percent == 0
}

/// The volumes that a streamed segment stores whole while it runs forward, and while it runs backward with their gradients in place
/// of those parts that have been passed. Between forward and backward it stores none but its input.
///
/// Those that a norm reads are worth it: every pass over such a norm needs them. The result of the first stage is never stored: it is one
/// convolution away from the input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StreamKeep {
    /// Every volume that a norm reads: two for a residual block.
    #[default]
    Two,
    /// As many as there are residual blocks: the results of all but the last, and the middle of the block at work. Where no norm reads a
    /// block's result, all.
    One,
    /// None: every pass starts from the input.
    None,
    /// None, and [neighbours](crate::ResidencyPolicy::joined) that are streamed so are one segment: the volume between two levels is made
    /// in slabs too, and made again in each pass behind it.
    Joined,
}

impl fmt::Display for StreamKeep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Two => "two",
            Self::One => "one",
            Self::None => "none",
            Self::Joined => "joined",
        })
    }
}

impl StreamSettings {
    /// Planes of a slab where nobody says.
    pub const SLAB_PLANES: usize = 8;

    /// With so many planes to a slab, at least one.
    #[must_use]
    pub fn with_slab_planes(mut self, slab_planes: usize) -> Self {
        self.slab_planes = slab_planes.max(1);
        self
    }

    /// With these volumes stored whole.
    #[must_use]
    pub fn with_keep(mut self, keep: StreamKeep) -> Self {
        self.keep = keep;
        self
    }

    /// With this share of one more volume stored, in percent, at most 100.
    #[must_use]
    pub fn with_cached_percent(mut self, cached_percent: u8) -> Self {
        self.cached_percent = cached_percent.min(100);
        self
    }
}

impl Default for StreamSettings {
    fn default() -> Self {
        Self { slab_planes: Self::SLAB_PLANES, keep: StreamKeep::default(), cached_percent: 0 }
    }
}
