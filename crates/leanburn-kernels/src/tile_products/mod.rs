//! Products of bfloat16 matrices, tile by tile: by AMX or by the dot products of AVX-512 BF16.
//!
//! A tile is sixteen rows of 64 bytes. A step adds `A B` to 16 x 16 float32 sums, for `A` of 16 x 32 bfloat16 values and `B` of 32 x 16,
//! whose rows are pairs of its matrix's rows: what is multiplied by two values that follow each other in `A` lies together in 32 bits
//! ([`Pair`]). Products are exact, sums are rounded to the nearest float32, and subnormal numbers count as zero. The order of a sum is the
//! same wherever its tile lies; another [`Unit`] may have another order.

mod amx;
mod dot_products;
#[cfg(all(test, target_arch = "x86_64", target_os = "linux"))]
mod emulated;
mod steps;

use std::ops::Range;

use half::bf16;

pub(crate) use self::steps::Steps;

/// Rows of a tile, and columns of a tile of sums.
pub(crate) const ROWS: usize = 16;

/// Values in a row of `A`: terms that are added up by a step.
pub(crate) const TERMS: usize = 32;

/// Two bfloat16 values, the first in the low half.
pub(crate) type Pair = u32;

/// A pair of these.
#[inline(always)]
pub(crate) fn pair(low: bf16, high: bf16) -> Pair {
    u32::from(low.to_bits()) | u32::from(high.to_bits()) << 16
}

/// What multiplies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Dot products of pairs in vectors of AVX-512, with AVX-512 BF16.
    DotProducts,
    /// Tile registers of AMX.
    Amx,
}

impl Unit {
    /// All that run on this machine, emulated ones too, for tests.
    #[cfg(test)]
    pub(crate) fn available() -> impl Iterator<Item = Self> {
        [Self::DotProducts, Self::Amx].into_iter().filter(|unit| unit.is_supported())
    }

    /// Whether the processor has it, and the operating system lets this process use it, or it [is emulated](Self::is_emulated). Processors with either have
    /// what rounds sixteen sums at once.
    pub(crate) fn is_supported(self) -> bool {
        match self {
            Self::DotProducts => dot_products::is_supported(),
            Self::Amx => self.is_emulated() || dot_products::is_supported() && amx::is_supported(),
        }
    }

    /// Whether tests do what the processor does not know, unless `LEANBURN_NOT_EMULATED` is set. Asked once.
    pub(crate) fn is_emulated(self) -> bool {
        #[cfg(all(test, target_arch = "x86_64", target_os = "linux"))]
        if self == Self::Amx {
            static EMULATED: std::sync::LazyLock<bool> = std::sync::LazyLock::new(|| {
                let is_wanted = std::env::var_os("LEANBURN_NOT_EMULATED").is_none();
                is_wanted && !amx::has_instructions() && emulated::install()
            });
            return *EMULATED;
        }
        false
    }

    /// Whether it computes more products in a second than float32 vectors do.
    pub(crate) fn is_fast(self) -> bool {
        match self {
            Self::DotProducts => dot_products::are_fast(),
            Self::Amx => !self.is_emulated(),
        }
    }

    /// Terms of a step of so many that are there in all: as many in each, where fewer than a tile has take less time.
    pub(crate) fn terms(self, all: usize) -> usize {
        match self {
            Self::DotProducts => all.div_ceil(all.div_ceil(TERMS).max(1)).next_multiple_of(2),
            Self::Amx => TERMS,
        }
    }

    /// About the cycles of a step of one tile, with what loads its operands.
    pub(crate) fn cycles(self) -> usize {
        match self {
            Self::DotProducts => 270,
            Self::Amx => 40,
        }
    }

    /// Steps that are added up at all positions of a task before the next ones: so that the 2 KiB of weights of each stay in the first-level
    /// cache, from which AMX would else wait for them. Dot products take long enough for any cache.
    pub(crate) fn steps_at_once(self) -> usize {
        match self {
            Self::DotProducts => 27,
            Self::Amx => 9,
        }
    }
}

/// One or two tiles beside each other, of a matrix in memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operand<'a, T> {
    /// The matrix, from the place on that steps are counted from.
    pub values: &'a [T],
    /// From one row to the next.
    pub stride: usize,
    /// Rows of `A`, or columns of `B`, whose sums are wanted: up to those of two tiles. The others of a tile must be there, too.
    pub count: usize,
    /// From the first tile to the second.
    pub next: usize,
}

impl<T> Operand<'_, T> {
    fn tiles(&self) -> usize {
        self.count.div_ceil(ROWS)
    }

    /// How many values are read from a place on, where a row has `columns`.
    fn reach(&self, columns: usize) -> usize {
        (self.tiles() - 1) * self.next + (ROWS - 1) * self.stride + columns
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
    /// Terms of a step, from the first on, that are not zero.
    pub terms: usize,
    /// The first tile of sums, row by row. Those that nobody wants may be written as well.
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

/// The right to compute with tiles on this thread, which is prepared for it as long as this lives.
#[derive(Debug)]
pub(crate) struct Tiles {
    unit: Unit,
    /// Registers belong to a thread.
    _of_this_thread: std::marker::PhantomData<*const ()>,
}

impl Tiles {
    /// Prepares this thread.
    ///
    /// # Panics
    ///
    /// If the processor does not have the unit.
    pub(crate) fn new(unit: Unit) -> Self {
        assert!(unit.is_supported(), "the processor has no {unit:?}");
        if unit == Unit::Amx {
            // SAFETY: the instructions are available.
            unsafe { amx::configure() };
        }
        Self { unit, _of_this_thread: std::marker::PhantomData }
    }

    /// What multiplies.
    pub(crate) fn unit(&self) -> Unit {
        self.unit
    }

    /// Computes the sums.
    ///
    /// # Panics
    ///
    /// If a tile leaves its slice.
    #[inline(always)]
    pub(crate) fn multiply(&self, product: Product<'_>) {
        let Product { a, b, steps, sums, stride, right, below, terms, .. } = &product;
        assert!([a.count, b.count].iter().all(|count| (1..=2 * ROWS).contains(count)) && (1..=TERMS).contains(terms));
        let last = (a.tiles() - 1) * below + (b.tiles() - 1) * right + (ROWS - 1) * stride + ROWS;
        assert!(last <= sums.len(), "sums leave their room");
        assert!(steps.last[0] + a.reach(TERMS) <= a.values.len(), "a tile leaves its matrix");
        assert!(steps.last[1] + b.reach(ROWS) <= b.values.len(), "a tile leaves its matrix");
        // SAFETY: the thread is prepared, and all that is read and written lies inside of the slices.
        unsafe {
            match self.unit {
                Unit::DotProducts => dot_products::multiply(product),
                Unit::Amx => amx::multiply(product),
            }
        }
    }
}

impl Drop for Tiles {
    fn drop(&mut self) {
        if self.unit == Unit::Amx {
            // SAFETY: the instructions are available.
            unsafe { amx::release() };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conv::reference::random_elements;

    /// Products of every number of rows and columns, with sums that are added to and sums that are not, against plain sums.
    #[test]
    fn sums_of_products_are_those_of_plain_loops() {
        let (terms, steps_taken) = (3 * TERMS, 3);
        let (rows, columns) = (2 * ROWS, 2 * ROWS);
        let mut a: Vec<bf16> = random_elements(rows * terms, 1);
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
        for used in [TERMS, 19, 4] {
            (0..a.len()).filter(|at| at % TERMS >= used).for_each(|at| a[at] = bf16::ZERO);
            for (high, wide, add) in [1, 7, 8, 16, 20, 32]
                .into_iter()
                .flat_map(|high| [(high, 3, true), (high, 16, false), (high, 32, true)])
            {
                for unit in Unit::available() {
                    let mut sums: Vec<f32> = (0..rows * columns).map(|at| (at % 16) as f32).collect();
                    let before = sums.clone();
                    Tiles::new(unit).multiply(Product {
                        a: Operand { values: &a, stride: terms, count: high, next: ROWS * terms },
                        b: Operand { values: &pairs, stride: columns, count: wide, next: ROWS },
                        steps: &steps,
                        of: 0..steps_taken,
                        terms: used,
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
                        let [wanted, written] =
                            [(high, wide), (high.next_multiple_of(ROWS), wide.next_multiple_of(ROWS))]
                                .map(|(high, wide)| row < high && column < wide);
                        let expected = match wanted {
                            true if add => f64::from(before) + exact,
                            true => exact,
                            false if written => continue,
                            false => f64::from(before),
                        };
                        let found = f64::from(*sum);
                        assert!(
                            (found - expected).abs() < 1e-4,
                            "{unit:?} {high} {wide} {add} {at}: {found} {expected}"
                        );
                    }
                }
            }
        }
    }

    /// The product of one tile of each matrix, from this place in `A` on.
    fn multiply_one(unit: Unit, a: &[bf16], place: usize, b: &[Pair]) -> Vec<f32> {
        let (mut steps, mut sums) = (Steps::default(), vec![1.0; ROWS * ROWS]);
        steps.push(place, 0);
        Tiles::new(unit).multiply(Product {
            a: Operand { values: a, stride: TERMS, count: ROWS, next: 0 },
            b: Operand { values: b, stride: ROWS, count: ROWS, next: 0 },
            steps: &steps,
            of: 0..1,
            terms: TERMS,
            sums: &mut sums,
            stride: ROWS,
            right: 0,
            below: 0,
            add: false,
        });
        sums
    }

    /// What is not a normal number is zero for both units, as a summand of a product and as a sum.
    #[test]
    fn subnormal_numbers_are_zero() {
        let a = [bf16::from_bits(1); ROWS * TERMS];
        for (unit, factor) in Unit::available().flat_map(|unit| [(unit, bf16::ONE), (unit, bf16::MAX)]) {
            let sums = multiply_one(unit, &a, 0, &[pair(factor, factor); TERMS / 2 * ROWS]);
            assert!(sums.iter().all(|sum| *sum == 0.0), "{unit:?}");
        }
    }

    #[test]
    fn a_tile_outside_of_its_matrix_is_rejected() {
        for unit in Unit::available() {
            let multiply = || multiply_one(unit, &[bf16::ZERO; ROWS * TERMS], 1, &[0; TERMS / 2 * ROWS]);
            let panic = std::panic::catch_unwind(multiply).unwrap_err();
            assert_eq!(panic.downcast_ref(), Some(&"a tile leaves its matrix"), "{unit:?}");
        }
    }
}
