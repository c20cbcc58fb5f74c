//! Attention in windows forward.

use std::f32::consts::{LN_2, LOG2_E};
use std::ops::Range;

use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

use super::bias::{Bias, Codes, Tile, by_head};
use super::places::{OUTSIDE, Places};
use super::shape::WindowShape;
use crate::Stored;
use crate::attention::forward::{Statistics, normalize};
use crate::attention::panel::{Place, Scratch};
use crate::attention::product::{BLOCK, Extent, Update, panel_width, sum_channels, sum_positions};
use crate::attention::shape::{LANES, LISTS};
use crate::parallel::busy;
use crate::shared::Shared;
use crate::size::{product, sum, whole};

/// What an attention in windows is computed from.
#[derive(Clone, Copy, Debug)]
pub struct WindowOperands<'a, E> {
    /// `[batch_size, heads * head_channels, depth, height, width]`.
    pub query: &'a [E],
    /// The same.
    pub key: &'a [E],
    /// The same.
    pub value: &'a [E],
    /// The bias of each relative position, `[rows, heads]`.
    pub table: &'a [f32],
    /// The key and the value of positions outside of the volume, `[heads * head_channels]` each.
    pub padding: [&'a [f32]; 2],
}

impl<E> WindowOperands<'_, E> {
    /// Panics unless these and other volumes have the lengths of the shape.
    pub(super) fn check(&self, shape: &WindowShape, volumes: &[usize]) {
        let padding = self.padding.map(<[f32]>::len);
        shape.check(&[self.query.len(), self.key.len(), self.value.len()], self.table.len(), padding);
        shape.check(volumes, self.table.len(), padding);
    }
}

/// What all tasks have.
pub(super) struct Common<'a, E> {
    pub shape: WindowShape,
    pub operands: WindowOperands<'a, E>,
    /// `[heads, rows]`.
    pub tables: Vec<f32>,
    pub codes: Codes,
}

impl<'a, E: Stored> Common<'a, E> {
    pub fn new(shape: &WindowShape, operands: WindowOperands<'a, E>) -> Self {
        Self { shape: *shape, operands, tables: by_head(shape, operands.table), codes: Codes::new(shape) }
    }

    /// Bytes of the lists.
    pub fn bytes(shape: &WindowShape) -> usize {
        sum(&[product(&[shape.table_len(), size_of::<f32>()]), Codes::bytes(shape)])
    }

    /// The head of a task, among those of the batch, and its windows.
    pub fn part(&self, task: usize) -> (usize, Range<usize>) {
        let tasks = self.shape.tasks_of_head();
        (task / tasks, self.shape.windows_of(task % tasks))
    }

    /// One head of a volume.
    pub fn head<'b>(&self, volume: &'b [E], head: usize) -> &'b [E] {
        let len = self.shape.head_channels * self.shape.positions();
        &volume[head * len..][..len]
    }

    /// The biases of a head.
    pub fn table(&self, head: usize) -> &[f32] {
        let rows = self.shape.table_rows();
        &self.tables[head % self.shape.heads * rows..][..rows]
    }

    /// The key and the value of positions outside, for the channels of a head.
    pub fn padding(&self, head: usize) -> [&'a [f32]; 2] {
        let channels = self.shape.head_channels;
        self.operands.padding.map(|padding| &padding[head % self.shape.heads * channels..][..channels])
    }

    /// The first element of a head and the distance between its channels.
    pub fn strides(&self, head: usize) -> [usize; 2] {
        let positions = self.shape.positions();
        [head * self.shape.head_channels * positions, positions]
    }
}

/// [`forward`](super::forward()) on one instruction set.
pub(crate) fn forward_on<E: Stored>(
    arch: Arch,
    shape: &WindowShape,
    operands: WindowOperands<'_, E>,
    output: &mut [E],
) -> Vec<f32> {
    operands.check(shape, &[output.len()]);
    let mut log_sum_exp = vec![0.0; shape.log_sum_exp_len()];
    let common = Common::new(shape, operands);
    let (output, logarithms) = (Shared::new(output), Shared::new(&mut log_sum_exp));
    (0..shape.all_heads() * shape.tasks_of_head()).into_par_iter().for_each_init(
        || (Scratch::new(scratch_lens(shape)), Places::new(shape)),
        |(scratch, places), task| {
            let (head, windows) = common.part(task);
            let (common, output, logarithms) = (&common, &output, &logarithms);
            arch.dispatch(Windows { common, head, windows, output, logarithms, scratch, places });
        },
    );
    log_sum_exp
}

/// Bytes that [`forward`](super::forward()) takes at most, without its inputs and outputs, in the current pool.
pub fn forward_workspace(shape: &WindowShape) -> usize {
    let of_thread = sum(&[Scratch::bytes(scratch_lens(shape)), Places::bytes(shape)]);
    let threads = busy(shape.all_heads() * shape.tasks_of_head());
    sum(&[LISTS, Common::<f32>::bytes(shape), product(&[threads, of_thread])])
}

/// Blocks of keys and values; panels of queries and outputs; scores; greatest score and denominator of each query.
fn scratch_lens(shape: &WindowShape) -> [usize; 7] {
    let (channels, tokens) = (shape.head_channels, shape.tokens());
    let (blocks, lanes) = (whole(tokens, BLOCK), whole(tokens, LANES));
    let [block, panels] = [blocks * channels, lanes * channels];
    [block, block, panels, panels, BLOCK * LANES, lanes, lanes]
}

/// Some windows of one head.
struct Windows<'a, E> {
    common: &'a Common<'a, E>,
    head: usize,
    windows: Range<usize>,
    output: &'a Shared<'a, E>,
    logarithms: &'a Shared<'a, f32>,
    scratch: &'a mut Scratch<7>,
    places: &'a mut Places,
}

impl<E: Stored> WithSimd for Windows<'_, E> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { common, head, windows, output, logarithms, scratch, places } = self;
        let (shape, operands, padding) = (&common.shape, &common.operands, common.padding(head));
        let (width, channels, tokens) = (panel_width::<S>(), shape.head_channels, shape.tokens());
        let [query, key, value] =
            [operands.query, operands.key, operands.value].map(|volume| common.head(volume, head));
        let [keys, values, queries, outputs, scores, maxima, sums] = scratch.parts();
        for window in windows {
            places.set(shape, window);
            // Scores are in units of ln 2. A query outside is nobody's.
            places.gather(query, padding[0], width, shape.scale * LOG2_E, queries);
            places.gather(key, padding[0], BLOCK, 1.0, keys);
            places.gather(value, padding[1], BLOCK, 1.0, values);
            outputs.fill(0.0);
            maxima.fill(f32::NEG_INFINITY);
            sums.fill(0.0);
            let bias = Bias { table: common.table(head), codes: &common.codes, places };
            for panel in 0..tokens.div_ceil(width) {
                let Place { lanes, values: place, vectors } = Place::of::<S>(panel, tokens, channels);
                for first in (0..tokens).step_by(BLOCK) {
                    let extent = Extent { positions: BLOCK.min(tokens - first), channels, vectors };
                    let tile = Tile {
                        rows: first..first + extent.positions,
                        lanes: lanes.start..lanes.end.min(tokens),
                        width,
                    };
                    sum_channels(simd, &keys[first * channels..], &queries[place.clone()], extent, scores);
                    bias.add::<true>(&tile, scores);
                    let mut factors = [0.0; LANES];
                    let (maxima, sums) = (&mut maxima[lanes.clone()], &mut sums[lanes.clone()]);
                    Statistics { maxima, sums, factors: &mut factors }.soften(simd, extent, scores);
                    let update = Update::ScaleAdd(&factors);
                    sum_positions(
                        simd,
                        &values[first * channels..],
                        scores,
                        extent,
                        update,
                        &mut outputs[place.clone()],
                    );
                }
            }
            normalize(outputs, sums, width, channels);
            // SAFETY: each window of each head is in one task.
            unsafe { places.scatter(outputs, [channels, width], common.strides(head), output) };
            for ((maximum, sum), place) in maxima.iter().zip(sums.iter()).zip(&places.of) {
                if *place != OUTSIDE {
                    // SAFETY: as above.
                    let logarithm = unsafe { logarithms.piece(head * shape.positions() + place, 1) };
                    logarithm[0] = *maximum * LN_2 + sum.ln();
                }
            }
        }
    }
}
