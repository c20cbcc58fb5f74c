//! What a volume may be stored as.

use std::fmt::Debug;

use half::{bf16, f16};

/// A stored value: float32, or half precision that is widened before any arithmetic.
///
/// Not to be implemented elsewhere.
pub trait Stored: sealed::Sealed + Copy + Debug + Default + PartialEq + Send + Sync + 'static {
    /// The value in float32, exactly.
    fn to_f32(self) -> f32;

    /// The nearest stored value, ties to even.
    fn from_f32(value: f32) -> Self;

    /// Widens `source` into `target`, which has the same length.
    #[inline(always)]
    fn widen(source: &[Self], target: &mut [f32]) {
        assert_eq!(source.len(), target.len());
        target.iter_mut().zip(source).for_each(|(target, source)| *target = source.to_f32());
    }

    /// Rounds `source` into `target`, which has the same length.
    #[inline(always)]
    fn narrow(source: &[f32], target: &mut [Self]) {
        assert_eq!(source.len(), target.len());
        target.iter_mut().zip(source).for_each(|(target, source)| *target = Self::from_f32(*source));
    }

    /// The slice itself where no widening is needed.
    #[inline(always)]
    fn as_f32(_: &[Self]) -> Option<&[f32]> {
        None
    }

    /// The slice itself where no widening is needed, else the slice as it was given.
    #[inline(always)]
    fn as_f32_mut(slice: &mut [Self]) -> Result<&mut [f32], &mut [Self]> {
        Err(slice)
    }
}

/// What cannot be named elsewhere.
mod sealed {
    pub trait Sealed {}

    impl Sealed for f32 {}
    impl Sealed for half::bf16 {}
    impl Sealed for half::f16 {}
}

impl Stored for f32 {
    #[inline(always)]
    fn to_f32(self) -> f32 {
        self
    }

    #[inline(always)]
    fn from_f32(value: f32) -> Self {
        value
    }

    #[inline(always)]
    fn widen(source: &[Self], target: &mut [f32]) {
        target.copy_from_slice(source);
    }

    #[inline(always)]
    fn narrow(source: &[f32], target: &mut [Self]) {
        target.copy_from_slice(source);
    }

    #[inline(always)]
    fn as_f32(slice: &[Self]) -> Option<&[f32]> {
        Some(slice)
    }

    #[inline(always)]
    fn as_f32_mut(slice: &mut [Self]) -> Result<&mut [f32], &mut [Self]> {
        Ok(slice)
    }
}

impl Stored for bf16 {
    #[inline(always)]
    fn to_f32(self) -> f32 {
        f32::from_bits(u32::from(self.to_bits()) << 16)
    }

    /// Written without branches, so that loops over it become vector code.
    #[inline(always)]
    fn from_f32(value: f32) -> Self {
        let bits = value.to_bits();
        let rounded = (bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16) as u16;
        let quiet_nan = (bits >> 16) as u16 | 0x40;
        bf16::from_bits(if value.is_nan() { quiet_nan } else { rounded })
    }
}

impl Stored for f16 {
    /// Written without branches, so that loops over it become vector code.
    #[inline(always)]
    fn to_f32(self) -> f32 {
        let bits = u32::from(self.to_bits());
        // Exponent and mantissa moved into place; the multiplication sets the bias right, of subnormals too.
        let magnitude = f32::from_bits((bits & 0x7fff) << 13) * f32::from_bits(0x7780_0000);
        let special = if bits & 0x7c00 == 0x7c00 { 0x7f80_0000 } else { 0 };
        let quiet = if bits & 0x7fff > 0x7c00 { 0x0040_0000 } else { 0 };
        f32::from_bits(magnitude.to_bits() | special | quiet | (bits & 0x8000) << 16)
    }

    /// Written without branches, so that loops over it become vector code.
    #[inline(always)]
    fn from_f32(value: f32) -> Self {
        let bits = value.to_bits();
        let magnitude = bits & 0x7fff_ffff;
        // Ties to even; beyond the largest number this reaches infinity.
        let normal = (magnitude.wrapping_add(0xc800_0fff + (magnitude >> 13 & 1)) >> 13).min(0x7c00);
        // The addition of 1/2 rounds to the spacing of subnormals.
        let subnormal = (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0.5f32.to_bits());
        let nan = 0x7e00 | magnitude >> 13 & 0x3ff;
        let number = if magnitude < 0x3880_0000 { subnormal } else { normal };
        let magnitude = if magnitude > 0x7f80_0000 { nan } else { number };
        f16::from_bits((magnitude | bits >> 16 & 0x8000) as u16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bfloat16_rounds_as_the_half_crate_does() {
        let mut bits = 0u32;
        for _ in 0..200_000 {
            bits = bits.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let value = f32::from_bits(bits);
            assert_eq!(<bf16 as Stored>::from_f32(value).to_bits(), bf16::from_f32(value).to_bits(), "{bits:08x}");
        }
        for value in [0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::MAX, 1.0 + 1.0 / 256.0, 1e-40] {
            assert_eq!(<bf16 as Stored>::from_f32(value).to_bits(), bf16::from_f32(value).to_bits(), "{value}");
        }
    }

    #[test]
    fn float16_converts_as_the_half_crate_does() {
        for bits in 0..=u16::MAX {
            let value = f16::from_bits(bits);
            assert_eq!(<f16 as Stored>::to_f32(value).to_bits(), f16::to_f32(value).to_bits(), "{bits:04x}");
        }
        let check = |bits: u32| {
            let value = f32::from_bits(bits);
            assert_eq!(<f16 as Stored>::from_f32(value).to_bits(), f16::from_f32(value).to_bits(), "{bits:08x}");
        };
        let mut bits = 0u32;
        for _ in 0..2_000_000 {
            bits = bits.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            check(bits);
            check(0x3300_0000 + bits % 0x1500_0000); // from half the smallest subnormal to beyond the largest number
        }
        for bits in 0..=u16::MAX {
            let bits = f16::from_bits(bits).to_f32().to_bits();
            [bits, bits + 1, bits.wrapping_sub(1), bits + 0x1000, bits + 0xfff, bits + 0x1001]
                .into_iter()
                .for_each(check);
        }
    }
}
