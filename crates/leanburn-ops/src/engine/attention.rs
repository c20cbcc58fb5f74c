//! Softmax attention over the positions of a volume, channels first, in blocks of queries.

use burn::tensor::{DType, Tensor, activation::softmax};
use leanburn_kernels::attention::{self, AttentionShape};

use crate::cpu::{CpuTensor, Stored, with_element};
use crate::numerics::cast_to;
use crate::recording::Call;

/// Scores that the composition holds at a time, in elements.
const SCORES_AT_A_TIME: usize = 1 << 22;

/// Products of backward where forward has two: the scores are made again, then four gradients.
const FLOPS_OF_GRADIENTS: u64 = 5;

/// Queries, keys and values, each `[batch_size * heads, head_channels, positions]`.
pub(crate) type Projections = [Tensor<3>; 3];

/// The output, and the logarithm of each query's sum of exponentials, `[batch_size * heads, positions]`, where backward
/// needs it.
pub(crate) fn forward([query, key, value]: Projections, scale: f64) -> (Tensor<3>, Option<Tensor<2>>) {
    let dims = query.dims();
    let shape = shape(&query, &key, scale);
    if let Some(call) = Call::on("attention3d", &query) {
        let dtype = query.dtype();
        let call = call.costs(shape.flops(), attention::forward_workspace(&shape));
        let call = [query, key, value].into_iter().fold(call, Call::takes);
        let mut outputs = call.gives(dims, dtype).gives([dims[0], dims[2]], DType::F32).record();
        let mut next = || outputs.next().expect("two outputs were asked for");
        return (Tensor::from_dispatch(next()), Some(Tensor::from_dispatch(next())));
    }
    if let Some(call) = Call::on_any("attention3d", &query) {
        let dtype = query.dtype();
        let call = [query, key, value].into_iter().fold(call.costs(shape.flops(), composed_workspace()), Call::takes);
        return (call.record_one(dims, dtype), None);
    }
    if !CpuTensor::holds(&query) {
        return (composed_forward([query, key, value], scale), None);
    }
    let [query, key, value] = [query, key, value].map(CpuTensor::of);
    with_element!(query.dtype(), E => {
        let mut output = CpuTensor::zeros::<E, 3>(dims);
        let [query, key, value] = [&query, &key, &value].map(|tensor| tensor.values::<E>());
        let sums = attention::forward(&shape, query, key, value, output.values_mut::<E>());
        (output.into_tensor(), Some(CpuTensor::from_vec(sums, [dims[0], dims[2]]).into_tensor()))
    })
}

/// The gradients of queries, keys and values; `kept` is what forward gave.
pub(crate) fn backward(
    projections: Projections,
    kept: Option<(Tensor<3>, Tensor<2>)>,
    gradient: Tensor<3>,
    scale: f64,
) -> Projections {
    let shape = shape(&projections[0], &projections[1], scale);
    let dims = projections.each_ref().map(Tensor::dims);
    if let Some(call) = Call::on_any("attention3d_gradient", &gradient) {
        let workspace = match kept {
            Some(_) => attention::backward_workspace(&shape),
            None => composed_workspace(),
        };
        let call = call.costs(FLOPS_OF_GRADIENTS * shape.flops() / 2, workspace);
        let mut call = projections.into_iter().fold(call, Call::takes);
        if let Some((output, log_sum_exp)) = kept {
            call = call.takes(output).takes(log_sum_exp);
        }
        let dtype = gradient.dtype();
        let call = dims.into_iter().fold(call.takes(gradient), |call, dims| call.gives(dims, dtype));
        let mut outputs = call.record();
        return [(); 3].map(|()| Tensor::from_dispatch(outputs.next().expect("three outputs were asked for")));
    }
    let Some((output, log_sum_exp)) = kept else { return composed_backward(projections, gradient, scale) };
    let projections = projections.map(CpuTensor::of);
    let [output, gradient] = [output, gradient].map(CpuTensor::of);
    let log_sum_exp = CpuTensor::of(log_sum_exp);
    fn run<E: Stored>(
        shape: &AttentionShape,
        projections: [CpuTensor; 3],
        dims: [[usize; 3]; 3],
        [output, gradient]: [CpuTensor; 2],
        log_sum_exp: &[f32],
    ) -> Projections {
        let mut gradients = dims.map(CpuTensor::zeros::<E, 3>);
        let [query, key, value] = projections.each_ref().map(|tensor| tensor.values::<E>());
        let [query_gradient, key_gradient, value_gradient] =
            gradients.each_mut().map(|tensor| tensor.values_mut::<E>());
        attention::backward(
            shape,
            attention::Attended { query, key, value, output: output.values(), log_sum_exp },
            gradient.values(),
            attention::Gradients { query: query_gradient, key: key_gradient, value: value_gradient },
        );
        gradients.map(CpuTensor::into_tensor)
    }
    with_element!(output.dtype(), E => run::<E>(&shape, projections, dims, [output, gradient], log_sum_exp.values()))
}

fn shape(query: &Tensor<3>, key: &Tensor<3>, scale: f64) -> AttentionShape {
    let [heads, head_channels, query_positions] = query.dims();
    AttentionShape {
        batch_size: 1,
        heads,
        head_channels,
        query_positions,
        key_positions: key.dims()[2],
        scale: scale as f32,
    }
}

/// Blocks of queries as `(first, length)`.
fn blocks(query: &Tensor<3>, key: &Tensor<3>) -> impl Iterator<Item = (usize, usize)> {
    let [heads, _, positions] = query.dims();
    let length = (SCORES_AT_A_TIME / (heads * key.dims()[2]).max(1)).clamp(1, positions.max(1));
    (0..positions).step_by(length).map(move |first| (first, length.min(positions - first)))
}

/// `softmax(scale query^T key)` of a block of queries, in float32, `[.., queries, keys]`.
fn weights(query: Tensor<3>, key: &Tensor<3>, scale: f64) -> Tensor<3> {
    let scores = query.swap_dims(1, 2).matmul(key.clone());
    let scores = if scores.dtype() == DType::F64 { scores } else { cast_to(scores, DType::F32) };
    softmax(scores * scale, 2)
}

/// Bytes of the blocks of scores that the composition holds at a time: the scores, and what softmax makes of them.
///
/// A recording has one operation for all blocks: at 65,536 positions there would be a hundred thousand.
fn composed_workspace() -> usize {
    4 * SCORES_AT_A_TIME * size_of::<f32>()
}

fn composed_forward([query, key, value]: Projections, scale: f64) -> Tensor<3> {
    let transposed = value.swap_dims(1, 2);
    let outputs = blocks(&query, &key).map(|(first, length)| {
        let weights = weights(query.clone().narrow(2, first, length), &key, scale);
        cast_to(weights, transposed.dtype()).matmul(transposed.clone()).swap_dims(1, 2)
    });
    Tensor::cat(outputs.collect(), 2)
}

fn composed_backward([query, key, value]: Projections, gradient: Tensor<3>, scale: f64) -> Projections {
    let dtype = query.dtype();
    let mut query_gradients = Vec::new();
    let mut rest: Option<[Tensor<3>; 2]> = None;
    for (first, length) in blocks(&query, &key) {
        let [query, gradient] = [&query, &gradient].map(|tensor| tensor.clone().narrow(2, first, length));
        let weights = weights(query.clone(), &key, scale);
        let value_gradient = gradient.clone().matmul(cast_to(weights.clone(), dtype));
        let along = cast_to(gradient.swap_dims(1, 2).matmul(value.clone()), weights.dtype());
        let mean = (along.clone() * weights.clone()).sum_dim(2);
        let scores = cast_to((along - mean) * weights * scale, dtype);
        query_gradients.push(key.clone().matmul(scores.clone().swap_dims(1, 2)));
        let key_gradient = query.matmul(scores);
        rest = Some(match rest {
            None => [key_gradient, value_gradient],
            Some([keys, values]) => [keys + key_gradient, values + value_gradient],
        });
    }
    let [key_gradient, value_gradient] = rest.expect("a volume has a position");
    [Tensor::cat(query_gradients, 2), key_gradient, value_gradient]
}
