//! Plane by plane of the output, on any instruction set.

use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

use super::combine::{BLOCK, Rows, combine, combine_block};
use super::width::WidthMap;
use crate::Stored;
use crate::axis_map::AxisMap;
use crate::size::product;

/// Outputs that are worth a task.
const TASK: usize = 1 << 14;

/// [`resample`](crate::resample::resample()) with a given instruction set.
pub(crate) fn resample_on<E: Stored>(arch: Arch, items: usize, maps: [&AxisMap; 3], input: &[E], output: &mut [E]) {
    let volume = product(&maps.map(AxisMap::input_len));
    let [depth, height, width] = maps.map(AxisMap::output_len);
    let expected = [product(&[items, volume]), product(&[items, depth, height, width])];
    assert_eq!(input.len(), expected[0], "the input is [items, depth, height, width] of the maps");
    assert_eq!(output.len(), expected[1], "the output is [items, depth, height, width] of the maps");
    if output.is_empty() {
        return;
    }
    let plan = Plan::new(maps);
    output.par_chunks_mut(height * width).enumerate().with_min_len((TASK / (height * width)).max(1)).for_each_init(
        || Workspace::new::<E>(&plan),
        |workspace, (plane, output)| {
            let input = &input[plane / depth * volume..][..volume];
            arch.dispatch(Plane { plan: &plan, input, index: plane % depth, output, workspace });
        },
    );
}

/// What is the same for all planes.
struct Plan<'a> {
    depth: &'a AxisMap,
    height: &'a AxisMap,
    width: WidthMap<'a>,
    /// Whether the width is mapped before the height, not after.
    width_first: bool,
    /// Rows of the ring.
    slots: usize,
    /// Length of the rows in the ring.
    ring_width: usize,
}

impl<'a> Plan<'a> {
    fn new([depth, height, width]: [&'a AxisMap; 3]) -> Self {
        let width_first = height.input_len() <= height.output_len();
        let ring_width = if width_first { width.output_len() } else { width.input_len() };
        let slots = height.longest_run().max(1);
        Self { depth, height, width: WidthMap::new(width), width_first, slots, ring_width }
    }
}

/// Rows that a thread works on.
struct Workspace {
    /// Rows of the input in float32, where they are in half precision.
    widened: Vec<f32>,
    /// A row of the input, summed over depth.
    row: Vec<f32>,
    /// Rows that the height needs.
    ring: Vec<f32>,
    /// A row of the ring, summed over height.
    mixed: Vec<f32>,
    /// A row of the output, before it is rounded.
    result: Vec<f32>,
}

impl Workspace {
    fn new<E: Stored>(plan: &Plan<'_>) -> Self {
        let map = plan.width.map;
        let widened = if E::as_f32(&[]).is_some() { 0 } else { plan.depth.longest_run().min(BLOCK) };
        Self {
            widened: vec![0.0; widened * map.input_len()],
            row: vec![0.0; map.input_len()],
            ring: vec![0.0; plan.slots * plan.ring_width],
            mixed: vec![0.0; plan.ring_width],
            result: vec![0.0; map.output_len()],
        }
    }
}

/// One plane of the output.
struct Plane<'a, E> {
    plan: &'a Plan<'a>,
    /// The item.
    input: &'a [E],
    /// Which plane of the item.
    index: usize,
    output: &'a mut [E],
    workspace: &'a mut Workspace,
}

impl<E: Stored> WithSimd for Plane<'_, E> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { plan, input, index, output, workspace } = self;
        if plan.depth.run(index).1.is_empty() {
            return output.fill(E::default());
        }
        let mut next = 0;
        for (row, output) in output.chunks_exact_mut(plan.width.map.output_len()).enumerate() {
            let (start, weights) = plan.height.run(row);
            for needed in next.max(start)..start + weights.len() {
                fill_ring(simd, plan, input, index, needed, workspace);
                next = needed + 1;
            }
            let Workspace { ring, mixed, result, .. } = &mut *workspace;
            let rows = Rows { values: ring, stride: plan.ring_width, slots: plan.slots };
            if plan.width_first {
                let sum = combined(simd, rows, start, weights, result);
                E::narrow(sum, output);
            } else {
                let sum = combined(simd, rows, start, weights, mixed);
                plan.width.apply(simd, sum, result);
                E::narrow(result, output);
            }
        }
    }
}

/// The weighted sum of rows: the row itself where it is one of weight one.
#[inline(always)]
fn combined<'a, S: Simd>(simd: S, rows: Rows<'a>, first: usize, weights: &[f32], target: &'a mut [f32]) -> &'a [f32] {
    if weights == [1.0] {
        return rows.row(first, target.len());
    }
    combine(simd, rows, first, weights, target);
    target
}

/// Brings a row of the input, summed over depth, into the ring.
#[inline(always)]
fn fill_ring<S: Simd, E: Stored>(
    simd: S,
    plan: &Plan<'_>,
    input: &[E],
    plane: usize,
    row: usize,
    workspace: &mut Workspace,
) {
    let Workspace { widened, row: target, ring, .. } = workspace;
    let slot = &mut ring[row % plan.slots * plan.ring_width..][..plan.ring_width];
    let (width, (start, weights)) = (plan.width.map.input_len(), plan.depth.run(plane));
    let stride = plan.height.input_len() * width;
    let sum = match E::as_f32(input) {
        Some(values) => {
            let rows = Rows { values: &values[row * width..], stride, slots: plan.depth.input_len() };
            combined(simd, rows, start, weights, target)
        }
        None => {
            for (block, weights) in weights.chunks(BLOCK).enumerate() {
                let first = start + block * BLOCK;
                for (index, widened) in widened.chunks_exact_mut(width).take(weights.len()).enumerate() {
                    E::widen(&input[(first + index) * stride + row * width..][..width], widened);
                }
                let rows = Rows { values: widened, stride: width, slots: BLOCK };
                combine_block(simd, rows, 0, weights, block > 0, target);
            }
            target
        }
    };
    match plan.width_first {
        true => plan.width.apply(simd, sum, slot),
        false => slot.copy_from_slice(sum),
    }
}
