//! A residual block as in the field's 3D models, and gradients in a form that compares bit for bit.
#![allow(dead_code)] // each test binary uses a part

use burn::module::{Module, ModuleVisitor, Param};
use burn::nn::conv::{Conv3d, Conv3dConfig};
use burn::nn::{GroupNorm, GroupNormConfig, PaddingConfig3d};
use burn::prelude::*;
use burn::tensor::{TensorData, activation::silu, ops::ConvOptions};
use leanburn_ops::{Activation, Convolution, Gradients, Norm, backward, norm_act_conv3d, recompute};

#[derive(Module, Debug)]
pub struct ResBlock {
    norm_0: GroupNorm,
    conv_0: Conv3d,
    norm_1: GroupNorm,
    conv_1: Conv3d,
}

impl ResBlock {
    pub fn new(channels: usize, device: &Device) -> Self {
        let norm = || GroupNormConfig::new(4, channels).init(device);
        let conv =
            || Conv3dConfig::new([channels, channels], [3, 3, 3]).with_padding(PaddingConfig3d::Same).init(device);
        Self { norm_0: norm(), conv_0: conv(), norm_1: norm(), conv_1: conv() }
    }

    pub fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        let h = self.conv_0.forward(silu(self.norm_0.forward(x.clone())));
        self.conv_1.forward(silu(self.norm_1.forward(h))) + x
    }
}

/// `count` residual blocks, each plain or recomputed.
pub fn chain(blocks: &[ResBlock], x: Tensor<5>, recomputed: bool) -> Tensor<5> {
    blocks.iter().fold(x, |x, block| match recomputed {
        true => recompute(block, x, ResBlock::forward),
        false => block.forward(x),
    })
}

impl ResBlock {
    /// The same block from the operations that save their input only.
    pub fn forward_lean(&self, x: Tensor<5>) -> Tensor<5> {
        self.second_half(self.first_half(x.clone()), x)
    }

    /// The first convolution of it.
    pub fn first_half(&self, x: Tensor<5>) -> Tensor<5> {
        self.half(&self.norm_0, &self.conv_0, x, None)
    }

    /// The second one, and the input.
    pub fn second_half(&self, h: Tensor<5>, x: Tensor<5>) -> Tensor<5> {
        self.half(&self.norm_1, &self.conv_1, h, Some(x))
    }

    fn half(&self, norm: &GroupNorm, conv: &Conv3d, x: Tensor<5>, residual: Option<Tensor<5>>) -> Tensor<5> {
        let scale = |param: &Option<Param<Tensor<1>>>| param.as_ref().map(Param::val);
        let norm = Norm {
            num_groups: norm.num_groups,
            epsilon: norm.epsilon,
            weight: scale(&norm.gamma),
            bias: scale(&norm.beta),
        };
        let options = ConvOptions::new([1; 3], [1; 3], [1; 3], 1);
        let convolution = Convolution { weight: conv.weight.val(), bias: scale(&conv.bias), options };
        norm_act_conv3d(x, Some(norm), Activation::Silu, convolution, residual)
    }
}

/// `count` residual blocks of the operations that save their input only, each plain or recomputed.
pub fn lean_chain(blocks: &[ResBlock], x: Tensor<5>, recomputed: bool) -> Tensor<5> {
    blocks.iter().fold(x, |x, block| match recomputed {
        true => recompute(block, x, ResBlock::forward_lean),
        false => block.forward_lean(x),
    })
}

/// Gradients of all parameters of a module, in visiting order; `None` where there is none.
pub fn gradients_of<M: Module>(module: &M, gradients: &mut Gradients) -> Vec<Option<TensorData>> {
    struct Take<'a>(&'a mut Gradients, Vec<Option<TensorData>>);
    impl ModuleVisitor for Take<'_> {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            self.1.push(self.0.take(&param.val()).map(Tensor::into_data));
        }
    }
    let mut take = Take(gradients, Vec::new());
    module.visit(&mut take);
    take.1
}

/// Loss, gradients of the parameters and of the input.
pub type Outcome = (TensorData, Vec<Option<TensorData>>, Option<TensorData>);

pub fn outcome<M: Module, const D: usize>(module: &M, x: &Tensor<D>, loss: Tensor<1>) -> Outcome {
    let mut gradients = backward(loss.clone());
    (loss.into_data(), gradients_of(module, &mut gradients), gradients.take(x).map(Tensor::into_data))
}

/// All of an outcome is there and finite: two empty outcomes would be equal too.
pub fn is_complete((loss, parameters, input): &Outcome) -> bool {
    let finite = |data: &TensorData| data.iter::<f64>().all(f64::is_finite);
    finite(loss) && parameters.iter().chain([input]).all(|gradient| gradient.as_ref().is_some_and(finite))
}
