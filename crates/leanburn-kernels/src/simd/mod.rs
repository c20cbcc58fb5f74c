//! The instruction set, and what every kernel needs of it.

mod lanes;

use std::fmt::{Display, Formatter, Result as FmtResult};
use std::sync::OnceLock;

use pulp::{Arch, Simd, WithSimd};

use crate::tile_products::Unit;

pub(crate) use lanes::{
    halves, interleaved, load, load_part, load_part_from, reciprocal, store, store_part, store_part_to,
};

/// Names the best instructions that kernels may take, where that is not all that the processor has: to compare, and in tests.
pub const VARIABLE: &str = "LEANBURN_INSTRUCTIONS";

/// Instructions that kernels are made of, each with those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Instructions {
    /// Those that every processor of its kind has.
    Plain,
    /// NEON, of ARM's 64-bit processors.
    Neon,
    /// AVX2 with fused multiply-adds.
    Avx2,
    /// AVX-512 (F, CD, BW, DQ, VL).
    Avx512,
    /// AVX-512, and the dot products of AVX-512 BF16 where bfloat16 is convolved.
    Avx512Bf16,
    /// AVX-512, and tiles of AMX where bfloat16 is convolved.
    Amx,
}

impl Instructions {
    /// All of them.
    const ALL: [Self; 6] = [Self::Plain, Self::Neon, Self::Avx2, Self::Avx512, Self::Avx512Bf16, Self::Amx];

    /// As [`VARIABLE`] has it.
    fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Neon => "neon",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
            Self::Avx512Bf16 => "avx512bf16",
            Self::Amx => "amx",
        }
    }

    /// The best that the processor has.
    fn of_processor() -> Self {
        let is_fast = |known: &Self| known.unit().is_none_or(Unit::is_fast);
        Self::ALL.into_iter().filter(Self::is_available).rfind(is_fast).unwrap_or(Self::Plain)
    }

    /// Whether the processor has them, and this process may use them.
    fn is_available(&self) -> bool {
        let arch = Arch::new();
        match self {
            Self::Plain => true,
            Self::Neon => cfg!(target_arch = "aarch64") && !matches!(arch, Arch::Scalar),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => matches!(arch, Arch::V3(_) | Arch::V4(_)),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 | Self::Avx512Bf16 | Self::Amx => {
                let has_vectors = matches!(arch, Arch::V4(_)) || self.unit().is_some_and(Unit::is_emulated);
                has_vectors && self.unit().is_none_or(Unit::is_supported)
            }
            #[cfg(not(target_arch = "x86_64"))]
            Self::Avx2 | Self::Avx512 | Self::Avx512Bf16 | Self::Amx => false,
        }
    }

    /// What multiplies matrices of bfloat16, if they have it.
    fn unit(self) -> Option<Unit> {
        match self {
            Self::Avx512Bf16 => Some(Unit::DotProducts),
            Self::Amx => Some(Unit::Amx),
            _ => None,
        }
    }
}

impl Display for Instructions {
    fn fmt(&self, f: &mut Formatter<'_>) -> FmtResult {
        f.write_str(match self {
            Self::Plain => "no vectors",
            Self::Neon => "NEON",
            Self::Avx2 => "AVX2",
            Self::Avx512 => "AVX-512",
            Self::Avx512Bf16 => "AVX-512, its dot products in bf16",
            Self::Amx => "AVX-512, AMX in bf16",
        })
    }
}

/// What [`VARIABLE`] names that there is not, or that the processor has not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownInstructions {
    /// What it may be.
    pub expected: String,
    /// What it is.
    pub found: String,
}

impl Display for UnknownInstructions {
    fn fmt(&self, f: &mut Formatter<'_>) -> FmtResult {
        write!(f, "{VARIABLE}: expected {}, found {}", self.expected, self.found)
    }
}

impl std::error::Error for UnknownInstructions {}

/// The instructions that kernels take: the best of the processor, or those that [`VARIABLE`] names. Chosen once.
///
/// # Errors
///
/// Where it names what there is not, or what the processor has not. Kernels take the best then.
pub fn instructions() -> Result<Instructions, UnknownInstructions> {
    static CHOSEN: OnceLock<Result<Instructions, UnknownInstructions>> = OnceLock::new();
    let choose = || {
        let Some(asked) = std::env::var_os(VARIABLE) else { return Ok(Instructions::of_processor()) };
        let known = Instructions::ALL.into_iter().filter(Instructions::is_available);
        known.clone().find(|known| asked == known.name()).ok_or_else(|| UnknownInstructions {
            expected: known.map(Instructions::name).collect::<Vec<_>>().join(" or "),
            found: asked.display().to_string(),
        })
    };
    CHOSEN.get_or_init(choose).clone()
}

/// [`instructions`], or the best where there are none of that name.
fn taken() -> Instructions {
    instructions().unwrap_or_else(|_| Instructions::of_processor())
}

/// What multiplies matrices of bfloat16, if kernels take such instructions.
pub(crate) fn unit() -> Option<Unit> {
    taken().unit()
}

/// The vectors of [`instructions`].
pub fn best() -> Arch {
    static BEST: OnceLock<Arch> = OnceLock::new();
    *BEST.get_or_init(|| match taken() {
        Instructions::Plain => Arch::Scalar,
        #[cfg(target_arch = "x86_64")]
        Instructions::Avx2 => pulp::x86::V3::try_new().map_or(Arch::Scalar, Arch::V3),
        _ => Arch::new(),
    })
}

/// Every instruction set that runs on this machine, plain code first; for tests of one against the other.
pub fn available() -> Vec<Arch> {
    let mut available = vec![Arch::Scalar];
    #[cfg(target_arch = "x86_64")]
    available.extend(pulp::x86::V3::try_new().map(Arch::V3));
    #[cfg(target_arch = "x86_64")]
    available.extend(pulp::x86::V4::try_new().map(Arch::V4));
    #[cfg(target_arch = "aarch64")]
    available.push(Arch::new());
    available
}

/// Whether a kernel has sixteen registers, not thirty-two. Its largest tile is then one of six rows by two vectors: their sums, two vectors
/// and a broadcast value leave one register, without which compilers keep sums in memory. Four rows by three take twice the time.
#[inline(always)]
pub(crate) const fn few_registers<S: Simd>() -> bool {
    S::REGISTER_COUNT < 32
}

/// Runs a register tile as a function of its own.
///
/// A kernel has dozens of tiles, one for each size. Inlined into one function, its compilation takes minutes (the passes
/// over loops are worse than linear); apart, seconds. The call costs nothing beside the loop of a tile.
#[inline(never)]
pub(crate) fn apart<S: Simd, R>(simd: S, tile: impl FnOnce() -> R) -> R {
    simd.vectorize(Tile(tile))
}

/// What [`apart`] runs.
struct Tile<F>(F);

impl<R, F: FnOnce() -> R> WithSimd for Tile<F> {
    type Output = R;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> R {
        (self.0)()
    }
}

/// `e^x`, within 2 units in the last place over the range of float32; zero below -87.3, held at e^88 above 88.
///
/// An argument that is no number gives no number.
#[inline(always)]
pub(crate) fn exp<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
    let splat = |value| simd.splat_f32s(value);
    let tiny = simd.less_than_f32s(x, splat(LEAST_EXPONENT));
    let power = held_exp(simd, simd.min_f32s(splat(88.0), x));
    let number = simd.equal_f32s(x, x);
    simd.select_f32s(number, simd.select_f32s(tiny, splat(0.0), power), x)
}

/// Asks for the cache line at an address, to be read or written next, where there is an instruction for that.
#[cfg_attr(not(target_arch = "x86_64"), expect(unused_variables))]
#[inline(always)]
pub(crate) fn prefetch_near<T>(address: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: prefetching is a hint, and never faults.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address.cast());
    }
}

/// The same, to be used after some other things: into the second-level cache.
#[cfg_attr(not(target_arch = "x86_64"), expect(unused_variables))]
#[inline(always)]
pub(crate) fn prefetch<T>(address: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: prefetching is a hint, and never faults.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T1 }>(address.cast());
    }
}

/// The least argument whose power is a normal number, about.
const LEAST_EXPONENT: f32 = -87.33;

/// `e^x` of an argument of at most 88; held at e^-87.3 below that. What is no number gives anything.
///
/// Cody and Waite's reduction to `2^n e^r` with `|r| <= ln 2 / 2`, then a polynomial of degree six.
#[inline(always)]
fn held_exp<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
    const MAGIC: f32 = 12_582_912.0; // 1.5 * 2^23: adding it rounds to the nearest integer
    let splat = |value| simd.splat_f32s(value);
    let held = simd.max_f32s(splat(LEAST_EXPONENT), x);
    let shifted = simd.mul_add_e_f32s(held, splat(std::f32::consts::LOG2_E), splat(MAGIC));
    let n = simd.sub_f32s(shifted, splat(MAGIC));
    let r = simd.mul_add_e_f32s(n, splat(-0.693_359_4), held);
    let r = simd.mul_add_e_f32s(n, splat(2.121_944_4e-4), r);
    let mut p = splat(1.987_569_1e-4);
    for coefficient in [1.398_2e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5] {
        p = simd.mul_add_e_f32s(p, r, splat(coefficient));
    }
    let p = simd.mul_add_e_f32s(p, simd.mul_f32s(r, r), simd.add_f32s(r, splat(1.0)));
    // The integer sits in the low bits of `shifted`; moved to the exponent it multiplies by 2^n.
    let exponent = simd.wrapping_dyn_shl_u32s(simd.transmute_u32s_f32s(shifted), simd.splat_u32s(23));
    simd.transmute_f32s_u32s(simd.add_u32s(simd.transmute_u32s_f32s(p), exponent))
}

/// `1 / (1 + e^-x)` of an argument of at least -88. What is no number gives anything.
#[inline(always)]
pub(crate) fn sigmoid<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
    reciprocal(simd, simd.add_f32s(simd.splat_f32s(1.0), held_exp(simd, simd.neg_f32s(x))))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Applies `exp` to every value of a slice.
    struct Exp<'a>(&'a mut [f32]);

    impl WithSimd for Exp<'_> {
        type Output = ();

        #[inline(always)]
        fn with_simd<S: Simd>(self, simd: S) {
            let (vectors, rest) = S::as_mut_simd_f32s(self.0);
            vectors.iter_mut().for_each(|vector| *vector = exp(simd, *vector));
            let last = exp(simd, simd.partial_load_f32s(rest));
            simd.partial_store_f32s(rest, last);
        }
    }

    #[test]
    fn the_exponential_is_exact_to_a_few_units_in_the_last_place() {
        let arguments: Vec<f32> = (-87_300..88_000).map(|value| value as f32 * 1e-3).collect();
        for arch in available() {
            let mut values = arguments.clone();
            arch.dispatch(Exp(&mut values));
            for (x, y) in arguments.iter().zip(values) {
                let exact = f64::from(*x).exp();
                assert!((f64::from(y) / exact - 1.0).abs() < 3e-7, "{arch:?} {x} {y} {exact}");
            }
        }
    }

    #[test]
    fn the_sigmoid_is_exact_to_a_few_units_in_the_last_place_and_one_where_it_rounds_to_it() {
        struct Sigmoid<'a>(&'a mut [f32]);

        impl WithSimd for Sigmoid<'_> {
            type Output = ();

            #[inline(always)]
            fn with_simd<S: Simd>(self, simd: S) {
                let (vectors, _) = S::as_mut_simd_f32s(self.0);
                vectors.iter_mut().for_each(|vector| *vector = sigmoid(simd, *vector));
            }
        }

        let arguments: Vec<f32> = (-87_000..201_000).map(|value| value as f32 * 1e-3).collect();
        for arch in available() {
            let mut values = arguments.clone();
            arch.dispatch(Sigmoid(&mut values));
            for (x, y) in arguments.iter().zip(values) {
                let exact = 1.0 / (1.0 + f64::from(-x).exp());
                assert!((f64::from(y) / exact - 1.0).abs() < 3e-7, "{arch:?} {x} {y} {exact}");
                assert!(*x < 20.0 || y == 1.0, "{arch:?} {x} {y}");
            }
        }
    }

    #[test]
    fn the_ends_of_the_range() {
        for arch in available() {
            let mut values = [-1e30, -88.0, 0.0, f32::NEG_INFINITY, 1e30, f32::NAN];
            arch.dispatch(Exp(&mut values));
            assert_eq!(values[..4], [0.0, 0.0, 1.0, 0.0], "{arch:?}");
            assert!((values[4] / 88f32.exp() - 1.0).abs() < 1e-6, "{arch:?}");
            assert!(values[5].is_nan(), "{arch:?}");
        }
    }
}
