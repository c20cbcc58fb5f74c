//! Products of bfloat16 matrices in AMX's tile registers, which Intel's server processors have since Sapphire Rapids.
//!
//! A tile register holds sixteen rows of 64 bytes. One instruction adds `A B` to a tile of 16 x 16 float32 sums, for `A` of
//! 16 x 32 bfloat16 values and `B` of 32 x 16, whose rows are pairs of its matrix's rows: what is multiplied by two values
//! that follow each other in `A` lies together in 32 bits ([`Pair`]). Products are exact, sums are rounded to the nearest
//! float32, and subnormal numbers count as zero.
//!
//! The compiler has no stable functions for these instructions, so they are written as assembly.

use std::ops::Range;
use std::sync::OnceLock;

use half::bf16;

/// Rows of a tile, and columns of a tile of sums.
pub(crate) const ROWS: usize = 16;

/// Values in a row of `A`: terms that are added up by one instruction.
pub(crate) const TERMS: usize = 32;

/// Two bfloat16 values, the first in the low half.
pub(crate) type Pair = u32;

/// A pair of these.
#[inline(always)]
pub(crate) fn pair(low: bf16, high: bf16) -> Pair {
    u32::from(low.to_bits()) | u32::from(high.to_bits()) << 16
}

/// Whether the processor has the instructions, and the operating system lets this process use them.
///
/// Asked once; then any thread may.
pub(crate) fn is_supported() -> bool {
    static SUPPORTED: OnceLock<bool> = OnceLock::new();
    *SUPPORTED.get_or_init(supported::ask)
}

/// Where a step of a sum begins in `A` and in `B`, counted from their beginnings; and how far any of them reaches.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    places: Vec<[usize; 2]>,
    last: [usize; 2],
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

/// One or two tiles beside each other, of a matrix in memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operand<'a, T> {
    /// The matrix, from the place on that steps are counted from.
    pub values: &'a [T],
    /// From one row to the next.
    pub stride: usize,
    /// Tiles, 1 or 2.
    pub tiles: usize,
    /// From the first tile to the second.
    pub next: usize,
}

impl<T> Operand<'_, T> {
    /// How many values are read from a place on, where a row has `columns`.
    fn reach(&self, columns: usize) -> usize {
        (self.tiles - 1) * self.next + (ROWS - 1) * self.stride + columns
    }
}

/// Sums of products: tiles of `A` below each other, of `B` beside each other.
#[derive(Debug)]
pub(crate) struct Product<'a> {
    pub a: Operand<'a, bf16>,
    pub b: Operand<'a, Pair>,
    pub steps: &'a Steps,
    /// Those of the steps that are added up.
    pub of: Range<usize>,
    /// The first tile of sums, row by row.
    pub sums: &'a mut [f32],
    /// From one row of sums to the next.
    pub stride: usize,
    /// From the sums of one tile of `B` to those of the next.
    pub right: usize,
    /// From the sums of one tile of `A` to those of the next.
    pub below: usize,
    /// Whether what stands there is added.
    pub add: bool,
}

/// The right to compute with tiles on this thread, which are configured as long as it lives.
#[derive(Debug)]
pub(crate) struct Tiles {
    /// Registers belong to a thread.
    _of_this_thread: std::marker::PhantomData<*const ()>,
}

impl Tiles {
    /// Configures the registers of this thread.
    ///
    /// # Panics
    ///
    /// If the instructions are not [supported](is_supported).
    pub(crate) fn new() -> Self {
        assert!(is_supported(), "the processor has no AMX");
        // SAFETY: the instructions are available.
        unsafe { supported::configure() };
        Self { _of_this_thread: std::marker::PhantomData }
    }

    /// Computes the sums.
    ///
    /// # Panics
    ///
    /// If a tile leaves its slice.
    #[inline(always)]
    pub(crate) fn multiply(&self, product: Product<'_>) {
        let Product { a, b, steps, sums, stride, right, below, .. } = &product;
        assert!([a.tiles, b.tiles].iter().all(|tiles| matches!(tiles, 1 | 2)));
        let last = (a.tiles - 1) * below + (b.tiles - 1) * right + (ROWS - 1) * stride + ROWS;
        assert!(last <= sums.len(), "sums leave their room");
        assert!(steps.last[0] + a.reach(TERMS) <= a.values.len(), "a tile leaves its matrix");
        assert!(steps.last[1] + b.reach(ROWS) <= b.values.len(), "a tile leaves its matrix");
        // SAFETY: the registers are configured, and all that is read and written lies inside of the slices.
        unsafe { supported::multiply(product) };
    }
}

impl Drop for Tiles {
    fn drop(&mut self) {
        // SAFETY: the instructions are available.
        unsafe { supported::release() };
    }
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod supported {
    use std::arch::asm;
    use std::arch::x86_64::{__cpuid, __cpuid_count};

    use super::{Product, ROWS};

    /// All eight registers with sixteen rows of 64 bytes.
    #[repr(C, align(64))]
    struct Configuration {
        palette: u8,
        first_row: u8,
        reserved: [u8; 14],
        bytes_of_a_row: [u16; 16],
        rows: [u8; 16],
    }

    static CONFIGURATION: Configuration = {
        let mut configuration =
            Configuration { palette: 1, first_row: 0, reserved: [0; 14], bytes_of_a_row: [0; 16], rows: [0; 16] };
        let mut tile = 0;
        while tile < 8 {
            configuration.bytes_of_a_row[tile] = 64;
            configuration.rows[tile] = ROWS as u8;
            tile += 1;
        }
        configuration
    };

    pub(super) fn ask() -> bool {
        const BF16: u32 = 1 << 22;
        const TILE: u32 = 1 << 24;
        // AVX-512 is what packs the operands and rounds the sums.
        if __cpuid(0).eax < 7 || !is_x86_feature_detected!("avx512bw") || !is_x86_feature_detected!("avx512bf16") {
            return false;
        }
        if __cpuid_count(7, 0).edx & (BF16 | TILE) != BF16 | TILE {
            return false;
        }
        // Linux saves the registers of a process that asks for it: ARCH_REQ_XCOMP_PERM, of XTILEDATA.
        // SAFETY: the call changes nothing but this permission.
        unsafe { libc::syscall(libc::SYS_arch_prctl, 0x1023, 18) == 0 }
    }

    /// # Safety
    ///
    /// The instructions must be available.
    pub(super) unsafe fn configure() {
        // SAFETY: reads the 64 bytes of the configuration.
        unsafe { asm!("ldtilecfg [{}]", in(reg) &raw const CONFIGURATION, options(nostack, readonly)) };
    }

    /// # Safety
    ///
    /// The instructions must be available.
    pub(super) unsafe fn release() {
        // SAFETY: nobody uses the registers any more.
        unsafe { asm!("tilerelease", options(nostack, nomem)) };
    }

    /// Where sums are, in bytes.
    #[repr(C)]
    struct Sums {
        first: *mut f32,
        stride: usize,
        right: usize,
        below: usize,
        add: usize,
    }

    /// Assembly that adds up products. Its parts: clear the sums, load them, one step from the loaded first tiles on, store.
    /// Sums are in registers 0 to 3, `A` is in 4 and 5, `B` in 6 and 7.
    macro_rules! add_up {
        ($product:ident, [$($clear:literal),*], [$($load:literal),*], [$($step:literal),*], [$($store:literal),*]) => {{
            let Product { a, b, steps, of, sums, stride, right, below, add } = $product;
            let places = &steps.places[of];
            let [stride, right, below] = [stride, right, below].map(|floats| 4 * floats);
            let sums = Sums { first: sums.as_mut_ptr(), stride, right, below, add: usize::from(add) };
            asm!(
                "mov {a}, [{sums}]",
                "mov {b}, [{sums} + 8]",
                "cmp qword ptr [{sums} + 32], 0",
                "jne 2f",
                $($clear,)*
                "jmp 3f",
                "2:",
                $($load,)*
                "3:",
                "cmp {step}, {end}",
                "je 5f",
                "4:",
                "mov {a}, [{step}]",
                "mov {b}, [{step} + 8]",
                "lea {a}, [{first_a} + 2*{a}]",
                "lea {b}, [{first_b} + 4*{b}]",
                "tileloadd tmm4, [{a} + {stride_a}*1]",
                "tileloadd tmm6, [{b} + {stride_b}*1]",
                "tdpbf16ps tmm0, tmm4, tmm6",
                $($step,)*
                "add {step}, 16",
                "cmp {step}, {end}",
                "jne 4b",
                "5:",
                "mov {a}, [{sums}]",
                "mov {b}, [{sums} + 8]",
                $($store,)*
                sums = in(reg) &raw const sums,
                step = inout(reg) places.as_ptr() => _,
                end = in(reg) places.as_ptr().add(places.len()),
                first_a = in(reg) a.values.as_ptr(),
                first_b = in(reg) b.values.as_ptr(),
                stride_a = in(reg) 2 * a.stride,
                stride_b = in(reg) 4 * b.stride,
                next_a = in(reg) 2 * a.next,
                next_b = in(reg) 4 * b.next,
                a = out(reg) _,
                b = out(reg) _,
                options(nostack),
            );
        }};
    }

    /// # Safety
    ///
    /// The registers must be configured, and all tiles must lie inside of their slices.
    #[inline]
    pub(super) unsafe fn multiply(product: Product<'_>) {
        // SAFETY: as the caller promises. The compiler does not use these registers.
        unsafe {
            match (product.a.tiles, product.b.tiles) {
                (1, 1) => add_up!(
                    product,
                    ["tilezero tmm0"],
                    ["tileloadd tmm0, [{a} + {b}*1]"],
                    ["/* {next_a} {next_b} */"],
                    ["tilestored [{a} + {b}*1], tmm0"]
                ),
                (1, 2) => add_up!(
                    product,
                    ["tilezero tmm0", "tilezero tmm1"],
                    ["tileloadd tmm0, [{a} + {b}*1]", "add {a}, [{sums} + 16]", "tileloadd tmm1, [{a} + {b}*1]"],
                    [
                        "/* {next_a} */",
                        "add {b}, {next_b}",
                        "tileloadd tmm7, [{b} + {stride_b}*1]",
                        "tdpbf16ps tmm1, tmm4, tmm7"
                    ],
                    ["tilestored [{a} + {b}*1], tmm0", "add {a}, [{sums} + 16]", "tilestored [{a} + {b}*1], tmm1"]
                ),
                (2, 1) => add_up!(
                    product,
                    ["tilezero tmm0", "tilezero tmm2"],
                    ["tileloadd tmm0, [{a} + {b}*1]", "add {a}, [{sums} + 24]", "tileloadd tmm2, [{a} + {b}*1]"],
                    [
                        "/* {next_b} */",
                        "add {a}, {next_a}",
                        "tileloadd tmm5, [{a} + {stride_a}*1]",
                        "tdpbf16ps tmm2, tmm5, tmm6"
                    ],
                    ["tilestored [{a} + {b}*1], tmm0", "add {a}, [{sums} + 24]", "tilestored [{a} + {b}*1], tmm2"]
                ),
                _ => add_up!(
                    product,
                    ["tilezero tmm0", "tilezero tmm1", "tilezero tmm2", "tilezero tmm3"],
                    [
                        "tileloadd tmm0, [{a} + {b}*1]",
                        "add {a}, [{sums} + 16]",
                        "tileloadd tmm1, [{a} + {b}*1]",
                        "add {a}, [{sums} + 24]",
                        "tileloadd tmm3, [{a} + {b}*1]",
                        "sub {a}, [{sums} + 16]",
                        "tileloadd tmm2, [{a} + {b}*1]"
                    ],
                    [
                        "add {b}, {next_b}",
                        "tileloadd tmm7, [{b} + {stride_b}*1]",
                        "tdpbf16ps tmm1, tmm4, tmm7",
                        "add {a}, {next_a}",
                        "tileloadd tmm5, [{a} + {stride_a}*1]",
                        "tdpbf16ps tmm2, tmm5, tmm6",
                        "tdpbf16ps tmm3, tmm5, tmm7"
                    ],
                    [
                        "tilestored [{a} + {b}*1], tmm0",
                        "add {a}, [{sums} + 16]",
                        "tilestored [{a} + {b}*1], tmm1",
                        "add {a}, [{sums} + 24]",
                        "tilestored [{a} + {b}*1], tmm3",
                        "sub {a}, [{sums} + 16]",
                        "tilestored [{a} + {b}*1], tmm2"
                    ]
                ),
            }
        }
    }
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
mod supported {
    pub(super) fn ask() -> bool {
        false
    }

    pub(super) unsafe fn configure() {}

    pub(super) unsafe fn release() {}

    pub(super) unsafe fn multiply(_: super::Product<'_>) {
        unreachable!("there are no tiles");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conv::reference::random_elements;

    /// Products of every number of tiles, with sums that are added to and sums that are not, against plain sums.
    #[test]
    fn sums_of_products_are_those_of_plain_loops() {
        if !is_supported() {
            return;
        }
        let (terms, steps_taken) = (3 * TERMS, 3);
        let (rows, columns) = (2 * ROWS, 2 * ROWS);
        let a: Vec<bf16> = random_elements(rows * terms, 1);
        let b: Vec<bf16> = random_elements(columns * terms, 2);
        // `[term / 2][column]`.
        let pairs: Vec<Pair> = (0..terms / 2 * columns)
            .map(|at| {
                let (term, column) = (2 * (at / columns), at % columns);
                pair(b[column * terms + term], b[column * terms + term + 1])
            })
            .collect();
        let mut steps = Steps::with_capacity(steps_taken);
        (0..steps_taken).for_each(|step| steps.push(step * TERMS, step * TERMS / 2 * columns));
        let tiles = Tiles::new();
        for (high, wide, add) in
            [1, 2].into_iter().flat_map(|high| [(high, 1, true), (high, 2, false), (high, 2, true)])
        {
            let mut sums: Vec<f32> = (0..rows * columns).map(|at| at as f32 * 0.25).collect();
            let before = sums.clone();
            tiles.multiply(Product {
                a: Operand { values: &a, stride: terms, tiles: high, next: ROWS * terms },
                b: Operand { values: &pairs, stride: columns, tiles: wide, next: ROWS },
                steps: &steps,
                of: 0..steps_taken,
                sums: &mut sums,
                stride: columns,
                right: ROWS,
                below: ROWS * columns,
                add,
            });
            for (at, (sum, before)) in sums.iter().zip(before).enumerate() {
                let (row, column) = (at / columns, at % columns);
                let term = |term: usize| {
                    f64::from(a[row * terms + term].to_f32()) * f64::from(b[column * terms + term].to_f32())
                };
                let exact: f64 = (0..terms).map(term).sum();
                let expected = match row < high * ROWS && column < wide * ROWS {
                    false => f64::from(before),
                    true if add => f64::from(before) + exact,
                    true => exact,
                };
                assert!((f64::from(*sum) - expected).abs() < 1e-4, "{high} {wide} {add} {at}: {sum} {expected}");
            }
        }
    }

    #[test]
    #[should_panic(expected = "a tile leaves its matrix")]
    fn a_tile_outside_of_its_matrix_is_rejected() {
        if !is_supported() {
            panic!("a tile leaves its matrix, where there are tiles");
        }
        let (a, b, mut sums) = ([bf16::ZERO; 16 * TERMS], [0; 256], [0.0; 256]);
        let mut steps = Steps::default();
        steps.push(1, 0);
        Tiles::new().multiply(Product {
            a: Operand { values: &a, stride: TERMS, tiles: 1, next: 0 },
            b: Operand { values: &b, stride: ROWS, tiles: 1, next: 0 },
            steps: &steps,
            of: 0..1,
            sums: &mut sums,
            stride: ROWS,
            right: 0,
            below: 0,
            add: false,
        });
    }
}
