//! Gradient of a convolution's weight.
//!
//! `gw[o][i][k] = sum over positions p of g[o][p] * x[i][p + offset(k)]`: each element of the weight is the dot product of
//! two packed rows, a channel of the output gradient and a channel of the input, shifted (see `packing::planes`).
//! Either the lanes of a vector are positions: nothing is transposed and no channel is padded, so that few channels cost
//! as little as many; and where the kernel has three or four elements along the depth, planes are transformed along it first, for
//! half of the products. Or they are output channels ([`Lanes`]): no lanes are added up, and no position is wasted.

use std::sync::Mutex;

use half::bf16;
use pulp::Arch;
use rayon::prelude::*;

use crate::conv::check::check_input;
use crate::conv::matrix;
use crate::conv::matrix::weight_gradient::{TileScratch, TileTask};
use crate::conv::operands::Input;
use crate::conv::shape::ConvShape;
use crate::conv::weight_gradient::lanes::Lanes;
use crate::conv::weight_gradient::plan::WeightPlan;
use crate::conv::weight_gradient::scratch::Scratch;
use crate::conv::weight_gradient::task::WeightTask;
use crate::parallel::{for_each, threads};
use crate::tile_products::Unit;
use crate::{Stored, simd, size};

/// Multiply-adds of an item that all threads share, at least.
const SHARED_ITEM: usize = 1 << 27;
/// Elements of a weight of which each thread may have a gradient of its own, at most (1 MiB).
const MOST_OF_A_THREAD: usize = 1 << 18;

/// [`weight_gradient`](crate::conv::weight_gradient()) by these instructions.
pub(crate) fn weight_gradient_on<E: Stored>(
    arch: Arch,
    shape: &ConvShape,
    input: Input<E>,
    gradient: Input<E>,
    target: &mut [f32],
) {
    let with = |on: On, shape: &ConvShape, input: Input<'_, E>, gradient: Input<'_, E>, target: &mut [f32]| {
        with_lanes(arch, Lanes::of(shape), on, shape, input, gradient, target);
    };
    by_items(with, shape, input, gradient, target);
}

/// [`weight_gradient_on`] of bfloat16, by [products of tiles](matrix), where there is a unit for them and they pay.
pub(crate) fn weight_gradient_bf16(
    arch: Arch,
    shape: &ConvShape,
    input: Input<'_, bf16>,
    gradient: Input<'_, bf16>,
    target: &mut [f32],
) {
    let with = |on: On, shape: &ConvShape, input: Input<'_, bf16>, gradient: Input<'_, bf16>, target: &mut [f32]| {
        match unit_of(shape) {
            Some(unit) => in_tiles(unit, arch, on, shape, input, gradient, target),
            None => with_lanes(arch, Lanes::of(shape), on, shape, input, gradient, target),
        }
    };
    by_items(with, shape, input, gradient, target);
}

/// Where the tasks of an item run.
#[derive(Clone, Copy, Debug)]
pub(super) enum On {
    /// On all threads.
    Threads,
    /// On the thread that has the item.
    ThisThread,
}

/// Items whose gradients are computed at once, each on a thread: as many as there are threads, or one.
///
/// Few multiply-adds are not worth what it costs to share them, one item after the other.
pub(super) fn items_at_once(shape: &ConvShape) -> usize {
    let threads = rayon::current_num_threads();
    let is_small = shape.weight_len() <= MOST_OF_A_THREAD && item_of(shape).multiplications() < SHARED_ITEM;
    if is_small && threads <= shape.batch_size { threads } else { 1 }
}

/// An item of the batch, alone.
fn item_of(shape: &ConvShape) -> ConvShape {
    ConvShape { batch_size: shape.batch_size.min(1), ..*shape }
}

/// Adds up what `with` makes of the items of a batch.
fn by_items<E: Stored>(
    with: impl Fn(On, &ConvShape, Input<'_, E>, Input<'_, E>, &mut [f32]) + Sync,
    shape: &ConvShape,
    input: Input<'_, E>,
    gradient: Input<'_, E>,
    target: &mut [f32],
) {
    check_input(shape, &input, shape.channels_in, shape.input_len());
    check_input(shape, &gradient, shape.channels_out, shape.output_len());
    assert_eq!(target.len(), shape.weight_len(), "the target is not of the length that the shape says");
    let batch_size = shape.batch_size;
    if batch_size < 2 || shape.output_len() == 0 || target.is_empty() {
        return with(On::Threads, shape, input, gradient, target);
    }
    // Item by item, in float64: a large batch gives what its micro-batches add up to.
    let (one, at_once) = (item_of(shape), items_at_once(shape));
    let run = |on: On, item: usize, target: &mut [f32]| {
        with(on, &one, input.item(item, batch_size), gradient.item(item, batch_size), target);
    };
    let mut sums = vec![0.0f64; target.len()];
    let mut others = vec![0.0f32; (at_once - 1) * target.len()];
    let together = batch_size / at_once * at_once;
    for first in (0..together).step_by(at_once) {
        let items = std::iter::once(&mut *target).chain(others.chunks_exact_mut(sums.len())).enumerate().collect();
        let on = if at_once < 2 { On::Threads } else { On::ThisThread };
        for_each(items, shape.multiplications(), |(item, target)| run(on, first + item, target));
        add_items(&mut sums, target, &others);
    }
    for item in together..batch_size {
        run(On::Threads, item, target);
        add_items(&mut sums, target, &[]);
    }
    target.iter_mut().zip(sums).for_each(|(target, sum)| *target = sum as f32);
}

/// Adds the gradients of items, which are as long as the sums, in their order.
fn add_items(sums: &mut [f64], first: &[f32], others: &[f32]) {
    let len = sums.len();
    in_pieces(sums, len + others.len(), |start, sums| {
        for gradient in std::iter::once(first).chain(others.chunks_exact(len)) {
            sums.iter_mut().zip(&gradient[start..]).for_each(|(sum, value)| *sum += f64::from(*value));
        }
    });
}

/// Runs `run` on pieces of the target, each with where it begins; `work` values are read in all.
fn in_pieces<T: Send>(target: &mut [T], work: usize, run: impl Fn(usize, &mut [T]) + Sync) {
    const PIECE: usize = 4096;
    match threads(target.len().div_ceil(PIECE), work) < 2 {
        true => run(0, target),
        false => {
            target.par_chunks_mut(PIECE).enumerate().for_each(|(piece, target)| run(piece * PIECE, target));
        }
    }
}

/// The weight gradient with these lanes, whatever the shape; all items at once.
pub(super) fn with_lanes<E: Stored>(
    arch: Arch,
    lanes: Lanes,
    on: On,
    shape: &ConvShape,
    input: Input<E>,
    gradient: Input<E>,
    target: &mut [f32],
) {
    if target.is_empty() || shape.output_len() == 0 {
        return target.fill(0.0);
    }
    let plan = WeightPlan::new(shape, lanes);
    let scratches = Mutex::new(Vec::new());
    by_parts(&plan, on, target, |(part, block, columns)| {
        let scratch = scratches.lock().unwrap().pop().unwrap_or_else(|| Scratch::new(arch, &plan));
        let scratch = WeightTask::new(arch, &plan, block, columns, scratch).run(input, gradient, part);
        scratches.lock().unwrap().push(scratch);
    });
}

/// The weight gradient by [products of tiles](matrix), whatever the shape; all items at once.
pub(super) fn in_tiles(
    unit: Unit,
    arch: Arch,
    on: On,
    shape: &ConvShape,
    input: Input<'_, bf16>,
    gradient: Input<'_, bf16>,
    target: &mut [f32],
) {
    if target.is_empty() || shape.output_len() == 0 {
        return target.fill(0.0);
    }
    let plan = WeightPlan::of_tiles(shape);
    let scratches = Mutex::new(Vec::new());
    by_parts(&plan, on, target, |(part, block, columns)| {
        let scratch = scratches.lock().unwrap().pop().unwrap_or_else(|| TileScratch::new(&plan));
        let scratch = TileTask::new((unit, arch), &plan, block, columns, scratch).run(input, gradient, part);
        scratches.lock().unwrap().push(scratch);
    });
}

/// What multiplies tiles of this convolution, if that is faster than float32.
fn unit_of(shape: &ConvShape) -> Option<Unit> {
    simd::unit().filter(|unit| matrix::weight_gradient::pays(*unit, shape))
}

/// Runs the tasks of a plan, each on its columns of the weight, and adds up the parts.
fn by_parts(plan: &WeightPlan, on: On, target: &mut [f32], run: impl Fn(Task<'_>) + Sync + Send) {
    let mut partial = vec![0.0; (plan.parts - 1) * target.len()];
    let weights = std::iter::once(&mut *target).chain(partial.chunks_exact_mut(plan.shape.weight_len()));
    let mut tasks: Vec<Task> = Vec::with_capacity(plan.tasks());
    for (part, weight) in weights.enumerate() {
        tasks.extend(blocks(plan, weight).into_iter().enumerate().map(|(block, columns)| (part, block, columns)));
    }
    match on {
        On::Threads => for_each(tasks, plan.shape.multiplications(), run),
        On::ThisThread => tasks.into_iter().for_each(run),
    }
    add_parts(target, &partial);
}

/// Bytes that [`weight_gradient_on`] takes at most, of a weight and an output that are not empty.
pub(crate) fn workspace(shape: &ConvShape) -> usize {
    let arch = simd::best();
    workspace_with(
        shape,
        |item| WeightPlan::new(item, Lanes::of(item)),
        |plan| Scratch::bytes(arch, plan) + WeightTask::bytes(plan),
    )
}

/// Bytes that [`weight_gradient_bf16`] takes at most, of a weight and an output that are not empty.
pub(crate) fn workspace_bf16(shape: &ConvShape) -> usize {
    match unit_of(shape) {
        Some(_) => workspace_with(shape, WeightPlan::of_tiles, TileScratch::bytes),
        None => workspace(shape),
    }
}

fn workspace_with(
    shape: &ConvShape,
    plan: impl FnOnce(&ConvShape) -> WeightPlan,
    of_task: impl FnOnce(&WeightPlan) -> usize,
) -> usize {
    let (item, at_once) = (item_of(shape), items_at_once(shape));
    let is_batch = shape.batch_size > 1;
    let weight = shape.weight_len() * size_of::<f32>();
    let sums =
        if is_batch { shape.weight_len() * size_of::<f64>() + at_once * size_of::<(usize, &mut [f32])>() } else { 0 };
    let plan = plan(&item);
    // Each channel has a column in each block of the input.
    let columns = plan.parts * plan.blocks().0 * shape.channels_out * size_of::<&mut [f32]>();
    let tasks = plan.tasks() * size_of::<Task>() + columns;
    let threads = if at_once < 2 { threads(plan.tasks(), item.multiplications()) } else { at_once };
    size::sum(&[
        sums,
        (at_once - 1) * weight,
        size::product(&[at_once, (plan.parts - 1) * weight + tasks]),
        size::product(&[threads, of_task(&plan)]),
    ])
}

/// The part, the block and its columns of the weight.
type Task<'a> = (usize, usize, Vec<&'a mut [f32]>);

/// Cuts a weight into blocks, `[group][block out][block in][channel out]`, each `[channel in][kernel..]`.
fn blocks<'a>(plan: &WeightPlan, weight: &'a mut [f32]) -> Vec<Vec<&'a mut [f32]>> {
    let (channels_in, channels_out) = plan.channels();
    let (blocks_in, blocks_out) = plan.blocks();
    let columns = |block: usize| (channels_out - block / blocks_in % blocks_out * plan.block_out).min(plan.block_out);
    let blocks = plan.shape.groups * blocks_out * blocks_in;
    let mut blocks: Vec<_> = (0..blocks).map(|block| Vec::with_capacity(columns(block))).collect();
    for (channel, column) in weight.chunks_exact_mut(channels_in * plan.elements()).enumerate() {
        let block_out = channel / channels_out * blocks_out + channel % channels_out / plan.block_out;
        for (block_in, column) in column.chunks_mut(plan.block_in * plan.elements()).enumerate() {
            blocks[block_out * blocks_in + block_in].push(column);
        }
    }
    blocks
}

/// Adds the sums of the other parts to those of the first.
fn add_parts(target: &mut [f32], partial: &[f32]) {
    /// Elements that are added up at once.
    const TOGETHER: usize = 32;
    if partial.is_empty() {
        return;
    }
    let len = target.len();
    in_pieces(target, partial.len(), |start, target| {
        for (at, target) in target.chunks_mut(TOGETHER).enumerate() {
            let first = start + at * TOGETHER;
            let mut sums = [0.0f64; TOGETHER];
            sums.iter_mut().zip(&*target).for_each(|(sum, value)| *sum = f64::from(*value));
            for part in partial.chunks_exact(len) {
                let part = &part[first..first + target.len()];
                sums.iter_mut().zip(part).for_each(|(sum, value)| *sum += f64::from(*value));
            }
            target.iter_mut().zip(sums).for_each(|(target, sum)| *target = sum as f32);
        }
    });
}
