//! Softmax attention over the positions of a volume, and its gradients, on every engine.

use burn::tensor::{DType, Tensor};
use leanburn_kernels::attention;

use super::blocks;
use super::scores::{Projections, Scores};
use crate::engine::{Computation, CpuTensor, Engine, Stored};
use crate::recording::{Call, Recorder};

/// Products of backward where forward has two: the scores are computed again, then four gradients.
const FLOPS_OF_GRADIENTS: u64 = 5;

/// The output, and the logarithm of each query's sum of exponentials, `[batch_size * heads, positions]`, where backward
/// needs it: where it runs on the kernels of the CPU.
pub(super) struct Forward {
    pub(super) projections: Projections,
    pub(super) scores: Scores,
}

impl Computation for Forward {
    type Output = (Tensor<3>, Option<Tensor<2>>);

    fn engine(&self) -> Engine {
        Engine::of(&self.projections[0])
    }

    fn recorded(self, recorder: Recorder) -> Self::Output {
        let shape = self.scores.shape(&self.projections);
        let (dims, dtype) = (self.projections[0].dims(), self.projections[0].dtype());
        let call = Call::new(recorder, "attention3d").costs(shape.flops(), attention::forward_workspace(&shape));
        let call = self.projections.into_iter().fold(call, Call::takes);
        let mut outputs = call.gives(dims, dtype).gives([dims[0], dims[2]], DType::F32).record();
        (outputs.next_tensor(), Some(outputs.next_tensor()))
    }

    fn on_cpu<E: Stored>(self) -> Self::Output {
        let shape = self.scores.shape(&self.projections);
        let dims = self.projections[0].dims();
        let projections = self.projections.map(CpuTensor::of);
        let mut output = CpuTensor::zeros::<E, 3>(dims);
        let [query, key, value] = projections.each_ref().map(|tensor| tensor.values::<E>());
        let sums = attention::forward(&shape, query, key, value, output.values_mut::<E>());
        (output.into_tensor(), Some(CpuTensor::from_vec(sums, [dims[0], dims[2]]).into_tensor()))
    }

    fn composed(self) -> Self::Output {
        (blocks::forward(self.projections, self.scores), None)
    }
}

/// The gradients of queries, keys and values, with what the kernels of the CPU gave in forward.
pub(super) struct Backward {
    pub(super) projections: Projections,
    pub(super) output: Tensor<3>,
    pub(super) log_sum_exp: Tensor<2>,
    pub(super) gradient: Tensor<3>,
    pub(super) scores: Scores,
}

impl Computation for Backward {
    type Output = Projections;

    fn engine(&self) -> Engine {
        Engine::of(&self.gradient)
    }

    fn recorded(self, recorder: Recorder) -> Projections {
        let Self { projections, output, log_sum_exp, gradient, scores } = self;
        let shape = scores.shape(&projections);
        let (dims, dtype) = (projections.each_ref().map(Tensor::dims), gradient.dtype());
        let flops = FLOPS_OF_GRADIENTS * shape.flops() / 2;
        let call = Call::new(recorder, "attention3d_gradient").costs(flops, attention::backward_workspace(&shape));
        let call = projections.into_iter().fold(call, Call::takes);
        call.takes(output).takes(log_sum_exp).takes(gradient).record_all(dims, dtype)
    }

    fn on_cpu<E: Stored>(self) -> Projections {
        let shape = self.scores.shape(&self.projections);
        let dims = self.projections.each_ref().map(Tensor::dims);
        let projections = self.projections.map(CpuTensor::of);
        let [output, gradient] = [self.output, self.gradient].map(CpuTensor::of);
        let log_sum_exp = CpuTensor::of(self.log_sum_exp);
        let mut gradients = dims.map(CpuTensor::zeros::<E, 3>);
        let [query, key, value] = projections.each_ref().map(|tensor| tensor.values::<E>());
        let [query_gradient, key_gradient, value_gradient] =
            gradients.each_mut().map(|tensor| tensor.values_mut::<E>());
        let (output, log_sum_exp) = (output.values(), log_sum_exp.values());
        attention::backward(
            &shape,
            attention::Attended { query, key, value, output, log_sum_exp },
            gradient.values(),
            attention::Gradients { query: query_gradient, key: key_gradient, value: value_gradient },
        );
        gradients.map(CpuTensor::into_tensor)
    }

    fn composed(self) -> Projections {
        blocks::backward(self.projections, self.gradient, self.scores)
    }
}
