//! A training sample as it lies in its volume and as the model sees it.

use image::RgbImage;

use super::canvas::{difference_caption, grey, heat, largest_of, range_of};
use super::classes::tinted;
use super::error::{PictureError, check};
use super::planes::draw;

/// Draws a sample before and after it is augmented, side by side, and in a third column its labels over what is seen, or the absolute
/// difference where it has none.
///
/// Planes, orientation and colours are those of [`comparison`](super::comparison()); grey runs over the values before.
///
/// # Shapes
///
/// All have `shape` `[x, y, z]`, `z` fastest, oriented RAS.
///
/// # Errors
///
/// When one of them does not have the voxels of `shape`, or a side is zero.
pub fn seen(before: &[f32], after: &[f32], labels: Option<&[u8]>, shape: [usize; 3]) -> Result<RgbImage, PictureError> {
    check("sample", before.len(), shape)?;
    check("augmented sample", after.len(), shape)?;
    if let Some(labels) = labels {
        check("labels", labels.len(), shape)?;
    }
    let range = range_of(before);
    let difference = |voxel: usize| (before[voxel] - after[voxel]).abs();
    let largest = largest_of((0..before.len()).map(difference));
    let third = labels.map_or_else(|| difference_caption(largest), |_| "labels".into());
    Ok(draw(&["in the volume", "as seen", &third], shape, |column, voxel| match (column, labels) {
        (0, _) => grey(before[voxel], range),
        (1, _) => grey(after[voxel], range),
        (_, Some(labels)) => tinted(grey(after[voxel], range), labels[voxel]),
        (_, None) => heat(difference(voxel), largest),
    }))
}

#[cfg(test)]
mod tests {
    use image::Rgb;

    use super::super::planes::{Layout, mid_planes};
    use super::*;

    const SHAPE: [usize; 3] = [4, 5, 6];

    #[test]
    fn the_third_column_is_the_difference_or_the_labels() {
        let mut before = vec![0.0; 120];
        before[0] = 1.0; // the range
        let after = vec![1.0; 120];
        let layout = Layout::new(&mid_planes(SHAPE), SHAPE);
        let at = |labels: Option<&[u8]>, column: usize| {
            let picture = seen(&before, &after, labels, SHAPE).unwrap();
            let (x, y) = (layout.left(column) + layout.column_width / 2, layout.top(0) + layout.row_heights[0] / 2);
            *picture.get_pixel(x as u32, y as u32)
        };
        assert_eq!([at(None, 0), at(None, 1)], [Rgb([0; 3]), Rgb([255; 3])]);
        assert_eq!(at(None, 2), heat(1.0, 1.0));
        assert_eq!(at(Some(&[2; 120]), 2), tinted(Rgb([255; 3]), 2));
        assert!(seen(&before, &after, Some(&[2; 119]), SHAPE).unwrap_err().to_string().contains("labels"));
    }
}
