//! Attention in windows and its gradients on every engine.

use burn::tensor::{DType, Tensor};
use leanburn_kernels::attention::window::{self, WindowGradients};

use super::composed;
use super::geometry::Geometry;
use super::inputs::{InputGradients, Inputs};
use crate::engine::{Computation, CpuTensor, Engine, Stored};
use crate::numerics::cast_to;
use crate::recording::{Call, Recorder};

/// Products of backward where forward has two: scores and probabilities' gradients twice, then three gradients.
const FLOPS_OF_GRADIENTS: u64 = 7;

/// The output, and the logarithm of each query's sum of exponentials, `[batch_size * heads, positions]`, where backward
/// needs it: where it runs on the kernels of the CPU.
pub(super) struct Forward(pub(super) Inputs);

impl Computation for Forward {
    type Output = (Tensor<5>, Option<Tensor<2>>);

    fn engine(&self) -> Engine {
        Engine::of(&self.0.volumes[0])
    }

    fn recorded(self, recorder: Recorder) -> Self::Output {
        let Self(inputs) = self;
        let (geometry, shape) = (inputs.geometry, inputs.geometry.shape());
        let (dtype, statistics) = (inputs.volumes[0].dtype(), statistics_dims(&geometry));
        let workspace = window::forward_workspace(&shape) + inputs.parameter_bytes();
        let call = Call::new(recorder, "window_attention3d").costs(shape.flops(), workspace);
        let mut outputs = inputs.taken_by(call).gives(geometry.dims, dtype).gives(statistics, DType::F32).record();
        (outputs.next_tensor(), Some(outputs.next_tensor()))
    }

    fn on_cpu<E: Stored>(self) -> Self::Output {
        let Self(inputs) = self;
        let geometry = inputs.geometry;
        let mut output = CpuTensor::zeros::<E, 5>(geometry.dims);
        let sums = inputs.on_slices(|shape, operands| window::forward(shape, operands, output.values_mut::<E>()));
        (output.into_tensor(), Some(CpuTensor::from_vec(sums, statistics_dims(&geometry)).into_tensor()))
    }

    fn composed(self) -> Self::Output {
        (composed::forward(self.0), None)
    }
}

fn statistics_dims(geometry: &Geometry) -> [usize; 2] {
    [geometry.dims[0] * geometry.num_heads, geometry.positions()]
}

/// The gradients, with what the kernels of the CPU gave in forward.
pub(super) struct Backward {
    pub(super) inputs: Inputs,
    pub(super) output: Option<(Tensor<5>, Tensor<2>)>,
    pub(super) gradient: Tensor<5>,
}

impl Computation for Backward {
    type Output = InputGradients;

    fn engine(&self) -> Engine {
        match self.output {
            Some(_) => Engine::of(&self.gradient),
            None => Engine::Composed,
        }
    }

    fn recorded(self, recorder: Recorder) -> InputGradients {
        let Self { inputs, output, gradient } = self;
        let (geometry, shape, dtype) = (inputs.geometry, inputs.geometry.shape(), gradient.dtype());
        let (table_dims, table_dtype) = (inputs.table.dims(), inputs.table.dtype());
        let padding = inputs.padding.each_ref().map(|vector| vector.as_ref().map(|vector| vector.dtype()));
        let workspace = window::backward_workspace(&shape) + inputs.parameter_bytes();
        let call = Call::new(recorder, "window_attention3d_gradient");
        let call = inputs.taken_by(call.costs(FLOPS_OF_GRADIENTS * shape.flops() / 2, workspace));
        let (output, log_sum_exp) = output.expect("the kernels gave it in forward");
        let call = call.takes(output).takes(log_sum_exp).takes(gradient);
        let call = [geometry.dims; 3].into_iter().fold(call, |call, dims| call.gives(dims, dtype));
        let call = call.gives(table_dims, table_dtype);
        let call = padding.into_iter().flatten().fold(call, |call, dtype| call.gives([geometry.dims[1]], dtype));
        let mut outputs = call.record();
        InputGradients {
            volumes: [0; 3].map(|_| outputs.next_tensor()),
            table: outputs.next_tensor(),
            padding: padding.map(|vector| vector.map(|_| outputs.next_tensor())),
        }
    }

    fn on_cpu<E: Stored>(self) -> InputGradients {
        let Self { inputs, output, gradient } = self;
        let (output, log_sum_exp) = output.expect("the kernels gave it in forward");
        let [output, log_sum_exp, gradient] =
            [CpuTensor::of(output), CpuTensor::of(log_sum_exp), CpuTensor::of(gradient)];
        let (dims, table_dims, table_dtype) = (inputs.geometry.dims, inputs.table.dims(), inputs.table.dtype());
        let dtypes = inputs.padding.each_ref().map(|vector| vector.as_ref().map(|vector| vector.dtype()));
        let mut gradients = [dims; 3].map(CpuTensor::zeros::<E, 5>);
        let [query, key, value] = gradients.each_mut().map(|tensor| tensor.values_mut::<E>());
        let of_parameters = inputs.on_slices(|shape, operands| {
            let results = (output.values::<E>(), log_sum_exp.values::<f32>());
            window::backward(shape, operands, results, gradient.values(), WindowGradients { query, key, value })
        });
        let mut padding = of_parameters.padding.into_iter();
        InputGradients {
            volumes: gradients.map(CpuTensor::into_tensor),
            table: cast_to(CpuTensor::from_vec(of_parameters.table, table_dims).into_tensor(), table_dtype),
            padding: dtypes.map(|dtype| {
                let values = padding.next().expect("of the key and of the value");
                dtype.map(|dtype| cast_to(CpuTensor::from_vec(values, [dims[1]]).into_tensor(), dtype))
            }),
        }
    }

    fn composed(self) -> InputGradients {
        composed::backward(self.inputs, self.gradient)
    }
}
