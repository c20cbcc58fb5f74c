//! Blocks of a volume in float32: themselves, or widened and rounded back.

use std::ops::Range;

use crate::Stored;

/// Elements of a task.
pub(super) const CHUNK: usize = 16_384;

/// Elements that are worked on at a time: of several volumes, they fit the first cache.
pub(super) const BLOCK: usize = 1024;

/// Cuts a range into blocks.
#[inline(always)]
pub(super) fn blocks(range: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let end = range.end;
    range.step_by(BLOCK).map(move |begin| begin..(begin + BLOCK).min(end))
}

/// A block in float32: itself, or widened into `buffer`.
#[inline(always)]
pub(super) fn read<'a, E: Stored>(values: &'a [E], buffer: &'a mut [f32; BLOCK]) -> &'a [f32] {
    match E::as_f32(values) {
        Some(values) => values,
        None => {
            let buffer = &mut buffer[..values.len()];
            E::widen(values, buffer);
            buffer
        }
    }
}

/// A block in float32 to change: itself, or widened into `buffer`, which [`write_back`] rounds into it.
#[inline(always)]
pub(super) fn edit<'a, E: Stored>(values: &'a mut [E], buffer: &'a mut [f32; BLOCK]) -> &'a mut [f32] {
    match E::as_f32_mut(values) {
        Ok(values) => values,
        Err(values) => {
            let buffer = &mut buffer[..values.len()];
            E::widen(values, buffer);
            buffer
        }
    }
}

/// Rounds into `values` what was changed in `buffer`; nothing where [`edit`] gave the block itself.
#[inline(always)]
pub(super) fn write_back<E: Stored>(buffer: &[f32; BLOCK], values: &mut [E]) {
    if let Err(values) = E::as_f32_mut(values) {
        E::narrow(&buffer[..values.len()], values);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_cover_a_range() {
        assert_eq!(blocks(5..5).count(), 0);
        assert!(blocks(5..6).eq(std::iter::once(5..6)));
        assert!(blocks(3..2053).eq([3..1027, 1027..2051, 2051..2053]));
    }
}
