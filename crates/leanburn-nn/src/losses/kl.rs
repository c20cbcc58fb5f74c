//! Divergence of a diagonal Gaussian from the standard normal.

use burn::tensor::Tensor;
use leanburn_ops::numerics::widen;

use super::shapes::assert_same_shape;

/// `1/2 sum (mean^2 + sigma^2 - log sigma^2 - 1)` over channels and volume, averaged over the batch, in float32.
///
/// Source: [Auto-Encoding Variational Bayes](https://arxiv.org/abs/1312.6114), appendix B.
///
/// # Shapes
///
/// - `mean`, `sigma`: `[batch_size, latent_channels, depth, height, width]`
/// - output: `[1]`
///
/// # Panics
///
/// Panics if the shapes differ.
pub fn kl_divergence(mean: Tensor<5>, sigma: Tensor<5>) -> Tensor<1> {
    let batch_size = mean.dims()[0];
    divergence(mean, sigma).sum() / batch_size as f64
}

/// [`kl_divergence`] averaged over channels and volume too, so that its weight does not depend on the size.
///
/// Shapes and panics as of [`kl_divergence`].
pub fn kl_divergence_mean(mean: Tensor<5>, sigma: Tensor<5>) -> Tensor<1> {
    divergence(mean, sigma).mean()
}

/// The divergence of each latent element.
fn divergence(mean: Tensor<5>, sigma: Tensor<5>) -> Tensor<5> {
    assert_same_shape(&mean, &sigma);
    let (mean, variance) = (widen(mean), widen(sigma).square());
    (mean.square() + variance.clone() - variance.log() - 1.0) * 0.5
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;

    use super::*;

    fn latent(values: [f32; 4]) -> Tensor<5> {
        Tensor::<1>::from_floats(values, &Device::flex()).reshape([2, 2, 1, 1, 1])
    }

    #[test]
    fn sums_and_means_are_those_of_the_formula() {
        let (mean, sigma) = (latent([0.0, 1.0, -2.0, 0.5]), latent([1.0, 1.0, 1.0, 2.0]));
        // per element: 0, 1/2, 2, (1/4 + 4 - log 4 - 1) / 2
        let last = (0.25f32 + 4.0 - 4f32.ln() - 1.0) / 2.0;
        let close = |loss: Tensor<1>, expected: f32| assert!((loss.into_scalar::<f32>() - expected).abs() < 1e-6);
        close(kl_divergence(mean.clone(), sigma.clone()), (2.5 + last) / 2.0);
        close(kl_divergence_mean(mean, sigma), (2.5 + last) / 4.0);
    }

    #[test]
    fn the_smallest_deviation_of_an_autoencoder_is_finite() {
        let smallest = latent([(-15f32).exp(); 4]);
        let loss = kl_divergence_mean(latent([0.0; 4]), smallest).into_scalar::<f32>();
        assert!((loss - 14.5).abs() < 1e-4, "{loss}");
    }
}
