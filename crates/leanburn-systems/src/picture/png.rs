//! Pictures as files.

use std::io::Cursor;

use image::{ImageFormat, RgbImage};

use super::error::PictureError;

/// Encodes a picture as PNG.
///
/// # Errors
///
/// When the encoder refuses, as it does for a picture without pixels.
pub fn encode_png(picture: &RgbImage) -> Result<Vec<u8>, PictureError> {
    let mut bytes = Cursor::new(Vec::new());
    picture.write_to(&mut bytes, ImageFormat::Png)?;
    Ok(bytes.into_inner())
}

#[cfg(test)]
mod tests {
    use image::Rgb;

    use super::*;

    #[test]
    fn png_reads_back() {
        let picture = RgbImage::from_fn(5, 4, |x, y| Rgb([x as u8, y as u8, 7]));
        let png = encode_png(&picture).unwrap();
        assert_eq!(image::load_from_memory(&png).unwrap().to_rgb8(), picture);
    }
}
