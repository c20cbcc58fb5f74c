//! The three mid-planes of a volume, in columns of tiles.

use image::{Rgb, RgbImage};

use super::canvas::{BACKGROUND, CAPTION_HEIGHT, GLYPH, LONGEST_SIDE, SEPARATOR, SMALLEST_TILE, write_text};

/// Draws the mid-planes of a volume of `shape` in columns with captions; `colour` is that of a voxel in a column.
pub(super) fn draw(captions: &[&str], shape: [usize; 3], colour: impl Fn(usize, usize) -> Rgb<u8>) -> RgbImage {
    let planes = mid_planes(shape);
    let layout = Layout::new(&planes, shape);
    let mut picture = RgbImage::from_pixel(layout.width(captions.len()), layout.height(), BACKGROUND);
    for (column, caption) in captions.iter().enumerate() {
        write_text(&mut picture, layout.left(column) + 4, 4, caption);
    }
    for (row, plane) in planes.iter().enumerate() {
        for column in 0..captions.len() {
            layout.paint(&mut picture, row, column, plane, |voxel| colour(column, voxel));
        }
        layout.write_directions(&mut picture, row, plane.directions);
    }
    picture
}

/// What is drawn of a plane through a volume: voxel `first + column * right + row_from_the_bottom * up`.
pub(super) struct Plane {
    pub width: usize,
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

    /// All its voxels.
    pub fn voxels(&self) -> impl Iterator<Item = usize> {
        let rows = 0..self.height;
        rows.flat_map(move |row| (0..self.width).map(move |column| self.voxel(column, row)))
    }
}

/// The sagittal, the coronal and the axial plane through the middle; every `n`th voxel of them where a side would be longer than
/// [`LONGEST_SIDE`].
pub(super) fn mid_planes([x, y, z]: [usize; 3]) -> [Plane; 3] {
    let (x_stride, y_stride, z_stride) = (y * z, z, 1);
    let n = x.max(y).max(z).div_ceil(LONGEST_SIDE);
    let plane = |width: usize, right, height: usize, up, first, directions| {
        let [width, height] = [width, height].map(|side| side.div_ceil(n));
        Plane { width, height, first, right: right * n, up: up * n, directions }
    };
    [
        plane(y, y_stride, z, z_stride, x / 2 * x_stride, ["P", "A"]),
        plane(x, x_stride, z, z_stride, y / 2 * y_stride, ["L", "R"]),
        plane(x, x_stride, y, y_stride, z / 2 * z_stride, ["L", "R"]),
    ]
}

/// Where the tiles lie: three rows, and columns, with separators, captions above.
pub(super) struct Layout {
    pub factor: usize,
    pub column_width: usize,
    pub row_heights: [usize; 3],
}

impl Layout {
    pub fn new(planes: &[Plane; 3], shape: [usize; 3]) -> Self {
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

    fn width(&self, columns: usize) -> u32 {
        (columns * self.column_width + (columns - 1) * SEPARATOR) as u32
    }

    fn height(&self) -> u32 {
        (CAPTION_HEIGHT + self.row_heights.iter().sum::<usize>() + 2 * SEPARATOR) as u32
    }

    pub fn left(&self, column: usize) -> usize {
        column * (self.column_width + SEPARATOR)
    }

    pub fn top(&self, row: usize) -> usize {
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
