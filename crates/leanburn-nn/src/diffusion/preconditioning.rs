//! A network as a denoiser at any noise level.
//!
//! Karras et al., [Elucidating the Design Space of Diffusion-Based Generative Models](https://arxiv.org/abs/2206.00364): the input, the
//! output and what it is added to are scaled so that the network sees and gives values of about one at every noise level. Song et al.,
//! [Consistency Models](https://arxiv.org/abs/2303.01469): the same, but at the smallest noise level the denoiser is exactly the identity.

use burn::tensor::Tensor;

/// `D(x, sigma) = c_skip x + c_out F(c_in x, 250 ln sigma)` of a network F.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EdmPreconditioning {
    /// Deviation of the samples.
    pub sigma_data: f64,
    /// The noise level at which the denoiser is the identity; 0 for a diffusion model.
    pub boundary: f64,
}

impl EdmPreconditioning {
    /// That of a diffusion model.
    pub fn diffusion(sigma_data: f64) -> Self {
        Self { sigma_data, boundary: 0.0 }
    }

    /// That of a consistency model whose smallest noise level is `sigma_min`.
    pub fn consistency(sigma_data: f64, sigma_min: f64) -> Self {
        Self { sigma_data, boundary: sigma_min }
    }

    /// `c_skip`, `c_out` and `c_in` at noise levels, in the dtype and shape of these.
    pub fn coefficients<const D: usize>(&self, sigma: Tensor<D>) -> [Tensor<D>; 3] {
        let data = self.sigma_data * self.sigma_data;
        let above = sigma.clone() - self.boundary;
        // (0 + data) / data is one: at the boundary nothing is rounded
        let spread = above.clone() * above.clone() + data;
        let input = (sigma.clone() * sigma.clone() + data).sqrt();
        let skip = Tensor::full_like(&spread, data) / spread.clone();
        [skip, above * self.sigma_data / input.clone(), input.recip()]
    }

    /// The time that the network is given at noise levels; a level of 0 counts as 1e-30.
    pub fn time<const D: usize>(&self, sigma: Tensor<D>) -> Tensor<D> {
        sigma.clamp_min(1e-30).log() * 250.0
    }

    /// The denoised volume, with the noise level of each item, `[batch_size]`; `network` is given a volume and times `[batch_size]`.
    pub fn denoise(
        &self,
        x: Tensor<5>,
        sigma: Tensor<1>,
        network: impl FnOnce(Tensor<5>, Tensor<1>) -> Tensor<5>,
    ) -> Tensor<5> {
        let [skip, out, input] = self.coefficients(sigma.clone()).map(per_item);
        network(x.clone() * input, self.time(sigma)) * out + x * skip
    }
}

/// A number for each item, to be broadcast over volumes.
pub(crate) fn per_item(values: Tensor<1>) -> Tensor<5> {
    values.reshape([-1, 1, 1, 1, 1])
}
