//! Convolution behind a norm and a leaky ReLU of a learned slope.

use burn::tensor::Tensor;

use super::convolution::Convolution;
use super::entry::Entry;
use super::norm_act_conv3d::NormActConv;
use crate::operations::norm_act::{Norm, check_slope, leaky_relu, slope_gradient};
use crate::operations::operation::{AnyTensor, Operation, apply};

/// `conv3d(prelu(norm(x))) + residual` as one operation; see [`norm_prelu`](crate::norm_prelu).
///
/// # Shapes
///
/// - input: `[batch_size, channels_in, depth, height, width]`, no axis empty
/// - slope: `[1]`, for all channels
/// - residual and output: `[batch_size, channels_out, ..]` as of [`conv3d`](crate::conv3d)
///
/// # Memory
///
/// As [`norm_act_conv3d`](crate::norm_act_conv3d), and in backward one volume of the input's size for the gradient of the
/// slope.
///
/// # Numerics
///
/// As [`norm_act_conv3d`](crate::norm_act_conv3d). The slope is read from the device: on a GPU forward waits for it.
///
/// # Panics
///
/// As [`norm_act_conv3d`](crate::norm_act_conv3d), and if the slope has another shape or is float64 where the input is not.
#[must_use]
pub fn norm_prelu_conv3d(
    x: Tensor<5>,
    norm: Option<Norm>,
    slope: Tensor<1>,
    convolution: Convolution,
    residual: Option<Tensor<5>>,
) -> Tensor<5> {
    const OPERATION: &str = "norm_prelu_conv3d";
    let shape = convolution.checked(OPERATION, &x, residual.as_ref());
    norm.iter().for_each(|norm| norm.check(OPERATION, &x));
    check_slope(OPERATION, &slope, x.dtype());
    let Convolution { weight, bias, .. } = convolution;
    let (settings, norm_weight, norm_bias) = Norm::apart(norm);
    let inputs =
        [residual.into(), x.into(), norm_weight.into(), norm_bias.into(), slope.into(), weight.into(), bias.into()];
    apply(inputs, |[residual, x, norm_weight, norm_bias, slope, weight, bias], tracked| {
        let x = x.given();
        let norm = Norm::together(settings, norm_weight.optional(), norm_bias.optional());
        let entry = Entry::new(norm, leaky_relu(slope.given()), &x);
        let (output, conv) =
            NormActConv::forward(x, entry, weight.given(), bias.optional(), residual.optional(), shape, tracked[5]);
        (output, NormPreluConv(conv))
    })
}

/// What [`norm_prelu_conv3d`] saves.
#[derive(Clone, Debug)]
struct NormPreluConv(NormActConv);

impl Operation<7> for NormPreluConv {
    fn backward(self, gradient: Tensor<5>, needed: [bool; 7]) -> [AnyTensor; 7] {
        let [residual, x, norm_weight, norm_bias, for_slope, weight, bias] = needed;
        let mut slope = None;
        let needed = [residual, x || for_slope, norm_weight, norm_bias, weight, bias];
        let [residual, x, norm_weight, norm_bias, weight, bias] =
            self.0.gradients(gradient, needed, |x, entry, behind| {
                slope = for_slope.then(|| slope_gradient(x, entry.normalization.as_ref(), behind));
            });
        [residual, x, norm_weight, norm_bias, slope.into(), weight, bias]
    }

    fn exchange(&mut self, exchange: &mut dyn FnMut(&mut Tensor<5>)) {
        self.0.exchange(exchange);
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Device, Distribution, Tolerance, ops::ConvOptions};

    use super::*;
    use crate::{Activation, activate, conv3d, group_norm_act, norm_prelu};

    /// A leaky ReLU made of two ReLUs, whose gradients are those of autodiff.
    fn composed(x: Tensor<5>, norm: Option<Norm>, slope: Tensor<1>) -> Tensor<5> {
        let n = match norm {
            Some(norm) => group_norm_act(x, norm, Activation::None),
            None => x,
        };
        activate(n.clone(), Activation::Relu) - activate(-n, Activation::Relu) * slope.reshape([1; 5])
    }

    fn close(found: &Tensor<5>, expected: &Tensor<5>, inputs: &[Tensor<1>], x: &Tensor<5>, case: &str) {
        let tolerance = || Tolerance::absolute(2e-5);
        found.to_data().assert_approx_eq::<f32>(&expected.to_data(), tolerance());
        let factor = Tensor::<5>::random(found.dims(), Distribution::Normal(0.0, 1.0), &found.device());
        let gradients = [found, expected].map(|y| (y.clone() * factor.clone()).sum().backward());
        let [ours, theirs] = gradients.each_ref().map(|gradients| x.grad(gradients).unwrap().into_data());
        ours.assert_approx_eq::<f32>(&theirs, tolerance());
        for input in inputs {
            let [ours, theirs] = gradients.each_ref().map(|gradients| input.grad(gradients).unwrap().into_data());
            println!("{case}: {ours} {theirs}");
            ours.assert_approx_eq::<f32>(&theirs, Tolerance::relative(1e-4).set_absolute(1e-4));
        }
    }

    #[test]
    fn values_and_gradients_are_those_of_the_composition() {
        let device = Device::flex().autodiff();
        let normal = |mean| Distribution::Normal(mean, 1.0);
        let x = Tensor::<5>::random([2, 4, 3, 4, 5], normal(0.5), &device).require_grad();
        let slope = Tensor::<1>::from_floats([0.3], &device).require_grad();
        let [scale, shift] = [1.0, 0.2].map(|mean| Tensor::<1>::random([4], normal(mean), &device).require_grad());
        let weight = Tensor::<5>::random([3, 4, 3, 3, 3], normal(0.0), &device) * 0.2;
        let residual = Tensor::<5>::random([2, 3, 3, 4, 5], normal(0.0), &device);
        let plain = Norm { num_groups: 4, epsilon: 1e-5, weight: None, bias: None };
        let affine = Norm { num_groups: 2, weight: Some(scale.clone()), bias: Some(shift.clone()), ..plain.clone() };
        for (case, norm, inputs) in [
            ("no norm", None, vec![slope.clone()]),
            ("instance norm", Some(plain), vec![slope.clone()]),
            ("group norm", Some(affine), vec![slope.clone(), scale, shift]),
        ] {
            let found = norm_prelu(x.clone(), norm.clone(), slope.clone());
            close(&found, &composed(x.clone(), norm.clone(), slope.clone()), &inputs, &x, case);
            let convolution = Convolution {
                weight: weight.clone(),
                bias: None,
                options: ConvOptions::new([1; 3], [1; 3], [1; 3], 1),
            };
            let found =
                norm_prelu_conv3d(x.clone(), norm.clone(), slope.clone(), convolution.clone(), Some(residual.clone()));
            let expected = conv3d(composed(x.clone(), norm, slope.clone()), convolution) + residual.clone();
            close(&found, &expected, &inputs, &x, case);
        }
    }
}
