//! Places in volumes.

use burn_cubecl::cubecl;
use burn_cubecl::cubecl::prelude::*;

/// Size of a volume, without its batch.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
pub(super) struct Size {
    pub(super) channels: usize,
    pub(super) depth: usize,
    pub(super) height: usize,
    pub(super) width: usize,
}

pub(super) fn size([_, channels, depth, height, width]: [usize; 5]) -> SizeLaunch {
    SizeLaunch::new(channels, depth, height, width)
}

/// Where a value is: its item and channel, and its position.
#[derive(CubeType, Clone, Copy)]
pub(super) struct Place {
    /// With channels first the channel is in the item, and zero here.
    pub(super) item: usize,
    pub(super) channel: usize,
    pub(super) depth: usize,
    pub(super) height: usize,
    pub(super) width: usize,
}

/// The place of the value at an index in memory.
#[cube]
pub(super) fn place_of(index: usize, size: &Size, #[comptime] channels_last: bool) -> Place {
    let channel = if comptime!(channels_last) { index % size.channels } else { 0usize.runtime() };
    let position = if comptime!(channels_last) { index / size.channels } else { index };
    let rows = position / size.width;
    let planes = rows / size.height;
    Place {
        item: planes / size.depth,
        channel,
        depth: planes % size.depth,
        height: rows % size.height,
        width: position % size.width,
    }
}

/// The index in memory of a position in the item and channel of `place`.
#[cube]
pub(super) fn index_of(
    place: &Place,
    depth: usize,
    height: usize,
    width: usize,
    size: &Size,
    #[comptime] channels_last: bool,
) -> usize {
    let position = ((place.item * size.depth + depth) * size.height + height) * size.width + width;
    if comptime!(channels_last) { position * size.channels + place.channel } else { position }
}
