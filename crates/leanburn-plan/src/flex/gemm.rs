//! Scratch memory of a matrix product: what crate gemm 0.19 packs of its factors, and what its threads keep.
//!
//! The crate blocks a product by the processor's caches
//! ([Low et al. 2016](https://www.cs.utexas.edu/~flame/pubs/TOMS-BLIS-Analytical.pdf)). A part of the left factor is packed into a buffer
//! as large as the second-level cache, which each thread allocates with the first product that needs it, and keeps until it ends.

use std::sync::OnceLock;

use burn::tensor::DType;
use gemm_common::cache::{CACHE_INFO, CacheInfo};
use leanburn_common::Bytes;

use crate::memory_model::Kept;

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

/// What a product takes besides its output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Scratch {
    /// Packed while it runs.
    pub(super) packed: u64,
    /// Kept by each thread that has run it.
    pub(super) kept: u64,
}

/// Work from which Flex has one product computed by all threads.
pub(super) const PARALLEL: usize = 192 * 192 * 192;

impl Gemm {
    /// Multiplications.
    pub(super) fn work(&self) -> usize {
        self.rows.saturating_mul(self.columns).saturating_mul(self.inner)
    }

    /// On this processor.
    pub(super) fn scratch(&self) -> Scratch {
        self.scratch_on(Processor::here())
    }

    /// What threads keep of `count` such products that are computed beside each other.
    pub(super) fn kept(&self, count: usize) -> Kept {
        let each = self.scratch().kept;
        match count > 1 || self.work() >= PARALLEL {
            true => Kept { by_pool: Bytes(each * rayon::current_num_threads() as u64), ..Kept::default() },
            false => Kept { by_caller: Bytes(each), ..Kept::default() },
        }
    }

    /// Gemm computes the transposed product: its left factor is our right one.
    fn scratch_on(&self, processor: &Processor) -> Scratch {
        let &Self { rows, columns, inner, .. } = self;
        let is_dot = processor.has_dots && self.is_left_row_major && !self.is_right_row_major && rows * columns <= 256;
        if inner <= 2 || rows <= 1 || columns <= 1 || is_dot {
            return Scratch::default();
        }
        let width = if self.dtype == DType::F64 { 8 } else { 4 };
        let lanes = processor.lanes(width);
        let tile = [processor.tile[0] * lanes, processor.tile[1]];
        let blocks = match rows <= 64 && columns <= 64 && self.dtype != DType::F16 {
            true => {
                let inner = inner.min(512);
                let most = processor.caches[1].cache_bytes / width / inner / tile[0] * tile[0];
                Blocks { inner, left: most, right: rows.next_multiple_of(tile[1]) }
            }
            false => Blocks::of([columns, rows, inner], tile, width, &processor.caches),
        };
        let right = match blocks.right {
            0 if self.work() < PARALLEL => 128 * tile[1],
            0 => rows.next_multiple_of(tile[1]),
            right => right,
        };
        let many = if self.is_left_row_major { processor.packs_from } else { 2 };
        // half precision is widened while it is packed
        let packs_right = self.dtype == DType::F16 || columns > many * tile[0];
        let packs_left = columns <= 2 * blocks.left && (!columns.is_multiple_of(lanes) || !self.is_right_row_major);
        let right = if packs_right { right } else { 0 };
        let left = if packs_left { columns.next_multiple_of(tile[0]) } else { 0 };
        let kept = if packs_left { 0 } else { processor.caches[1].cache_bytes as u64 };
        Scratch { packed: (blocks.inner * (left + right) * width) as u64, kept }
    }
}

/// What the blocks of a product depend on.
#[derive(Clone, Copy, Debug)]
struct Processor {
    /// Caches of the first to the third level; a third of 0 bytes is none.
    caches: [CacheInfo; 3],
    /// Bytes of a vector register, 0 where there are no vectors.
    register: usize,
    /// Registers and columns of a tile of the output.
    tile: [usize; 2],
    /// Whether small products of rows with columns are computed as they lie.
    has_dots: bool,
    /// Tiles from which a factor is packed although its rows lie in one piece each.
    packs_from: usize,
}

impl Processor {
    /// The one that this program runs on, as the crate sees it.
    fn here() -> &'static Self {
        static HERE: OnceLock<Processor> = OnceLock::new();
        HERE.get_or_init(|| Self { caches: *CACHE_INFO, ..Self::vectors() })
    }

    #[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
    fn vectors() -> Self {
        match std::arch::is_x86_feature_detected!("fma") {
            true => Self::FMA,
            false => Self::PLAIN,
        }
    }

    #[cfg(target_arch = "aarch64")]
    fn vectors() -> Self {
        Self::NEON
    }

    #[cfg(not(any(target_arch = "x86", target_arch = "x86_64", target_arch = "aarch64")))]
    fn vectors() -> Self {
        Self::PLAIN
    }

    /// No cache; `vectors` is without those of the processor.
    const NO_CACHE: CacheInfo = CacheInfo { associativity: 8, cache_bytes: 0, cache_line_bytes: 64 };

    const PLAIN: Self =
        Self { caches: [Self::NO_CACHE; 3], register: 0, tile: [2, 4], has_dots: false, packs_from: 128 };

    /// Gemm's AVX-512 is a feature that Flex leaves off.
    #[allow(dead_code, reason = "of another processor")]
    const FMA: Self = Self { register: 32, tile: [2, 6], has_dots: true, ..Self::PLAIN };

    /// Products in half precision are counted as widened, which they are without `fp16`.
    #[allow(dead_code, reason = "of another processor")]
    const NEON: Self = Self { register: 16, tile: [4, 4], packs_from: 2, ..Self::PLAIN };

    fn lanes(&self, width: usize) -> usize {
        (self.register / width).max(1)
    }
}

/// What of a product is worked on at once, in the crate's order: its left factor is our right one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Blocks {
    /// Of the inner axis.
    inner: usize,
    /// Rows of the left factor.
    left: usize,
    /// Columns of the right factor; 0 where there is no third-level cache.
    right: usize,
}

impl Blocks {
    /// Of a product of `m` rows, `n` columns and an inner axis of `k`, in tiles of the output and numbers of `width` bytes.
    ///
    /// A tile's parts of both factors fit the first-level cache, the left block the second, the right block the third.
    fn of([m, n, k]: [usize; 3], [rows, columns]: [usize; 2], width: usize, caches: &[CacheInfo; 3]) -> Self {
        let [first, second, third] = caches;
        let ways = |cache: &CacheInfo| cache.associativity.max(2);
        let line = first.cache_line_bytes.max(64);
        let way = line * (first.cache_bytes.max(32 * 1024) / (line * ways(first)));
        let shared = greatest_common_divisor(rows * width, way);
        let unit = way / shared;
        let of_left = rows * width / shared;
        let of_right = columns * unit * width / way;
        let units = (ways(first) / (of_left + of_right)).next_power_of_two();
        let most = (unit * units).max(512).min(k);
        let inner = k.div_ceil(k.div_ceil(most));

        let for_right = (columns * inner * width).div_ceil(second.cache_bytes / ways(second));
        let for_left = (ways(second) - 1).saturating_sub(for_right).max(1);
        let most = for_left * second.cache_bytes / (ways(second) * width * inner) / rows * rows;
        let left = (m.div_ceil(m.div_ceil(most.max(1)) * rows) * rows).min(8 * rows);

        let right = match third.cache_bytes {
            0 => 0,
            bytes => {
                let most = (ways(third) - 1) * bytes / ways(third) / (width * inner) / columns * columns;
                n.div_ceil(n.div_ceil(most.max(1)) * columns) * columns
            }
        };
        Self { inner, left, right }
    }
}

fn greatest_common_divisor(mut a: usize, mut b: usize) -> usize {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use gemm_common::cache::{KernelParams, kernel_params};
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn blocks_are_those_of_the_crate_on_this_processor(
            shape in [1_usize..5000, 1_usize..5000, 1_usize..5000],
            tile in prop::sample::select(vec![[16, 6], [8, 6], [16, 4], [2, 4]]),
            width in prop::sample::select(vec![4_usize, 8]),
        ) {
            let [m, n, k] = shape;
            let KernelParams { kc, mc, nc } = kernel_params(m, n, k, tile[0], tile[1], width);
            let expected = Blocks { inner: kc, left: mc, right: nc };
            prop_assert_eq!(Blocks::of(shape, tile, width, &CACHE_INFO), expected);
        }
    }

    const fn cache(kib: usize, associativity: usize) -> CacheInfo {
        CacheInfo { associativity, cache_bytes: kib << 10, cache_line_bytes: 64 }
    }

    /// Processors and their caches; `tests/flex_memory.rs` runs the crate itself with such.
    const PROCESSORS: [(&str, [CacheInfo; 3]); 5] = [
        ("Xeon, Sapphire Rapids", [cache(48, 12), cache(2048, 16), cache(107_520, 15)]),
        ("EPYC, Zen 3", [cache(32, 8), cache(512, 8), cache(32_768, 16)]),
        ("Core, Coffee Lake", [cache(32, 8), cache(256, 4), cache(12_288, 16)]),
        ("Core, Raptor Lake", [cache(48, 12), cache(2048, 16), cache(36_864, 12)]),
        ("a virtual machine that names no third level", [cache(32, 8), cache(1024, 16), cache(2048, 8)]),
    ];

    /// A codebook's distances, a linear layer, a convolution's tile.
    fn products() -> [Gemm; 3] {
        let product = |rows, inner, columns, is_right_row_major| Gemm {
            rows,
            columns,
            inner,
            is_left_row_major: true,
            is_right_row_major,
            dtype: DType::F32,
        };
        [product(4096, 16, 24, false), product(2048, 1500, 4096, true), product(16, 216, 512, true)]
    }

    #[test]
    fn what_is_kept_is_the_second_level_cache_of_the_processor() {
        for (name, caches) in PROCESSORS {
            let processor = Processor { caches, ..Processor::FMA };
            let kept = products().map(|product| product.scratch_on(&processor).kept);
            let slab = caches[1].cache_bytes as u64;
            assert_eq!(kept, [0, slab, slab], "{name}");
        }
    }
}
