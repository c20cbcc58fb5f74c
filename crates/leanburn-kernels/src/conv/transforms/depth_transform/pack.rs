//! Groups of planes, packed and transformed.

use std::ops::Range;

use pulp::{Arch, Simd, WithSimd};

use super::mix::{Carried, Mix, MixPlanes, Run, WithMix, handed_on};
use super::polynomials::PRODUCTS;
use crate::Stored;
use crate::conv::packing::fill::FillPlane;
use crate::conv::packing::planes::{Source, Window, prepare};
use crate::conv::tiles::tap_sums::LANES;
use crate::size::reach;

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
    /// Room for a row of each plane.
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
        // What is handed on outside of the volume is zero from the first group on.
        let rows = (known == count && window.step == [1, 1]).then(|| whole(&depths, known..mix.read())).flatten();
        for (index, channel) in channels.enumerate() {
            let target = &mut target[index * channel_len..];
            let planes = carried_planes.next().unwrap_or_default();
            let carried = Carried { count, known: carried.known, planes };
            if let Some(depths) = rows {
                let place = [item, channel];
                arch.dispatch(PackRows { source, window, place, depths, mix, room, carried, target, strides });
            } else {
                for (depth, target) in depths.into_iter().zip(target.chunks_mut(stride)).take(mix.read()).skip(known) {
                    let (channels, target) = (channel..channel + 1, &mut target[..channel_len]);
                    match depth {
                        Some(depth) => arch.dispatch(FillPlane { source, window, item, channels, depth, room, target }),
                        None => target.fill(0.0),
                    }
                }
                arch.dispatch(MixPlanes::packed(mix, target, strides, carried));
            }
            if index + 1 >= ahead && channel < last_channel {
                for depth in depths.iter().take(mix.read()).skip(known).flatten() {
                    source.prefetch_window(window, [item, channel + 1, *depth]);
                }
            }
        }
    }
}

/// The planes that are read, if each of them lies in the volume.
fn whole(depths: &[Option<usize>; PRODUCTS], read: Range<usize>) -> Option<[usize; PRODUCTS]> {
    let is_inside = depths[read].iter().all(Option::is_some);
    is_inside.then(|| depths.map(Option::unwrap_or_default))
}

/// Packs and mixes the planes of a channel at once, row by row, where all of them lie in the volume and its columns are not parted: a packed plane
/// would be written only to be read again.
struct PackRows<'a, 'b, E> {
    source: &'a Source<'b, E>,
    window: &'a Window,
    /// Item of the batch and channel.
    place: [usize; 2],
    /// Those of the planes that are not known from the group before.
    depths: [usize; PRODUCTS],
    mix: Mix<'a>,
    room: &'a mut Vec<f32>,
    carried: Carried<'a>,
    /// Of the channel; what lies outside of the volume is left as it is.
    target: &'a mut [f32],
    /// From one product to the next, and the length of a channel.
    strides: [usize; 2],
}

impl<E: Stored> WithSimd for PackRows<'_, '_, E> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        self.mix.choose(simd, self);
    }
}

impl<E: Stored> WithMix for PackRows<'_, '_, E> {
    #[inline(always)]
    fn with<S: Simd, const FROM: usize, const TO: usize>(
        self,
        simd: S,
        mix: impl Fn([S::f32s; FROM]) -> [S::f32s; TO],
    ) {
        let Self { source, window, place: [item, channel], depths, room, carried, target, strides, .. } = self;
        let ([stride, channel_len], [rows, pitch]) = (strides, window.size);
        let (columns, before) = window.columns_inside(source.size[2]);
        let (inside, len, room_len) =
            (source.rows_inside(window), columns.len(), columns.len().next_multiple_of(LANES));
        let Carried { count, known, planes: shared } = carried;
        let known = if known { count } else { 0 };
        assert!(before + len <= pitch && rows * pitch <= channel_len && inside.len() <= rows);
        assert!(reach(TO, stride, channel_len) <= target.len() && count <= FROM && count * channel_len <= shared.len());
        room.resize(FROM * room_len, 0.0);
        let (target, shared) = (target.as_mut_ptr(), shared.as_mut_ptr());
        let prologue = source.affine(simd, [item, channel, 0, 0]);
        for row in inside {
            let first = (row as isize - window.first[0]) as usize * pitch + before;
            let mut from = [std::ptr::null(); FROM];
            for (plane, (from, room)) in from.iter_mut().zip(room.chunks_exact_mut(room_len.max(1))).enumerate() {
                *from = if plane < known {
                    shared.wrapping_add(plane * channel_len + first).cast_const()
                } else {
                    let values = source.plain([item, channel, depths[plane], row], &columns);
                    match E::as_f32(values) {
                        Some(values) if prologue.is_none() => values.as_ptr(),
                        _ => {
                            prepare(simd, &prologue, values, &mut room[..len]);
                            room.as_ptr()
                        }
                    }
                };
            }
            let handed_on = handed_on(shared.wrapping_add(first), channel_len, count);
            let run = Run { from, handed_on, to: target.wrapping_add(first), stride, len };
            // SAFETY: the rows are slices of that length; of the target and of what is handed on each channel has room for all rows of the window, as was
            // checked, and this is one of them, since it lies in the window.
            unsafe { run.mix(simd, &mix) };
        }
    }
}
