//! Scratch memory of a matrix product: the parts of its factors that crate gemm 0.19 packs.

use burn::tensor::DType;

/// A product `[rows, inner] x [inner, columns]` into a row-major output.
pub(super) struct Gemm {
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) inner: usize,
    /// Whether the rows of the left factor lie in one piece each.
    pub(super) is_left_row_major: bool,
    /// Whether the rows of the right factor lie in one piece each.
    pub(super) is_right_row_major: bool,
    pub(super) dtype: DType,
}

/// Bytes of a vector register.
const REGISTER: usize = 32;
/// Registers and columns of a tile of the output.
const TILE: [usize; 2] = [2, 6];
/// Most of the inner axis at once, as follows from a first-level cache of 48 KiB; for small products less.
const INNER: [usize; 2] = [512, 1024];
/// The part of the third-level cache that a packed factor may fill.
const THIRD_LEVEL: usize = 30 << 20;

impl Gemm {
    /// Bytes packed at once. Gemm computes the transposed product: its left factor is our right one.
    pub(super) fn scratch(&self) -> u64 {
        let &Self { rows, columns, inner, .. } = self;
        let is_dot = self.is_left_row_major && !self.is_right_row_major && rows * columns <= 16 * 16;
        if inner <= 2 || rows <= 1 || columns <= 1 || is_dot {
            return 0;
        }
        let width = if self.dtype == DType::F64 { 8 } else { 4 };
        let lanes = REGISTER / width;
        let tile_rows = TILE[0] * lanes;
        let is_small = rows <= 64 && columns <= 64;
        let chunk = if is_small { inner.min(INNER[0]) } else { inner.div_ceil(inner.div_ceil(INNER[1])) };
        let packs_left = columns > tile_rows * if self.is_left_row_major { 128 } else { 2 };
        let packs_left = packs_left || self.dtype == DType::F16; // widened while packing
        let packs_right = columns <= 16 * tile_rows && (!columns.is_multiple_of(lanes) || !self.is_right_row_major);
        let most_rows = (THIRD_LEVEL / (width * chunk) / TILE[1] * TILE[1]).max(TILE[1]);
        let parts = rows.div_ceil(most_rows);
        let left = if packs_left { rows.div_ceil(parts).next_multiple_of(TILE[1]) } else { 0 };
        let right = if packs_right { columns.next_multiple_of(tile_rows) } else { 0 };
        (chunk * (left + right) * width) as u64
    }
}
