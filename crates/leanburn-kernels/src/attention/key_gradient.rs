//! The gradients of a group of keys and values: these in the lanes, queries as scalars one after the other.

use std::f32::consts::{LN_2, LOG2_E};

use pulp::{Simd, WithSimd};

use super::panel::{Head, Place, Scratch, unpack};
use super::product::{BLOCK, Extent, Update, panel_width, sum_channels, sum_positions};
use super::score::differentiate;
use super::shape::LANES;
use crate::Stored;
use crate::simd::{load, store};
use crate::size::reach;

/// A group of keys and their values, of one head.
pub(super) struct KeyGradient<'a, E> {
    pub query: Head<'a, E>,
    pub key: Head<'a, E>,
    pub value: Head<'a, E>,
    /// Of the output.
    pub gradient: Head<'a, E>,
    /// Of all queries.
    pub log_sum_exp: &'a [f32],
    /// The sum over channels of `gradient * output`, for all queries.
    pub projections: &'a [f32],
    pub scale: f32,
    /// The first key.
    pub start: usize,
    /// One slice for each channel.
    pub key_gradient: Vec<&'a mut [E]>,
    /// One slice for each channel.
    pub value_gradient: Vec<&'a mut [E]>,
    pub scratch: &'a mut Scratch<8>,
}

impl<E: Stored> KeyGradient<'_, E> {
    /// Blocks of queries and outputs' gradients; panels of keys, values and the gradients of both; scores and
    /// probabilities' gradients.
    pub fn scratch_lens(head_channels: usize, group: usize) -> [usize; 8] {
        let (block, panels, tile) = (BLOCK * head_channels, group * head_channels, BLOCK * LANES);
        [block, block, panels, panels, panels, panels, tile, tile]
    }
}

impl<E: Stored> WithSimd for KeyGradient<'_, E> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let (width, channels, len) = (panel_width::<S>(), self.key_gradient.len(), self.key_gradient[0].len());
        let [queries, gradients, keys, values, key_sums, value_sums, scores, products] = self.scratch.parts();
        self.key.pack(self.start, len, width, 1.0, keys);
        self.value.pack(self.start, len, width, 1.0, values);
        key_sums.fill(0.0);
        value_sums.fill(0.0);
        for first in (0..self.query.positions).step_by(BLOCK) {
            let block = BLOCK.min(self.query.positions - first);
            // Scaled here too, so that the scores are those of the forward pass to the bit.
            self.query.pack(first, block, BLOCK, self.scale * LOG2_E, queries);
            self.gradient.pack(first, block, BLOCK, 1.0, gradients);
            let (logarithms, projections) = (&self.log_sum_exp[first..], &self.projections[first..]);
            for panel in 0..len.div_ceil(width) {
                let Place { values: place, vectors, .. } = Place::of::<S>(panel, len, channels);
                let extent = Extent { positions: block, channels, vectors };
                sum_channels(simd, queries, &keys[place.clone()], extent, scores);
                sum_channels(simd, gradients, &values[place.clone()], extent, products);
                score_gradients(simd, extent, logarithms, projections, products, scores);
                sum_positions(simd, gradients, scores, extent, Update::Add, &mut value_sums[place.clone()]);
                sum_positions(simd, queries, products, extent, Update::Add, &mut key_sums[place]);
            }
        }
        // The queries carried scale / ln 2.
        key_sums.iter_mut().for_each(|sum| *sum *= LN_2);
        unpack(key_sums, width, &mut self.key_gradient);
        unpack(value_sums, width, &mut self.value_gradient);
    }
}

/// Turns scores into probabilities and probabilities' gradients into scores'; logarithms and projections belong to
/// the rows.
#[inline(always)]
pub(super) fn score_gradients<S: Simd>(
    simd: S,
    extent: Extent,
    logarithms: &[f32],
    projections: &[f32],
    products: &mut [f32],
    scores: &mut [f32],
) {
    let (width, used) = (panel_width::<S>(), extent.vectors * S::F32_LANES);
    let last = reach(extent.positions, width, used);
    assert!(last <= scores.len() && last <= products.len());
    for (row, (logarithm, projection)) in logarithms.iter().zip(projections).take(extent.positions).enumerate() {
        let (logarithm, projection) = (simd.splat_f32s(*logarithm), simd.splat_f32s(*projection));
        for place in (0..used).step_by(S::F32_LANES).map(|lane| row * width + lane) {
            // SAFETY: vectors inside the lengths that were just checked.
            unsafe {
                let (score, product) = (scores.as_mut_ptr().add(place), products.as_mut_ptr().add(place));
                let (probability, gradient) =
                    differentiate(simd, load::<S>(score), logarithm, load::<S>(product), projection);
                store::<S>(score, probability);
                store::<S>(product, gradient);
            }
        }
    }
}
