//! Memory for the values of a shape, with a bound on what a broken file or configuration can ask for.

use crate::error::DataError;

/// The most values that one volume may hold (64 GiB of them); more is taken for a broken header.
const MOST_VALUES: usize = 1 << 34;

/// The number of values of a shape.
///
/// # Errors
/// If it is more than one volume may hold.
pub(crate) fn count(shape: &[usize]) -> Result<usize, DataError> {
    let product = shape.iter().try_fold(1_usize, |total, length| total.checked_mul(*length));
    product.filter(|values| *values <= MOST_VALUES).ok_or_else(|| {
        let values = product.map_or("too many".into(), |values| values.to_string());
        DataError::too_large(shape, values)
    })
}

/// The values of a shape, all zero.
///
/// # Errors
/// As [`count`], and if the system has no memory for them.
pub(crate) fn zeros<T: Clone + Default>(shape: &[usize]) -> Result<Vec<T>, DataError> {
    let values = count(shape)?;
    let mut data = reserved(shape, values)?;
    data.resize(values, T::default());
    Ok(data)
}

/// Room for so many values, those of a shape.
///
/// # Errors
/// If the system has no memory for them.
pub(crate) fn reserved<T>(shape: &[usize], values: usize) -> Result<Vec<T>, DataError> {
    let mut data = Vec::new();
    data.try_reserve_exact(values).map_err(|_| DataError::too_large(shape, values))?;
    Ok(data)
}

/// A copy of the values of a shape.
///
/// # Errors
/// If the system has no memory for them.
pub(crate) fn copied<T: Clone>(shape: &[usize], values: &[T]) -> Result<Vec<T>, DataError> {
    let mut copy = reserved(shape, values.len())?;
    copy.extend_from_slice(values);
    Ok(copy)
}
