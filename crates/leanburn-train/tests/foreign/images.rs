//! Models of images.

use burn::module::Module;
use burn::nn::attention::{MhaInput, MultiHeadAttention, MultiHeadAttentionConfig};
use burn::nn::conv::{Conv2d, Conv2dConfig, ConvTranspose2d, ConvTranspose2dConfig};
use burn::nn::interpolate::{Interpolate2d, Interpolate2dConfig, InterpolateMode};
use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::pool::{AdaptiveAvgPool2d, AdaptiveAvgPool2dConfig, MaxPool2d, MaxPool2dConfig};
use burn::nn::{
    BatchNormConfig, InstanceNorm, InstanceNormConfig, LayerNorm, LayerNormConfig, Linear, LinearConfig,
    PaddingConfig2d,
};
use burn::prelude::*;
use burn::tensor::activation::{gelu, relu, sigmoid};
use leanburn_nn::blocks::BatchNorm;
use leanburn_ops::struct_of_tensors;

use super::{Foreign, classes, numbers};

struct_of_tensors! {
    /// Images, their classes, and which of them count.
    #[derive(Clone, Debug)]
    pub struct Labelled {
        pub images: Tensor<4>,
        pub labels: Tensor<1, Int>,
        pub counts: Tensor<1, Bool>,
    }
}

/// Convolutions, batch norm, pooling. Burn's batch norm cannot be recorded; ours takes its weights.
#[derive(Module, Debug)]
pub struct Classifier {
    convolutions: Vec<Conv2d>,
    norms: Vec<BatchNorm>,
    pool: MaxPool2d,
    average: AdaptiveAvgPool2d,
    output: Linear,
}

impl Foreign for Classifier {
    type Batch = Labelled;
    const SIZES: [usize; 2] = [2, 32];

    fn new(device: &Device) -> Self {
        let channels = [[3, 16], [16, 32]];
        let convolution = |channels| {
            let config = Conv2dConfig::new(channels, [3, 3]).with_padding(PaddingConfig2d::Explicit(1, 1, 1, 1));
            config.init(device)
        };
        Self {
            convolutions: channels.map(convolution).into(),
            norms: channels.map(|[_, channels]| BatchNorm::from(BatchNormConfig::new(channels).init(device))).into(),
            pool: MaxPool2dConfig::new([2, 2]).with_strides([2, 2]).init(),
            average: AdaptiveAvgPool2dConfig::new([1, 1]).init(),
            output: LinearConfig::new(32, 10).init(device),
        }
    }

    fn batch(size: usize, device: &Device) -> Labelled {
        let labels = classes([size], 10, device);
        Labelled { images: numbers([size, 3, 32, 32], device), counts: labels.clone().greater_elem(0), labels }
    }

    fn loss(&self, Labelled { images, labels, counts }: Labelled) -> Tensor<1> {
        let layers = self.convolutions.iter().zip(&self.norms);
        let y =
            layers.fold(images, |x, (convolution, norm)| self.pool.forward(relu(norm.forward(convolution.forward(x)))));
        let logits = self.output.forward(self.average.forward(y).flatten(1, 3));
        let logits = logits.mask_fill(counts.bool_not().unsqueeze_dim::<2>(1).expand([labels.dims()[0], 10]), 0.0);
        CrossEntropyLossConfig::new().init(&logits.device()).forward(logits, labels)
    }
}

/// Strided and transposed convolutions, instance norm, interpolation.
#[derive(Module, Debug)]
pub struct Autoencoder {
    encoder: Conv2d,
    norm: InstanceNorm,
    enlarge: Interpolate2d,
    middle: Conv2d,
    decoder: ConvTranspose2d,
}

impl Foreign for Autoencoder {
    type Batch = Tensor<4>;
    const SIZES: [usize; 2] = [1, 8];

    fn new(device: &Device) -> Self {
        let convolution = |channels, stride: usize| {
            let config = Conv2dConfig::new(channels, [3, 3]).with_stride([stride, stride]);
            config.with_padding(PaddingConfig2d::Explicit(1, 1, 1, 1)).init(device)
        };
        Self {
            encoder: convolution([1, 16], 4),
            norm: InstanceNormConfig::new(16).init(device),
            enlarge: Interpolate2dConfig::new()
                .with_scale_factor(Some([2.0, 2.0]))
                .with_mode(InterpolateMode::Nearest)
                .init(),
            middle: convolution([16, 16], 1),
            decoder: ConvTranspose2dConfig::new([16, 1], [2, 2]).with_stride([2, 2]).init(device),
        }
    }

    fn batch(size: usize, device: &Device) -> Tensor<4> {
        numbers([size, 1, 128, 128], device)
    }

    fn loss(&self, x: Tensor<4>) -> Tensor<1> {
        let y = gelu(self.norm.forward(self.encoder.forward(x.clone())));
        let y = gelu(self.middle.forward(self.enlarge.forward(y)));
        (sigmoid(self.decoder.forward(y)) - x).abs().mean()
    }
}

/// Patches of an image, which attend to each other.
#[derive(Module, Debug)]
pub struct VisionTransformer {
    patches: Conv2d,
    norms: Vec<LayerNorm>,
    attention: Vec<MultiHeadAttention>,
    output: Linear,
}

impl Foreign for VisionTransformer {
    type Batch = (Tensor<4>, Tensor<1, Int>);
    const SIZES: [usize; 2] = [1, 8];

    fn new(device: &Device) -> Self {
        Self {
            patches: Conv2dConfig::new([3, 64], [4, 4]).with_stride([4, 4]).init(device),
            norms: (0..2).map(|_| LayerNormConfig::new(64).init(device)).collect(),
            attention: (0..2).map(|_| MultiHeadAttentionConfig::new(64, 4).init(device)).collect(),
            output: LinearConfig::new(64, 10).init(device),
        }
    }

    fn batch(size: usize, device: &Device) -> Self::Batch {
        (numbers([size, 3, 48, 48], device), classes([size], 10, device))
    }

    fn loss(&self, (images, labels): Self::Batch) -> Tensor<1> {
        let x = self.patches.forward(images).flatten::<3>(2, 3).swap_dims(1, 2);
        let layers = self.norms.iter().zip(&self.attention);
        let y = layers.fold(x, |x, (norm, attention)| {
            x.clone() + attention.forward(MhaInput::self_attn(norm.forward(x))).context
        });
        let logits = self.output.forward(y.mean_dim(1).squeeze_dim::<2>(1));
        CrossEntropyLossConfig::new().init(&logits.device()).forward(logits, labels)
    }
}
