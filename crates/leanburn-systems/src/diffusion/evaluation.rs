//! How well the noise in held-out latents is told, at each level of it, and how good samples are.

use burn::tensor::{Device, Tensor};
use leanburn_ops::random::{Distribution, derive, drawn};
use leanburn_train::MainModel;

use super::batch::stacked;
use super::latents::LatentDataset;
use super::linear::LinearPredictor;
use super::quality::SampleQuality;
use super::workload::{DiffusionWorkload, mean_difference};
use crate::error::Result;
use crate::evaluation::Metrics;

/// The mean over the levels of noise.
pub(super) const LOSS: &str = "loss";

/// Those of the best linear predictor.
pub(super) const LINEAR: &str = "loss_linear";
const LINEAR_LEVELS: [&str; 4] = ["loss_linear_1", "loss_linear_2", "loss_linear_3", "loss_linear_4"];

/// The levels, from little noise to much: what they are called, and the share of all times that are less noisy.
pub(super) const LEVELS: [(&str, f64); 4] =
    [("loss_noise_1", 0.125), ("loss_noise_2", 0.375), ("loss_noise_3", 0.625), ("loss_noise_4", 0.875)];

/// The names of the levels.
pub(super) const LEVEL_NAMES: &[&str] = &[LEVELS[0].0, LEVELS[1].0, LEVELS[2].0, LEVELS[3].0];

/// Distances of samples, of real latents and of noise to real latents.
pub(super) const DISTANCES: &[&str] = &["sliced_wasserstein", "sliced_wasserstein_floor", "sliced_wasserstein_noise"];

/// Likeness among samples, and among real volumes.
pub(super) const LIKENESS: &[&str] = &["ms_ssim", "ms_ssim_real"];

/// The quality of samples as metrics.
pub(super) fn of_quality(quality: &SampleQuality) -> Metrics {
    let SampleQuality { distance, floor, noise, likeness, real_likeness, .. } = *quality;
    let distances = DISTANCES.iter().copied().zip([distance, floor, noise]);
    let likeness = LIKENESS.iter().copied().zip([likeness, real_likeness]);
    distances.chain(likeness.filter_map(|(name, value)| Some((name, value?)))).collect()
}

/// The loss of the trained weights at each level of noise, over all validation latents; and that of the best linear predictor, where it is
/// asked for with the number of training latents that it is fitted to.
pub(super) fn evaluate(
    workload: &DiffusionWorkload,
    data: &LatentDataset,
    fitted_to: usize,
    device: &Device,
) -> Result<Metrics> {
    if data.validation().is_empty() {
        return Ok(Metrics::new());
    }
    let unet = workload.model().trained();
    let losses =
        at_levels(data, device, |level, latents, noise| workload.loss_at(&unet, latents, noise, share(level)))?;
    let linear = linear_losses(workload, data, fitted_to, device)?;
    let named = |mean_of: &'static str, names: &[&'static str], losses: [f64; 4]| -> Metrics {
        [(mean_of, mean(losses))].into_iter().chain(names.iter().copied().zip(losses)).collect()
    };
    let linear = linear.map_or(Metrics::new(), |losses| named(LINEAR, &LINEAR_LEVELS, losses));
    Ok([named(LOSS, LEVEL_NAMES, losses), linear].concat())
}

/// The loss of the best linear predictor at each level of noise, on the same noisy latents; none where it is not asked for.
fn linear_losses(
    workload: &DiffusionWorkload,
    data: &LatentDataset,
    fitted_to: usize,
    device: &Device,
) -> Result<Option<[f64; 4]>> {
    let Some(difference) = workload.denoising().filter(|_| fitted_to > 0) else { return Ok(None) };
    let stride = data.training_len().div_ceil(fitted_to).max(1);
    let latents: Vec<_> = (0..data.training_len())
        .step_by(stride)
        .map(|number| data.latent(number))
        .collect::<std::result::Result<_, _>>()?;
    let Some(predictor) = LinearPredictor::fit(&latents, device) else { return Ok(None) };
    let noise_at = |level: usize| workload.noise().at(share(level));
    let predictors = [0, 1, 2, 3].map(|level| predictor.at(workload.noise().parts(noise_at(level), device)));
    let losses = at_levels(data, device, |level, (latents, _), noise| {
        let noisy = workload.noise().add(latents, noise, Tensor::full([1], noise_at(level), device));
        mean_difference(difference, predictors[level].predict(noisy.input), noisy.target)
    })?;
    Ok(Some(losses))
}

/// The mean of a loss over all validation latents at each level; it is given the number of the level, a latent and its class, and noise, the
/// same every time.
fn at_levels(
    data: &LatentDataset,
    device: &Device,
    mut loss: impl FnMut(usize, (Tensor<5>, Option<Tensor<1>>), Tensor<5>) -> Tensor<1>,
) -> Result<[f64; 4]> {
    let mut sums = [0.0; 4];
    for (index, number) in data.validation().enumerate() {
        let (mean, deviation, classes) = stacked(&[data.latent(number)?], device);
        let normal = |part: u64| -> Tensor<5> {
            let key = derive(data.seed(), &[EVALUATION, index as u64, part]);
            drawn(key, Distribution::STANDARD, mean.dims(), device)
        };
        let latents = mean.clone() + deviation * normal(0);
        for (level, sum) in sums.iter_mut().enumerate() {
            let loss = loss(level, (latents.clone(), classes.clone()), normal(1 + level as u64));
            *sum += f64::from(loss.into_scalar::<f32>());
        }
    }
    Ok(sums.map(|sum| sum / data.validation().len() as f64))
}

/// The share of all times that are less noisy than a level.
fn share(level: usize) -> f64 {
    LEVELS[level].1
}

fn mean(losses: [f64; 4]) -> f64 {
    losses.iter().sum::<f64>() / losses.len() as f64
}

/// The path of what evaluations draw among what is derived from the seed.
const EVALUATION: u64 = 0x1a7e_0002;
