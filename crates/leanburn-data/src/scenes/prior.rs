//! The best map that does not look at an image.

/// How often each cell is of each class over maps: one map that fits all scenes as well as one can.
#[derive(Debug)]
pub(super) struct Frequencies {
    cells: usize,
    /// For each class and cell, how often it is seen and of the class.
    positive: Vec<u32>,
    /// For each cell, how often it is seen.
    seen: Vec<u32>,
}

impl Frequencies {
    pub(super) fn new(classes: usize, cells: usize) -> Self {
        Self { cells, positive: vec![0; classes * cells], seen: vec![0; cells] }
    }

    /// Adds a map of so many classes, behind which is what is seen.
    pub(super) fn add(&mut self, map: &[u8]) {
        let (classes, seen) = map.split_at(self.positive.len());
        for (count, seen) in self.seen.iter_mut().zip(seen) {
            *count += u32::from(*seen);
        }
        for (at, (count, is)) in self.positive.iter_mut().zip(classes).enumerate() {
            *count += u32::from(*is & seen[at % self.cells]);
        }
    }

    /// How often a cell that is seen is of each class.
    pub(super) fn shares(&self) -> Vec<f64> {
        let sum = |counts: &[u32]| counts.iter().map(|count| f64::from(*count)).sum::<f64>();
        self.positive.chunks(self.cells).map(|class| sum(class) / sum(&self.seen)).collect()
    }

    /// Of each class the cells that are of it often enough: as often as makes the intersection over union over the maps largest.
    pub(super) fn best(&self) -> Vec<u8> {
        self.positive.chunks(self.cells).flat_map(|class| self.best_of(class)).collect()
    }

    /// Cells are taken by their shares, the largest first, as long as the ratio grows.
    fn best_of(&self, positive: &[u32]) -> Vec<u8> {
        let share = |cell: &usize| f64::from(positive[*cell]) / f64::from(self.seen[*cell].max(1));
        let mut order: Vec<usize> = (0..self.cells).filter(|cell| positive[*cell] > 0).collect();
        order.sort_by(|one, other| share(other).total_cmp(&share(one)));
        let all: u64 = positive.iter().map(|count| u64::from(*count)).sum();
        // the union: all that is of the class, and what is taken and is not
        let (mut both, mut union, mut best, mut taken) = (0u64, all, 0.0, 0);
        for (place, &cell) in order.iter().enumerate() {
            both += u64::from(positive[cell]);
            union += u64::from(self.seen[cell] - positive[cell]);
            let ratio = both as f64 / union as f64;
            if ratio > best {
                (best, taken) = (ratio, place + 1);
            }
        }
        let mut map = vec![0; self.cells];
        order[..taken].iter().for_each(|cell| map[*cell] = 1);
        map
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_map_has_the_largest_ratio_of_all() {
        let maps: [[u8; 12]; 3] = [
            [1, 1, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1],
            [1, 0, 1, 0, 0, 0, 0, 0, 1, 1, 1, 0],
            [1, 1, 0, 1, 0, 0, 0, 0, 1, 0, 1, 1],
        ];
        let mut frequencies = Frequencies::new(2, 4);
        maps.iter().for_each(|map| frequencies.add(map));
        let ratio = |class: usize, map: &[u8]| {
            let (mut both, mut union) = (0, 0);
            for truth in &maps {
                for cell in (0..4).filter(|cell| truth[8 + cell] == 1) {
                    both += u32::from(truth[4 * class + cell] & map[cell]);
                    union += u32::from(truth[4 * class + cell] | map[cell]);
                }
            }
            f64::from(both) / f64::from(union.max(1))
        };
        assert_eq!(frequencies.shares(), [0.6, 0.1]);
        let best = frequencies.best();
        for class in 0..2 {
            let all = (0..16u8).map(|bits| ratio(class, &std::array::from_fn::<u8, 4, _>(|cell| bits >> cell & 1)));
            assert_eq!(ratio(class, &best[4 * class..][..4]), all.fold(0.0, f64::max), "class {class}");
        }
    }
}
