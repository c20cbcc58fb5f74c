//! A volume, its reconstruction and their difference.

use image::RgbImage;

use super::canvas::{difference_caption, grey, heat, largest_of};
use super::error::{PictureError, check};
use super::planes::{Plane, draw, mid_planes};

/// Draws original, reconstruction and their absolute difference side by side.
///
/// Rows are the sagittal, coronal and axial mid-planes. Superior is on top, in the axial plane
/// anterior is; anterior is to the right in the sagittal plane, and the subject's left is on the
/// left (the neurological convention), as the letters at the first tiles say. Grey runs from
/// `range.0` to `range.1`; an empty range draws black. The difference runs through magma from zero
/// to its largest value in what is drawn, which its caption notes. What is not finite is cyan. Of sides longer than 2048 every second voxel
/// is drawn, or every third, and so on.
///
/// # Shapes
///
/// Both volumes have `shape` `[x, y, z]`, `z` fastest, oriented RAS: `x` runs to the right, `y` to
/// the front (anterior), `z` up (superior).
///
/// # Errors
///
/// When a volume does not have the voxels of `shape`, or a side is zero.
pub fn comparison(
    original: &[f32],
    reconstruction: &[f32],
    shape: [usize; 3],
    range: (f32, f32),
) -> Result<RgbImage, PictureError> {
    check("original", original.len(), shape)?;
    check("reconstruction", reconstruction.len(), shape)?;
    let difference = |voxel: usize| (original[voxel] - reconstruction[voxel]).abs();
    let largest = largest_of(mid_planes(shape).iter().flat_map(Plane::voxels).map(difference));
    let captions = ["original", "reconstruction", &difference_caption(largest)];
    Ok(draw(&captions, shape, |column, voxel| match column {
        0 => grey(original[voxel], range),
        1 => grey(reconstruction[voxel], range),
        _ => heat(difference(voxel), largest),
    }))
}

#[cfg(test)]
mod tests {
    use image::Rgb;

    use super::super::canvas::{BACKGROUND, INK, LONGEST_SIDE, NOT_FINITE};
    use super::super::planes::Layout;
    use super::*;

    const SHAPE: [usize; 3] = [40, 50, 30];
    const WHITE: Rgb<u8> = Rgb([255; 3]);
    const BLACK: Rgb<u8> = Rgb([0; 3]);

    fn marked(mark: [usize; 3]) -> Vec<f32> {
        let mut volume = vec![0.0; SHAPE.iter().product()];
        volume[(mark[0] * SHAPE[1] + mark[1]) * SHAPE[2] + mark[2]] = 1.0;
        volume
    }

    fn compare(original: &[f32], reconstruction: &[f32]) -> RgbImage {
        comparison(original, reconstruction, SHAPE, (0.0, 1.0)).unwrap()
    }

    /// The first pixel of a voxel in a tile, by its column and row in voxels from the top left.
    fn pixel(picture: &RgbImage, tile: (usize, usize), column: usize, row: usize) -> Rgb<u8> {
        let planes = mid_planes(SHAPE);
        let layout = Layout::new(&planes, SHAPE);
        let margin = (layout.column_width - planes[tile.0].width * layout.factor) / 2;
        let x = layout.left(tile.1) + margin + column * layout.factor;
        let y = layout.top(tile.0) + row * layout.factor;
        *picture.get_pixel(x as u32, y as u32)
    }

    #[test]
    fn superior_is_on_top_anterior_right_and_left_on_the_left() {
        let [x, y, z] = SHAPE;
        let nothing = vec![0.0; x * y * z];
        // Anterior (last y), superior (last z): the top right corner of the sagittal tile.
        let picture = compare(&marked([x / 2, y - 1, z - 1]), &nothing);
        assert_eq!(pixel(&picture, (0, 0), y - 1, 0), WHITE);
        // Left (first x), inferior (first z): the bottom left corner of the coronal tile.
        let picture = compare(&marked([0, y / 2, 0]), &nothing);
        assert_eq!(pixel(&picture, (1, 0), 0, z - 1), WHITE);
        // Right (last x), anterior (last y): the top right corner of the axial tile.
        let picture = compare(&marked([x - 1, y - 1, z / 2]), &nothing);
        assert_eq!(pixel(&picture, (2, 0), x - 1, 0), WHITE);
        assert_eq!(pixel(&picture, (2, 0), 0, y - 1), BLACK);
    }

    #[test]
    fn columns_are_original_reconstruction_difference() {
        let [x, y, z] = SHAPE;
        let mark = marked([x / 2, y / 2, z - 1]);
        let nothing = vec![0.0; mark.len()];
        let picture = compare(&nothing, &mark);
        assert_eq!(pixel(&picture, (1, 0), x / 2, 0), BLACK);
        assert_eq!(pixel(&picture, (1, 1), x / 2, 0), WHITE);
        let brightest = Rgb(colorous::MAGMA.eval_continuous(1.0).as_array());
        assert_eq!(pixel(&picture, (1, 2), x / 2, 0), brightest);
        let darkest = Rgb(colorous::MAGMA.eval_continuous(0.0).as_array());
        assert_eq!(pixel(&picture, (1, 2), 0, 0), darkest);
    }

    #[test]
    fn tiles_are_enlarged_and_separated() {
        let picture = compare(&marked([0; 3]), &marked([0; 3]));
        // The longest side, 50, is enlarged four times.
        assert_eq!(picture.width(), 3 * 200 + 2 * 2);
        assert_eq!(picture.height(), 16 + (30 + 30 + 50) * 4 + 2 * 2);
        assert_eq!(*picture.get_pixel(201, 100), BACKGROUND);
        let captioned = picture.enumerate_pixels().filter(|(_, y, _)| *y < 16);
        assert!(captioned.filter(|(_, _, pixel)| **pixel == INK).count() > 100);
    }

    #[test]
    fn what_is_not_finite_stands_out() {
        let mut broken = marked([0; 3]);
        broken.fill(f32::NAN);
        let picture = compare(&marked([0; 3]), &broken);
        assert_eq!(pixel(&picture, (2, 1), 1, 1), NOT_FINITE);
        assert_eq!(pixel(&picture, (2, 2), 1, 1), NOT_FINITE);
        assert_eq!(pixel(&picture, (2, 0), 1, 1), BLACK);
        // One infinite voxel does not darken the difference elsewhere.
        let [x, y, z] = SHAPE;
        let mut broken = marked([x / 2, y / 2, z - 1]);
        broken[(x / 2 * y + y / 2) * z] = f32::INFINITY;
        let picture = compare(&marked([0; 3]), &broken);
        assert_eq!(pixel(&picture, (1, 2), x / 2, z - 1), NOT_FINITE);
        let brightest = Rgb(colorous::MAGMA.eval_continuous(1.0).as_array());
        assert_eq!(pixel(&picture, (1, 2), x / 2, 0), brightest);
    }

    #[test]
    fn an_empty_range_draws_black() {
        let volume = vec![4.0; SHAPE.iter().product()];
        for range in [(3.0, 3.0), (f32::NAN, 1.0)] {
            let picture = comparison(&volume, &volume, SHAPE, range).unwrap();
            assert_eq!(pixel(&picture, (2, 0), 1, 1), BLACK);
        }
    }

    #[test]
    fn wrong_and_absurd_shapes_are_errors() {
        let voxels = vec![0.0; 8];
        for shape in [[2, 2, 3], [0, 4, 2], [8, 0, 0], [1 << 32, 1 << 32, 2]] {
            let error = comparison(&voxels, &voxels, shape, (0.0, 1.0)).unwrap_err();
            assert!(error.to_string().contains("original"), "{error}");
        }
        let mut long = vec![0.0; 2 * LONGEST_SIDE + 1];
        long[3] = 1.0; // the second that is drawn
        let picture = comparison(&long, &long, [1, 1, long.len()], (0.0, 1.0)).unwrap();
        let bright = picture.pixels().filter(|pixel| **pixel == WHITE).count();
        assert_eq!((picture.height() as usize, bright), (16 + 2 * long.len().div_ceil(3) + 1 + 2 * 2, 4));
        assert!(comparison(&voxels, &voxels[1..], [2, 2, 2], (0.0, 1.0)).is_err());
        assert!(comparison(&voxels, &voxels, [2, 2, 2], (0.0, 1.0)).is_ok());
    }
}
