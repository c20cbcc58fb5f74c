//! Attention forward: one sweep over the keys with a running softmax.

use std::f32::consts::{LN_2, LOG2_E};

use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

use super::panel::{Head, Place, Scratch, columns_bytes, groups_bytes, split_columns, split_groups, unpack};
use super::power::power_of_two;
use super::product::{BLOCK, Extent, Update, panel_width, sum_channels, sum_positions};
use super::shape::{AttentionShape, LANES, LISTS};
use crate::Stored;
use crate::parallel::busy;
use crate::simd::{load, store};
use crate::size::reach;

/// [`forward`](super::forward()) on one instruction set.
pub(crate) fn forward_on<E: Stored>(
    arch: Arch,
    shape: &AttentionShape,
    query: &[E],
    key: &[E],
    value: &[E],
    output: &mut [E],
) -> Vec<f32> {
    shape.check(&[query.len(), output.len()], &[key.len(), value.len()]);
    let AttentionShape { head_channels, query_positions, key_positions, .. } = *shape;
    let group = shape.group(query_positions);
    let groups = query_positions.div_ceil(group);
    let mut log_sum_exp = vec![0.0; shape.log_sum_exp_len()];
    let outputs = split_columns(output, head_channels, query_positions, group);
    let logarithms = split_groups(&mut log_sum_exp, query_positions, group);
    outputs.into_par_iter().zip(logarithms).enumerate().for_each_init(
        || Scratch::new(scratch_lens(head_channels, group)),
        |scratch, (task, (output, log_sum_exp))| {
            let head = task / groups;
            arch.dispatch(QueryGroup {
                query: Head::of(query, head, head_channels, query_positions),
                key: Head::of(key, head, head_channels, key_positions),
                value: Head::of(value, head, head_channels, key_positions),
                scale: shape.scale,
                start: task % groups * group,
                output,
                log_sum_exp,
                scratch,
            });
        },
    );
    log_sum_exp
}

/// Bytes that [`forward`](super::forward()) takes at most, without its inputs and outputs, in the current pool.
pub fn forward_workspace(shape: &AttentionShape) -> usize {
    let AttentionShape { batch_size, heads, head_channels, query_positions, .. } = *shape;
    let (group, heads) = (shape.group(query_positions), batch_size * heads);
    let lists =
        columns_bytes(heads, head_channels, query_positions, group) + groups_bytes(heads, query_positions, group);
    let threads = busy(heads * query_positions.div_ceil(group));
    LISTS + lists + threads * Scratch::bytes(scratch_lens(head_channels, group))
}

/// Blocks of keys and values; panels of queries and outputs; scores; greatest score and denominator of each query.
fn scratch_lens(head_channels: usize, group: usize) -> [usize; 7] {
    let (block, panels) = (BLOCK * head_channels, group * head_channels);
    [block, block, panels, panels, BLOCK * LANES, group, group]
}

/// A group of queries of one head, in the lanes of panels.
struct QueryGroup<'a, E> {
    query: Head<'a, E>,
    key: Head<'a, E>,
    value: Head<'a, E>,
    scale: f32,
    /// The first query.
    start: usize,
    /// One slice for each channel.
    output: Vec<&'a mut [E]>,
    log_sum_exp: &'a mut [f32],
    scratch: &'a mut Scratch<7>,
}

impl<E: Stored> WithSimd for QueryGroup<'_, E> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let (width, channels, len) = (panel_width::<S>(), self.output.len(), self.log_sum_exp.len());
        let [keys, values, queries, outputs, scores, maxima, sums] = self.scratch.parts();
        // Scores are in units of ln 2.
        self.query.pack(self.start, len, width, self.scale * LOG2_E, queries);
        outputs.fill(0.0);
        maxima.fill(f32::NEG_INFINITY);
        sums.fill(0.0);
        for first in (0..self.key.positions).step_by(BLOCK) {
            let block = BLOCK.min(self.key.positions - first);
            self.key.pack(first, block, BLOCK, 1.0, keys);
            self.value.pack(first, block, BLOCK, 1.0, values);
            for panel in 0..len.div_ceil(width) {
                let Place { lanes, values: place, vectors } = Place::of::<S>(panel, len, channels);
                let extent = Extent { positions: block, channels, vectors };
                sum_channels(simd, keys, &queries[place.clone()], extent, scores);
                let mut factors = [0.0; LANES];
                let statistics =
                    Statistics { maxima: &mut maxima[lanes.clone()], sums: &mut sums[lanes], factors: &mut factors };
                statistics.soften(simd, extent, scores);
                sum_positions(simd, values, scores, extent, Update::ScaleAdd(&factors), &mut outputs[place]);
            }
        }
        normalize(outputs, sums, width, channels);
        unpack(outputs, width, &mut self.output);
        for ((result, maximum), sum) in self.log_sum_exp.iter_mut().zip(maxima).zip(sums) {
            *result = *maximum * LN_2 + sum.ln();
        }
    }
}

/// The running softmax of a panel of queries.
pub(super) struct Statistics<'a> {
    /// The greatest score so far.
    pub maxima: &'a mut [f32],
    /// The sum of the powers so far, relative to the greatest.
    pub sums: &'a mut [f32],
    /// What the last block made of all before it.
    pub factors: &'a mut [f32],
}

impl Statistics<'_> {
    /// Turns a block of scores into powers relative to the greatest score so far.
    #[inline(always)]
    pub fn soften<S: Simd>(self, simd: S, extent: Extent, scores: &mut [f32]) {
        let (width, used) = (panel_width::<S>(), extent.vectors * S::F32_LANES);
        assert!(reach(extent.positions, width, used) <= scores.len());
        assert!(used <= self.maxima.len() && used <= self.sums.len() && used <= self.factors.len());
        for lane in (0..used).step_by(S::F32_LANES) {
            let column = scores.as_mut_ptr().wrapping_add(lane);
            // SAFETY: vectors inside the lengths that were just checked.
            unsafe {
                let before = load::<S>(self.maxima.as_ptr().add(lane));
                let mut maximum = before;
                for row in 0..extent.positions {
                    maximum = simd.max_f32s(maximum, load::<S>(column.add(row * width)));
                }
                let mut sum = simd.splat_f32s(0.0);
                for row in 0..extent.positions {
                    let score = column.add(row * width);
                    let power = power_of_two(simd, simd.sub_f32s(load::<S>(score), maximum));
                    sum = simd.add_f32s(sum, power);
                    store::<S>(score, power);
                }
                let factor = power_of_two(simd, simd.sub_f32s(before, maximum));
                let sums = self.sums.as_mut_ptr().add(lane);
                store::<S>(sums, simd.mul_add_e_f32s(load::<S>(sums), factor, sum));
                store::<S>(self.maxima.as_mut_ptr().add(lane), maximum);
                store::<S>(self.factors.as_mut_ptr().add(lane), factor);
            }
        }
    }
}

/// Divides each lane of the panels by its sum.
#[inline(always)]
pub(super) fn normalize(panels: &mut [f32], sums: &[f32], width: usize, channels: usize) {
    for (panel, sums) in panels.chunks_exact_mut(width * channels).zip(sums.chunks_exact(width)) {
        for row in panel.chunks_exact_mut(width) {
            row.iter_mut().zip(sums).for_each(|(value, sum)| *value /= sum);
        }
    }
}
