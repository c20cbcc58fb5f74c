//! Models of vectors.

use burn::module::{Module, Param};
use burn::nn::loss::{CrossEntropyLossConfig, MseLoss, Reduction};
use burn::nn::{Dropout, DropoutConfig, Linear, LinearConfig, PRelu, PReluConfig};
use burn::prelude::*;
use burn::tensor::DType;
use burn::tensor::activation::relu;

use super::{Foreign, classes, numbers};

/// Linear layers with dropout between them.
#[derive(Module, Debug)]
pub struct Perceptron {
    layers: Vec<Linear>,
    dropout: Dropout,
    output: Linear,
}

impl Foreign for Perceptron {
    type Batch = (Tensor<2>, Tensor<2>);
    const SIZES: [usize; 2] = [8, 2048];

    fn new(device: &Device) -> Self {
        Self {
            layers: [[64, 256], [256, 256], [256, 256]]
                .map(|[from, to]| LinearConfig::new(from, to).init(device))
                .into(),
            dropout: DropoutConfig::new(0.2).init(),
            output: LinearConfig::new(256, 3).init(device),
        }
    }

    fn batch(size: usize, device: &Device) -> Self::Batch {
        (numbers([size, 64], device), numbers([size, 3], device))
    }

    fn loss(&self, (x, target): Self::Batch) -> Tensor<1> {
        let y = self.layers.iter().fold(x, |x, layer| self.dropout.forward(relu(layer.forward(x))));
        MseLoss::new().forward(self.output.forward(y), target, Reduction::Mean)
    }
}

/// Classes from whole numbers, which are made floats, a learned slope and label smoothing.
#[derive(Module, Debug)]
pub struct WholeNumbers {
    input: Linear,
    slope: PRelu,
    output: Linear,
}

impl Foreign for WholeNumbers {
    type Batch = (Tensor<2, Int>, Tensor<1, Int>);
    const SIZES: [usize; 2] = [8, 2048];

    fn new(device: &Device) -> Self {
        Self {
            input: LinearConfig::new(128, 384).init(device),
            slope: PReluConfig::new().init(device),
            output: LinearConfig::new(384, 10).init(device),
        }
    }

    fn batch(size: usize, device: &Device) -> Self::Batch {
        (classes([size, 128], 5, device), classes([size], 10, device))
    }

    fn loss(&self, (x, labels): Self::Batch) -> Tensor<1> {
        let hidden = self.slope.forward(self.input.forward(x.float() / 5.0));
        let loss = CrossEntropyLossConfig::new().with_smoothing(Some(0.1)).init(&hidden.device());
        loss.forward(self.output.forward(hidden), labels)
    }
}

/// Float32 weights and bfloat16 activations, by hand.
#[derive(Module, Debug)]
pub struct Half {
    weights: Vec<Param<Tensor<2>>>,
}

impl Foreign for Half {
    type Batch = (Tensor<2>, Tensor<2>);
    const SIZES: [usize; 2] = [8, 4096];

    fn new(device: &Device) -> Self {
        Self { weights: (0..4).map(|_| Param::from_tensor(numbers([128, 128], device) * 0.01)).collect() }
    }

    fn batch(size: usize, device: &Device) -> Self::Batch {
        (numbers([size, 128], device), numbers([size, 128], device))
    }

    fn loss(&self, (x, target): Self::Batch) -> Tensor<1> {
        let layer = |(x, dtype): (Tensor<2>, DType), weight: &Param<Tensor<2>>| {
            (
                x.cast(dtype).matmul(weight.val().cast(dtype)).tanh(),
                if dtype == DType::BF16 { DType::F16 } else { DType::BF16 },
            )
        };
        let (y, _) = self.weights.iter().fold((x, DType::BF16), layer);
        (y.cast(DType::F32) - target).powi_scalar(2).mean()
    }
}
