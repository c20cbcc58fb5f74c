//! Volumes in fewer bytes, and planes of pieces.

use leanburn_kernels::compress::{Quantized, narrow, widen};
use leanburn_kernels::planes::{Piece, gather};

use super::{Draw, Outcome, expect_finite, volume};

pub fn compressed(draw: &mut Draw) -> Outcome {
    let mut channel = draw.usual(3000);
    let (values, key) = (draw.below(9) * channel, draw.below(1 << 20));
    let values = draw.values(values);
    draw.disturb(&mut [&mut channel]);
    expect_finite(&widen(&narrow(&values)), values.len(), "what bfloat16 keeps");
    let quantized = Quantized::of(&values, channel, key as u64);
    expect_finite(&quantized.values::<f32>(), values.len(), "what 8 bits keep");
    Outcome::Computed
}

pub fn planes(draw: &mut Draw) -> Outcome {
    let (mut items, mut plane, mut count) = (draw.usual(5), draw.usual(9), draw.usual(5));
    let values = items * plane * count;
    let values = draw.values(values);
    let mut taken = draw.below(count + 1)..count;
    let std::ops::Range { start, end } = &mut taken;
    draw.disturb(&mut [&mut items, &mut plane, &mut count, start, end]);
    let piece = || Piece { values: values.as_slice(), planes: count, taken: taken.clone() };
    let pieces: Vec<_> = (0..draw.below(4)).map(|_| piece()).collect();
    let result = gather(items, plane, &pieces);
    let len = pieces.iter().map(|piece| volume(&[items, piece.taken.len(), plane])).sum();
    expect_finite(&result, len, "planes of pieces");
    Outcome::Computed
}
