//! What a run has learned: validation metrics, and a picture.

use std::collections::BTreeMap;

use burn::tensor::{Device, Int, Tensor, TensorData};
use image::RgbImage;
use leanburn_data::metrics::{
    chamfer_distance, intersection_over_union, mean_absolute_error, root_mean_squared_error, skill,
};
use leanburn_data::{Dataset, SequenceDataset, SlidingWindow, Window};
use leanburn_nn::losses::voxel_loss;
use leanburn_train::{ForecastWorkload, TrainError};

use super::{AnyForecaster, Data, Run, multiples};
use crate::config::{Config, SystemSection, VoxelObjectiveSection};
use crate::error::Result;
use crate::report::{comparison, fields};
use crate::volume::{tensor, through, values};

/// Metrics by name, the first the one that matters most.
pub type Metrics = Vec<(&'static str, f64)>;

/// Name of the mean absolute difference in the metrics.
pub const L1: &str = "l1";

impl Run {
    /// Means over the validation samples; empty if there are none. What is not finite (the distance to nothing) is left out.
    ///
    /// # Errors
    ///
    /// If a sample cannot be read.
    pub fn validate(&self, config: &Config, data: &Data, device: &Device) -> Result<Metrics> {
        let mut metrics = match (self, data) {
            (Self::Forecaster(workload), Data::Fields(dataset)) => validate_forecasts(workload, dataset, device)?,
            (_, Data::Volumes(dataset)) => self.validate_volumes(config, dataset, device)?,
            _ => Vec::new(),
        };
        metrics.retain(|(_, value)| value.is_finite());
        Ok(metrics)
    }

    /// The reconstruction of volumes; of a forecaster, which has none, themselves.
    fn reconstruct(&self, volumes: Tensor<5>) -> Tensor<5> {
        match self {
            Self::Autoencoder(workload) => workload.reconstruct(volumes),
            Self::Vae3d(workload) => workload.reconstruct(volumes),
            Self::VqVae(workload) => workload.reconstruct(volumes),
            Self::Forecaster(_) => volumes,
        }
    }

    fn codes(&self, volumes: Tensor<5>) -> Option<Tensor<4, Int>> {
        match self {
            Self::Vae3d(workload) => workload.codes(volumes),
            Self::VqVae(workload) => Some(workload.codes(volumes)),
            _ => None,
        }
    }

    fn validate_volumes(&self, config: &Config, dataset: &Dataset, device: &Device) -> Result<Metrics> {
        let (mut means, mut uses) = (Means::default(), BTreeMap::<i64, u64>::new());
        for index in 0..dataset.val_len() {
            let sample = dataset.val_sample(index).map_err(TrainError::from)?;
            let volume = tensor(&sample.data, sample.shape, device);
            let reconstruction = self.reconstruct(volume.clone());
            let difference = (reconstruction.clone() - volume.clone()).abs().mean();
            means.add(L1, f64::from(difference.into_scalar::<f32>()));
            if let Some(section) = voxels(&config.system) {
                let loss = voxel_loss(
                    reconstruction.clone(),
                    volume.clone(),
                    section.reconstruction_loss,
                    section.occupancy(),
                );
                means.add("reconstruction", f64::from(loss.into_scalar::<f32>()));
                let [_, extent @ ..] = sample.shape;
                let count: usize = extent.iter().product();
                let made = values(reconstruction);
                let (made, truth) = (&made[..count], &sample.data[..count]); // the first channel, a radar's occupancy
                let threshold = section.occupancy_threshold as f32;
                means.add("iou", intersection_over_union(made, truth, threshold)?);
                means.add("chamfer_voxels", chamfer_distance(made, truth, extent, threshold)?.mean());
            }
            if let Some(codes) = self.codes(volume) {
                codes.into_data().iter::<i64>().for_each(|code| *uses.entry(code).or_default() += 1);
            }
        }
        let mut metrics = means.metrics();
        if let Some(count) = codebook_size(&config.system).filter(|_| !uses.is_empty()) {
            metrics.push(("codes_used", uses.len() as f64 / count as f64));
            metrics.push(("perplexity", perplexity(uses.values())));
        }
        Ok(metrics)
    }

    /// Truth beside what the run makes of it.
    ///
    /// # Errors
    ///
    /// If there is nothing to look at, or it cannot be drawn.
    pub fn picture(&self, config: &Config, data: &Data, device: &Device) -> Result<RgbImage> {
        match (self, data) {
            (Self::Forecaster(workload), Data::Fields(dataset)) => picture_forecast(workload, dataset, device),
            (_, Data::Volumes(dataset)) => self.picture_volume(config, dataset, device),
            (_, Data::Fields(_)) => unreachable!("volumes are opened for a system of volumes"),
        }
    }

    /// A whole volume beside its reconstruction, made patch by patch so that looking needs no larger activations than training.
    fn picture_volume(&self, config: &Config, dataset: &Dataset, device: &Device) -> Result<RgbImage> {
        let volume = dataset.exhibit()?;
        let size = config.data.patch_size.unwrap_or(volume.extent());
        let window = SlidingWindow::new(size, 0.25).expect("the configuration has been checked");
        let multiple = multiples(config).into_iter().max().unwrap_or(1);
        let reconstruct = |patch: &[f32], shape: [usize; 4]| self.reconstruct(tensor(patch, shape, device));
        let channels = volume.channels();
        let reconstruction =
            window.run(&volume, channels, |patch, shape| through(patch, shape, multiple, reconstruct))?;
        let extent = volume.extent();
        let voxels = extent.iter().product();
        let original = &volume.data()[..voxels];
        let range = original.iter().fold((f32::MAX, f32::MIN), |(low, high), &value| (low.min(value), high.max(value)));
        match config.system {
            // sparse and shallow: a plane through the middle would miss most of it
            SystemSection::Vae3d(_) => {
                let [_, height, width] = extent;
                let (scene, made) = (from_above(original, extent), from_above(&reconstruction[..voxels], extent));
                Ok(fields([("from above", &scene), ("reconstruction", &made)], [height, width])?)
            }
            _ => Ok(comparison(original, &reconstruction[..voxels], extent, range)?),
        }
    }
}

/// The largest value of each column of voxels along the depth, `[height, width]`.
fn from_above(voxels: &[f32], [_, height, width]: [usize; 3]) -> Vec<f32> {
    let mut seen = vec![f32::MIN; height * width];
    for plane in voxels.chunks_exact(height * width) {
        seen.iter_mut().zip(plane).for_each(|(seen, value)| *seen = seen.max(*value));
    }
    seen
}

/// The objective of a system of voxels.
fn voxels(system: &SystemSection) -> Option<&VoxelObjectiveSection> {
    match system {
        SystemSection::Vae3d(section) => Some(&section.training.objective.voxels),
        SystemSection::VqVae(section) => Some(&section.training.objective),
        _ => None,
    }
}

fn codebook_size(system: &SystemSection) -> Option<usize> {
    match system {
        SystemSection::Vae3d(section) => Some(section.codebook.as_ref()?.num_embeddings),
        SystemSection::VqVae(section) => Some(section.codebook.num_embeddings),
        _ => None,
    }
}

/// `exp(-sum p log p)`: as many codes, used alike, would tell as much.
fn perplexity<'a>(uses: impl Iterator<Item = &'a u64> + Clone) -> f64 {
    let total: u64 = uses.clone().sum();
    let entropy: f64 = uses.map(|uses| *uses as f64 / total as f64).map(|share| -share * share.ln()).sum();
    entropy.exp()
}

/// The forecast of a window, day by day.
fn forecast(workload: &ForecastWorkload<AnyForecaster>, window: &Window, device: &Device) -> Vec<f32> {
    let [days, channels, height, width] = window.input_shape;
    let input = TensorData::new(window.input.clone(), [1, days, channels, height, width]);
    let forecast = workload.forecast(Tensor::from_data(input, device));
    forecast.into_data().convert::<f32>().try_to_vec().expect("the values were just made f32")
}

/// Errors over all windows together, and skill against the last field that is seen.
fn validate_forecasts(
    workload: &ForecastWorkload<AnyForecaster>,
    dataset: &SequenceDataset,
    device: &Device,
) -> Result<Metrics> {
    let (mut told, mut truth, mut persistence) = (Vec::new(), Vec::new(), Vec::new());
    for index in 0..dataset.val_len() {
        let window = dataset.val_window(index)?;
        told.extend(forecast(workload, &window, device));
        persistence.extend(dataset.persistence(&window));
        truth.extend(window.target);
    }
    if truth.is_empty() {
        return Ok(Vec::new());
    }
    Ok(vec![
        ("rmse", root_mean_squared_error(&told, &truth)?),
        ("mae", mean_absolute_error(&told, &truth)?),
        ("skill", skill(&told, &truth, &persistence)?),
    ])
}

/// The last day of a window: truth, forecast, and the last field that is seen.
fn picture_forecast(
    workload: &ForecastWorkload<AnyForecaster>,
    dataset: &SequenceDataset,
    device: &Device,
) -> Result<RgbImage> {
    let window = if dataset.val_len() > 0 { dataset.val_window(0)? } else { dataset.train_window(0)? };
    let [.., height, width] = window.target_shape;
    let told = forecast(workload, &window, device);
    let persistence = dataset.persistence(&window);
    let last = window.target.len() - height * width;
    let columns = [("truth", &window.target[last..]), ("forecast", &told[last..]), ("last seen", &persistence[last..])];
    Ok(fields(columns, [height, width])?)
}

/// Means by name, in the order in which names came.
#[derive(Default)]
struct Means(Vec<(&'static str, f64, f64)>);

impl Means {
    fn add(&mut self, name: &'static str, value: f64) {
        match self.0.iter_mut().find(|(there, ..)| *there == name) {
            Some((_, sum, count)) => (*sum, *count) = (*sum + value, *count + 1.0),
            None => self.0.push((name, value, 1.0)),
        }
    }

    fn metrics(self) -> Metrics {
        self.0.into_iter().map(|(name, sum, count)| (name, sum / count)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scene_from_above_shows_what_is_highest_in_value() {
        assert_eq!(from_above(&[0.0, 1.0, 5.0, 0.5], [2, 1, 2]), [5.0, 1.0]);
    }

    #[test]
    fn perplexity_counts_what_is_used() {
        let of = |uses: &[u64]| perplexity(uses.iter());
        assert!((of(&[5, 5, 5, 5]) - 4.0).abs() < 1e-12);
        assert!((of(&[7]) - 1.0).abs() < 1e-12);
        assert!(of(&[100, 1, 1]) < 1.2);
    }
}
