//! A volume as 8-bit codes: affine for each block of a channel's values, rounded at random.
//!
//! The value of a code is `scale * code + offset`. A value between two of these becomes the upper one with the probability that
//! makes its mean the value itself: gradients that are linear in it stay unbiased ([Chakrabarti and Moseley
//! 2019](https://arxiv.org/abs/1901.07988), [ActNN](https://arxiv.org/abs/2104.14129)). What decides is word `i` of a counter-based
//! generator, as for [dropout](crate::dropout): the number of threads does not show.

use pulp::{Arch, Simd, WithSimd};
use rand::rngs::ChaCha8Rng;
use rand::{Rng, SeedableRng};
use rayon::prelude::*;

use crate::element::Stored;

/// Values that share a line, at most; a channel begins a new block.
pub const BLOCK: usize = 1 << 10;
/// Blocks of one task.
const TASK: usize = 16;
/// The largest code.
const LARGEST: f32 = 255.0;

/// The values of the codes of a block.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Line {
    scale: f32,
    offset: f32,
}

/// A volume in a quarter of its bytes of float32.
///
/// # Memory
///
/// A byte a value and 8 bytes a block: 0.252 of float32's for channels of whole blocks.
///
/// # Numerics
///
/// Within the 255th part of a block's range, where that is a float32; unbiased over keys. A block of equal values comes back exactly, and one with a value that is
/// not finite as NaN.
#[derive(Clone, Debug, PartialEq)]
pub struct Quantized {
    codes: Vec<u8>,
    lines: Vec<Line>,
    channel: usize,
}

impl Quantized {
    /// Blocks of `len` values in channels of `channel`.
    #[must_use]
    pub fn blocks(len: usize, channel: usize) -> usize {
        len / channel.max(1) * channel.div_ceil(BLOCK)
    }

    /// Bytes of codes and lines.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.codes) + size_of_val(&*self.lines)
    }
}

/// [`Quantized::of`] whole channels.
pub(crate) fn quantize_on<E: Stored>(arch: Arch, values: &[E], channel: usize, key: u64) -> Quantized {
    let per_channel = channel.div_ceil(BLOCK);
    let mut codes = vec![0; values.len()];
    let mut lines = vec![Line::default(); Quantized::blocks(values.len(), channel)];
    let channels = values.par_chunks(channel).zip(codes.par_chunks_mut(channel)).zip(lines.par_chunks_mut(per_channel));
    channels.enumerate().for_each(|(place, ((values, codes), lines))| {
        let blocks = values.par_chunks(BLOCK).zip(codes.par_chunks_mut(BLOCK)).zip(lines).enumerate();
        blocks.with_min_len(TASK).for_each(|(block, ((values, codes), line))| {
            let (index, generator) = (place * per_channel + block, generator(key));
            *line = arch.dispatch(Quantize { values, codes, index, generator });
        });
    });
    Quantized { codes, lines, channel }
}

/// [`Quantized::values`].
pub(crate) fn dequantize_on<E: Stored>(arch: Arch, quantized: &Quantized) -> Vec<E> {
    let Quantized { codes, lines, channel } = quantized;
    let mut values = vec![E::default(); codes.len()];
    let channels = values.par_chunks_mut(*channel).zip(codes.par_chunks(*channel));
    let channels = channels.zip(lines.par_chunks(channel.div_ceil(BLOCK)));
    channels.for_each(|((values, codes), lines)| {
        let blocks = values.par_chunks_mut(BLOCK).zip(codes.par_chunks(BLOCK)).zip(lines);
        let dequantize =
            |((values, codes), line): ((_, _), &Line)| arch.dispatch(Dequantize { values, codes, line: *line });
        blocks.with_min_len(TASK).for_each(dequantize);
    });
    values
}

fn generator(key: u64) -> ChaCha8Rng {
    let mut seed = [0; 32];
    seed[..8].copy_from_slice(&key.to_le_bytes());
    ChaCha8Rng::from_seed(seed)
}

/// One block to codes; its line.
struct Quantize<'a, E> {
    values: &'a [E],
    codes: &'a mut [u8],
    /// Of the block.
    index: usize,
    generator: ChaCha8Rng,
}

impl<E: Stored> WithSimd for Quantize<'_, E> {
    type Output = Line;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _simd: S) -> Line {
        let Self { values, codes, index, mut generator } = self;
        let mut wide = [0.0; BLOCK];
        let wide = &mut wide[..values.len()];
        E::widen(values, wide);
        let (least, most) = wide.iter().fold((f32::INFINITY, f32::NEG_INFINITY), |(least, most), value| {
            (if *value < least { *value } else { least }, if *value > most { *value } else { most })
        });
        let scale = most / LARGEST - least / LARGEST;
        // A number times zero is zero; what is none stays none.
        if wide.iter().fold(0.0, |sum, value| sum + value * 0.0) != 0.0 {
            return Line { scale: f32::NAN, offset: f32::NAN };
        }
        let reciprocal = if scale > 0.0 { (1.0 / scale).min(f32::MAX) } else { 0.0 };
        generator.set_word_pos((index * (BLOCK / 2)) as u128);
        let mut draws = [[0; 2]; BLOCK];
        generator.fill_bytes(draws.as_flattened_mut());
        for ((value, draw), code) in wide.iter().zip(&draws).zip(codes) {
            let share = (f32::from(u16::from_le_bytes(*draw)) + 0.5) / 65_536.0;
            *code = ((value - least) * reciprocal + share).clamp(0.0, LARGEST) as u8;
        }
        Line { scale, offset: least }
    }
}

/// The codes of a block to values.
struct Dequantize<'a, E> {
    values: &'a mut [E],
    codes: &'a [u8],
    line: Line,
}

impl<E: Stored> WithSimd for Dequantize<'_, E> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _simd: S) {
        let Line { scale, offset } = self.line;
        let values = self.values.iter_mut().zip(self.codes);
        values.for_each(|(value, code)| *value = E::from_f32(scale * f32::from(*code) + offset));
    }
}
