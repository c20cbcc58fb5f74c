//! Which cell each point lies in, and the points of each cell.

/// The cells of a grid that the points of each item lie in. A point is a pixel at a bin of its depth.
///
/// Made once for cameras that do not move.
///
/// # Memory
///
/// 8 bytes a point, 4 a cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BevCells {
    bins: usize,
    pixels: usize,
    grid: [usize; 3],
    /// `[batch_size, bins, pixels]`
    cells: Vec<u32>,
    /// Where the points of each cell begin, items one behind the other, and the end.
    starts: Vec<u32>,
    /// Points of an item, `bin * pixels + pixel`, by cells; those of a cell in their order.
    points: Vec<u32>,
}

impl BevCells {
    /// The cell of a point outside of the grid.
    pub const OUTSIDE: u32 = u32::MAX;

    /// From the cell of each point, `[batch_size, bins, pixels]`: its number in a grid of so many cells along depth, height and width, the
    /// last fastest, or [`OUTSIDE`](Self::OUTSIDE).
    ///
    /// # Panics
    ///
    /// If there are no bins, pixels or cells, the points are no whole items, there are 2^32 points or cells or more, or a cell is not in the
    /// grid.
    pub fn new(bins: usize, pixels: usize, grid: [usize; 3], cells: Vec<u32>) -> Self {
        let (each, count) =
            (bins.saturating_mul(pixels), grid.iter().fold(1usize, |all, axis| all.saturating_mul(*axis)));
        assert!(
            each > 0 && count > 0,
            "expected bins, pixels and cells, found {bins}, {pixels} and a grid of {grid:?}"
        );
        assert!(cells.len().is_multiple_of(each), "expected {each} points for each item, found {} in all", cells.len());
        let items = cells.len() / each;
        let fits = |number: usize| number < u32::MAX as usize;
        let all = [each, cells.len(), items.saturating_mul(count)];
        assert!(all.into_iter().all(fits), "expected less than 2^32 points and cells");
        let mut starts = vec![0u32; items * count + 1];
        for (place, &cell) in cells.iter().enumerate().filter(|(_, cell)| **cell != Self::OUTSIDE) {
            assert!((cell as usize) < count, "expected a cell below {count}, the grid {grid:?}, found {cell}");
            starts[place / each * count + cell as usize + 1] += 1;
        }
        for index in 1..starts.len() {
            starts[index] += starts[index - 1];
        }
        let (mut next, mut points) = (starts.clone(), vec![0; starts[items * count] as usize]);
        for (place, &cell) in cells.iter().enumerate().filter(|(_, cell)| **cell != Self::OUTSIDE) {
            let next = &mut next[place / each * count + cell as usize];
            points[*next as usize] = (place % each) as u32;
            *next += 1;
        }
        Self { bins, pixels, grid, cells, starts, points }
    }

    /// Items of the batch.
    pub fn batch_size(&self) -> usize {
        self.cells.len() / (self.bins * self.pixels)
    }

    /// Bins of the depth.
    pub fn bins(&self) -> usize {
        self.bins
    }

    /// Pixels of all cameras.
    pub fn pixels(&self) -> usize {
        self.pixels
    }

    /// Cells along depth, height and width.
    pub fn grid(&self) -> [usize; 3] {
        self.grid
    }

    /// Cells of an item.
    pub fn count(&self) -> usize {
        self.grid.iter().product()
    }

    /// Points of all items that lie in a cell.
    pub fn inside(&self) -> usize {
        self.points.len()
    }

    /// The points of a cell of an item, `bin * pixels + pixel` each.
    pub fn points(&self, item: usize, cell: usize) -> &[u32] {
        let at = item * self.count() + cell;
        &self.points[self.starts[at] as usize..self.starts[at + 1] as usize]
    }

    /// The cells of an item's points at a bin, one for each pixel.
    pub fn cells(&self, item: usize, bin: usize) -> &[u32] {
        &self.cells[(item * self.bins + bin) * self.pixels..][..self.pixels]
    }
}
