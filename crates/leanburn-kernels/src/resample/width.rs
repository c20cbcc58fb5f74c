//! The map of the last axis, within one row.
//!
//! Most maps repeat between their two ends: at twice the size every other output has the same weights, one input further
//! on. Such a stretch becomes vector code; the ends, and maps that do not repeat, go output by output.

use std::ops::Range;

use pulp::{Simd, WithSimd};

use crate::axis_map::AxisMap;

/// Most weights in a run of a repeating map that becomes vector code.
const MOST_TAPS: usize = 4;

/// A map of the last axis, and how it repeats.
pub(super) struct WidthMap<'a> {
    pub map: &'a AxisMap,
    kind: Kind,
}

/// How a map repeats.
enum Kind {
    Identity,
    /// `map(output + up)` is `map(output)`, `down` inputs further on, for these outputs, a multiple of `up` of them.
    Periodic {
        outputs: Range<usize>,
        up: usize,
        down: usize,
    },
    Irregular,
}

impl<'a> WidthMap<'a> {
    /// Finds out how the map repeats.
    pub(super) fn new(map: &'a AxisMap) -> Self {
        if map.is_identity() {
            return Self { map, kind: Kind::Identity };
        }
        let kind = [(1, 1), (1, 2), (2, 1)].into_iter().find_map(|(up, down)| {
            let outputs = repetition(map, up, down)?;
            (2 * outputs.len() >= map.output_len()).then_some(Kind::Periodic { outputs, up, down })
        });
        Self { map, kind: kind.unwrap_or(Kind::Irregular) }
    }

    /// The outputs that become vector code.
    #[cfg(test)]
    pub(super) fn repeats(&self) -> Option<Range<usize>> {
        match &self.kind {
            Kind::Periodic { outputs, .. } => Some(outputs.clone()),
            _ => None,
        }
    }

    /// Writes the map of the row `input`.
    #[inline(always)]
    pub(super) fn apply<S: Simd>(&self, simd: S, input: &[f32], output: &mut [f32]) {
        match self.kind {
            Kind::Identity => output.copy_from_slice(input),
            // A call, so that this code is there once for each instruction set.
            _ => simd.vectorize(Apply { width: self, input, output }),
        }
    }
}

/// The longest stretch around the middle in which the map repeats, all runs of it of the same length.
fn repetition(map: &AxisMap, up: usize, down: usize) -> Option<Range<usize>> {
    let middle = map.output_len() / 2;
    let taps = map.run(middle).1.len();
    let repeats = |output: usize| {
        let ((start, weights), (next, next_weights)) = (map.run(output), map.run(output + up));
        weights.len() == taps && next == start + down && weights == next_weights
    };
    let mut outputs = middle..middle;
    while outputs.end + up < map.output_len() && repeats(outputs.end) {
        outputs.end += 1;
    }
    while outputs.start > 0 && outputs.start + up - 1 < outputs.end && repeats(outputs.start - 1) {
        outputs.start -= 1;
    }
    // The last outputs that repeated are followed by those that they were compared with.
    let end = outputs.end + up;
    let whole = outputs.start..end - (end - outputs.start) % up;
    ((1..=MOST_TAPS).contains(&taps) && outputs.len() >= up).then_some(whole)
}

/// Applies a map to a row.
struct Apply<'a> {
    width: &'a WidthMap<'a>,
    input: &'a [f32],
    output: &'a mut [f32],
}

impl WithSimd for Apply<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { width: WidthMap { map, kind }, input, output } = self;
        let Kind::Periodic { outputs, up, down } = kind else {
            return irregular(map, 0..map.output_len(), input, output);
        };
        irregular(map, 0..outputs.start, input, output);
        irregular(map, outputs.end..map.output_len(), input, output);
        let taps = map.run(outputs.start).1.len();
        let inner = &mut output[outputs.clone()];
        match (up, down, taps) {
            (1, 1, 1) => periodic::<1, 1, 1>(map, outputs.start, input, inner),
            (1, 1, 2) => periodic::<1, 1, 2>(map, outputs.start, input, inner),
            (1, 1, 3) => periodic::<1, 1, 3>(map, outputs.start, input, inner),
            (1, 2, 1) => periodic::<1, 2, 1>(map, outputs.start, input, inner),
            (1, 2, 2) => periodic::<1, 2, 2>(map, outputs.start, input, inner),
            (1, 2, 3) => periodic::<1, 2, 3>(map, outputs.start, input, inner),
            (1, 2, 4) => periodic::<1, 2, 4>(map, outputs.start, input, inner),
            (2, 1, 1) => periodic::<2, 1, 1>(map, outputs.start, input, inner),
            (2, 1, 2) => periodic::<2, 1, 2>(map, outputs.start, input, inner),
            _ => irregular(map, outputs.clone(), input, output),
        }
    }
}

/// The outputs from `first` on of a map that repeats.
#[inline(always)]
fn periodic<const UP: usize, const DOWN: usize, const TAPS: usize>(
    map: &AxisMap,
    first: usize,
    input: &[f32],
    output: &mut [f32],
) {
    let (groups, _) = output.as_chunks_mut::<UP>();
    let mut weights = [[0.0; TAPS]; UP];
    let mut sources: [&[f32]; UP] = [&[]; UP];
    for phase in 0..UP {
        let (start, run) = map.run(first + phase);
        weights[phase].copy_from_slice(run);
        sources[phase] = &input[start..][..DOWN * (groups.len() - 1) + TAPS];
    }
    for (index, group) in groups.iter_mut().enumerate() {
        for ((value, weights), source) in group.iter_mut().zip(&weights).zip(&sources) {
            let mut sum = 0.0;
            for (tap, weight) in weights.iter().enumerate() {
                // SAFETY: `index` is at most the number of groups less one, and the source was cut to end with its last tap.
                sum += weight * unsafe { source.get_unchecked(DOWN * index + tap) };
            }
            *value = sum;
        }
    }
}

/// Some outputs, one by one.
#[inline(always)]
fn irregular(map: &AxisMap, outputs: Range<usize>, input: &[f32], output: &mut [f32]) {
    for index in outputs {
        let (start, weights) = map.run(index);
        output[index] = match *weights {
            [weight] => weight * input[start],
            [first, second] => first * input[start] + second * input[start + 1],
            _ => dot(weights, &input[start..start + weights.len()]),
        };
    }
}

/// The inner product, in 16 partial sums where it is long.
#[inline(always)]
fn dot(weights: &[f32], values: &[f32]) -> f32 {
    let (weights, last_weights) = weights.as_chunks::<16>();
    let (values, last_values) = values.as_chunks::<16>();
    let mut total = last_weights.iter().zip(last_values).map(|(weight, value)| weight * value).sum::<f32>();
    if !weights.is_empty() {
        let mut sums = [0.0; 16];
        for (weights, values) in weights.iter().zip(values) {
            for lane in 0..16 {
                sums[lane] += weights[lane] * values[lane];
            }
        }
        total += sums.iter().sum::<f32>();
    }
    total
}
