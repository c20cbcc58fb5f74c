//! Samples in one step or a few.

use burn::tensor::Tensor;
use leanburn_ops::random;

/// The sample that standard normal noise becomes in one step: the denoised volume of `sigma_max` times the noise. `denoise` is given a volume
/// and its noise level.
pub fn one_step(noise: Tensor<5>, sigma_max: f64, mut denoise: impl FnMut(Tensor<5>, f64) -> Tensor<5>) -> Tensor<5> {
    denoise(noise * sigma_max, sigma_max)
}

/// The same, denoised again from each of the falling noise levels after the first: algorithm 1 of
/// [Consistency Models](https://arxiv.org/abs/2303.01469). Noise of level sigma is added to a sample that still has that of `sigma_min`.
///
/// # Panics
///
/// Panics if there are no noise levels, or one is below `sigma_min`.
pub fn multistep(
    noise: Tensor<5>,
    sigmas: &[f64],
    sigma_min: f64,
    mut denoise: impl FnMut(Tensor<5>, f64) -> Tensor<5>,
) -> Tensor<5> {
    let sound = !sigmas.is_empty() && sigmas.iter().all(|sigma| *sigma >= sigma_min);
    assert!(sound, "multistep: the noise levels are {sigmas:?}, expected some, of at least {sigma_min}");
    let sample = one_step(noise, sigmas[0], &mut denoise);
    sigmas[1..].iter().fold(sample, |sample, sigma| {
        let deviation = (sigma * sigma - sigma_min * sigma_min).sqrt();
        let noise = random::normal(sample.dims(), &sample.device());
        denoise(sample + noise * deviation, *sigma)
    })
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;

    use super::*;

    /// With the exact consistency function of normal data, one step and several give its deviation.
    #[test]
    fn samples_have_the_deviation_of_the_data() {
        let (device, data, least) = (Device::flex(), 0.5f64, 0.002f64);
        random::seed(&device, 2);
        let exact =
            |x: Tensor<5>, sigma: f64| x * ((data * data + least * least) / (data * data + sigma * sigma)).sqrt();
        let noise = || random::normal([1, 1, 20, 30, 40], &device);
        for sigmas in [&[80.0][..], &[80.0, 2.0], &[80.0, 10.0, 0.5]] {
            let samples = multistep(noise(), sigmas, least, exact);
            let deviation = f64::from(samples.square().mean().sqrt().into_scalar::<f32>());
            assert!((deviation / data - 1.0).abs() < 0.02, "{sigmas:?}: {deviation}");
        }
    }

    #[test]
    #[should_panic = "the noise levels are [80.0, 0.001], expected some, of at least 0.002"]
    fn levels_below_the_smallest_are_rejected() {
        let noise = Tensor::zeros([1, 1, 1, 1, 1], &Device::flex());
        multistep(noise, &[80.0, 0.001], 0.002, |x, _| x);
    }
}
