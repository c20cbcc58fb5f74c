//! What cannot be drawn.

/// Why a picture cannot be drawn or encoded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PictureError {
    /// A volume does not have the voxels that its shape promises, or has none.
    #[error(
        "cannot draw the {volume}: its shape {shape:?} needs {expected} voxels and no side of 0, found {found} voxels"
    )]
    VolumeShape {
        /// Which of the volumes, such as "original" or "reconstruction".
        volume: &'static str,
        /// The shape that was given.
        shape: [usize; 3],
        /// The voxels of that shape, or "too many" when their count overflows.
        expected: String,
        /// The voxels that were given.
        found: usize,
    },
    /// A picture could not be encoded, or is no PNG.
    #[error("cannot encode or decode a PNG picture")]
    Encoding(#[from] image::ImageError),
}

/// Rejects values that are not those of a shape, and shapes without any.
pub(super) fn check(volume: &'static str, found: usize, shape: [usize; 3]) -> Result<(), PictureError> {
    let expected = shape.into_iter().try_fold(1_usize, |product, side| product.checked_mul(side));
    if !shape.contains(&0) && expected == Some(found) {
        return Ok(());
    }
    Err(PictureError::VolumeShape {
        volume,
        shape,
        expected: expected.map_or("too many".to_string(), |count| count.to_string()),
        found,
    })
}
