//! What is read or written next, and is asked for while something else is computed.

use crate::simd::prefetch;

/// Bytes of a cache line.
const LINE: usize = 64;

/// Parts of volumes, of which a few cache lines at a time are asked for, between one piece of arithmetic and the next.
///
/// A processor has some dozens of lines under way, and waits where more are asked for at once.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    /// The last one is next.
    parts: Vec<Part>,
    /// Channel, row and byte of it that are next.
    place: [usize; 3],
    /// Lines that are asked for in a step.
    each: usize,
}

/// Some rows of a plane, of some channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// Address of the first row.
    first: usize,
    /// Bytes of a row.
    row: usize,
    /// Rows, and bytes from one to the next.
    rows: [usize; 2],
    /// Channels, and bytes from one to the next.
    channels: [usize; 2],
}

impl Part {
    /// Rows of `len` elements: so many, `rows[1]` elements apart, of channels that are `channels[1]` apart.
    pub(crate) fn new<T>(first: *const T, len: usize, rows: [usize; 2], channels: [usize; 2]) -> Self {
        // Rows that follow each other are one.
        let (len, rows) = if len == rows[1] { (len * rows[0], [1, 0]) } else { (len, rows) };
        let bytes = |[count, pitch]: [usize; 2]| [count, pitch * size_of::<T>()];
        Self { first: first.addr(), row: len * size_of::<T>(), rows: bytes(rows), channels: bytes(channels) }
    }

    fn lines(&self) -> usize {
        self.channels[0] * self.rows[0] * self.row.div_ceil(LINE)
    }
}

impl Ahead {
    /// Has these parts asked for in so many steps, the last one first, and nothing else.
    pub(crate) fn plan(&mut self, parts: impl IntoIterator<Item = Part>, steps: usize) {
        self.parts.clear();
        self.parts.extend(parts.into_iter().filter(|part| part.lines() > 0));
        self.place = [0; 3];
        self.each = self.parts.iter().map(Part::lines).sum::<usize>().div_ceil(steps.max(1));
    }

    /// Asks for the lines of one step.
    #[inline(always)]
    pub(crate) fn step(&mut self) {
        for _ in 0..self.each {
            let Some(address) = self.next() else { return };
            prefetch(std::ptr::without_provenance::<u8>(address));
        }
    }

    /// The address of the line that is next.
    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        let part = self.parts.last()?;
        let [channel, row, byte] = &mut self.place;
        let address = part.first + *channel * part.channels[1] + *row * part.rows[1] + *byte;
        *byte += LINE;
        if *byte >= part.row {
            (*byte, *row) = (0, *row + 1);
            if *row == part.rows[0] {
                (*row, *channel) = (0, *channel + 1);
                if *channel == part.channels[0] {
                    *channel = 0;
                    self.parts.pop();
                }
            }
        }
        Some(address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_asked_for_once_in_as_many_steps() {
        // Two rows of 20 values, 32 apart, of two channels; three rows that are one.
        let (apart, whole) = (
            Part::new(std::ptr::without_provenance::<f32>(1000), 20, [2, 32], [2, 500]),
            Part::new(std::ptr::null::<f32>(), 32, [3, 32], [1, 0]),
        );
        let mut ahead = Ahead::default();
        ahead.plan([apart, Part::new(std::ptr::null::<f32>(), 0, [5, 8], [1, 0]), whole], 4);
        assert_eq!(ahead.each, 4);
        let asked: Vec<usize> = std::iter::from_fn(|| ahead.next()).collect();
        let rows = [1000, 1128, 3000, 3128].map(|row| [row, row + 64]);
        assert_eq!(asked, [vec![0, 64, 128, 192, 256, 320], rows.concat()].concat());
        ahead.plan([whole], 100);
        ahead.step();
        ahead.plan([], 1);
        assert_eq!((ahead.each, ahead.next()), (0, None));
    }
}
