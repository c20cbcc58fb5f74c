//! The voxel autoencoder itself.

use burn::module::Module;
use burn::tensor::{Device, Tensor, assert_shape};
use leanburn_common::panic_if_invalid;
use leanburn_ops::{ResidencyPolicy, Unstreamable};

use super::chain::{decoder, encoder};
use super::config::Vae3dConfig;
use crate::blocks::{Conv3d, Conv3dConfig, VectorQuantizer};
use crate::models::autoencoder_kl::{Block, deviation, sample};
use crate::models::chain::Chain;
use crate::segmented::segmented;
use crate::weights::MonaiWeights;

/// Variational autoencoder of voxels; see [`Vae3dConfig`] for an example.
///
/// All volumes are `[batch_size, channels, depth, height, width]`.
///
/// # Memory
///
/// Saved for backward: what the segments keep, which the residency policy decides; with every segment recomputed, one
/// volume of channels for each segment. Segments are levels and the blocks in them.
#[derive(Module, Debug)]
pub struct Vae3d {
    encoder: Chain<Block>,
    quant_conv: Conv3d,
    quantizer: Option<VectorQuantizer>,
    post_quant_conv: Conv3d,
    decoder: Chain<Block>,
    #[module(skip)]
    config: Vae3dConfig,
    #[module(skip)]
    residency: ResidencyPolicy,
}

impl Vae3dConfig {
    /// Makes the model, weights distributed as PyTorch's defaults.
    ///
    /// # Panics
    ///
    /// Panics with the [errors](Self::validate) of the configuration if there are any.
    pub fn init(&self, device: &Device) -> Vae3d {
        panic_if_invalid("Vae3d", &self.validate());
        let pointwise = || Conv3dConfig::new([self.latent_channels; 2], 1).init(device);
        Vae3d {
            encoder: encoder(self, device),
            quant_conv: pointwise(),
            quantizer: self.codebook.as_ref().map(|codebook| codebook.init(device)),
            post_quant_conv: pointwise(),
            decoder: decoder(self, device),
            config: self.clone(),
            residency: ResidencyPolicy::default(),
        }
    }
}

segmented!(Vae3d, Vae3dConfig);

impl Vae3d {
    /// Names of the segments in order of execution.
    pub fn segments(&self) -> Vec<String> {
        let quantizer = self.quantizer.iter().map(|_| "quantizer".to_string()).collect();
        [self.encoder.segments(), quantizer, self.decoder.segments()].concat()
    }

    /// Each segment of encoder and decoder, and what stands against [streaming](leanburn_ops::Residency::Stream) it, if anything does.
    pub fn unstreamable(&self) -> Vec<(String, Option<Unstreamable>)> {
        [self.encoder.unstreamable(), self.decoder.unstreamable()].concat()
    }

    /// Mean and standard deviation of the latent.
    ///
    /// The logarithm of the variance is clamped to `[-30, 20]`; the deviation is computed in float32.
    ///
    /// # Shapes
    ///
    /// - input: `[batch_size, in_channels, depth, height, width]`
    /// - outputs: `[batch_size, latent_channels, ..]`, each axis divided by its
    ///   [downsampling](Vae3dConfig::downsampling)
    ///
    /// # Panics
    ///
    /// Panics if the input has other than `in_channels` channels, or the latent is a codebook. Whether the volume comes
    /// back in its own shape is for [`check_input`](Vae3dConfig::check_input).
    pub fn encode(&self, x: Tensor<5>) -> (Tensor<5>, Tensor<5>) {
        assert!(self.quantizer.is_none(), "Vae3d: the latent is a codebook; use quantize");
        let latent_channels = self.config.latent_channels;
        let h = self.features(x);
        let mean = h.clone().narrow(1, 0, latent_channels);
        (mean, deviation(h.narrow(1, latent_channels, latent_channels)))
    }

    /// The latent as vectors of the codebook, and the commitment loss; see [`VectorQuantizer::forward`].
    ///
    /// # Shapes
    ///
    /// As [`encode`](Self::encode).
    ///
    /// # Panics
    ///
    /// Panics if the input has other than `in_channels` channels, or there is no codebook.
    pub fn quantize(&self, x: Tensor<5>) -> (Tensor<5>, Tensor<1>) {
        let quantizer = self.quantizer.as_ref().expect("Vae3d: the latent is Gaussian; set a codebook or use encode");
        let latent = self.quant_conv.forward(self.features(x));
        self.residency.run("quantizer", quantizer, latent, VectorQuantizer::forward)
    }

    fn features(&self, x: Tensor<5>) -> Tensor<5> {
        let in_channels = self.config.in_channels;
        assert_shape!(x, [_, in_channels, ..]);
        self.encoder.encode(x, &self.residency, Block::forward)
    }

    /// The codebook, if there is one.
    pub fn quantizer(&self) -> Option<&VectorQuantizer> {
        self.quantizer.as_ref()
    }

    /// `mean + sigma * noise`, standard normal noise from the device's generator; see
    /// [`AutoencoderKl::sample`](crate::models::AutoencoderKl::sample), also for the shapes.
    pub fn sample(&self, mean: Tensor<5>, sigma: Tensor<5>) -> Tensor<5> {
        sample(mean, sigma)
    }

    /// The volume of a latent.
    ///
    /// # Shapes
    ///
    /// - input: `[batch_size, latent_channels, depth, height, width]`
    /// - output: `[batch_size, in_channels, ..]`, each axis times its [downsampling](Vae3dConfig::downsampling)
    pub fn decode(&self, z: Tensor<5>) -> Tensor<5> {
        let latent_channels = self.config.latent_channels;
        assert_shape!(z, [_, latent_channels, ..]);
        // The first of the two convolutions around the latent stands before a codebook, and behind the noise.
        let z = if self.quantizer.is_some() { z } else { self.quant_conv.forward(z) };
        self.decoder.decode(self.post_quant_conv.forward(z), &self.residency, Block::forward)
    }

    /// The volume of the mean of the latent, or of its vectors of the codebook: no noise.
    ///
    /// # Shapes
    ///
    /// - input and output: `[batch_size, in_channels, depth, height, width]`
    pub fn reconstruct(&self, x: Tensor<5>) -> Tensor<5> {
        match self.quantizer {
            Some(_) => self.decode(self.quantize(x).0),
            None => self.decode(self.encode(x).0),
        }
    }

    /// Encodes, samples and decodes: the reconstruction, and mean and deviation of the latent.
    ///
    /// # Shapes
    ///
    /// Those of [`reconstruct`](Self::reconstruct) and [`encode`](Self::encode).
    ///
    /// # Panics
    ///
    /// As [`encode`](Self::encode).
    pub fn forward(&self, x: Tensor<5>) -> (Tensor<5>, Tensor<5>, Tensor<5>) {
        let (mean, sigma) = self.encode(x);
        let z = self.sample(mean.clone(), sigma.clone());
        (self.decode(z), mean, sigma)
    }
}

impl MonaiWeights for Vae3d {
    /// The PyTorch module of the tests is a chain of bare layers: a convolution is not wrapped, and norm, SiLU and convolution at the end
    /// are counted one by one.
    fn monai_name(path: &str) -> String {
        let parts: Vec<_> = path.split('.').collect();
        match parts[..] {
            [chain, "blocks", index, "final_norm", name] => format!("{chain}.{index}.{name}"),
            [chain, "blocks", index, "final_conv", _, name] => {
                format!("{chain}.{}.{name}", index.parse::<usize>().map_or(0, |index| index + 2))
            }
            [chain, "blocks", index, "nin_shortcut", _, name] => format!("{chain}.{index}.skip.{name}"),
            [chain, "blocks", index, "postconv", _, name] => format!("{chain}.{index}.conv.{name}"),
            [chain, "blocks", index, "conv", "conv", name] => format!("{chain}.{index}.{name}"),
            [chain, "blocks", index, "conv", name] => format!("{chain}.{index}.{name}"),
            [chain, "blocks", index, conv @ ("conv1" | "conv2"), _, name] => format!("{chain}.{index}.{conv}.{name}"),
            [chain, "blocks", ref rest @ ..] => format!("{chain}.{}", rest.join(".")),
            [conv, "conv", name] => format!("{conv}.{name}"),
            _ => path.to_string(),
        }
    }
}
