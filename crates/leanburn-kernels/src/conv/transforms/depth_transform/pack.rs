//! Groups of planes, packed and transformed.

use std::ops::Range;

use pulp::Arch;

use super::mix::{Carried, Mix, MixPlanes};
use super::polynomials::PRODUCTS;
use crate::Stored;
use crate::conv::packing::fill::FillPlane;
use crate::conv::packing::planes::{Source, Window};

/// Packs the planes of a group, and makes them ready for the products.
pub(crate) struct PackGroup<'a, 'b, E> {
    /// Where from.
    pub source: &'a Source<'b, E>,
    /// What of each plane.
    pub window: &'a Window,
    /// Item of the batch.
    pub item: usize,
    /// Channels, numbered over all groups of them.
    pub channels: Range<usize>,
    /// The planes, as many as are read; zeros where there is none.
    pub depths: [Option<usize>; PRODUCTS],
    /// How they are transformed.
    pub mix: Mix<'a>,
    /// Room for a row.
    pub room: &'a mut Vec<f32>,
    /// `[channel][plane][..]`, the planes that the next group begins with.
    pub carried: Carried<'a>,
    /// `[product][channel][..]`.
    pub target: &'a mut [f32],
    /// From one product to the next, and from one channel to the next.
    pub strides: [usize; 2],
    /// Channels that have been asked for.
    pub ahead: usize,
}

impl<E: Stored> PackGroup<'_, '_, E> {
    /// Does it channel by channel, while its planes are close.
    pub(crate) fn run(self, arch: Arch) {
        let Self { source, window, item, channels, depths, mix, room, carried, target, strides, ahead } = self;
        let ([stride, channel_len], count) = (strides, carried.count);
        let known = if carried.known { count } else { 0 };
        let last_channel = channels.end.saturating_sub(1);
        let mut carried_planes = carried.planes.chunks_exact_mut((count * channel_len).max(1));
        for (index, channel) in channels.enumerate() {
            let target = &mut target[index * channel_len..];
            for (depth, target) in depths.into_iter().zip(target.chunks_mut(stride)).take(mix.read()).skip(known) {
                let (channels, target) = (channel..channel + 1, &mut target[..channel_len]);
                match depth {
                    Some(depth) => arch.dispatch(FillPlane { source, window, item, channels, depth, room, target }),
                    None => target.fill(0.0),
                }
            }
            if index + 1 >= ahead && channel < last_channel {
                for depth in depths.iter().take(mix.read()).skip(known).flatten() {
                    source.prefetch_window(window, [item, channel + 1, *depth]);
                }
            }
            let planes = carried_planes.next().unwrap_or_default();
            let carried = Carried { count, known: carried.known, planes };
            arch.dispatch(MixPlanes::packed(mix, target, strides, carried));
        }
    }
}
