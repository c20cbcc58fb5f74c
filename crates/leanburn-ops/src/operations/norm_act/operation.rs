//! Group norm and activation that save their input and nothing else.

use burn::tensor::Tensor;
use leanburn_kernels::Activation;

use super::forward::norm_act;
use super::gradient::{NormActGradient, NormGradients};
use super::norm::Norm;
use super::normalization::Normalization;
use crate::engine::run;
use crate::operations::check::assert_not_empty;
use crate::operations::operation::{AnyTensor, Operation, apply};

/// `activation(norm(x))` as one operation.
///
/// # Shapes
///
/// - input and output: `[batch_size, channels, depth, height, width]`, no axis empty
///
/// # Memory
///
/// Saved for backward: the input, shared with its producer, and mean and deviation of each group. On the CPU backward
/// writes over the gradient it is given if nothing else holds it.
///
/// # Numerics
///
/// Arithmetic in float32 regardless of the dtype; statistics are merged in float64.
///
/// # Panics
///
/// Panics if an axis of the input is empty (an empty batch too), the groups do not divide the channels, or weight or bias of the
/// norm are of another length, or float64 where the input is not.
#[must_use]
pub fn group_norm_act(x: Tensor<5>, norm: Norm, activation: Activation) -> Tensor<5> {
    norm.check("group_norm_act", &x);
    let Norm { num_groups, epsilon, weight, bias } = norm;
    apply([x.into(), weight.into(), bias.into()], |[x, weight, bias], _| {
        let x = x.given();
        let norm = Norm { num_groups, epsilon, weight: weight.optional(), bias: bias.optional() };
        let normalization = Normalization::of(norm, &x);
        let output = norm_act(x.clone(), Some(&normalization), activation);
        (output, GroupNormAct { x, normalization, activation })
    })
}

/// What [`group_norm_act`] saves.
#[derive(Clone, Debug)]
struct GroupNormAct {
    x: Tensor<5>,
    normalization: Normalization,
    activation: Activation,
}

impl Operation<3> for GroupNormAct {
    fn backward(self, gradient: Tensor<5>, _needed: [bool; 3]) -> [AnyTensor; 3] {
        let Self { x, normalization, activation } = self;
        let normalization = Some(normalization);
        let NormGradients { x, weight, bias } = run(NormActGradient { x, normalization, activation, gradient });
        [x.into(), weight.into(), bias.into()]
    }

    fn exchange(&mut self, exchange: &mut dyn FnMut(&mut Tensor<5>)) {
        exchange(&mut self.x);
    }
}

/// An activation function as an operation that saves its input, or its output if that tells the derivative.
///
/// # Shapes
///
/// - input and output: `[batch_size, channels, depth, height, width]`, no axis empty
///
/// # Memory
///
/// Saved for backward: the input, shared with its producer; of a ReLU, whose output has the sign of the input, the output, shared
/// with its users. On the CPU a pass writes over what it is given if nothing else holds it.
///
/// # Panics
///
/// Panics if an axis of the input is empty (an empty batch too).
#[must_use]
pub fn activate(x: Tensor<5>, activation: Activation) -> Tensor<5> {
    assert_not_empty("activate", "input", &x);
    if activation == Activation::None {
        return x;
    }
    apply([x.into()], |[x], _| {
        let x: Tensor<5> = x.given();
        if keeps_sign(activation) {
            let y = norm_act(x, None, activation);
            return (y.clone(), Activate { x: y, activation });
        }
        (norm_act(x.clone(), None, activation), Activate { x, activation })
    })
}

/// Whether the output is above zero where the input is, and nowhere else: so that it has the same derivative.
fn keeps_sign(activation: Activation) -> bool {
    match activation {
        Activation::Relu => true,
        Activation::LeakyRelu(slope) => slope >= 0.0,
        Activation::None | Activation::Silu | Activation::Gelu => false,
    }
}

/// What [`activate`] saves.
#[derive(Clone, Debug)]
struct Activate {
    x: Tensor<5>,
    activation: Activation,
}

impl Operation<1> for Activate {
    fn backward(self, gradient: Tensor<5>, _needed: [bool; 1]) -> [AnyTensor; 1] {
        let Self { x, activation } = self;
        [run(NormActGradient { x, normalization: None, activation, gradient }).x.into()]
    }

    fn exchange(&mut self, exchange: &mut dyn FnMut(&mut Tensor<5>)) {
        exchange(&mut self.x);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use burn::tensor::Device;

    use super::*;
    use crate::{gradients::backward, probe::sampled};

    #[test]
    fn every_operation_is_sampled_forward_and_backward() {
        let samples = Rc::new(Cell::new(0));
        let count = samples.clone();
        let x = Tensor::<5>::ones([1, 2, 3, 3, 3], &Device::flex().autodiff()).require_grad();
        let step = || backward(activate(activate(x.clone(), Activation::Silu), Activation::Relu).sum());
        sampled(Rc::new(move || count.set(count.get() + 1)), step);
        assert_eq!(samples.get(), 4);
        step();
        assert_eq!(samples.get(), 4);
    }
}
