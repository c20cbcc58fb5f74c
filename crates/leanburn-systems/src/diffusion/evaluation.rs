//! How well the noise in held-out latents is told, at each level of it, and how good samples are.

use burn::tensor::{Device, Tensor};
use leanburn_ops::random::{Distribution, derive, drawn};
use leanburn_train::MainModel;

use super::batch::stacked;
use super::latents::LatentDataset;
use super::quality::SampleQuality;
use super::workload::DiffusionWorkload;
use crate::error::Result;
use crate::evaluation::Metrics;

/// The mean over the levels of noise.
pub(super) const LOSS: &str = "loss";

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

/// The loss of the trained weights at each level of noise, over all validation latents; the noise is the same in every evaluation.
pub(super) fn evaluate(workload: &DiffusionWorkload, data: &LatentDataset, device: &Device) -> Result<Metrics> {
    if data.validation().is_empty() {
        return Ok(Metrics::new());
    }
    let unet = workload.model().trained();
    let mut sums = LEVELS.map(|(name, _)| (name, 0.0));
    for (index, number) in data.validation().enumerate() {
        let (mean, deviation, classes) = stacked(&[data.latent(number)?], device);
        let normal = |part: u64| -> Tensor<5> {
            let key = derive(data.seed(), &[EVALUATION, index as u64, part]);
            drawn(key, Distribution::STANDARD, mean.dims(), device)
        };
        let latents = mean.clone() + deviation * normal(0);
        for ((_, sum), (level, (_, share))) in sums.iter_mut().zip(LEVELS.iter().enumerate()) {
            let loss = workload.loss_at(&unet, (latents.clone(), classes.clone()), normal(1 + level as u64), *share);
            *sum += f64::from(loss.into_scalar::<f32>());
        }
    }
    let levels = sums.map(|(name, sum)| (name, sum / data.validation().len() as f64));
    let mean = levels.iter().map(|(_, loss)| loss).sum::<f64>() / levels.len() as f64;
    Ok([(LOSS, mean)].into_iter().chain(levels).collect())
}

/// The path of what evaluations draw among what is derived from the seed.
const EVALUATION: u64 = 0x1a7e_0002;
