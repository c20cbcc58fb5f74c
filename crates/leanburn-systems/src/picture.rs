//! Pictures for people: volumes and fields next to the reconstructions and forecasts of a model, as pixels.

mod classes;

pub use classes::classes;

use image::{ImageFormat, Rgb, RgbImage};
use std::io::Cursor;

/// The longest side of a volume that is drawn; it bounds the memory that a picture takes.
const LONGEST_SIDE: usize = 2048;
/// Tiles are enlarged until the longest side of the volume takes at least this many pixels.
const SMALLEST_TILE: usize = 160;
const SEPARATOR: usize = 2;
const CAPTION_HEIGHT: usize = 16;
const GLYPH: usize = 8;

const BACKGROUND: Rgb<u8> = Rgb([24, 24, 27]);
const INK: Rgb<u8> = Rgb([212, 212, 216]);
/// NaN and infinity: a colour that neither grey nor magma has.
const NOT_FINITE: Rgb<u8> = Rgb([0, 229, 255]);

/// Why a picture cannot be drawn or encoded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PictureError {
    /// A volume does not have the voxels that its shape promises, or is too long to draw.
    #[error(
        "cannot draw the {volume}: its shape {shape:?} needs {expected} voxels with sides of \
         1 to {longest}, found {found} voxels"
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
        /// The longest side that is drawn.
        longest: usize,
    },
    /// A picture could not be encoded, or is no PNG.
    #[error("cannot encode or decode a PNG picture")]
    Encoding(#[from] image::ImageError),
}

/// Draws original, reconstruction and their absolute difference side by side.
///
/// Rows are the sagittal, coronal and axial mid-planes. Superior is on top, in the axial plane
/// anterior is; anterior is to the right in the sagittal plane, and the subject's left is on the
/// left (the neurological convention), as the letters at the first tiles say. Grey runs from
/// `range.0` to `range.1`; an empty range draws black. The difference runs through magma from zero
/// to its largest value in these planes, which its caption states. What is not finite is cyan.
///
/// # Shapes
///
/// Both volumes have `shape` `[x, y, z]`, `z` fastest, oriented RAS: `x` runs to the right, `y` to
/// the front (anterior), `z` up (superior).
///
/// # Errors
///
/// When a volume does not have the voxels of `shape`, or a side is zero or longer than 2048.
pub fn comparison(
    original: &[f32],
    reconstruction: &[f32],
    shape: [usize; 3],
    range: (f32, f32),
) -> Result<RgbImage, PictureError> {
    check("original", original.len(), shape)?;
    check("reconstruction", reconstruction.len(), shape)?;
    let planes = mid_planes(shape);
    let largest = largest_difference(&planes, original, reconstruction);
    let layout = Layout::new(&planes, shape);
    let mut picture = RgbImage::from_pixel(layout.width(), layout.height(), BACKGROUND);
    let difference = format!("difference<={}", short(largest));
    let captions = ["original", "reconstruction", &difference];
    for (column, caption) in captions.into_iter().enumerate() {
        write_text(&mut picture, layout.left(column) + 4, 4, caption);
    }
    for (row, plane) in planes.iter().enumerate() {
        let colour = |column: usize, voxel: usize| match column {
            0 => grey(original[voxel], range),
            1 => grey(reconstruction[voxel], range),
            _ => heat((original[voxel] - reconstruction[voxel]).abs(), largest),
        };
        for column in 0..3 {
            layout.paint(&mut picture, row, column, plane, |voxel| colour(column, voxel));
        }
        layout.write_directions(&mut picture, row, plane.directions);
    }
    Ok(picture)
}

/// Draws fields side by side, each with its caption, and behind them the absolute difference of the first two.
///
/// The first row is on top. Grey runs over the values of the first field, the difference through magma from zero to its
/// largest value, which its caption states. What is not finite is cyan.
///
/// # Shapes
///
/// All fields `[height, width]`, `width` fastest.
///
/// # Errors
///
/// When a field does not have the values of its shape, or a side is zero or longer than 2048.
pub fn fields<const N: usize>(
    columns: [(&'static str, &[f32]); N],
    [height, width]: [usize; 2],
) -> Result<RgbImage, PictureError> {
    for (caption, values) in columns {
        check(caption, values.len(), [height, width, 1])?;
    }
    let [truth, other] = [0, 1].map(|column: usize| columns.get(column).map_or(&[][..], |(_, values)| values));
    let range = truth.iter().fold((f32::MAX, f32::MIN), |(low, high), &value| (low.min(value), high.max(value)));
    let differences: Vec<f32> = truth.iter().zip(other).map(|(one, other)| (one - other).abs()).collect();
    let largest = differences.iter().copied().filter(|difference| difference.is_finite()).fold(0.0, f32::max);
    let factor = SMALLEST_TILE.div_ceil(height.max(width));
    let column_width = (width * factor).max(SMALLEST_TILE) + SEPARATOR;
    let size = [(N + 1) * column_width - SEPARATOR, CAPTION_HEIGHT + height * factor];
    let mut picture = RgbImage::from_pixel(size[0] as u32, size[1] as u32, BACKGROUND);
    let caption = format!("difference<={}", short(largest));
    let columns = columns.into_iter().chain([(caption.as_str(), &differences[..])]);
    for (column, (caption, values)) in columns.enumerate() {
        write_text(&mut picture, column * column_width + 4, 4, caption);
        for (place, &value) in values.iter().enumerate() {
            let colour = if column == N { heat(value, largest) } else { grey(value, range) };
            let (top, left) = (place / width * factor + CAPTION_HEIGHT, place % width * factor + column * column_width);
            for (x, y) in (0..factor * factor).map(|at| (left + at % factor, top + at / factor)) {
                picture.put_pixel(x as u32, y as u32, colour);
            }
        }
    }
    Ok(picture)
}

/// Encodes a picture as PNG.
///
/// # Errors
///
/// When the encoder rejects, as it does for a picture without pixels.
pub fn encode_png(picture: &RgbImage) -> Result<Vec<u8>, PictureError> {
    let mut bytes = Cursor::new(Vec::new());
    picture.write_to(&mut bytes, ImageFormat::Png)?;
    Ok(bytes.into_inner())
}

/// A value with three significant digits, for a caption.
fn short(value: f32) -> String {
    match format!("{value:.2e}").parse::<f64>() {
        Ok(rounded) if rounded == 0.0 || (1e-3..1e7).contains(&rounded.abs()) => rounded.to_string(),
        Ok(rounded) if rounded.is_finite() => format!("{rounded:e}"),
        _ => value.to_string(),
    }
}

fn check(volume: &'static str, found: usize, shape: [usize; 3]) -> Result<(), PictureError> {
    let expected = shape.into_iter().try_fold(1_usize, |product, side| product.checked_mul(side));
    let drawable = shape.iter().all(|side| (1..=LONGEST_SIDE).contains(side));
    if drawable && expected == Some(found) {
        return Ok(());
    }
    Err(PictureError::VolumeShape {
        volume,
        shape,
        expected: expected.map_or("too many".to_string(), |count| count.to_string()),
        found,
        longest: LONGEST_SIDE,
    })
}

/// A plane through a volume: voxel `first + column * right + row_from_the_bottom * up`.
struct Plane {
    width: usize,
    height: usize,
    first: usize,
    right: usize,
    up: usize,
    /// What lies to the left and to the right.
    directions: [&'static str; 2],
}

impl Plane {
    /// The voxel at a column and a row counted from the top.
    fn voxel(&self, column: usize, row: usize) -> usize {
        self.first + column * self.right + (self.height - 1 - row) * self.up
    }

    fn voxels(&self) -> impl Iterator<Item = usize> {
        let rows = 0..self.height;
        rows.flat_map(move |row| (0..self.width).map(move |column| self.voxel(column, row)))
    }
}

/// The sagittal, the coronal and the axial plane through the middle.
fn mid_planes([x, y, z]: [usize; 3]) -> [Plane; 3] {
    let (x_stride, y_stride, z_stride) = (y * z, z, 1);
    let plane = |width, right, height, up, first, directions| Plane { width, height, first, right, up, directions };
    [
        plane(y, y_stride, z, z_stride, x / 2 * x_stride, ["P", "A"]),
        plane(x, x_stride, z, z_stride, y / 2 * y_stride, ["L", "R"]),
        plane(x, x_stride, y, y_stride, z / 2 * z_stride, ["L", "R"]),
    ]
}

fn largest_difference(planes: &[Plane], original: &[f32], reconstruction: &[f32]) -> f32 {
    let voxels = planes.iter().flat_map(Plane::voxels);
    voxels
        .map(|voxel| (original[voxel] - reconstruction[voxel]).abs())
        .filter(|difference| difference.is_finite())
        .fold(0.0, f32::max)
}

/// Where the tiles lie: three rows and columns with separators, captions above.
struct Layout {
    factor: usize,
    column_width: usize,
    row_heights: [usize; 3],
}

impl Layout {
    fn new(planes: &[Plane; 3], shape: [usize; 3]) -> Self {
        let longest = shape.into_iter().max().unwrap_or(1);
        let factor = SMALLEST_TILE.div_ceil(longest);
        let widths = planes.each_ref().map(|plane| plane.width * factor);
        let widest = widths.into_iter().max().unwrap_or(0);
        Self {
            factor,
            column_width: widest.max(SMALLEST_TILE),
            row_heights: planes.each_ref().map(|plane| plane.height * factor),
        }
    }

    fn width(&self) -> u32 {
        (3 * self.column_width + 2 * SEPARATOR) as u32
    }

    fn height(&self) -> u32 {
        (CAPTION_HEIGHT + self.row_heights.iter().sum::<usize>() + 2 * SEPARATOR) as u32
    }

    fn left(&self, column: usize) -> usize {
        column * (self.column_width + SEPARATOR)
    }

    fn top(&self, row: usize) -> usize {
        let above: usize = self.row_heights[..row].iter().sum();
        CAPTION_HEIGHT + above + row * SEPARATOR
    }

    /// Paints a plane, enlarged, into the middle of its tile.
    fn paint(
        &self,
        picture: &mut RgbImage,
        row: usize,
        column: usize,
        plane: &Plane,
        colour: impl Fn(usize) -> Rgb<u8>,
    ) {
        let margin = (self.column_width - plane.width * self.factor) / 2;
        let (left, top) = (self.left(column) + margin, self.top(row));
        for y in 0..plane.height * self.factor {
            for x in 0..plane.width * self.factor {
                let voxel = plane.voxel(x / self.factor, y / self.factor);
                picture.put_pixel((left + x) as u32, (top + y) as u32, colour(voxel));
            }
        }
    }

    fn write_directions(&self, picture: &mut RgbImage, row: usize, [left, right]: [&str; 2]) {
        let middle = self.top(row) + (self.row_heights[row].saturating_sub(GLYPH)) / 2;
        write_text(picture, 3, middle, left);
        write_text(picture, self.column_width - GLYPH - 2, middle, right);
    }
}

/// Grey between the ends of `range`; black where the range is empty.
fn grey(value: f32, (low, high): (f32, f32)) -> Rgb<u8> {
    if !value.is_finite() {
        return NOT_FINITE;
    }
    let share = if high > low { (value - low) / (high - low) } else { 0.0 };
    Rgb([(share.clamp(0.0, 1.0) * 255.0).round() as u8; 3])
}

/// Magma from zero to `largest`.
fn heat(difference: f32, largest: f32) -> Rgb<u8> {
    if !difference.is_finite() {
        return NOT_FINITE;
    }
    let share = difference / largest.max(f32::MIN_POSITIVE);
    Rgb(colorous::MAGMA.eval_continuous(f64::from(share)).as_array())
}

/// Writes ASCII text with its top left corner at a pixel; what lies outside is cut off.
fn write_text(picture: &mut RgbImage, left: usize, top: usize, text: &str) {
    for (place, letter) in text.bytes().enumerate() {
        let glyph = font8x8::legacy::BASIC_LEGACY[usize::from(letter & 0x7f)];
        for (y, row) in glyph.into_iter().enumerate() {
            for x in (0..GLYPH).filter(|x| row >> x & 1 == 1) {
                let (x, y) = ((left + place * GLYPH + x) as u32, (top + y) as u32);
                if let Some(pixel) = picture.get_pixel_mut_checked(x, y) {
                    *pixel = INK;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: [usize; 3] = [40, 50, 30];
    const WHITE: Rgb<u8> = Rgb([255; 3]);
    const BLACK: Rgb<u8> = Rgb([0; 3]);

    #[test]
    fn fields_lie_side_by_side_with_the_difference_of_the_first_two() {
        let (truth, forecast, seen) = ([0.0, 1.0, 0.5, 0.0], [0.0, 0.0, 0.5, f32::NAN], [1.0; 4]);
        let columns = [("truth", &truth[..]), ("forecast", &forecast), ("last seen", &seen)];
        let picture = fields(columns, [2, 2]).unwrap();
        let tile = SMALLEST_TILE + SEPARATOR;
        let at = |column: usize, row: usize, place: usize| {
            let half = SMALLEST_TILE / 2;
            *picture.get_pixel((column * tile + place * half + 3) as u32, (CAPTION_HEIGHT + row * half + 3) as u32)
        };
        assert_eq!((at(0, 0, 0), at(0, 0, 1), at(1, 0, 1), at(2, 1, 0)), (BLACK, WHITE, BLACK, WHITE));
        assert_eq!((at(3, 0, 1), at(3, 0, 0)), (heat(1.0, 1.0), heat(0.0, 1.0)));
        assert_eq!((at(1, 1, 1), at(3, 1, 1)), (NOT_FINITE, NOT_FINITE));
        assert_eq!(picture.width() as usize, 4 * tile - SEPARATOR);
        assert!(fields([("truth", &truth[..]), ("forecast", &forecast[..3])], [2, 2]).is_err());
        assert!(fields([("truth", &truth[..]), ("forecast", &forecast)], [0, 2]).is_err());
    }

    fn marked(mark: [usize; 3]) -> Vec<f32> {
        let mut volume = vec![0.0; SHAPE.iter().product()];
        volume[(mark[0] * SHAPE[1] + mark[1]) * SHAPE[2] + mark[2]] = 1.0;
        volume
    }

    fn draw(original: &[f32], reconstruction: &[f32]) -> RgbImage {
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
        let picture = draw(&marked([x / 2, y - 1, z - 1]), &nothing);
        assert_eq!(pixel(&picture, (0, 0), y - 1, 0), WHITE);
        // Left (first x), inferior (first z): the bottom left corner of the coronal tile.
        let picture = draw(&marked([0, y / 2, 0]), &nothing);
        assert_eq!(pixel(&picture, (1, 0), 0, z - 1), WHITE);
        // Right (last x), anterior (last y): the top right corner of the axial tile.
        let picture = draw(&marked([x - 1, y - 1, z / 2]), &nothing);
        assert_eq!(pixel(&picture, (2, 0), x - 1, 0), WHITE);
        assert_eq!(pixel(&picture, (2, 0), 0, y - 1), BLACK);
    }

    #[test]
    fn columns_are_original_reconstruction_difference() {
        let [x, y, z] = SHAPE;
        let mark = marked([x / 2, y / 2, z - 1]);
        let nothing = vec![0.0; mark.len()];
        let picture = draw(&nothing, &mark);
        assert_eq!(pixel(&picture, (1, 0), x / 2, 0), BLACK);
        assert_eq!(pixel(&picture, (1, 1), x / 2, 0), WHITE);
        let brightest = Rgb(colorous::MAGMA.eval_continuous(1.0).as_array());
        assert_eq!(pixel(&picture, (1, 2), x / 2, 0), brightest);
        let darkest = Rgb(colorous::MAGMA.eval_continuous(0.0).as_array());
        assert_eq!(pixel(&picture, (1, 2), 0, 0), darkest);
    }

    #[test]
    fn tiles_are_enlarged_and_separated() {
        let picture = draw(&marked([0; 3]), &marked([0; 3]));
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
        let picture = draw(&marked([0; 3]), &broken);
        assert_eq!(pixel(&picture, (2, 1), 1, 1), NOT_FINITE);
        assert_eq!(pixel(&picture, (2, 2), 1, 1), NOT_FINITE);
        assert_eq!(pixel(&picture, (2, 0), 1, 1), BLACK);
        // One infinite voxel does not darken the difference elsewhere.
        let [x, y, z] = SHAPE;
        let mut broken = marked([x / 2, y / 2, z - 1]);
        broken[(x / 2 * y + y / 2) * z] = f32::INFINITY;
        let picture = draw(&marked([0; 3]), &broken);
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
        let long = vec![0.0; LONGEST_SIDE + 1];
        assert!(comparison(&long, &long, [long.len(), 1, 1], (0.0, 1.0)).is_err());
        assert!(comparison(&voxels, &voxels[1..], [2, 2, 2], (0.0, 1.0)).is_err());
        assert!(comparison(&voxels, &voxels, [2, 2, 2], (0.0, 1.0)).is_ok());
    }

    #[test]
    fn png_reads_back() {
        let picture = RgbImage::from_fn(5, 4, |x, y| Rgb([x as u8, y as u8, 7]));
        let png = encode_png(&picture).unwrap();
        assert_eq!(image::load_from_memory(&png).unwrap().to_rgb8(), picture);
    }
}
