//! Levels of an autoencoder, whole and in stages, and gradients in a form that compares.
#![allow(dead_code)] // each test binary uses a part

use burn::prelude::*;
use burn::tensor::{TensorData, ops::ConvOptions};
use leanburn_ops::{
    Activation, Convolution, Norm, Stages, StreamSettings, backward, conv3d, norm_act_conv3d, random, stream,
    upsample_conv3d,
};

/// Which level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Enlargement, residual block with a convolution in its skip, norm and convolution.
    Decoder,
    /// Convolution, residual block, convolution of stride two.
    Encoder,
    /// Two residual blocks: the input has a norm.
    Blocks,
}

/// Convolutions, each with the norm in front of it.
pub struct Level {
    kind: Kind,
    layers: Vec<(Option<Norm>, Convolution)>,
}

/// Groups of all norms.
const GROUPS: usize = 2;

fn leaf<const D: usize>(dims: [usize; D], mean: f64, deviation: f64, device: &Device) -> Tensor<D> {
    (random::normal(dims, device) * deviation + mean).require_grad()
}

fn layer(channels: [usize; 2], kernel: usize, norm: bool, device: &Device) -> (Option<Norm>, Convolution) {
    let [channels_in, channels_out] = channels;
    let deviation = (1.0 / (channels_in * kernel.pow(3)) as f64).sqrt();
    let weight = leaf([channels_out, channels_in, kernel, kernel, kernel], 0.0, deviation, device);
    let padding = [(kernel / 2, kernel / 2); 3];
    let options = ConvOptions::new_with_padding([1; 3], padding, [1; 3], 1);
    let vector = |channels, mean| Some(leaf([channels], mean, 0.5, device));
    let norm = norm.then(|| Norm {
        num_groups: GROUPS,
        epsilon: 1e-6,
        weight: vector(channels_in, 1.0),
        bias: vector(channels_in, 0.0),
    });
    (norm, Convolution { weight, bias: vector(channels_out, 0.0), options })
}

impl Level {
    pub fn new(kind: Kind, [wide, narrow]: [usize; 2], device: &Device) -> Self {
        let layers = match kind {
            Kind::Decoder => vec![
                layer([wide; 2], 3, false, device),
                layer([wide, narrow], 3, true, device),
                layer([wide, narrow], 1, false, device),
                layer([narrow; 2], 3, true, device),
                layer([narrow, 1], 3, true, device),
            ],
            Kind::Encoder => {
                let mut down = layer([narrow, wide], 3, false, device);
                down.1.options = ConvOptions::new_with_padding([2; 3], [(0, 1); 3], [1; 3], 1);
                vec![
                    layer([1, narrow], 3, false, device),
                    layer([narrow; 2], 3, true, device),
                    layer([narrow; 2], 3, true, device),
                    down,
                ]
            }
            Kind::Blocks => (0..4).map(|_| layer([wide; 2], 3, true, device)).collect(),
        };
        Self { kind, layers }
    }

    /// Channels of the input.
    pub fn channels_in(&self) -> usize {
        self.layers[0].1.weight.dims()[1]
    }

    pub fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        let conv = |index: usize, x: Tensor<5>, activation, residual| {
            let (norm, convolution) = self.layers[index].clone();
            norm_act_conv3d(x, norm, activation, convolution, residual)
        };
        let block = |first: usize, second: usize, x: Tensor<5>, skip: Tensor<5>| {
            conv(second, conv(first, x, Activation::Silu, None), Activation::Silu, Some(skip))
        };
        match self.kind {
            Kind::Decoder => {
                let u = upsample_conv3d(x, [2; 3], self.layers[0].1.clone());
                let h = conv(1, u.clone(), Activation::Silu, None);
                let skip = conv3d(u, self.layers[2].1.clone());
                conv(4, conv(3, h, Activation::Silu, Some(skip)), Activation::None, None)
            }
            Kind::Encoder => {
                let u = conv3d(x, self.layers[0].1.clone());
                conv3d(block(1, 2, u.clone(), u), self.layers[3].1.clone())
            }
            Kind::Blocks => {
                let y = block(0, 1, x.clone(), x);
                block(2, 3, y.clone(), y)
            }
        }
    }

    pub fn stages(&self) -> Stages {
        let mut stages = Stages::new();
        let x = stages.input();
        let conv = |stages: &mut Stages, index: usize, x, activation, residual| {
            let (norm, convolution) = self.layers[index].clone();
            stages.norm_act_conv3d(x, norm, activation, convolution, residual)
        };
        let block = |stages: &mut Stages, first: usize, second: usize, x| {
            let h = conv(stages, first, x, Activation::Silu, None);
            conv(stages, second, h, Activation::Silu, Some(x))
        };
        match self.kind {
            Kind::Decoder => {
                let u = stages.upsample_conv3d(x, [2; 3], self.layers[0].1.clone());
                let h = conv(&mut stages, 1, u, Activation::Silu, None);
                let skip = stages.conv3d(u, self.layers[2].1.clone());
                let y = conv(&mut stages, 3, h, Activation::Silu, Some(skip));
                conv(&mut stages, 4, y, Activation::None, None);
            }
            Kind::Encoder => {
                let u = stages.conv3d(x, self.layers[0].1.clone());
                let y = block(&mut stages, 1, 2, u);
                stages.conv3d(y, self.layers[3].1.clone());
            }
            Kind::Blocks => {
                let y = block(&mut stages, 0, 1, x);
                block(&mut stages, 2, 3, y);
            }
        }
        stages
    }

    /// Plain, or streamed.
    pub fn run(&self, x: Tensor<5>, streamed: Option<StreamSettings>) -> Tensor<5> {
        match streamed {
            None => self.forward(x),
            Some(settings) => stream(x, self.stages(), settings),
        }
    }

    /// The output, and the gradients of the input and of all parameters, of a loss that depends on every voxel.
    pub fn outcome(&self, x: &Tensor<5>, streamed: Option<StreamSettings>) -> Vec<Option<TensorData>> {
        let y = self.run(x.clone() * 1.5, streamed); // not a leaf
        let output = y.clone().into_data();
        let mut gradients = backward((y.clone() * y.clone() * y).mean());
        let mut all = vec![Some(output), gradients.take(x).map(Tensor::into_data)];
        for (norm, convolution) in &self.layers {
            all.push(gradients.take(&convolution.weight).map(Tensor::into_data));
            let of_norm = norm.iter().flat_map(|norm| [norm.weight.clone(), norm.bias.clone()]);
            for vector in [convolution.bias.clone()].into_iter().chain(of_norm).flatten() {
                all.push(gradients.take(&vector).map(Tensor::into_data));
            }
        }
        all
    }

    /// The same level with parameters that need no gradient.
    pub fn frozen(mut self) -> Self {
        let still = |vector: &mut Option<Tensor<1>>| *vector = vector.take().map(without_gradient);
        for (norm, convolution) in &mut self.layers {
            convolution.weight = without_gradient(convolution.weight.clone());
            still(&mut convolution.bias);
            norm.iter_mut().for_each(|norm| [&mut norm.weight, &mut norm.bias].into_iter().for_each(still));
        }
        self
    }
}

/// The tensor as a constant.
pub fn without_gradient<const D: usize>(tensor: Tensor<D>) -> Tensor<D> {
    tensor.detach().set_require_grad(false)
}

/// The difference relative to the size of the expected values, both as Euclidean lengths.
pub fn error(found: &TensorData, expected: &TensorData) -> f64 {
    assert_eq!((found.shape(), found.dtype()), (expected.shape(), expected.dtype()));
    let (found, expected): (Vec<f64>, Vec<f64>) = (found.iter().collect(), expected.iter().collect());
    let length = |values: &mut dyn Iterator<Item = f64>| values.map(|value| value * value).sum::<f64>().sqrt();
    let difference = length(&mut found.iter().zip(&expected).map(|(a, b)| a - b));
    difference / length(&mut expected.iter().copied()).max(1e-30)
}
