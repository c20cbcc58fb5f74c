//! The channels of a volume in memory, and how a sum over one is shared out among units.
//!
//! Each unit gives its part of the sum, and Burn adds the parts up. (A tree in the memory that units share would be shorter
//! by a launch, but not every driver indexes that memory as CubeCL does.)

use burn_cubecl::cubecl;
use burn_cubecl::cubecl::prelude::*;

/// Channel of an item, `item * channels + channel`, of the value at a place in memory.
#[cube]
pub(super) fn row_of(place: usize, positions: usize, channels: usize, #[comptime] channels_last: bool) -> usize {
    if comptime!(channels_last) {
        place / (positions * channels) * channels + place % channels
    } else {
        place / positions
    }
}

/// The positions of one channel that a unit adds up: one in `parts`.
#[derive(CubeType, Clone, Copy)]
pub(super) struct Share {
    pub(super) row: usize,
    pub(super) part: usize,
    /// Place in memory of the channel's first value.
    pub(super) first: usize,
    /// Places from one position to the next.
    pub(super) step: usize,
}

/// The share of a unit. Units side by side read values side by side.
#[cube]
pub(super) fn share_of_unit(positions: usize, channels: usize, parts: usize, #[comptime] channels_last: bool) -> Share {
    if comptime!(channels_last) {
        let channel = ABSOLUTE_POS % channels;
        let item = ABSOLUTE_POS / channels / parts;
        Share {
            row: item * channels + channel,
            part: ABSOLUTE_POS / channels % parts,
            first: item * positions * channels + channel,
            step: channels,
        }
    } else {
        let row = ABSOLUTE_POS / parts;
        Share { row, part: ABSOLUTE_POS % parts, first: row * positions, step: 1usize.runtime() }
    }
}
