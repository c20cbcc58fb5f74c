//! Images of cameras, and maps of what lies before them.

use image::{Rgb, RgbImage};

use super::canvas::{BACKGROUND, CAPTION_HEIGHT, SEPARATOR, SMALLEST_TILE, write_text};
use super::error::{PictureError, check};

/// Cells that are seen and of no class, and those that are not seen.
const EMPTY: [[u8; 3]; 2] = [[225, 225, 220], [60, 60, 64]];
/// Colours of the classes; a later class lies over those before.
const COLOURS: [[u8; 3]; 8] = [
    [120, 120, 128],
    [90, 160, 230],
    [200, 170, 120],
    [235, 190, 40],
    [210, 60, 60],
    [70, 150, 90],
    [150, 90, 170],
    [60, 60, 160],
];

/// Draws images one below the other, and maps beside them, each under its caption. The farthest row of a map is on top.
///
/// # Shapes
///
/// An image has a colour for each pixel of `[height, width]`; a map is 0 or 1, `[classes, rows, columns]`, `seen` `[rows, columns]`.
///
/// # Errors
///
/// When one of them does not have the values of its shape, or a side is zero.
pub fn scene(
    images: &[Vec<[u8; 3]>],
    [height, width]: [usize; 2],
    maps: &[(&'static str, &[u8])],
    seen: &[u8],
    [rows, columns]: [usize; 2],
) -> Result<RgbImage, PictureError> {
    for image in images {
        check("image", image.len(), [height, width, 1])?;
    }
    check("seen cells", seen.len(), [rows, columns, 1])?;
    for (caption, map) in maps {
        check(caption, map.len(), [map.len() / seen.len(), rows, columns])?;
    }
    let factor = SMALLEST_TILE.div_ceil(rows.max(columns));
    let (tile, map_height) = (columns * factor, rows * factor);
    let enlarge = map_height.div_ceil(images.len().max(1) * height).max(1);
    let [image_width, image_height] = [width * enlarge, height * enlarge];
    let tall = map_height.max(images.len() * (image_height + SEPARATOR) - SEPARATOR);
    let size = [image_width + maps.len() * (tile + SEPARATOR), CAPTION_HEIGHT + tall];
    let mut picture = RgbImage::from_pixel(size[0] as u32, size[1] as u32, BACKGROUND);
    write_text(&mut picture, 4, 4, "camera");
    for (number, image) in images.iter().enumerate() {
        let top = CAPTION_HEIGHT + number * (image_height + SEPARATOR);
        let colour = |row: usize, column: usize| image[row / enlarge * width + column / enlarge];
        fill(&mut picture, [top, 0], [image_height, image_width], colour);
    }
    for (number, (caption, map)) in maps.iter().enumerate() {
        let left = image_width + SEPARATOR + number * (tile + SEPARATOR);
        write_text(&mut picture, left + 4, 4, caption);
        let colour = |row: usize, column: usize| {
            let cell = (rows - 1 - row / factor) * columns + column / factor;
            cell_colour(map, seen[cell], cell, seen.len())
        };
        fill(&mut picture, [CAPTION_HEIGHT, left], [map_height, tile], colour);
    }
    Ok(picture)
}

fn cell_colour(map: &[u8], seen: u8, cell: usize, cells: usize) -> [u8; 3] {
    let class = (0..map.len() / cells).rev().find(|class| map[class * cells + cell] != 0);
    match (seen, class) {
        (0, _) => EMPTY[1],
        (_, None) => EMPTY[0],
        (_, Some(class)) => COLOURS[class % COLOURS.len()],
    }
}

fn fill(
    picture: &mut RgbImage,
    [top, left]: [usize; 2],
    [height, width]: [usize; 2],
    colour: impl Fn(usize, usize) -> [u8; 3],
) {
    for (row, column) in (0..height * width).map(|at| (at / width, at % width)) {
        picture.put_pixel((left + column) as u32, (top + row) as u32, Rgb(colour(row, column)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_farthest_row_is_on_top_and_what_is_not_seen_is_dark() {
        let images = [vec![[10, 20, 30]; 6]];
        // the near row: the first class, then both; the far row: none, then not seen
        let map = [1, 1, 0, 0, 0, 1, 0, 1];
        let draw = |maps: &[(&'static str, &[u8])]| scene(&images, [2, 3], maps, &[1, 1, 1, 0], [2, 2]);
        let picture = draw(&[("map", &map)]).unwrap();
        let (tile, factor) = (SMALLEST_TILE, SMALLEST_TILE / 2);
        let image_width = 3 * tile / 2;
        let at = |row: usize, column: usize| {
            let (x, y) = (image_width + SEPARATOR + column * factor + 3, CAPTION_HEIGHT + row * factor + 3);
            picture.get_pixel(x as u32, y as u32).0
        };
        assert_eq!([at(0, 0), at(0, 1), at(1, 0), at(1, 1)], [EMPTY[0], EMPTY[1], COLOURS[0], COLOURS[1]]);
        assert_eq!(picture.get_pixel(5, CAPTION_HEIGHT as u32 + 5).0, [10, 20, 30]);
        assert_eq!(
            draw(&[("map", &map), ("prediction", &map)]).unwrap().width() as usize,
            image_width + 2 * (tile + SEPARATOR)
        );
        assert!(draw(&[("map", &map[1..])]).is_err());
    }
}
