//! The processes that train one model together.

use std::fmt::Debug;
use std::rc::Rc;

/// Values that are exchanged at once, at most: the buffers of a sum are twice this.
pub const EXCHANGE_WINDOW: usize = 1 << 22;

/// A group of processes that train one model, each on its own micro-batches: what a trainer needs of it.
///
/// A process is a *rank*, counted from 0. Every rank calls the same functions in the same order; each call returns when all
/// have called it. What is added is added in the order of ranks, so that all ranks hold the same bits, on every run.
///
/// A rank that ends without the others is for the group to notice: it ends them too.
pub trait Ranks: Debug {
    /// The rank of this process.
    fn rank(&self) -> usize;

    /// How many there are.
    fn size(&self) -> usize;

    /// The rank of this process among those of its machine, and how many those are: they share its memory and its cards.
    fn on_this_machine(&self) -> (usize, usize);

    /// The sums over all ranks of this rank's part, added in the order of ranks. `values` has a part for each rank, one after another, of
    /// `counts` values: at most [`EXCHANGE_WINDOW`] in all.
    fn reduce_scatter(&self, values: &[f32], counts: &[usize]) -> Vec<f32>;

    /// The parts of all ranks, one after another, of `counts` values each: at most [`EXCHANGE_WINDOW`] in all. This rank's is `part`.
    fn all_gather(&self, part: &[f32], counts: &[usize]) -> Vec<f32>;

    /// What every rank gives, in the order of ranks: less than 2 GiB in all.
    fn gather(&self, bytes: &[u8]) -> Vec<Vec<u8>>;

    /// Gives bytes to two other ranks, where there are such, and takes what these give to this one: at most 1 GiB each. Every rank that one
    /// names names that one, on the other side.
    fn exchange(&self, with: [Option<usize>; 2], given: [&[u8]; 2]) -> [Vec<u8>; 2];

    /// The same for the leading rank alone; the others get nothing. At most 1 GiB of all ranks together.
    fn gather_to_leader(&self, bytes: &[u8]) -> Vec<Vec<u8>> {
        let there = self.gather(bytes);
        if self.rank() == 0 { there } else { Vec::new() }
    }

    /// Replaces the values by their sums over all ranks, added in the order of ranks: each rank adds a part and hands it to the others, so
    /// that what is sent is what a ring sends.
    fn sum(&self, values: &mut [f32]) {
        for window in values.chunks_mut(EXCHANGE_WINDOW) {
            let counts = parts(window.len(), self.size());
            let sums = self.reduce_scatter(window, &counts);
            window.copy_from_slice(&self.all_gather(&sums, &counts));
        }
    }
}

/// So many values in a part for each rank, the last ones shorter.
fn parts(values: usize, ranks: usize) -> Vec<usize> {
    let part = values.div_ceil(ranks);
    (0..ranks).map(|rank| values.saturating_sub(rank * part).min(part)).collect()
}

/// The group of a process that is on its own.
#[derive(Clone, Copy, Debug, Default)]
pub struct Alone;

impl Ranks for Alone {
    fn rank(&self) -> usize {
        0
    }

    fn size(&self) -> usize {
        1
    }

    fn on_this_machine(&self) -> (usize, usize) {
        (0, 1)
    }

    fn reduce_scatter(&self, values: &[f32], _: &[usize]) -> Vec<f32> {
        values.to_vec()
    }

    fn all_gather(&self, part: &[f32], _: &[usize]) -> Vec<f32> {
        part.to_vec()
    }

    fn gather(&self, bytes: &[u8]) -> Vec<Vec<u8>> {
        vec![bytes.to_vec()]
    }

    fn exchange(&self, _: [Option<usize>; 2], _: [&[u8]; 2]) -> [Vec<u8>; 2] {
        [Vec::new(), Vec::new()]
    }
}

/// A group that is shared by what runs in it.
#[derive(Clone, Debug)]
pub struct Group(Rc<dyn Ranks>);

impl Default for Group {
    fn default() -> Self {
        Self(Rc::new(Alone))
    }
}

impl<R: Ranks + 'static> From<R> for Group {
    fn from(ranks: R) -> Self {
        Self(Rc::new(ranks))
    }
}

impl Group {
    /// The processes.
    pub fn ranks(&self) -> &dyn Ranks {
        &*self.0
    }

    /// Whether this process is on its own.
    pub fn is_alone(&self) -> bool {
        self.0.size() == 1
    }

    /// Whether this process writes what is written once: checkpoints, metrics, pictures.
    pub fn leads(&self) -> bool {
        self.0.rank() == 0
    }

    /// Whether any rank says so.
    pub fn any(&self, here: bool) -> bool {
        match self.is_alone() {
            true => here,
            false => self.0.gather(&[u8::from(here)]).iter().any(|there| there == &[1]),
        }
    }

    /// What the leading rank gives; the others give nothing.
    pub fn from_leader(&self, here: &[u8]) -> Vec<u8> {
        let here = if self.leads() { here } else { &[] };
        self.0.gather(here).swap_remove(0)
    }

    /// What every rank gives, however much that is, on the leading rank; nothing on the others.
    pub fn to_leader(&self, here: &[u8]) -> Vec<Vec<u8>> {
        let ranks = self.ranks();
        let lengths = ranks.gather(&(here.len() as u64).to_le_bytes());
        let length = |bytes: &Vec<u8>| bytes.as_slice().try_into().map_or(0, u64::from_le_bytes) as usize;
        let longest = lengths.iter().map(length).max().unwrap_or(0);
        let mut all = if self.leads() { vec![Vec::new(); ranks.size()] } else { Vec::new() };
        let window = (1 << 30) / ranks.size();
        for start in (0..longest).step_by(window) {
            let part = &here[start.min(here.len())..(start + window).min(here.len())];
            all.iter_mut().zip(ranks.gather_to_leader(part)).for_each(|(all, part)| all.extend(part));
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_parted_among_all_ranks() {
        assert_eq!(parts(10, 4), [3, 3, 3, 1]);
        assert_eq!(parts(2, 4), [1, 1, 0, 0]);
        assert_eq!(parts(9, 4), [3, 3, 3, 0]);
        assert_eq!(parts(5, 1), [5]);
    }
}
