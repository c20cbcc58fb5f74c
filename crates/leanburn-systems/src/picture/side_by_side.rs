//! Volumes side by side.

use image::RgbImage;

use super::canvas::grey;
use super::error::{PictureError, check};
use super::planes::draw;

/// Draws volumes side by side, each under its caption.
///
/// Planes, orientation and grey are those of [`comparison`](super::comparison()).
///
/// # Shapes
///
/// All have `shape` `[x, y, z]`, `z` fastest, oriented RAS.
///
/// # Errors
///
/// When there is none, one does not have the voxels of `shape`, or a side is zero.
pub fn side_by_side(
    volumes: &[(&str, &[f32])],
    shape: [usize; 3],
    range: (f32, f32),
) -> Result<RgbImage, PictureError> {
    check("first volume", volumes.first().map_or(0, |(_, first)| first.len()), shape)?;
    for (_, volume) in volumes {
        check("volume", volume.len(), shape)?;
    }
    let captions: Vec<&str> = volumes.iter().map(|(caption, _)| *caption).collect();
    Ok(draw(&captions, shape, |column, voxel| grey(volumes[column].1[voxel], range)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_as_many_columns_as_volumes() {
        let (shape, dark, bright) = ([4, 5, 6], vec![0.0; 120], vec![1.0; 120]);
        let width = |volumes: &[(&str, &[f32])]| side_by_side(volumes, shape, (0.0, 1.0)).unwrap().width();
        let one = width(&[("one", &dark)]);
        assert_eq!(width(&[("one", &dark), ("two", &bright), ("three", &dark), ("four", &bright)]), 4 * one + 3 * 2);
        assert!(side_by_side(&[], shape, (0.0, 1.0)).is_err());
        assert!(side_by_side(&[("one", &dark), ("two", &bright[1..])], shape, (0.0, 1.0)).is_err());
    }
}
