//! What pictures are drawn with: colours, letters, and the sizes of tiles.

use image::{Rgb, RgbImage};

/// Tiles are enlarged until the longest side of the volume takes at least this many pixels.
pub(super) const SMALLEST_TILE: usize = 160;
/// The longest side of a tile: of longer ones every second value is drawn, or every third, and so on. It bounds what a picture takes.
pub(super) const LONGEST_SIDE: usize = 2048;
/// Pixels between tiles.
pub(super) const SEPARATOR: usize = 2;
/// Height of the line above the tiles.
pub(super) const CAPTION_HEIGHT: usize = 16;
/// Side of a letter.
pub(super) const GLYPH: usize = 8;

/// Behind the tiles.
pub(super) const BACKGROUND: Rgb<u8> = Rgb([24, 24, 27]);
/// Letters.
pub(super) const INK: Rgb<u8> = Rgb([212, 212, 216]);
/// NaN and infinity: a colour that none of the scales has.
pub(super) const NOT_FINITE: Rgb<u8> = Rgb([0, 229, 255]);

/// The smallest and the largest value.
pub(crate) fn range_of(values: &[f32]) -> (f32, f32) {
    values.iter().fold((f32::MAX, f32::MIN), |(low, high), &value| (low.min(value), high.max(value)))
}

/// The largest finite one of differences, 0 without any.
pub(super) fn largest_of(differences: impl IntoIterator<Item = f32>) -> f32 {
    differences.into_iter().filter(|difference| difference.is_finite()).fold(0.0, f32::max)
}

/// The caption of differences up to the largest, with three significant digits.
pub(super) fn difference_caption(largest: f32) -> String {
    format!("difference<={}", short(largest))
}

/// A value with three significant digits, for a caption.
fn short(value: f32) -> String {
    match format!("{value:.2e}").parse::<f64>() {
        Ok(rounded) if rounded == 0.0 || (1e-3..1e7).contains(&rounded.abs()) => rounded.to_string(),
        Ok(rounded) if rounded.is_finite() => format!("{rounded:e}"),
        _ => value.to_string(),
    }
}

/// Grey between the ends of `range`; black where the range is empty.
pub(super) fn grey(value: f32, (low, high): (f32, f32)) -> Rgb<u8> {
    if !value.is_finite() {
        return NOT_FINITE;
    }
    let share = if high > low { (value - low) / (high - low) } else { 0.0 };
    Rgb([(share.clamp(0.0, 1.0) * 255.0).round() as u8; 3])
}

/// Viridis between the ends of `range`, for values that have a sign or no grey of their own: equal steps look equally far apart, in
/// grey too. Its darkest colour where the range is empty.
pub(super) fn perceptual(value: f32, (low, high): (f32, f32)) -> Rgb<u8> {
    if !value.is_finite() {
        return NOT_FINITE;
    }
    let share = if high > low { (value - low) / (high - low) } else { 0.0 };
    Rgb(colorous::VIRIDIS.eval_continuous(f64::from(share.clamp(0.0, 1.0))).as_array())
}

/// Magma from zero to `largest`.
pub(super) fn heat(difference: f32, largest: f32) -> Rgb<u8> {
    if !difference.is_finite() {
        return NOT_FINITE;
    }
    let share = difference / largest.max(f32::MIN_POSITIVE);
    Rgb(colorous::MAGMA.eval_continuous(f64::from(share)).as_array())
}

/// Writes ASCII text with its top left corner at a pixel; what lies outside is cut off.
pub(super) fn write_text(picture: &mut RgbImage, left: usize, top: usize, text: &str) {
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

    /// Rec. 709, of values as they are shown: near enough to tell darker from lighter.
    fn lightness(Rgb([red, green, blue]): Rgb<u8>) -> f64 {
        0.2126 * f64::from(red) + 0.7152 * f64::from(green) + 0.0722 * f64::from(blue)
    }

    #[test]
    fn larger_values_are_lighter_by_equal_steps() {
        let lightness: Vec<f64> = (-8..=8).map(|step| lightness(perceptual(step as f32, (-8.0, 8.0)))).collect();
        let steps: Vec<f64> = lightness.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(steps.iter().all(|step| (6.0..20.0).contains(step)), "{steps:?}");
        assert_eq!(perceptual(-9.0, (-8.0, 8.0)), perceptual(-8.0, (-8.0, 8.0)));
        assert_eq!((perceptual(1.0, (1.0, 1.0)), perceptual(f32::NAN, (0.0, 1.0))), (Rgb([68, 1, 84]), NOT_FINITE));
    }
}
