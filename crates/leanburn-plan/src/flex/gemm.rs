//! Scratch memory of a matrix product: the parts of its factors that crate gemm 0.19 packs.

/// A product `[rows, inner] x [inner, columns]` into a row-major output.
pub(super) struct Gemm {
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) inner: usize,
    /// Whether the rows of the left factor lie in one piece each.
    pub(super) is_left_row_major: bool,
    /// Whether the rows of the right factor lie in one piece each.
    pub(super) is_right_row_major: bool,
    /// Bytes of an element.
    pub(super) width: usize,
}

/// Bytes of a vector register and of the second- and third-level caches.
const REGISTER: usize = 32;
const THIRD_LEVEL: usize = 30 << 20;
const MOST_INNER: usize = 512;
const TILE_COLUMNS: usize = 4;

impl Gemm {
    /// Bytes packed at once. Gemm computes the transposed product: its left factor is our right one.
    pub(super) fn scratch(&self) -> u64 {
        let &Self { rows, columns, inner, width, .. } = self;
        if inner <= 2 || rows <= 1 || columns <= 1 {
            return 0;
        }
        let lanes = REGISTER / width;
        let tile_rows = 3 * lanes;
        let chunk = inner.div_ceil(inner.div_ceil(MOST_INNER));
        let packs_left = columns > tile_rows * if self.is_left_row_major { 128 } else { 2 };
        let packs_right = columns <= 16 * tile_rows && (!columns.is_multiple_of(lanes) || !self.is_right_row_major);
        let most_rows = THIRD_LEVEL / (width * chunk) / TILE_COLUMNS * TILE_COLUMNS;
        let parts = rows.div_ceil(most_rows);
        let left = if packs_left { rows.div_ceil(parts * TILE_COLUMNS) * TILE_COLUMNS } else { 0 };
        let right = if packs_right { columns.next_multiple_of(tile_rows) } else { 0 };
        (chunk * (left + right) * width) as u64
    }
}
