//! The autoencoder itself.

use burn::module::Module;
use burn::tensor::{Device, Tensor, assert_shape};
use leanburn_common::panic_if_invalid;
use leanburn_ops::numerics::{cast_to, in_wide};
use leanburn_ops::{ResidencyPolicy, Unstreamable};

use super::block::Block;
use super::config::AutoencoderKlConfig;
use super::{decoder::decoder, encoder::encoder};
use crate::blocks::{Conv3d, Conv3dConfig};
use crate::models::chain::Chain;
use crate::segmented::segmented;

/// Autoencoder with a Gaussian latent space; see [`AutoencoderKlConfig`] for an example.
///
/// Equal to MONAI's `AutoencoderKL`. All volumes are `[batch_size, channels, depth, height, width]`.
///
/// # Memory
///
/// Saved for backward: what the segments keep, which the residency policy decides; with every segment recomputed, one
/// volume of channels for each segment. The finest level costs by far the most.
#[derive(Module, Debug)]
pub struct AutoencoderKl {
    encoder: Chain<Block>,
    quant_conv_mu: Conv3d,
    quant_conv_log_sigma: Conv3d,
    post_quant_conv: Conv3d,
    decoder: Chain<Block>,
    #[module(skip)]
    config: AutoencoderKlConfig,
    #[module(skip)]
    residency: ResidencyPolicy,
}

impl AutoencoderKlConfig {
    /// Makes the model, weights distributed as PyTorch's defaults.
    ///
    /// # Panics
    ///
    /// Panics with the [errors](Self::validate) of the configuration if there are any.
    pub fn init(&self, device: &Device) -> AutoencoderKl {
        panic_if_invalid("AutoencoderKl", &self.validate());
        let pointwise = || Conv3dConfig::new([self.latent_channels; 2], 1);
        let log_variances = self.initial_deviation.map(|deviation| log_variances(deviation, self.latent_channels));
        AutoencoderKl {
            encoder: encoder(self, device),
            quant_conv_mu: pointwise().init(device),
            quant_conv_log_sigma: pointwise().init_from(log_variances, device),
            post_quant_conv: pointwise().init(device),
            decoder: decoder(self, device),
            config: self.clone(),
            residency: ResidencyPolicy::default(),
        }
    }
}

segmented!(AutoencoderKl, AutoencoderKlConfig);

impl AutoencoderKl {
    /// Names of the segments in order of execution.
    pub fn segments(&self) -> Vec<String> {
        [self.encoder.segments(), self.decoder.segments()].concat()
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
    /// - outputs: `[batch_size, latent_channels, depth / f, height / f, width / f]`, `f` the
    ///   [downsampling](AutoencoderKlConfig::downsampling)
    ///
    /// # Panics
    ///
    /// Panics if the input has other than `in_channels` channels. Whether the volume can be halved often enough is for
    /// [`check_input`](AutoencoderKlConfig::check_input).
    pub fn encode(&self, x: Tensor<5>) -> (Tensor<5>, Tensor<5>) {
        let in_channels = self.config.in_channels;
        assert_shape!(x, [_, in_channels, ..]);
        let h = self.encoder.encode(x, &self.residency, Block::forward);
        let mean = self.quant_conv_mu.forward(h.clone());
        (mean, deviation(self.quant_conv_log_sigma.forward(h)))
    }

    /// `mean + sigma * noise`, standard normal noise from the device's generator.
    ///
    /// # Shapes
    ///
    /// - inputs and output: `[batch_size, latent_channels, ..]`
    ///
    /// # Numerics
    ///
    /// The noise is drawn in float32 regardless of the dtype of the latent, so that one seed gives one noise.
    pub fn sample(&self, mean: Tensor<5>, sigma: Tensor<5>) -> Tensor<5> {
        sample(mean, sigma)
    }

    /// The volume of a latent.
    ///
    /// # Shapes
    ///
    /// - input: `[batch_size, latent_channels, depth, height, width]`
    /// - output: `[batch_size, out_channels, f depth, f height, f width]`
    pub fn decode(&self, z: Tensor<5>) -> Tensor<5> {
        let latent_channels = self.config.latent_channels;
        assert_shape!(z, [_, latent_channels, ..]);
        self.decoder.decode(self.post_quant_conv.forward(z), &self.residency, Block::forward)
    }

    /// The volume of the mean of the latent: no noise.
    ///
    /// # Shapes
    ///
    /// - input: `[batch_size, in_channels, depth, height, width]`
    /// - output: `[batch_size, out_channels, depth, height, width]`
    pub fn reconstruct(&self, x: Tensor<5>) -> Tensor<5> {
        self.decode(self.encode(x).0)
    }

    /// Encodes, samples and decodes: the reconstruction, and mean and deviation of the latent.
    ///
    /// # Shapes
    ///
    /// Those of [`reconstruct`](Self::reconstruct) and [`encode`](Self::encode).
    pub fn forward(&self, x: Tensor<5>) -> (Tensor<5>, Tensor<5>, Tensor<5>) {
        let (mean, sigma) = self.encode(x);
        let z = self.sample(mean.clone(), sigma.clone());
        (self.decode(z), mean, sigma)
    }
}

/// The standard deviation from the logarithm of the variance, clamped to `[-30, 20]`.
pub(in crate::models) fn deviation(log_variance: Tensor<5>) -> Tensor<5> {
    in_wide(log_variance, |log_variance| (log_variance.clamp(-30.0, 20.0) / 2.0).exp())
}

/// The logarithm of the variance of a deviation, for each of so many channels.
pub(in crate::models) fn log_variances(deviation: f64, channels: usize) -> Vec<f32> {
    [2.0 * deviation.ln() as f32].repeat(channels)
}

/// `mean + sigma * noise`.
pub(in crate::models) fn sample(mean: Tensor<5>, sigma: Tensor<5>) -> Tensor<5> {
    let noise = leanburn_ops::random::normal(sigma.dims(), &sigma.device());
    mean + cast_to(noise, sigma.dtype()) * sigma
}

#[cfg(test)]
mod tests {
    use burn::tensor::Distribution;

    use super::*;

    #[test]
    #[should_panic = "norm_num_groups: expected groups that divide every channel count, found 4 groups for channels [8, 9]"]
    fn init_panics_with_the_errors() {
        AutoencoderKlConfig::new(vec![8, 9], vec![1, 1], vec![false; 2]).with_norm_num_groups(4).init(&Device::flex());
    }

    #[test]
    fn segments_are_named_in_order_of_execution() {
        let config = AutoencoderKlConfig::new(vec![4, 8], vec![1, 2], vec![false, true]).with_norm_num_groups(2);
        let middle = |part: &str| ["res_0", "attention", "res_1"].map(|name| format!("{part}.middle.{name}"));
        let coarse =
            |part: &str| ["res_0", "attention_0", "res_1", "attention_1"].map(|name| format!("{part}.level_1.{name}"));
        let fine = ["encoder.level_0", "encoder.conv_in", "encoder.level_0.res_0", "encoder.level_0.downsample"];
        let mut expected = [fine.map(String::from).to_vec(), vec!["encoder.level_1".into()]].concat();
        expected.extend(coarse("encoder"));
        expected.extend(middle("encoder"));
        expected.extend(["encoder.out", "decoder.level_1", "decoder.conv_in"].map(String::from));
        expected.extend(middle("decoder"));
        expected.extend(coarse("decoder"));
        let fine = ["decoder.level_0", "decoder.level_1.upsample", "decoder.level_0.res_0", "decoder.out"];
        expected.extend(fine.map(String::from));
        assert_eq!(config.init(&Device::flex()).segments(), expected);
    }

    #[test]
    fn the_sample_has_the_given_mean_and_deviation() {
        let device = Device::flex();
        let model = AutoencoderKlConfig::new(vec![4], vec![1], vec![false]).with_norm_num_groups(2).init(&device);
        let mean = Tensor::full([1, 3, 16, 16, 16], 2.0, &device);
        let sigma = Tensor::full([1, 3, 16, 16, 16], 0.5, &device);
        let z: Tensor<2> = model.sample(mean, sigma).reshape([1, -1]);
        let (variance, mean) = z.var_mean(1);
        assert!((mean.into_scalar::<f32>() - 2.0).abs() < 0.02);
        assert!((variance.into_scalar::<f32>() - 0.25).abs() < 0.02);
    }

    #[test]
    fn the_deviation_starts_where_it_is_told() {
        let device = Device::flex();
        let x = Tensor::random([1, 4, 8, 8, 8], Distribution::Default, &device);
        let scan = AutoencoderKlConfig::new(vec![8, 8], vec![1, 1], vec![false; 2])
            .with_norm_num_groups(4)
            .with_in_channels(4);
        let voxels = crate::models::Vae3dConfig::ultra_lightweight();
        let deviation = |initial: Option<f64>| {
            let sigmas = [
                scan.clone().with_initial_deviation(initial).init(&device).encode(x.clone()).1,
                voxels.clone().with_initial_deviation(initial).init(&device).encode(x.clone()).1,
            ];
            sigmas.map(|sigma| sigma.log().mean().exp().into_scalar::<f32>())
        };
        assert!(deviation(None).iter().all(|deviation| (0.5..2.0).contains(deviation)), "{:?}", deviation(None));
        let small = deviation(Some(0.05));
        assert!(small.iter().all(|deviation| (0.025..0.1).contains(deviation)), "{small:?}");
    }

    #[test]
    fn the_deviation_is_clamped() {
        let device = Device::flex();
        let config = AutoencoderKlConfig::new(vec![4], vec![1], vec![false]).with_norm_num_groups(2);
        let model = config.with_encoder_nonlocal_attn(false).init(&device);
        for (scale, expected) in [(1e6, 10f32.exp()), (-1e6, (-15f32).exp())] {
            let mut model = model.clone();
            model.quant_conv_log_sigma = Conv3dConfig::new([3, 3], 1)
                .with_initializer(Some(burn::nn::Initializer::Constant { value: scale }))
                .init(&device);
            let x = Tensor::random([1, 1, 4, 4, 4], Distribution::Default, &device);
            let h = model.encoder.encode(x.clone(), &ResidencyPolicy::default(), Block::forward).sum_dim(1);
            let sigma = model.encode(x).1.narrow(1, 0, 1).to_data().try_to_vec::<f32>().unwrap();
            let positive = h.to_data().try_to_vec::<f32>().unwrap();
            for (h, sigma) in positive.into_iter().zip(sigma).filter(|(h, _)| *h > 1e-3) {
                assert!((sigma / expected - 1.0).abs() < 1e-5, "{h} {sigma}");
            }
        }
    }
}
