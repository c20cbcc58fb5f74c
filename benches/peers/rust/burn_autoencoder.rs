//! The KL autoencoder of Burn's own layers, with the architecture and the parameters of MONAI's `AutoencoderKL`.

use burn::module::Module;
use burn::nn::conv::{Conv3d, Conv3dConfig};
use burn::nn::{GroupNorm, GroupNormConfig, Linear, LinearConfig, PaddingConfig3d};
use burn::tensor::{Device, Tensor, activation::softmax, ops::PadMode};
use leanburn::nn::models::AutoencoderKlConfig;

use crate::burn_block::BurnBlock;

/// Encoder, Gaussian latent, decoder.
#[derive(Module, Debug)]
pub struct BurnAutoencoder {
    encoder: Vec<Layer>,
    mean: Conv3d,
    log_variance: Conv3d,
    behind_sample: Conv3d,
    decoder: Vec<Layer>,
}

impl BurnAutoencoder {
    /// Makes the model; of the configuration it knows levels, attention at them and the groups of the norms.
    pub fn new(config: &AutoencoderKlConfig, device: &Device) -> Self {
        let (channels, latent, last) = (&config.channels, config.latent_channels, config.channels.len() - 1);
        let pointwise = || Conv3dConfig::new([latent; 2], [1; 3]).init(device);
        let mut encoder = vec![Layer::Conv(conv([config.in_channels, channels[0]], device))];
        for level in 0..=last {
            encoder.extend(level_layers([channels[level.saturating_sub(1)], channels[level]], level, config, device));
            if level < last {
                let config = Conv3dConfig::new([channels[level]; 2], [3; 3]).with_stride([2; 3]);
                encoder.push(Layer::Halve(config.init(device)));
            }
        }
        encoder.extend(out([channels[last], latent], config, device));
        let mut decoder = vec![Layer::Conv(conv([latent, channels[last]], device))];
        for level in (0..=last).rev() {
            decoder.extend(level_layers([channels[(level + 1).min(last)], channels[level]], level, config, device));
            if level > 0 {
                decoder.push(Layer::Double(conv([channels[level]; 2], device)));
            }
        }
        decoder.extend(out([channels[0], config.out_channels], config, device));
        Self { encoder, mean: pointwise(), log_variance: pointwise(), behind_sample: pointwise(), decoder }
    }

    /// From a volume and the noise of its latent: the reconstruction, and mean and deviation of the latent.
    pub fn forward(&self, x: Tensor<5>, noise: Tensor<5>) -> (Tensor<5>, Tensor<5>, Tensor<5>) {
        let run = |layers: &[Layer], x| layers.iter().fold(x, |x, layer| layer.forward(x));
        let h = run(&self.encoder, x);
        let mean = self.mean.forward(h.clone());
        let sigma = (self.log_variance.forward(h).clamp(-30.0, 20.0) / 2.0).exp();
        let z = mean.clone() + noise * sigma.clone();
        (run(&self.decoder, self.behind_sample.forward(z)), mean, sigma)
    }
}

fn conv(channels: [usize; 2], device: &Device) -> Conv3d {
    Conv3dConfig::new(channels, [3; 3]).with_padding(PaddingConfig3d::Same).init(device)
}

fn norm(channels: usize, config: &AutoencoderKlConfig, device: &Device) -> GroupNorm {
    GroupNormConfig::new(config.norm_num_groups, channels).with_epsilon(config.norm_eps).init(device)
}

fn level_layers(channels: [usize; 2], level: usize, config: &AutoencoderKlConfig, device: &Device) -> Vec<Layer> {
    let mut layers = vec![Layer::Block(BurnBlock::new(channels, config.norm_num_groups, device))];
    if config.attention_levels[level] {
        layers.push(Layer::Attention(BurnAttention {
            norm: norm(channels[1], config, device),
            projections: [(); 4].map(|()| LinearConfig::new(channels[1], channels[1]).init(device)),
        }));
    }
    layers
}

fn out(channels: [usize; 2], config: &AutoencoderKlConfig, device: &Device) -> [Layer; 2] {
    [Layer::Norm(norm(channels[0], config, device)), Layer::Conv(conv(channels, device))]
}

/// One layer of a chain.
#[derive(Module, Debug)]
#[expect(clippy::large_enum_variant, reason = "handles to parameters, nothing but handles")]
enum Layer {
    Conv(Conv3d),
    Norm(GroupNorm),
    Block(BurnBlock),
    Attention(BurnAttention),
    /// A zero at the far end of each axis, then a convolution of stride two.
    Halve(Conv3d),
    /// Nearest neighbour, then a convolution.
    Double(Conv3d),
}

impl Layer {
    fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        match self {
            Self::Conv(conv) => conv.forward(x),
            Self::Norm(norm) => norm.forward(x),
            Self::Block(block) => block.forward(x),
            Self::Attention(attention) => attention.forward(x),
            Self::Halve(conv) => conv.forward(x.pad([(0, 1); 3], PadMode::Constant(0.0))),
            Self::Double(conv) => conv.forward(doubled(x)),
        }
    }
}

fn doubled(x: Tensor<5>) -> Tensor<5> {
    let [batch_size, channels, depth, height, width] = x.dims();
    x.reshape([batch_size, channels, depth, 1, height, 1, width, 1])
        .expand([batch_size, channels, depth, 2, height, 2, width, 2])
        .reshape([batch_size, channels, 2 * depth, 2 * height, 2 * width])
}

/// Group norm, attention over all positions of one head, plus the input.
#[derive(Module, Debug)]
struct BurnAttention {
    norm: GroupNorm,
    /// To queries, keys and values, and of the result.
    projections: [Linear; 4],
}

impl BurnAttention {
    fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        let shape @ [batch_size, channels, ..] = x.dims();
        let h = self.norm.forward(x.clone()).reshape([batch_size as i64, channels as i64, -1]).swap_dims(1, 2);
        let [to_query, to_key, to_value, out] = &self.projections;
        let [query, key, value] = [to_query, to_key, to_value].map(|layer| layer.forward(h.clone()));
        let scores: Tensor<3> = query.matmul(key.transpose()) * (channels as f64).powf(-0.5);
        x + out.forward(softmax(scores, 2).matmul(value)).swap_dims(1, 2).reshape(shape)
    }
}
