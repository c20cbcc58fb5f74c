//! Arithmetic on sizes that cannot wrap around.
//!
//! The constructor of a shape checks its volumes here ([`check_volume`]), before anything is allocated or computed; sums and
//! products of sizes that it has accepted fit a `usize`. What guards an access to memory, and what is multiplied up from several
//! volumes, saturates: no slice is `usize::MAX` long.

use crate::shape_error::{MOST_BYTES, ShapeError, ShapeProblem};

/// Checks that `what` can be addressed: so many float32 values as the product of `sizes`, at most 128 TiB.
///
/// A size of zero counts as one, so that the strides of an empty volume fit too.
///
/// # Errors
///
/// Where it takes more.
///
/// # Example
///
/// ```
/// use leanburn_kernels::check_volume;
///
/// assert!(check_volume("the output", &[1, 512, 256, 256, 256]).is_ok());
/// let error = check_volume("the output", &[1, 1 << 20, 1 << 20, 1 << 20, 1 << 20]).unwrap_err();
/// assert!(error.to_string().ends_with("bytes of float32 for the output, found 4835703278458516698824704"));
/// ```
pub fn check_volume(what: &'static str, sizes: &[usize]) -> Result<(), ShapeError> {
    let elements = sizes.iter().fold(1u128, |product, size| product.saturating_mul((*size).max(1) as u128));
    check_bytes(what, elements.saturating_mul(size_of::<f32>() as u128))
}

/// Checks that `what` of so many bytes can be addressed.
pub(crate) fn check_bytes(what: &'static str, bytes: u128) -> Result<(), ShapeError> {
    if bytes > MOST_BYTES { Err(ShapeProblem::TooLarge { what, bytes }.into()) } else { Ok(()) }
}

/// An empty vector with room for `len` elements of `what`.
pub(crate) fn room<T>(what: &'static str, len: usize) -> Result<Vec<T>, ShapeError> {
    let bytes = len as u128 * size_of::<T>() as u128;
    check_bytes(what, bytes)?;
    let mut values = Vec::new();
    values.try_reserve_exact(len).map_err(|_| ShapeProblem::TooLarge { what, bytes })?;
    Ok(values)
}

/// The product.
pub(crate) fn product(sizes: &[usize]) -> usize {
    sizes.iter().fold(1, |product, size| product.saturating_mul(*size))
}

/// The sum.
#[inline(always)]
pub(crate) fn sum(sizes: &[usize]) -> usize {
    sizes.iter().fold(0, |sum, size| sum.saturating_add(*size))
}

/// How far `count` pieces of `len` reach that begin `stride` apart.
#[inline(always)]
pub(crate) fn reach(count: usize, stride: usize, len: usize) -> usize {
    count.saturating_sub(1).saturating_mul(stride).saturating_add(len)
}

/// The next multiple of `step`.
#[inline(always)]
pub(crate) fn whole(len: usize, step: usize) -> usize {
    len.checked_next_multiple_of(step).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_large_says_how_many_bytes_of_what() {
        assert!(check_volume("the output", &[1 << 22, 1 << 23]).is_ok());
        let error = check_volume("the output", &[1 << 22, 1 << 24]).unwrap_err();
        let message = "expected at most 140737488355328 bytes of float32 for the output, found 281474976710656";
        assert_eq!(error.to_string(), message);
        assert!(check_volume("it", &[usize::MAX; 9]).is_err());
        assert!(check_volume("it", &[0, usize::MAX]).is_err());
        assert!(room::<u64>("it", usize::MAX).is_err());
    }

    #[test]
    fn nothing_wraps_around() {
        assert_eq!((product(&[1 << 40, 1 << 40]), sum(&[usize::MAX, 2]), sum(&[1, 2])), (usize::MAX, usize::MAX, 3));
        assert_eq!((reach(3, 10, 4), reach(0, 10, 4), reach(3, usize::MAX, 4)), (24, 4, usize::MAX));
        assert_eq!((whole(17, 16), whole(usize::MAX, 16)), (32, usize::MAX));
    }
}
