//! Softmax attention over the positions of a volume, channels first.

use burn::tensor::{DType, Tensor};
use leanburn_kernels::attention::{self, AttentionShape};

use super::attention_in_blocks;
use crate::cpu::{CpuTensor, Stored, with_element};
use crate::recording::Call;

/// Products of backward where forward has two: the scores are made again, then four gradients.
const FLOPS_OF_GRADIENTS: u64 = 5;

/// Queries, keys and values, each `[batch_size * heads, head_channels, positions]`.
pub(crate) type Projections = [Tensor<3>; 3];

/// How scores are made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scores {
    /// Multiplies them.
    pub scale: f64,
    /// The most queries at a time.
    pub block: Option<usize>,
}

/// The output, and the logarithm of each query's sum of exponentials, `[batch_size * heads, positions]`, where backward
/// needs it.
pub(crate) fn forward([query, key, value]: Projections, scores: Scores) -> (Tensor<3>, Option<Tensor<2>>) {
    let dims = query.dims();
    let shape = shape(&query, &key, scores);
    if let Some(call) = Call::on("attention3d", &query) {
        let dtype = query.dtype();
        let call = call.costs(shape.flops(), attention::forward_workspace(&shape));
        let call = [query, key, value].into_iter().fold(call, Call::takes);
        let mut outputs = call.gives(dims, dtype).gives([dims[0], dims[2]], DType::F32).record();
        let mut next = || outputs.next().expect("two outputs were asked for");
        return (Tensor::from_dispatch(next()), Some(Tensor::from_dispatch(next())));
    }
    if !CpuTensor::holds(&query) {
        return (attention_in_blocks::forward([query, key, value], scores), None);
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
    scores: Scores,
) -> Projections {
    let Some((output, log_sum_exp)) = kept else {
        return attention_in_blocks::backward(projections, gradient, scores);
    };
    let shape = shape(&projections[0], &projections[1], scores);
    let dims = projections.each_ref().map(Tensor::dims);
    if let Some(call) = Call::on_any("attention3d_gradient", &gradient) {
        let call = call.costs(FLOPS_OF_GRADIENTS * shape.flops() / 2, attention::backward_workspace(&shape));
        let call = projections.into_iter().fold(call, Call::takes).takes(output).takes(log_sum_exp);
        let dtype = gradient.dtype();
        let call = dims.into_iter().fold(call.takes(gradient), |call, dims| call.gives(dims, dtype));
        let mut outputs = call.record();
        return [(); 3].map(|()| Tensor::from_dispatch(outputs.next().expect("three outputs were asked for")));
    }
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

fn shape(query: &Tensor<3>, key: &Tensor<3>, scores: Scores) -> AttentionShape {
    let [heads, head_channels, query_positions] = query.dims();
    AttentionShape {
        batch_size: 1,
        heads,
        head_channels,
        query_positions,
        key_positions: key.dims()[2],
        scale: scores.scale as f32,
        block: scores.block,
    }
}
