//! Group norm and activation that keep their input and nothing else.

use burn::backend::DispatchTensor;
use burn::tensor::Tensor;
use leanburn_kernels::Activation;

use crate::Norm;
use crate::engine::norm::{self, Normalization};
use crate::operation::{Operation, apply};

/// `activation(norm(x))` as one operation.
///
/// # Shapes
///
/// - input and output: `[batch_size, channels, depth, height, width]`
///
/// # Memory
///
/// Held for backward: the input, shared with whoever made it, and mean and deviation of each group. On the CPU backward
/// writes over the gradient it is given where nobody else holds it.
///
/// # Numerics
///
/// Arithmetic in float32 whatever the dtype; statistics are merged in float64.
///
/// # Panics
///
/// Panics if the groups do not divide the channels.
pub fn group_norm_act(x: Tensor<5>, norm: Norm, activation: Activation) -> Tensor<5> {
    let Norm { num_groups, epsilon, weight, bias } = norm;
    let inputs = [Some(x.into_dispatch()), weight.map(Tensor::into_dispatch), bias.map(Tensor::into_dispatch)];
    let output = apply(inputs, |[x, weight, bias], _| {
        let x = Tensor::from_dispatch(x.expect("given"));
        let norm = Norm {
            num_groups,
            epsilon,
            weight: weight.map(Tensor::from_dispatch),
            bias: bias.map(Tensor::from_dispatch),
        };
        let normalization = Normalization::of(norm, &x);
        let output = norm::apply(x.clone(), Some(&normalization), activation);
        (output.into_dispatch(), GroupNormAct { x, normalization, activation })
    });
    Tensor::from_dispatch(output)
}

/// An activation function as an operation that keeps its input.
///
/// # Shapes
///
/// - input and output: `[batch_size, channels, depth, height, width]`
///
/// # Memory
///
/// Held for backward: the input, shared with whoever made it. On the CPU backward writes over the gradient it is given
/// where nobody else holds it.
pub fn activate(x: Tensor<5>, activation: Activation) -> Tensor<5> {
    if activation == Activation::None {
        return x;
    }
    let output = apply([Some(x.into_dispatch())], |[x], _| {
        let x = Tensor::from_dispatch(x.expect("given"));
        (norm::apply(x.clone(), None, activation).into_dispatch(), Activate { x, activation })
    });
    Tensor::from_dispatch(output)
}

/// What [`activate`] keeps.
#[derive(Clone, Debug)]
struct Activate {
    x: Tensor<5>,
    activation: Activation,
}

impl Operation<1> for Activate {
    fn backward(self, gradient: DispatchTensor, _needed: [bool; 1]) -> [Option<DispatchTensor>; 1] {
        let gradients = norm::backward(self.x, None, self.activation, Tensor::from_dispatch(gradient));
        [Some(gradients.x.into_dispatch())]
    }
}

/// What [`group_norm_act`] keeps.
#[derive(Clone, Debug)]
struct GroupNormAct {
    x: Tensor<5>,
    normalization: Normalization,
    activation: Activation,
}

impl Operation<3> for GroupNormAct {
    fn backward(self, gradient: DispatchTensor, _needed: [bool; 3]) -> [Option<DispatchTensor>; 3] {
        let gradient = Tensor::from_dispatch(gradient);
        let gradients = norm::backward(self.x, Some(self.normalization), self.activation, gradient);
        [
            Some(gradients.x.into_dispatch()),
            gradients.weight.map(Tensor::into_dispatch),
            gradients.bias.map(Tensor::into_dispatch),
        ]
    }
}
