//! The discrete autoencoder itself.

use burn::module::Module;
use burn::tensor::{Device, Int, Tensor, assert_shape};
use leanburn_common::panic_if_invalid;
use leanburn_ops::{ResidencyPolicy, Unstreamable};

use super::block::{VqBlock, VqResidual, downsample, plain, upsample};
use super::config::VqVae3dConfig;
use crate::blocks::VectorQuantizer;
use crate::models::chain::Chain;
use crate::segmented::segmented;
use crate::weights::MonaiWeights;

/// Autoencoder with a discrete latent space; see [`VqVae3dConfig`] for an example.
///
/// Equal to MONAI's `VQVAE`. All volumes are `[batch_size, channels, depth, height, width]`.
///
/// # Memory
///
/// Saved for backward: what the segments keep, which the residency policy decides. Segments are levels and the blocks in
/// them, and `quantizer`.
#[derive(Module, Debug)]
pub struct VqVae3d {
    encoder: Chain<VqBlock>,
    quantizer: VectorQuantizer,
    decoder: Chain<VqBlock>,
    #[module(skip)]
    config: VqVae3dConfig,
    #[module(skip)]
    residency: ResidencyPolicy,
}

impl VqVae3dConfig {
    /// Makes the model, weights distributed as PyTorch's defaults.
    ///
    /// # Panics
    ///
    /// Panics with the [errors](Self::validate) of the configuration if there are any.
    pub fn init(&self, device: &Device) -> VqVae3d {
        panic_if_invalid("VqVae3d", &self.validate());
        VqVae3d {
            encoder: encoder(self, device),
            quantizer: self.quantizer.init(device),
            decoder: decoder(self, device),
            config: self.clone(),
            residency: ResidencyPolicy::default(),
        }
    }
}

segmented!(VqVae3d, VqVae3dConfig);

impl VqVae3d {
    /// The codebook.
    pub fn quantizer(&self) -> &VectorQuantizer {
        &self.quantizer
    }

    /// Names of the segments in order of execution.
    pub fn segments(&self) -> Vec<String> {
        [self.encoder.segments(), vec!["quantizer".to_string()], self.decoder.segments()].concat()
    }

    /// Each segment of encoder and decoder, and what stands against [streaming](leanburn_ops::Residency::Stream) it, if anything does.
    pub fn unstreamable(&self) -> Vec<(String, Option<Unstreamable>)> {
        [self.encoder.unstreamable(), self.decoder.unstreamable()].concat()
    }

    /// The latent before quantisation.
    ///
    /// # Shapes
    ///
    /// - input: `[batch_size, in_channels, depth, height, width]`
    /// - output: `[batch_size, embedding_dim, ..]`, each axis halved once a level with the default convolutions
    ///
    /// # Panics
    ///
    /// Panics if the input has other than `in_channels` channels or is smaller than a kernel at any layer.
    pub fn encode(&self, x: Tensor<5>) -> Tensor<5> {
        let in_channels = self.config.in_channels;
        assert_shape!(x, [_, in_channels, ..]);
        self.encoder.encode(x, &self.residency, VqBlock::forward)
    }

    /// The quantised latent and the commitment loss; see [`VectorQuantizer::forward`], also for the shapes.
    pub fn quantize(&self, latent: Tensor<5>) -> (Tensor<5>, Tensor<1>) {
        self.residency.run("quantizer", &self.quantizer, latent, VectorQuantizer::forward)
    }

    /// The codes of a volume.
    ///
    /// # Shapes
    ///
    /// - input: `[batch_size, in_channels, depth, height, width]`
    /// - output: `[batch_size, ..]`, axes as of [`encode`](Self::encode), no channels
    pub fn index_quantize(&self, x: Tensor<5>) -> Tensor<4, Int> {
        self.quantizer.codes(self.encode(x))
    }

    /// The volume of a latent.
    ///
    /// # Shapes
    ///
    /// - input: `[batch_size, embedding_dim, depth, height, width]`
    /// - output: `[batch_size, out_channels, ..]`, each axis doubled once a level with the default convolutions
    pub fn decode(&self, latent: Tensor<5>) -> Tensor<5> {
        let embedding_dim = self.config.quantizer.embedding_dim;
        assert_shape!(latent, [_, embedding_dim, ..]);
        self.decoder.decode(latent, &self.residency, VqBlock::forward)
    }

    /// The volume of codes.
    ///
    /// # Shapes
    ///
    /// - input: `[batch_size, depth, height, width]`
    /// - output: as of [`decode`](Self::decode)
    pub fn decode_samples(&self, codes: Tensor<4, Int>) -> Tensor<5> {
        self.decode(self.quantizer.embed(codes))
    }

    /// Encodes, quantises and decodes: the reconstruction and the commitment loss.
    ///
    /// # Shapes
    ///
    /// - input: `[batch_size, in_channels, depth, height, width]`
    /// - outputs: `[batch_size, out_channels, depth, height, width]` and `[1]`
    pub fn forward(&self, x: Tensor<5>) -> (Tensor<5>, Tensor<1>) {
        let (latent, loss) = self.quantize(self.encode(x));
        (self.decode(latent), loss)
    }
}

/// Each level a strided convolution and residual units, then a convolution to the codebook's channels.
fn encoder(config: &VqVae3dConfig, device: &Device) -> Chain<VqBlock> {
    let mut chain = Chain::new();
    let mut channels = config.in_channels;
    for (level, &width) in config.channels.iter().enumerate() {
        chain.begin(format!("encoder.level_{level}"));
        let block = downsample([std::mem::replace(&mut channels, width), width], config.downsample, device);
        chain.push(format!("encoder.level_{level}.downsample"), block);
        residual_units(&mut chain, "encoder", level, config, device);
    }
    chain.push("encoder.out".to_string(), plain([channels, config.quantizer.embedding_dim], device));
    chain
}

/// A convolution, then each level residual units and a transposed convolution, the coarsest level first.
fn decoder(config: &VqVae3dConfig, device: &Device) -> Chain<VqBlock> {
    let mut chain = Chain::new();
    let last = config.channels.len() - 1;
    chain.begin(format!("decoder.level_{last}"));
    chain.push("decoder.conv_in".to_string(), plain([config.quantizer.embedding_dim, config.channels[last]], device));
    for level in (0..=last).rev() {
        residual_units(&mut chain, "decoder", level, config, device);
        let finer = if level == 0 { config.out_channels } else { config.channels[level - 1] };
        chain.begin(if level == 0 { "decoder.out".to_string() } else { format!("decoder.level_{}", level - 1) });
        let block = upsample([config.channels[level], finer], config.upsample, level > 0, device);
        chain.push(format!("decoder.level_{level}.upsample"), block);
    }
    chain
}

fn residual_units(chain: &mut Chain<VqBlock>, part: &str, level: usize, config: &VqVae3dConfig, device: &Device) {
    for unit in 0..config.num_res_layers {
        let block = VqResidual::new(config.channels[level], config.num_res_channels[level], device);
        chain.push(format!("{part}.level_{level}.res_{unit}"), VqBlock::Residual(block));
    }
}

impl MonaiWeights for VqVae3d {
    fn monai_name(path: &str) -> String {
        match path.split_once("quantizer.") {
            Some(("", "embedding")) => "quantizer.quantizer.embedding.weight".to_string(),
            Some(("", state)) => format!("quantizer.quantizer.{state}"),
            _ => path.replace(".conv.conv.", ".conv."),
        }
    }
}
