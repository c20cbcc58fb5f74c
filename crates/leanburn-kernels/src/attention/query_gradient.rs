//! The gradient of a group of queries: queries in the lanes, keys and values as scalars one after the other.

use std::f32::consts::LOG2_E;

use pulp::{Simd, WithSimd};

use super::panel::{Head, Place, Scratch, unpack};
use super::product::{BLOCK, Extent, Update, panel_width, sum_channels, sum_positions};
use super::score::differentiate;
use super::shape::LANES;
use crate::Stored;
use crate::simd::{load, store};
use crate::size::reach;

/// A group of queries of one head.
pub(super) struct QueryGradient<'a, E> {
    pub query: Head<'a, E>,
    pub key: Head<'a, E>,
    pub value: Head<'a, E>,
    pub output: Head<'a, E>,
    /// Of the output.
    pub gradient: Head<'a, E>,
    /// Of the queries of the group.
    pub log_sum_exp: &'a [f32],
    pub scale: f32,
    /// The first query.
    pub start: usize,
    /// One slice for each channel.
    pub query_gradient: Vec<&'a mut [E]>,
    /// The sum over channels of `gradient * output`, for each query.
    pub projections: &'a mut [f32],
    pub scratch: &'a mut Scratch<9>,
}

impl<E: Stored> QueryGradient<'_, E> {
    /// Blocks of keys and values; panels of queries, outputs' gradients and queries' gradients; scores and
    /// probabilities' gradients; logarithms and projections.
    pub fn scratch_lens(head_channels: usize, group: usize) -> [usize; 9] {
        let (block, panels, tile) = (BLOCK * head_channels, group * head_channels, BLOCK * LANES);
        [block, block, panels, panels, panels, tile, tile, group, group]
    }
}

impl<E: Stored> WithSimd for QueryGradient<'_, E> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let (width, channels, len) = (panel_width::<S>(), self.query_gradient.len(), self.projections.len());
        let [keys, values, queries, gradients, sums, scores, products, logarithms, projections] = self.scratch.parts();
        self.query.pack(self.start, len, width, self.scale * LOG2_E, queries);
        self.gradient.pack(self.start, len, width, 1.0, gradients);
        self.output.pack(self.start, len, width, 1.0, sums);
        project(gradients, sums, width, channels, projections);
        self.projections.copy_from_slice(&projections[..len]);
        logarithms[..len].copy_from_slice(self.log_sum_exp);
        sums.fill(0.0);
        for first in (0..self.key.positions).step_by(BLOCK) {
            let block = BLOCK.min(self.key.positions - first);
            self.key.pack(first, block, BLOCK, 1.0, keys);
            self.value.pack(first, block, BLOCK, 1.0, values);
            for panel in 0..len.div_ceil(width) {
                let Place { lanes, values: place, vectors } = Place::of::<S>(panel, len, channels);
                let extent = Extent { positions: block, channels, vectors };
                sum_channels(simd, keys, &queries[place.clone()], extent, scores);
                sum_channels(simd, values, &gradients[place.clone()], extent, products);
                score_gradients(simd, extent, &logarithms[lanes.clone()], &projections[lanes], products, scores);
                sum_positions(simd, keys, scores, extent, Update::Add, &mut sums[place]);
            }
        }
        sums.iter_mut().for_each(|sum| *sum *= self.scale);
        unpack(sums, width, &mut self.query_gradient);
    }
}

/// The sum over channels of `gradient * output`, for each lane of the panels.
#[inline(always)]
pub(super) fn project(gradients: &[f32], outputs: &[f32], width: usize, channels: usize, projections: &mut [f32]) {
    projections.fill(0.0);
    let panels = gradients.chunks_exact(width * channels).zip(outputs.chunks_exact(width * channels));
    for ((gradients, outputs), projections) in panels.zip(projections.chunks_exact_mut(width)) {
        for (gradients, outputs) in gradients.chunks_exact(width).zip(outputs.chunks_exact(width)) {
            let terms = gradients.iter().zip(outputs);
            projections.iter_mut().zip(terms).for_each(|(sum, (gradient, output))| *sum += gradient * output);
        }
    }
}

/// Turns scores into their gradients; logarithms and projections belong to the lanes.
#[inline(always)]
pub(super) fn score_gradients<S: Simd>(
    simd: S,
    extent: Extent,
    logarithms: &[f32],
    projections: &[f32],
    products: &[f32],
    scores: &mut [f32],
) {
    let (width, used) = (panel_width::<S>(), extent.vectors * S::F32_LANES);
    let last = reach(extent.positions, width, used);
    assert!(last <= scores.len() && last <= products.len() && used <= logarithms.len() && used <= projections.len());
    for lane in (0..used).step_by(S::F32_LANES) {
        // SAFETY: vectors inside the lengths that were just checked.
        unsafe {
            let logarithm = load::<S>(logarithms.as_ptr().add(lane));
            let projection = load::<S>(projections.as_ptr().add(lane));
            for place in (0..extent.positions).map(|row| row * width + lane) {
                let score = scores.as_mut_ptr().add(place);
                let product = load::<S>(products.as_ptr().add(place));
                store::<S>(score, differentiate(simd, load::<S>(score), logarithm, product, projection).1);
            }
        }
    }
}
