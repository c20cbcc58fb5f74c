//! Attention in windows backward: in each window a sweep with queries in the lanes, then one with keys.

use std::f32::consts::{LN_2, LOG2_E};
use std::ops::Range;

use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

use super::bias::{Bias, Tile};
use super::forward::{Common, WindowOperands};
use super::places::Places;
use super::shape::WindowShape;
use crate::Stored;
use crate::attention::key_gradient::score_gradients as gradients_by_row;
use crate::attention::panel::{Place, Scratch};
use crate::attention::product::{BLOCK, Extent, Update, panel_width, sum_channels, sum_positions};
use crate::attention::query_gradient::{project, score_gradients as gradients_by_lane};
use crate::attention::shape::{LANES, LISTS};
use crate::parallel::busy;
use crate::shared::Shared;
use crate::size::{product, sum, whole};

/// Where the gradients of queries, keys and values go; every element is written.
#[derive(Debug)]
pub struct WindowGradients<'a, E> {
    /// `[batch_size, heads * head_channels, depth, height, width]`.
    pub query: &'a mut [E],
    /// The same.
    pub key: &'a mut [E],
    /// The same.
    pub value: &'a mut [E],
}

/// The gradients of the parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct ParameterGradients {
    /// Of the table of biases, `[rows, heads]`.
    pub table: Vec<f32>,
    /// Of the key and the value of positions outside of the volume, `[heads * head_channels]` each.
    pub padding: [Vec<f32>; 2],
}

/// What forward gave, and the gradient of its output.
#[derive(Clone, Copy, Debug)]
pub(super) struct Results<'a, E> {
    output: &'a [E],
    log_sum_exp: &'a [f32],
    gradient: &'a [E],
}

/// [`backward`](super::backward()) on one instruction set.
pub(crate) fn backward_on<E: Stored>(
    arch: Arch,
    shape: &WindowShape,
    operands: WindowOperands<'_, E>,
    (output, log_sum_exp): (&[E], &[f32]),
    gradient: &[E],
    gradients: WindowGradients<'_, E>,
) -> ParameterGradients {
    let WindowGradients { query, key, value } = gradients;
    operands.check(shape, &[output.len(), gradient.len(), query.len(), key.len(), value.len()]);
    assert_eq!(log_sum_exp.len(), shape.log_sum_exp_len(), "log_sum_exp of {shape:?}");
    let common = Common::new(shape, operands);
    let results = Results { output, log_sum_exp, gradient };
    let targets = [query, key, value].map(Shared::new);
    let tasks = shape.all_heads() * shape.tasks_of_head();
    let mut sums = vec![0.0; tasks * sums_len(shape)];
    sums.par_chunks_mut(sums_len(shape)).enumerate().for_each_init(
        || (Scratch::new(scratch_lens(shape)), Places::new(shape)),
        |(scratch, places), (task, sums)| {
            let (head, windows) = common.part(task);
            let (common, targets) = (&common, &targets);
            arch.dispatch(Windows { common, results, head, windows, targets, sums, scratch, places });
        },
    );
    add_up(shape, &sums)
}

/// Bytes that [`backward`](super::backward()) takes at most, without its inputs and outputs, in the current pool.
pub fn backward_workspace(shape: &WindowShape) -> usize {
    let of_thread = sum(&[Scratch::bytes(scratch_lens(shape)), Places::bytes(shape)]);
    let tasks = shape.all_heads() * shape.tasks_of_head();
    let of_tasks = product(&[tasks, sums_len(shape), size_of::<f64>()]);
    // The sums are added up when the threads are done; there are as many heads at most as tasks.
    let totals = product(&[shape.heads, sums_len(shape), size_of::<f64>()]);
    sum(&[LISTS, Common::<f32>::bytes(shape), of_tasks, product(&[busy(tasks), of_thread]).max(totals)])
}

/// Sums of a task: for each row of the table, and for each channel of the key and of the value outside.
fn sums_len(shape: &WindowShape) -> usize {
    shape.table_rows() + 2 * shape.head_channels
}

/// The sums of all tasks, in their order.
fn add_up(shape: &WindowShape, sums: &[f64]) -> ParameterGradients {
    let (rows, heads, channels) = (shape.table_rows(), shape.heads, shape.head_channels);
    let mut totals = vec![0.0; heads * sums_len(shape)];
    for (task, sums) in sums.chunks_exact(sums_len(shape)).enumerate() {
        let head = task / shape.tasks_of_head() % heads;
        let totals = &mut totals[head * sums_len(shape)..][..sums.len()];
        totals.iter_mut().zip(sums).for_each(|(total, sum)| *total += sum);
    }
    let total = |head: usize, index: usize| totals[head * sums_len(shape) + index] as f32;
    let padding = |first| (0..heads * channels).map(|c| total(c / channels, first + c % channels)).collect();
    ParameterGradients {
        table: (0..rows * heads).map(|index| total(index % heads, index / heads)).collect(),
        padding: [padding(rows), padding(rows + channels)],
    }
}

/// Blocks of queries, keys, values and outputs' gradients; panels of the same and of two results; scores and probabilities'
/// gradients; logarithm and projection of each query.
fn scratch_lens(shape: &WindowShape) -> [usize; 14] {
    let (channels, tokens) = (shape.head_channels, shape.tokens());
    let [block, panels] = [BLOCK, LANES].map(|width| whole(tokens, width) * channels);
    let (tile, lanes) = (BLOCK * LANES, whole(tokens, LANES));
    [block, block, block, block, panels, panels, panels, panels, panels, panels, tile, tile, lanes, lanes]
}

/// Some windows of one head.
struct Windows<'a, E> {
    common: &'a Common<'a, E>,
    results: Results<'a, E>,
    head: usize,
    windows: Range<usize>,
    /// The gradients of queries, keys and values.
    targets: &'a [Shared<'a, E>; 3],
    sums: &'a mut [f64],
    scratch: &'a mut Scratch<14>,
    places: &'a mut Places,
}

impl<E: Stored> WithSimd for Windows<'_, E> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        for window in self.windows.clone() {
            self.places.set(&self.common.shape, window);
            self.gather::<S>();
            self.query_sweep(simd);
            self.key_sweep(simd);
        }
    }
}

impl<E: Stored> Windows<'_, E> {
    /// Takes everything of the window; queries carry the scale and are in units of ln 2.
    #[inline(always)]
    fn gather<S: Simd>(&mut self) {
        let Self { common, results, head, places, scratch, .. } = self;
        let (shape, operands, [key_padding, value_padding]) = (&common.shape, &common.operands, common.padding(*head));
        let [query, key, value] =
            [operands.query, operands.key, operands.value].map(|volume| common.head(volume, *head));
        let [output, gradient] = [results.output, results.gradient].map(|volume| common.head(volume, *head));
        let width = panel_width::<S>();
        let [
            queries,
            keys,
            values,
            gradients,
            query_panels,
            key_panels,
            value_panels,
            gradient_panels,
            outputs,
            _,
            _,
            _,
            logarithms,
            projections,
        ] = scratch.parts();
        let scale = shape.scale * LOG2_E;
        for (blocks, panels, volume, padding, factor) in [
            (queries, query_panels, query, key_padding, scale),
            (keys, key_panels, key, key_padding, 1.0),
            (values, value_panels, value, value_padding, 1.0),
        ] {
            places.gather(volume, padding, BLOCK, factor, blocks);
            places.gather(volume, padding, width, factor, panels);
        }
        places.gather(gradient, value_padding, BLOCK, 1.0, gradients);
        places.gather(gradient, value_padding, width, 1.0, gradient_panels);
        places.gather(output, value_padding, width, 1.0, outputs);
        project(gradient_panels, outputs, width, shape.head_channels, projections);
        // Nobody asks for the output of a query outside: its probabilities are zero.
        let of_head = &results.log_sum_exp[*head * shape.positions()..][..shape.positions()];
        for (logarithm, place) in logarithms.iter_mut().zip(&places.of) {
            *logarithm = of_head.get(*place).copied().unwrap_or(f32::INFINITY);
        }
    }

    /// The gradients of the queries and of the table.
    #[inline(always)]
    fn query_sweep<S: Simd>(&mut self, simd: S) {
        let Self { common, head, places, scratch, sums, targets, .. } = self;
        let (shape, width) = (&common.shape, panel_width::<S>());
        let (channels, tokens, rows) = (shape.head_channels, shape.tokens(), shape.table_rows());
        let bias = Bias { table: common.table(*head), codes: &common.codes, places };
        let [_, keys, values, _, queries, _, _, gradients, results, _, scores, products, logarithms, projections] =
            scratch.parts();
        results.fill(0.0);
        for panel in 0..tokens.div_ceil(width) {
            let Place { lanes, values: place, vectors } = Place::of::<S>(panel, tokens, channels);
            for first in (0..tokens).step_by(BLOCK) {
                let extent = Extent { positions: BLOCK.min(tokens - first), channels, vectors };
                let tile =
                    Tile { rows: first..first + extent.positions, lanes: lanes.start..lanes.end.min(tokens), width };
                let (keys, values) = (&keys[first * channels..], &values[first * channels..]);
                sum_channels(simd, keys, &queries[place.clone()], extent, scores);
                bias.add::<true>(&tile, scores);
                sum_channels(simd, values, &gradients[place.clone()], extent, products);
                let (logarithms, projections) = (&logarithms[lanes.clone()], &projections[lanes.clone()]);
                gradients_by_lane(simd, extent, logarithms, projections, products, scores);
                bias.add_gradient(&tile, scores, &mut sums[..rows]);
                sum_positions(simd, keys, scores, extent, Update::Add, &mut results[place.clone()]);
            }
        }
        results.iter_mut().for_each(|sum| *sum *= shape.scale);
        // SAFETY: each window of each head is in one task.
        unsafe { places.scatter(results, [channels, width], common.strides(*head), &targets[0]) };
    }

    /// The gradients of the keys and values, inside and outside of the volume.
    #[inline(always)]
    fn key_sweep<S: Simd>(&mut self, simd: S) {
        let Self { common, head, places, scratch, sums, targets, .. } = self;
        let (shape, width) = (&common.shape, panel_width::<S>());
        let (channels, tokens, rows) = (shape.head_channels, shape.tokens(), shape.table_rows());
        let bias = Bias { table: common.table(*head), codes: &common.codes, places };
        let [
            queries,
            _,
            _,
            gradients,
            _,
            keys,
            values,
            _,
            key_sums,
            value_sums,
            scores,
            products,
            logarithms,
            projections,
        ] = scratch.parts();
        key_sums.fill(0.0);
        value_sums.fill(0.0);
        for panel in 0..tokens.div_ceil(width) {
            let Place { lanes, values: place, vectors } = Place::of::<S>(panel, tokens, channels);
            for first in (0..tokens).step_by(BLOCK) {
                let extent = Extent { positions: BLOCK.min(tokens - first), channels, vectors };
                let tile =
                    Tile { rows: first..first + extent.positions, lanes: lanes.start..lanes.end.min(tokens), width };
                let (queries, gradients) = (&queries[first * channels..], &gradients[first * channels..]);
                sum_channels(simd, queries, &keys[place.clone()], extent, scores);
                bias.add::<false>(&tile, scores);
                sum_channels(simd, gradients, &values[place.clone()], extent, products);
                gradients_by_row(simd, extent, &logarithms[first..], &projections[first..], products, scores);
                sum_positions(simd, gradients, scores, extent, Update::Add, &mut value_sums[place.clone()]);
                sum_positions(simd, queries, products, extent, Update::Add, &mut key_sums[place.clone()]);
            }
        }
        // The queries carried scale / ln 2.
        key_sums.iter_mut().for_each(|sum| *sum *= LN_2);
        let (of_keys, of_values) = sums[rows..].split_at_mut(channels);
        places.add_outside(key_sums, width, of_keys);
        places.add_outside(value_sums, width, of_values);
        for (results, target) in [(key_sums, &targets[1]), (value_sums, &targets[2])] {
            // SAFETY: each window of each head is in one task.
            unsafe { places.scatter(results, [channels, width], common.strides(*head), target) };
        }
    }
}
