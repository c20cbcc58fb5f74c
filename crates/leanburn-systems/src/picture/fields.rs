//! Fields side by side, and how far the first two differ.

use image::RgbImage;

use super::canvas::{
    BACKGROUND, CAPTION_HEIGHT, LONGEST_SIDE, SEPARATOR, SMALLEST_TILE, difference_caption, heat, largest_of,
    perceptual, range_of, write_text,
};
use super::error::{PictureError, check};

/// Draws fields side by side, each with its caption, and behind them the absolute difference of the first two.
///
/// The first row is on top. Viridis runs over the values of the first field (fields have signs, which grey does not show), the difference through magma from zero to its
/// largest value, which its caption notes. What is not finite is cyan. Of sides longer than 2048 every second value is drawn, or every third, and so on.
///
/// # Shapes
///
/// All fields `[height, width]`, `width` fastest.
///
/// # Errors
///
/// When a field does not have the values of its shape, or a side is zero.
pub fn fields<const N: usize>(
    columns: [(&'static str, &[f32]); N],
    [height, width]: [usize; 2],
) -> Result<RgbImage, PictureError> {
    for (caption, values) in columns {
        check(caption, values.len(), [height, width, 1])?;
    }
    let [truth, other] = [0, 1].map(|column: usize| columns.get(column).map_or(&[][..], |(_, values)| values));
    let range = range_of(truth);
    let differences: Vec<f32> = truth.iter().zip(other).map(|(one, other)| (one - other).abs()).collect();
    let largest = largest_of(differences.iter().copied());
    let n = height.max(width).div_ceil(LONGEST_SIDE);
    let [rows, drawn] = [height, width].map(|side| side.div_ceil(n));
    let factor = SMALLEST_TILE.div_ceil(rows.max(drawn));
    let column_width = (drawn * factor).max(SMALLEST_TILE) + SEPARATOR;
    let size = [(N + 1) * column_width - SEPARATOR, CAPTION_HEIGHT + rows * factor];
    let mut picture = RgbImage::from_pixel(size[0] as u32, size[1] as u32, BACKGROUND);
    let caption = difference_caption(largest);
    let columns = columns.into_iter().chain([(caption.as_str(), &differences[..])]);
    for (column, (caption, values)) in columns.enumerate() {
        write_text(&mut picture, column * column_width + 4, 4, caption);
        for (row, place) in (0..rows).flat_map(|row| (0..drawn).map(move |place| (row, place))) {
            let value = values[(row * width + place) * n];
            let colour = if column == N { heat(value, largest) } else { perceptual(value, range) };
            let (top, left) = (row * factor + CAPTION_HEIGHT, place * factor + column * column_width);
            for (x, y) in (0..factor * factor).map(|at| (left + at % factor, top + at / factor)) {
                picture.put_pixel(x as u32, y as u32, colour);
            }
        }
    }
    Ok(picture)
}

#[cfg(test)]
mod tests {
    use image::Rgb;

    use super::super::canvas::NOT_FINITE;
    use super::*;

    /// The ends of viridis.
    const LARGEST: Rgb<u8> = Rgb([253, 231, 37]);
    const SMALLEST: Rgb<u8> = Rgb([68, 1, 84]);

    #[test]
    fn of_long_sides_some_values_are_drawn() {
        let (height, width) = (3, 2 * LONGEST_SIDE + 1);
        let mut truth = vec![0.0; height * width];
        truth[2 * 3] = 1.0; // the third that is drawn of the first row
        truth[2 * 3 + 1] = 1.0;
        let picture = fields([("truth", &truth[..]), ("forecast", &truth)], [height, width]).unwrap();
        let at = |column: u32| *picture.get_pixel(column, CAPTION_HEIGHT as u32);
        assert_eq!([at(1), at(2), at(3)], [SMALLEST, LARGEST, SMALLEST]);
        assert_eq!(picture.dimensions(), (3 * 1366 + 2 * SEPARATOR as u32, CAPTION_HEIGHT as u32 + 1));
    }

    #[test]
    fn fields_lie_side_by_side_with_the_difference_of_the_first_two() {
        let (truth, told, seen) = ([0.0, 1.0, 0.5, 0.0], [0.0, 0.0, 0.5, f32::NAN], [1.0; 4]);
        let columns = [("truth", &truth[..]), ("forecast", &told), ("last seen", &seen)];
        let picture = fields(columns, [2, 2]).unwrap();
        let tile = SMALLEST_TILE + SEPARATOR;
        let at = |column: usize, row: usize, place: usize| {
            let half = SMALLEST_TILE / 2;
            *picture.get_pixel((column * tile + place * half + 3) as u32, (CAPTION_HEIGHT + row * half + 3) as u32)
        };
        assert_eq!((at(0, 0, 0), at(0, 0, 1), at(1, 0, 1), at(2, 1, 0)), (SMALLEST, LARGEST, SMALLEST, LARGEST));
        assert_eq!((at(3, 0, 1), at(3, 0, 0)), (heat(1.0, 1.0), heat(0.0, 1.0)));
        assert_eq!((at(1, 1, 1), at(3, 1, 1)), (NOT_FINITE, NOT_FINITE));
        assert_eq!(picture.width() as usize, 4 * tile - SEPARATOR);
        assert!(fields([("truth", &truth[..]), ("forecast", &told[..3])], [2, 2]).is_err());
        assert!(fields([("truth", &truth[..]), ("forecast", &told)], [0, 2]).is_err());
    }
}
