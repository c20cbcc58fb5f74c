//! How close a result is to the truth, as plain functions on slices; all sums are 64-bit.

mod forecast;
mod voxels;

pub use forecast::{mean_absolute_error, root_mean_squared_error, skill};
pub use voxels::{ChamferDistance, chamfer_distance, intersection_over_union, squared_distances};

use crate::error::DataError;

/// Whether two slices go together.
fn check_lengths(prediction: usize, truth: usize) -> Result<(), DataError> {
    if prediction == truth && truth > 0 {
        return Ok(());
    }
    let expected = format!("as many predicted values as true ones ({truth}), 1 or more");
    Err(DataError::malformed(expected, prediction.to_string(), "Compare values on the same grid."))
}
