//! Which parts of two matrices are multiplied.

use std::ops::Range;

/// Where a step of a sum begins in `A` and in `B`, counted from their beginnings; and how far any of them reaches.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    pub(super) places: Vec<[usize; 2]>,
    pub(super) last: [usize; 2],
}

impl Steps {
    /// No steps yet, and room for so many.
    pub(crate) fn with_capacity(len: usize) -> Self {
        Self { places: Vec::with_capacity(len), last: [0; 2] }
    }

    /// Forgets them.
    pub(crate) fn clear(&mut self) {
        self.places.clear();
        self.last = [0; 2];
    }

    /// The numbers of all, at most so many at a time, in equal pieces; of none one empty piece.
    pub(crate) fn pieces(&self, most: usize) -> impl Iterator<Item = Range<usize>> + use<> {
        let (len, pieces) = (self.places.len(), self.places.len().div_ceil(most).max(1));
        (0..pieces).map(move |piece| len * piece / pieces..len * (piece + 1) / pieces)
    }

    /// Adds one: the element of `A` and the pair of `B`.
    #[inline(always)]
    pub(crate) fn push(&mut self, a: usize, b: usize) {
        self.places.push([a, b]);
        self.last = [self.last[0].max(a), self.last[1].max(b)];
    }
}
