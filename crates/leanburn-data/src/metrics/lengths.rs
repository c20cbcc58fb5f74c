//! Whether two results can be compared at all.

use crate::error::DataError;

/// Two slices of the same length, not empty.
///
/// # Errors
/// If they are not.
pub(super) fn check_lengths(prediction: usize, truth: usize) -> Result<(), DataError> {
    if prediction == truth && truth > 0 {
        return Ok(());
    }
    let expected = format!("as many predicted values as true ones ({truth}), 1 or more");
    Err(DataError::malformed(expected, prediction.to_string(), "Compare values on the same grid."))
}
