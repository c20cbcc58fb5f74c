//! Values that belong to one rank each: summed where they belong, and handed to all.

use std::ops::Range;

use crate::ranks::{EXCHANGE_WINDOW, Ranks};

/// Vectors by the rank that they belong to.
pub(crate) struct Shares<'a>(Vec<Share<'a>>);

/// The vectors of a rank, taken as one.
#[derive(Default)]
struct Share<'a>(Vec<&'a mut Vec<f32>>);

impl Share<'_> {
    fn len(&self) -> usize {
        self.0.iter().map(|values| values.len()).sum()
    }

    /// Calls `each` with the pieces of a range, in their order.
    fn pieces(&mut self, range: Range<usize>, mut each: impl FnMut(&mut [f32])) {
        let mut start = 0;
        for values in &mut self.0 {
            let end = start + values.len();
            let (from, to) = (range.start.clamp(start, end), range.end.clamp(start, end));
            if from < to {
                each(&mut values[from - start..to - start]);
            }
            start = end;
        }
    }

    fn read(&mut self, range: Range<usize>, to: &mut Vec<f32>) {
        self.pieces(range, |piece| to.extend_from_slice(piece));
    }

    fn write(&mut self, range: Range<usize>, mut values: &[f32]) {
        self.pieces(range, |piece| {
            let (first, rest) = values.split_at(piece.len());
            piece.copy_from_slice(first);
            values = rest;
        });
    }
}

impl<'a> Shares<'a> {
    /// Vectors, each with the rank that it belongs to.
    pub fn new(ranks: usize, vectors: impl Iterator<Item = (usize, &'a mut Vec<f32>)>) -> Self {
        let mut shares: Vec<Share<'a>> = (0..ranks).map(|_| Share::default()).collect();
        vectors.for_each(|(owner, values)| shares[owner].0.push(values));
        Self(shares)
    }

    /// Replaces this rank's share by its sums over all ranks, added in the order of ranks. The other shares stay as they are.
    pub fn reduce_scatter(mut self, ranks: &dyn Ranks) {
        let rank = ranks.rank();
        for ranges in self.windows() {
            let mut values = Vec::with_capacity(ranges.iter().map(Range::len).sum());
            self.0.iter_mut().zip(&ranges).for_each(|(share, range)| share.read(range.clone(), &mut values));
            let sums = ranks.reduce_scatter(&values, &counts(&ranges));
            self.0[rank].write(ranges[rank].clone(), &sums);
        }
    }

    /// Replaces each share by what its rank has.
    pub fn all_gather(mut self, ranks: &dyn Ranks) {
        let rank = ranks.rank();
        for ranges in self.windows() {
            let mut part = Vec::with_capacity(ranges[rank].len());
            self.0[rank].read(ranges[rank].clone(), &mut part);
            let all = ranks.all_gather(&part, &counts(&ranges));
            let mut parts = all.as_slice();
            for (share, range) in self.0.iter_mut().zip(&ranges) {
                let (first, rest) = parts.split_at(range.len());
                share.write(range.clone(), first);
                parts = rest;
            }
        }
    }

    /// What is exchanged at once: a range of each share.
    fn windows(&self) -> Vec<Vec<Range<usize>>> {
        let lengths: Vec<usize> = self.0.iter().map(Share::len).collect();
        let (longest, part) = (lengths.iter().copied().max().unwrap_or(0), EXCHANGE_WINDOW / lengths.len());
        let window = |start: usize| lengths.iter().map(|&len| start.min(len)..(start + part).min(len)).collect();
        (0..longest).step_by(part).map(window).collect()
    }
}

fn counts(ranges: &[Range<usize>]) -> Vec<usize> {
    ranges.iter().map(Range::len).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_a_share_cross_its_vectors() {
        let (mut one, mut two, mut three) = (vec![1.0, 2.0], vec![], vec![3.0, 4.0, 5.0]);
        let mut share = Share(vec![&mut one, &mut two, &mut three]);
        let mut read = Vec::new();
        share.read(1..4, &mut read);
        assert_eq!((share.len(), read), (5, vec![2.0, 3.0, 4.0]));
        share.write(1..4, &[7.0, 8.0, 9.0]);
        assert_eq!((one, three), (vec![1.0, 7.0], vec![8.0, 9.0, 5.0]));
    }

    #[test]
    fn windows_cover_all_shares_once() {
        let (mut long, mut short) = (vec![0.0; EXCHANGE_WINDOW + 3], vec![0.0; 5]);
        let shares = Shares::new(2, [(0, &mut long), (1, &mut short)].into_iter());
        let half = EXCHANGE_WINDOW / 2;
        let expected = [[0..half, 0..5], [half..2 * half, 5..5], [2 * half..2 * half + 3, 5..5]];
        assert_eq!(shares.windows(), expected);
    }
}
