//! Attention backward: a sweep for the queries' gradients, then one for the keys' and values'.

use pulp::Arch;
use rayon::prelude::*;

use super::key_gradient::KeyGradient;
use super::panel::{Head, Scratch, columns_bytes, groups_bytes, split_columns, split_groups};
use super::query_gradient::QueryGradient;
use super::shape::{AttentionShape, LISTS};
use crate::Stored;
use crate::parallel::busy;

/// What the backward pass wants of the forward pass: its operands and its results.
#[derive(Clone, Copy, Debug)]
pub struct Attended<'a, E> {
    /// `[batch_size, heads * head_channels, query_positions]`.
    pub query: &'a [E],
    /// `[batch_size, heads * head_channels, key_positions]`.
    pub key: &'a [E],
    /// `[batch_size, heads * head_channels, key_positions]`.
    pub value: &'a [E],
    /// `[batch_size, heads * head_channels, query_positions]`.
    pub output: &'a [E],
    /// `[batch_size, heads, query_positions]`, as [`forward`](super::forward()) returns it.
    pub log_sum_exp: &'a [f32],
}

/// Where the gradients of the operands go; every element is written.
#[derive(Debug)]
pub struct Gradients<'a, E> {
    /// `[batch_size, heads * head_channels, query_positions]`.
    pub query: &'a mut [E],
    /// `[batch_size, heads * head_channels, key_positions]`.
    pub key: &'a mut [E],
    /// `[batch_size, heads * head_channels, key_positions]`.
    pub value: &'a mut [E],
}

/// [`backward`](super::backward()) on one instruction set.
pub(crate) fn backward_on<E: Stored>(
    arch: Arch,
    shape: &AttentionShape,
    attended: Attended<'_, E>,
    gradient: &[E],
    gradients: Gradients<'_, E>,
) {
    let Attended { query, key, value, output, log_sum_exp } = attended;
    shape.check(
        &[query.len(), output.len(), gradient.len(), gradients.query.len()],
        &[key.len(), value.len(), gradients.key.len(), gradients.value.len()],
    );
    let statistics = shape.log_sum_exp_len();
    assert_eq!(log_sum_exp.len(), statistics, "log_sum_exp of {shape:?}");
    let mut projections = vec![0.0; statistics];
    query_sweep(arch, shape, attended, gradient, gradients.query, &mut projections);
    key_sweep(arch, shape, attended, gradient, &projections, [gradients.key, gradients.value]);
}

/// Bytes that [`backward`](super::backward()) takes at most, without its inputs and outputs, in the current pool.
pub fn backward_workspace(shape: &AttentionShape) -> usize {
    let AttentionShape { batch_size, heads, head_channels, query_positions, key_positions, .. } = *shape;
    let heads = batch_size * heads;
    let (query_group, key_group) = (shape.group(query_positions), shape.group(key_positions));
    let queries = columns_bytes(heads, head_channels, query_positions, query_group)
        + groups_bytes(heads, query_positions, query_group)
        + busy(heads * query_positions.div_ceil(query_group))
            * Scratch::bytes(QueryGradient::<f32>::scratch_lens(head_channels, query_group));
    let keys = 2 * columns_bytes(heads, head_channels, key_positions, key_group)
        + busy(heads * key_positions.div_ceil(key_group))
            * Scratch::bytes(KeyGradient::<f32>::scratch_lens(head_channels, key_group));
    LISTS + heads * query_positions * size_of::<f32>() + queries.max(keys)
}

/// Writes the gradient of the queries, and `D` of each query into `projections`.
fn query_sweep<E: Stored>(
    arch: Arch,
    shape: &AttentionShape,
    attended: Attended<'_, E>,
    gradient: &[E],
    query_gradient: &mut [E],
    projections: &mut [f32],
) {
    let AttentionShape { head_channels, query_positions, key_positions, .. } = *shape;
    let group = shape.group(query_positions);
    let groups = query_positions.div_ceil(group);
    let gradients = split_columns(query_gradient, head_channels, query_positions, group);
    let projections = split_groups(projections, query_positions, group);
    gradients.into_par_iter().zip(projections).enumerate().for_each_init(
        || Scratch::new(QueryGradient::<E>::scratch_lens(head_channels, group)),
        |scratch, (task, (query_gradient, projections))| {
            let (head, start) = (task / groups, task % groups * group);
            arch.dispatch(QueryGradient {
                query: Head::of(attended.query, head, head_channels, query_positions),
                key: Head::of(attended.key, head, head_channels, key_positions),
                value: Head::of(attended.value, head, head_channels, key_positions),
                output: Head::of(attended.output, head, head_channels, query_positions),
                gradient: Head::of(gradient, head, head_channels, query_positions),
                log_sum_exp: &attended.log_sum_exp[head * query_positions + start..][..projections.len()],
                scale: shape.scale,
                start,
                query_gradient,
                projections,
                scratch,
            });
        },
    );
}

/// Writes the gradients of the keys and of the values.
fn key_sweep<E: Stored>(
    arch: Arch,
    shape: &AttentionShape,
    attended: Attended<'_, E>,
    gradient: &[E],
    projections: &[f32],
    [key_gradient, value_gradient]: [&mut [E]; 2],
) {
    let AttentionShape { head_channels, query_positions, key_positions, .. } = *shape;
    let group = shape.group(key_positions);
    let groups = key_positions.div_ceil(group);
    let split = |values| split_columns(values, head_channels, key_positions, group);
    split(key_gradient).into_par_iter().zip(split(value_gradient)).enumerate().for_each_init(
        || Scratch::new(KeyGradient::<E>::scratch_lens(head_channels, group)),
        |scratch, (task, (key_gradient, value_gradient))| {
            let head = task / groups;
            arch.dispatch(KeyGradient {
                query: Head::of(attended.query, head, head_channels, query_positions),
                key: Head::of(attended.key, head, head_channels, key_positions),
                value: Head::of(attended.value, head, head_channels, key_positions),
                gradient: Head::of(gradient, head, head_channels, query_positions),
                log_sum_exp: &attended.log_sum_exp[head * query_positions..][..query_positions],
                projections: &projections[head * query_positions..][..query_positions],
                scale: shape.scale,
                start: task % groups * group,
                key_gradient,
                value_gradient,
                scratch,
            });
        },
    );
}
