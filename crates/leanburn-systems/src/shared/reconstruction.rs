//! Evaluation of models that reconstruct volumes: metrics over the validation samples, and a whole volume through the model.

use burn::tensor::{Device, Tensor};
use image::RgbImage;
use leanburn_data::{Dataset, Sample, SlidingWindow};
use leanburn_train::TrainError;

use crate::error::Result;
use crate::evaluation::{L1, Metrics, PictureLabel};
use crate::picture::{comparison, range_of};
use crate::volume::{tensor, through};

/// Means by name, in the order in which names came.
#[derive(Debug, Default)]
pub(crate) struct Means(Vec<(&'static str, f64, f64)>);

impl Means {
    /// One more value of a metric.
    pub fn add(&mut self, name: &'static str, value: f64) {
        match self.0.iter_mut().find(|(there, ..)| *there == name) {
            Some((_, sum, count)) => (*sum, *count) = (*sum + value, *count + 1.0),
            None => self.0.push((name, value, 1.0)),
        }
    }

    /// The means.
    pub fn metrics(self) -> Metrics {
        self.0.into_iter().map(|(name, sum, count)| (name, sum / count)).collect()
    }
}

/// The mean absolute difference over the validation samples, and what `more` says of each: of the sample, the volume and its
/// reconstruction, `[1, channels, depth, height, width]` both.
///
/// # Errors
///
/// If a sample cannot be read, and those of `more`.
pub(crate) fn validate_volumes(
    dataset: &Dataset,
    device: &Device,
    reconstruct: impl Fn(Tensor<5>) -> Tensor<5>,
    mut more: impl FnMut(&Sample, Tensor<5>, Tensor<5>) -> Result<Metrics>,
) -> Result<Metrics> {
    let mut means = Means::default();
    for index in 0..dataset.val_len() {
        let sample = dataset.val_sample(index).map_err(TrainError::from)?;
        let volume = tensor(sample.data.clone(), sample.shape, device);
        let reconstruction = reconstruct(volume.clone());
        let difference = (reconstruction.clone() - volume.clone()).abs().mean();
        means.add(L1, f64::from(difference.into_scalar::<f32>()));
        for (name, value) in more(&sample, volume, reconstruction)? {
            means.add(name, value);
        }
    }
    Ok(means.metrics())
}

/// A whole volume and its reconstruction.
#[derive(Debug)]
pub(crate) struct Exhibit {
    /// The first channel of the volume.
    pub original: Vec<f32>,
    /// The first channel of its reconstruction.
    pub reconstruction: Vec<f32>,
    /// Voxels along each axis.
    pub extent: [usize; 3],
}

/// The reconstruction of a whole volume of the data, made patch by patch so that it needs no larger activations than training.
///
/// Sizes are padded to multiples of `multiples` and cropped again.
///
/// # Errors
///
/// If the volume cannot be read.
pub(crate) fn exhibit(
    dataset: &Dataset,
    multiples: [usize; 3],
    device: &Device,
    reconstruct: impl Fn(Tensor<5>) -> Tensor<5>,
) -> Result<Exhibit> {
    let (volume, _) = dataset.exhibit()?;
    let size = dataset.config().patch_size.unwrap_or(volume.extent());
    let window = SlidingWindow::new(size, 0.25).expect("the configuration has been validated");
    let one = |patch: Vec<f32>, shape: [usize; 4]| reconstruct(tensor(patch, shape, device));
    let mut reconstruction =
        window.run(&volume, volume.channels(), |patch, shape| through(patch, shape, multiples, one))?;
    let extent = volume.extent();
    let voxels = extent.iter().product();
    reconstruction.truncate(voxels);
    Ok(Exhibit { original: volume.data()[..voxels].to_vec(), reconstruction, extent })
}

/// How pictures of [`compared`] volumes are called.
pub(crate) const COMPARISON: PictureLabel = PictureLabel {
    name: "reconstruction",
    caption: "original, reconstruction and absolute difference; sagittal, coronal and axial mid-planes",
};

/// A whole volume of the data beside its reconstruction, in mid-planes.
///
/// # Errors
///
/// As [`exhibit`], and if it cannot be drawn.
pub(crate) fn compared(
    dataset: &Dataset,
    multiples: [usize; 3],
    device: &Device,
    reconstruct: impl Fn(Tensor<5>) -> Tensor<5>,
) -> Result<RgbImage> {
    let Exhibit { original, reconstruction, extent } = exhibit(dataset, multiples, device, reconstruct)?;
    Ok(comparison(&original, &reconstruction, extent, range_of(&original))?)
}
