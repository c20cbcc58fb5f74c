//! Models of sequences.

use burn::module::Module;
use burn::nn::conv::{Conv1d, Conv1dConfig};
use burn::nn::gru::{Gru, GruConfig};
use burn::nn::loss::{CrossEntropyLossConfig, MseLoss, Reduction};
use burn::nn::transformer::{TransformerEncoder, TransformerEncoderConfig, TransformerEncoderInput};
use burn::nn::{
    Embedding, EmbeddingConfig, LayerNorm, LayerNormConfig, Linear, LinearConfig, Lstm, LstmConfig, PaddingConfig1d,
    RmsNorm, RmsNormConfig,
};
use burn::prelude::*;
use burn::tensor::activation::{relu, silu};

use super::{Foreign, classes, numbers};

/// The next token from the mean of those before, with weights of a table of tokens.
#[derive(Module, Debug)]
pub struct Language {
    tokens: Embedding,
    norm: LayerNorm,
    hidden: Linear,
    output: Linear,
}

impl Foreign for Language {
    type Batch = (Tensor<2, Int>, Tensor<2, Int>);
    const SIZES: [usize; 2] = [2, 16];

    fn new(device: &Device) -> Self {
        Self {
            tokens: EmbeddingConfig::new(512, 128).init(device),
            norm: LayerNormConfig::new(128).init(device),
            hidden: LinearConfig::new(128, 256).init(device),
            output: LinearConfig::new(256, 512).init(device),
        }
    }

    fn batch(size: usize, device: &Device) -> Self::Batch {
        (classes([size, 64], 512, device), classes([size, 64], 509, device))
    }

    fn loss(&self, (tokens, next): Self::Batch) -> Tensor<1> {
        let y = silu(self.hidden.forward(self.norm.forward(self.tokens.forward(tokens))));
        let logits: Tensor<2> = self.output.forward(y).flatten(0, 1);
        let loss = CrossEntropyLossConfig::new().with_pad_tokens(Some(vec![0])).init(&logits.device());
        loss.forward(logits, next.flatten(0, 1))
    }
}

/// Burn's encoder, with a mask of what is padding.
#[derive(Module, Debug)]
pub struct Transformer {
    tokens: Embedding,
    encoder: TransformerEncoder,
    output: Linear,
}

impl Foreign for Transformer {
    type Batch = (Tensor<2, Int>, Tensor<2, Bool>, Tensor<1, Int>);
    const SIZES: [usize; 2] = [1, 8];

    fn new(device: &Device) -> Self {
        Self {
            tokens: EmbeddingConfig::new(256, 64).init(device),
            encoder: TransformerEncoderConfig::new(64, 128, 4, 2).init(device),
            output: LinearConfig::new(64, 5).init(device),
        }
    }

    fn batch(size: usize, device: &Device) -> Self::Batch {
        let tokens = classes([size, 96], 256, device);
        (tokens.clone(), tokens.greater_elem(250), classes([size], 5, device))
    }

    fn loss(&self, (tokens, padding, labels): Self::Batch) -> Tensor<1> {
        let y = self.encoder.forward(TransformerEncoderInput::new(self.tokens.forward(tokens)).mask_pad(padding));
        let logits = self.output.forward(y.mean_dim(1).squeeze_dim::<2>(1));
        CrossEntropyLossConfig::new().init(&logits.device()).forward(logits, labels)
    }
}

/// Burn's LSTM.
#[derive(Module, Debug)]
pub struct Sequence {
    lstm: Lstm,
    output: Linear,
}

impl Foreign for Sequence {
    type Batch = (Tensor<3>, Tensor<2>);
    const SIZES: [usize; 2] = [4, 128];

    fn new(device: &Device) -> Self {
        Self { lstm: LstmConfig::new(32, 128, true).init(device), output: LinearConfig::new(128, 4).init(device) }
    }

    fn batch(size: usize, device: &Device) -> Self::Batch {
        (numbers([size, 24, 32], device), numbers([size, 4], device))
    }

    fn loss(&self, (x, target): Self::Batch) -> Tensor<1> {
        let (_, state) = self.lstm.forward(x, None);
        MseLoss::new().forward(self.output.forward(state.hidden), target, Reduction::Mean)
    }
}

/// Burn's GRU.
#[derive(Module, Debug)]
pub struct Recurrent {
    gru: Gru,
    norm: RmsNorm,
    output: Linear,
}

impl Foreign for Recurrent {
    type Batch = (Tensor<3>, Tensor<3>);
    const SIZES: [usize; 2] = [4, 128];

    fn new(device: &Device) -> Self {
        Self {
            gru: GruConfig::new(32, 128, true).init(device),
            norm: RmsNormConfig::new(128).init(device),
            output: LinearConfig::new(128, 4).init(device),
        }
    }

    fn batch(size: usize, device: &Device) -> Self::Batch {
        (numbers([size, 24, 32], device), numbers([size, 24, 4], device))
    }

    fn loss(&self, (x, target): Self::Batch) -> Tensor<1> {
        let y = self.output.forward(self.norm.forward(self.gru.forward(x, None)));
        MseLoss::new().forward(y, target, Reduction::Mean)
    }
}

/// Convolutions along time with growing steps between the elements of their kernels.
#[derive(Module, Debug)]
pub struct Dilated {
    convolutions: Vec<Conv1d>,
}

impl Foreign for Dilated {
    type Batch = Tensor<3>;
    const SIZES: [usize; 2] = [2, 16];

    fn new(device: &Device) -> Self {
        let convolution = |(from, dilation): (usize, usize)| {
            let config = Conv1dConfig::new(from, 32, 3).with_dilation(dilation);
            config.with_padding(PaddingConfig1d::Explicit(dilation, dilation)).init(device)
        };
        Self { convolutions: [(8, 1), (32, 2), (32, 4), (32, 8)].map(convolution).into() }
    }

    fn batch(size: usize, device: &Device) -> Tensor<3> {
        numbers([size, 8, 512], device)
    }

    fn loss(&self, x: Tensor<3>) -> Tensor<1> {
        let y = self.convolutions.iter().fold(x, |x, convolution| relu(convolution.forward(x)));
        (y - 1.0).abs().mean()
    }
}
