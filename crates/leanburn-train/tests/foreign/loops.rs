//! Models with loops of their own.

use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::prelude::*;
use burn::tensor::Distribution;
use burn::tensor::activation::{sigmoid, softplus, tanh};

use super::{Foreign, numbers};

/// One layer that improves its own answer again and again, with a loss after each time.
#[derive(Module, Debug)]
pub struct Refiner {
    input: Linear,
    step: Linear,
    gate: Linear,
}

impl Foreign for Refiner {
    type Batch = Tensor<2>;
    const SIZES: [usize; 2] = [4, 512];

    fn new(device: &Device) -> Self {
        Self {
            input: LinearConfig::new(128, 128).init(device),
            step: LinearConfig::new(128, 128).with_bias(false).init(device),
            gate: LinearConfig::new(128, 128).init(device),
        }
    }

    fn batch(size: usize, device: &Device) -> Tensor<2> {
        numbers([size, 128], device)
    }

    fn loss(&self, x: Tensor<2>) -> Tensor<1> {
        let mut state = tanh(self.input.forward(x.clone() + x.random_like(Distribution::Normal(0.0, 0.1))));
        let mut loss = Tensor::zeros([1], &x.device());
        for _ in 0..6 {
            let gate = sigmoid(self.gate.forward(state.clone()));
            state = gate.clone() * tanh(self.step.forward(state.clone())) + (gate.neg() + 1.0) * state;
            loss = loss + (state.clone() - x.clone()).powi_scalar(2).mean();
        }
        loss
    }
}

/// Several models at once, of which each says how sure it is.
#[derive(Module, Debug)]
pub struct DeepEnsemble {
    members: Vec<[Linear; 3]>,
}

impl Foreign for DeepEnsemble {
    type Batch = (Tensor<2>, Tensor<2>);
    const SIZES: [usize; 2] = [4, 2048];

    fn new(device: &Device) -> Self {
        let linear = |from, to| LinearConfig::new(from, to).init(device);
        Self { members: (0..3).map(|_| [linear(32, 160), linear(160, 16), linear(160, 16)]).collect() }
    }

    fn batch(size: usize, device: &Device) -> Self::Batch {
        (numbers([size, 32], device), numbers([size, 16], device))
    }

    fn loss(&self, (x, target): Self::Batch) -> Tensor<1> {
        let member = |[hidden, mean, spread]: &[Linear; 3]| {
            let hidden = tanh(hidden.forward(x.clone()));
            let spread = softplus(spread.forward(hidden.clone()), 1.0) + 1e-3;
            let error = mean.forward(hidden) - target.clone();
            ((error / spread.clone()).powi_scalar(2) + spread.log() * 2.0).mean()
        };
        let losses = self.members.iter().map(member).collect();
        Tensor::stack::<2>(losses, 0).sum()
    }
}
