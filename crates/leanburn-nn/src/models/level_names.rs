//! Names of the segments of a U: its encoder, its coarsest level, its decoder.

/// The coarsest level.
pub(super) const BOTTOM: &str = "bottom";

/// A level of the encoder, the finest is 0.
pub(super) fn encoder_name(level: usize) -> String {
    format!("encoder.level_{level}")
}

/// A level of the decoder, the finest is 0.
pub(super) fn decoder_name(level: usize) -> String {
    format!("decoder.level_{level}")
}

/// The segments above and below the coarsest level, in order of execution, of so many levels on each side.
pub(super) fn names_of_levels(sides: usize) -> Vec<String> {
    let (down, up) = ((0..sides).map(encoder_name), (0..sides).rev().map(decoder_name));
    down.chain([BOTTOM.to_string()]).chain(up).collect()
}
