//! A volume next to its labels and a model's prediction of them, in colours over the volume.

use image::{Rgb, RgbImage};

use super::canvas::grey;
use super::error::{PictureError, check};
use super::planes::draw;

/// Draws a volume, its labels over it, and the predicted labels over it, side by side.
///
/// Planes, orientation and grey are those of [`comparison`](super::comparison()). Class 0 has no colour; further classes have
/// the colours of `colorous::CATEGORY10`, and again from the first after ten.
///
/// # Shapes
///
/// All three have `shape` `[x, y, z]`, `z` fastest, oriented RAS.
///
/// # Errors
///
/// When one of them does not have the voxels of `shape`, or a side is zero.
pub fn classes(
    volume: &[f32],
    labels: &[u8],
    prediction: &[u8],
    shape: [usize; 3],
    range: (f32, f32),
) -> Result<RgbImage, PictureError> {
    for (name, found) in [("volume", volume.len()), ("labels", labels.len()), ("prediction", prediction.len())] {
        check(name, found, shape)?;
    }
    let below = |voxel: usize| grey(volume[voxel], range);
    Ok(draw(&["volume", "labels", "prediction"], shape, |column, voxel| match column {
        0 => below(voxel),
        1 => tinted(below(voxel), labels[voxel]),
        _ => tinted(below(voxel), prediction[voxel]),
    }))
}

/// A grey half covered by the colour of a class.
pub(super) fn tinted(grey: Rgb<u8>, class: u8) -> Rgb<u8> {
    let Some(class) = usize::from(class).checked_sub(1) else { return grey };
    let colour = colorous::CATEGORY10[class % colorous::CATEGORY10.len()].as_array();
    Rgb(std::array::from_fn(|part| grey.0[part] / 2 + colour[part] / 2))
}

#[cfg(test)]
mod tests {
    use super::super::planes::{Layout, mid_planes};
    use super::*;

    const SHAPE: [usize; 3] = [40, 50, 30];

    #[test]
    fn classes_are_coloured_over_the_volume() {
        let volume = vec![0.5; SHAPE.iter().product()];
        let nothing = vec![0; volume.len()];
        let picture =
            |labels: &[u8], prediction: &[u8]| classes(&volume, labels, prediction, SHAPE, (0.0, 1.0)).unwrap();
        let layout = Layout::new(&mid_planes(SHAPE), SHAPE);
        // the middle of the sagittal plane's tile
        let at = |picture: &RgbImage, column: usize| {
            let (x, y) = (layout.left(column) + layout.column_width / 2, layout.top(0) + layout.row_heights[0] / 2);
            *picture.get_pixel(x as u32, y as u32)
        };
        let plain = Rgb([128; 3]);
        let second = vec![2; volume.len()];
        let shown = picture(&nothing, &second);
        assert_eq!([at(&shown, 0), at(&shown, 1)], [plain; 2]);
        assert_eq!(at(&shown, 2), tinted(plain, 2));
        assert_ne!(tinted(plain, 1), tinted(plain, 2));
        assert_eq!(tinted(plain, 1), tinted(plain, 11));
        assert_eq!(at(&picture(&second, &nothing), 1), tinted(plain, 2));
    }

    #[test]
    fn labels_of_other_voxels_are_an_error() {
        let volume = vec![0.5; 8];
        let error = classes(&volume, &[0; 8], &[0; 7], [2; 3], (0.0, 1.0)).unwrap_err();
        assert!(error.to_string().contains("prediction"), "{error}");
    }
}
