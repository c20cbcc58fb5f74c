//! What a volume may be stored as.

use std::fmt::Debug;

use half::{bf16, f16};

/// A stored value: float32, or half precision that is widened before any arithmetic.
pub trait Element: Copy + Debug + Default + PartialEq + Send + Sync + 'static {
    /// The value in float32, exactly.
    fn to_f32(self) -> f32;

    /// The nearest stored value, ties to even.
    fn from_f32(value: f32) -> Self;

    /// Widens `source` into `target`, which has the same length.
    #[inline(always)]
    fn widen(source: &[Self], target: &mut [f32]) {
        debug_assert_eq!(source.len(), target.len());
        target.iter_mut().zip(source).for_each(|(target, source)| *target = source.to_f32());
    }

    /// Rounds `source` into `target`, which has the same length.
    #[inline(always)]
    fn narrow(source: &[f32], target: &mut [Self]) {
        debug_assert_eq!(source.len(), target.len());
        target.iter_mut().zip(source).for_each(|(target, source)| *target = Self::from_f32(*source));
    }

    /// The slice itself where no widening is needed.
    #[inline(always)]
    fn as_f32(_: &[Self]) -> Option<&[f32]> {
        None
    }
}

impl Element for f32 {
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
}

impl Element for bf16 {
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

impl Element for f16 {
    #[inline(always)]
    fn to_f32(self) -> f32 {
        f16::to_f32(self)
    }

    #[inline(always)]
    fn from_f32(value: f32) -> Self {
        f16::from_f32(value)
    }

    fn widen(source: &[Self], target: &mut [f32]) {
        half::slice::HalfFloatSliceExt::convert_to_f32_slice(source, target);
    }

    fn narrow(source: &[f32], target: &mut [Self]) {
        half::slice::HalfFloatSliceExt::convert_from_f32_slice(target, source);
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
            assert_eq!(<bf16 as Element>::from_f32(value).to_bits(), bf16::from_f32(value).to_bits(), "{bits:08x}");
        }
        for value in [0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::MAX, 1.0 + 1.0 / 256.0, 1e-40] {
            assert_eq!(<bf16 as Element>::from_f32(value).to_bits(), bf16::from_f32(value).to_bits(), "{value}");
        }
    }
}
