//! Whether a model can take a sample.

use leanburn_nn::models::ShapeError;

use crate::error::{Result, SystemError};

/// Checks that a model takes a sample as a batch of one; `name` is the sample's, `shape` `[channels, depth, height, width]`.
///
/// # Errors
///
/// [`SystemError::Shape`] with what `check` says of `[1, channels, depth, height, width]`.
pub(crate) fn check_shape(
    name: &str,
    [channels, depth, height, width]: [usize; 4],
    check: impl FnOnce([usize; 5]) -> std::result::Result<(), ShapeError>,
) -> Result<()> {
    check([1, channels, depth, height, width]).map_err(|reason| SystemError::Shape { volume: name.to_string(), reason })
}
