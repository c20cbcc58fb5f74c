//! Layer norm over the channels of each position of a volume, that saves its input and nothing else.

use burn::tensor::Tensor;
use leanburn_kernels::layer_norm::{LayerNorm, LayerShape, layer_norm_backward_workspace, layer_norm_workspace};

use crate::engine::{Computation, CpuTensor, Engine, Stored, float32_bytes, run, to_f32};
use crate::numerics::{cast_to, widen};
use crate::operations::check::{assert_not_empty, assert_per_channel, positions, valid};
use crate::operations::operation::{AnyTensor, Operation, apply};
use crate::recording::{Call, Recorder};

const OPERATION: &str = "layer_norm3d";

/// Floating-point operations for each value, roughly, forward and backward.
const FLOPS: [u64; 2] = [8, 16];

/// `(x - mean) / sqrt(variance + epsilon) * weight + bias`, with mean and variance over the channels of each position.
///
/// Source: [Layer Normalization](https://arxiv.org/abs/1607.06450), with the channels first as volumes have them.
///
/// # Shapes
///
/// - input and output: `[batch_size, channels, depth, height, width]`, no axis empty
/// - weight and bias: `[channels]`, or none for one and zero
///
/// # Memory
///
/// Saved for backward: the input, shared with its producer. Mean and deviation are computed again. On the CPU backward writes over
/// the gradient it is given if nothing else holds it, and takes about 128 KiB for each thread.
///
/// # Numerics
///
/// Arithmetic in float32 regardless of the dtype. On the CPU the gradients of weight and bias are added up in float64, and do not
/// depend on the number of threads.
///
/// # Panics
///
/// Panics if an axis of the input is empty (an empty batch too), or weight or bias are of another length, or float64 where the
/// input is not.
#[must_use]
pub fn layer_norm3d(x: Tensor<5>, weight: Option<Tensor<1>>, bias: Option<Tensor<1>>, epsilon: f64) -> Tensor<5> {
    assert_not_empty(OPERATION, "input", &x);
    for (name, vector) in [("weight", &weight), ("bias", &bias)] {
        assert_per_channel(OPERATION, name, vector.as_ref(), x.dims()[1], x.dtype());
    }
    _ = shape(&x);
    apply([x.into(), weight.into(), bias.into()], |[x, weight, bias], _| {
        let norm = Norm { x: x.given(), weight: weight.optional(), bias: bias.optional(), epsilon };
        (run(Forward(norm.clone())), norm)
    })
}

/// The shape for the kernels of the CPU.
fn shape(x: &Tensor<5>) -> LayerShape {
    let [batch_size, channels, ..] = x.dims();
    valid(OPERATION, LayerShape::new([batch_size, channels, positions(x.dims())]))
}

/// What [`layer_norm3d`] saves.
#[derive(Clone, Debug)]
struct Norm {
    x: Tensor<5>,
    weight: Option<Tensor<1>>,
    bias: Option<Tensor<1>>,
    epsilon: f64,
}

impl Operation<3> for Norm {
    fn backward(self, gradient: Tensor<5>, _needed: [bool; 3]) -> [AnyTensor; 3] {
        let (x, [weight, bias]) = run(Backward { norm: self, gradient });
        [x.into(), weight.into(), bias.into()]
    }

    fn exchange(&mut self, exchange: &mut dyn FnMut(&mut Tensor<5>)) {
        exchange(&mut self.x);
    }
}

impl Norm {
    /// Bytes of weight and bias in float32.
    fn parameter_bytes(&self) -> usize {
        [&self.weight, &self.bias].into_iter().flatten().map(float32_bytes).sum()
    }

    /// Calls `compute` with the norm of the kernels.
    fn on_slices<T>(&self, compute: impl FnOnce(LayerNorm<'_>) -> T) -> T {
        let [weight, bias] = [&self.weight, &self.bias].map(|vector| vector.as_ref().map(to_f32));
        let (weight, bias) = (weight.as_deref(), bias.as_deref());
        compute(LayerNorm { shape: shape(&self.x), epsilon: self.epsilon as f32, weight, bias })
    }

    /// The normalised input, without weight and bias, and the reciprocal deviation of each position.
    fn normalized(&self) -> (Tensor<5>, Tensor<5>) {
        let x = widen(self.x.clone());
        let centred = x.clone() - x.mean_dim(1);
        let variance = (centred.clone() * centred.clone()).mean_dim(1);
        let reciprocal = (variance + self.epsilon).sqrt().recip();
        (centred * reciprocal.clone(), reciprocal)
    }
}

/// A value for each channel, as a volume.
fn per_channel(vector: &Tensor<1>, like: &Tensor<5>) -> Tensor<5> {
    cast_to(vector.clone(), like.dtype()).reshape([1, like.dims()[1], 1, 1, 1])
}

struct Forward(Norm);

impl Computation for Forward {
    type Output = Tensor<5>;

    fn engine(&self) -> Engine {
        Engine::of(&self.0.x)
    }

    fn recorded(self, recorder: Recorder) -> Tensor<5> {
        let Self(norm) = self;
        let (dims, dtype) = (norm.x.dims(), norm.x.dtype());
        let workspace = layer_norm_workspace(&shape(&norm.x)) + norm.parameter_bytes();
        let flops = FLOPS[0] * norm.x.shape().num_elements() as u64;
        let call = Call::new(recorder, OPERATION).costs(flops, workspace).takes(norm.x);
        [norm.weight, norm.bias].into_iter().flatten().fold(call, Call::takes).record_one(dims, dtype)
    }

    fn on_cpu<E: Stored>(self) -> Tensor<5> {
        let Self(norm) = self;
        let mut y = CpuTensor::zeros::<E, 5>(norm.x.dims());
        let x = CpuTensor::of(norm.x.clone());
        norm.on_slices(|norm| norm.forward(x.values::<E>(), y.values_mut::<E>()));
        y.into_tensor()
    }

    fn composed(self) -> Tensor<5> {
        let Self(norm) = self;
        let (mut y, _) = norm.normalized();
        if let Some(weight) = &norm.weight {
            let weight = per_channel(weight, &y);
            y = y * weight;
        }
        if let Some(bias) = &norm.bias {
            let bias = per_channel(bias, &y);
            y = y + bias;
        }
        cast_to(y, norm.x.dtype())
    }
}

/// The gradients of the input, of weight and bias.
struct Backward {
    norm: Norm,
    /// Written over if nothing else holds it.
    gradient: Tensor<5>,
}

impl Computation for Backward {
    type Output = (Tensor<5>, [Option<Tensor<1>>; 2]);

    fn engine(&self) -> Engine {
        Engine::of(&self.norm.x)
    }

    fn recorded(self, recorder: Recorder) -> Self::Output {
        let Self { norm, gradient } = self;
        let (dims, dtype) = (norm.x.dims(), norm.x.dtype());
        let workspace = layer_norm_backward_workspace(&shape(&norm.x)) + norm.parameter_bytes();
        let flops = FLOPS[1] * norm.x.shape().num_elements() as u64;
        let call = Call::new(recorder, "layer_norm3d_gradient").costs(flops, workspace);
        let call = call.takes(norm.x).writes_over(gradient).gives(dims, dtype);
        let dtypes = [norm.weight, norm.bias].map(|vector| vector.map(|vector| vector.dtype()));
        let call = dtypes.into_iter().flatten().fold(call, |call, dtype| call.gives([dims[1]], dtype));
        let mut outputs = call.record();
        (outputs.next_tensor(), dtypes.map(|dtype| dtype.map(|_| outputs.next_tensor())))
    }

    fn on_cpu<E: Stored>(self) -> Self::Output {
        let Self { norm, gradient } = self;
        let channels = norm.x.dims()[1];
        let (x, mut gradient) = (CpuTensor::of(norm.x.clone()), CpuTensor::of(gradient));
        let mut sums = norm.on_slices(|norm| norm.backward(x.values::<E>(), gradient.values_mut::<E>())).into_iter();
        let parameters = [norm.weight, norm.bias].map(|vector| {
            let sums = sums.next().expect("of weight and bias");
            vector.map(|vector| cast_to(CpuTensor::from_vec(sums, [channels]).into_tensor(), vector.dtype()))
        });
        (gradient.into_tensor(), parameters)
    }

    fn composed(self) -> Self::Output {
        let Self { norm, gradient } = self;
        let (dtype, channels) = (norm.x.dtype(), norm.x.dims()[1]);
        let (normalized, reciprocal) = norm.normalized();
        let gradient = widen(gradient);
        let sums = |volume: Tensor<5>, vector: &Option<Tensor<1>>| {
            let flat: Tensor<3> = volume.swap_dims(0, 1).reshape([1, channels as i64, -1]);
            vector.as_ref().map(|vector| cast_to(flat.sum_dim(2).reshape([channels]), vector.dtype()))
        };
        let parameters =
            [sums(gradient.clone() * normalized.clone(), &norm.weight), sums(gradient.clone(), &norm.bias)];
        let scaled = match &norm.weight {
            Some(weight) => gradient.clone() * per_channel(weight, &gradient),
            None => gradient,
        };
        let along = (scaled.clone() * normalized.clone()).mean_dim(1);
        let x = (scaled.clone() - scaled.mean_dim(1) - normalized * along) * reciprocal;
        (cast_to(x, dtype), parameters)
    }
}
