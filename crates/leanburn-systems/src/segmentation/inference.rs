//! From a volume to its classes: a model that slides over it.

use std::path::Path;

use burn::tensor::{Device, Tensor};
use leanburn_data::{Blending, DataConfig, LabelMap, SlidingWindow, Volume};
use leanburn_nn::numerics::widen;
use leanburn_nn::weights;
use leanburn_train::Precision;

use super::network::Network;
use super::section::SegmentationSection;
use crate::error::{Result, SystemError};
use crate::shared::{Context, reject};
use crate::system::System;
use crate::volume::{tensor, through};

/// How much patches overlap, as a share of their size.
const OVERLAP: f64 = 0.25;

/// Patches of the size that training has, or the whole extent, with Gaussian weights where they overlap.
pub(super) fn window(data: &DataConfig, extent: [usize; 3]) -> SlidingWindow {
    let window = SlidingWindow::new(data.patch_size.unwrap_or(extent), OVERLAP);
    window.expect("the configuration has been validated").with_blending(Blending::Gaussian)
}

/// The logits of a prepared volume, on its grid: patch by patch, averaged where patches overlap with the weights of the window.
///
/// A patch is padded to multiples of `multiples` and its logits are cropped again. The classes are
/// [`LabelMap::argmax`](leanburn_data::LabelMap::argmax) of the result.
///
/// # Shapes
///
/// The result has `num_classes` channels. `model`: `[1, in_channels, depth, height, width]` to
/// `[1, num_classes, depth, height, width]`.
///
/// # Memory
///
/// `num_classes + 1` values a voxel, and what the model needs for a patch.
///
/// # Errors
///
/// If there is no memory for the logits, and [`SystemError::Input`] if they are not finite.
pub fn predict_logits(
    volume: &Volume,
    num_classes: usize,
    window: &SlidingWindow,
    multiples: [usize; 3],
    device: &Device,
    model: impl FnMut(Tensor<5>) -> Tensor<5>,
) -> Result<Volume> {
    let logits = slide(volume, num_classes, window, multiples, device, model)?;
    match logits.iter().find(|logit| !logit.is_finite()) {
        None => Ok(volume.with_data(logits, num_classes)?),
        Some(found) => Err(SystemError::Input {
            subject: "the network's output".into(),
            expected: "finite logits".into(),
            found: found.to_string(),
            remedy: "compute in float32 (device.precision: f32), or take the weights of an earlier step".into(),
        }),
    }
}

/// The classes of a prepared volume, as [`predict_logits`]; where logits are not finite, as those of a model that diverges, the background.
///
/// # Errors
///
/// If there is no memory for the logits.
pub(super) fn predict_classes(
    volume: &Volume,
    num_classes: usize,
    window: &SlidingWindow,
    multiples: [usize; 3],
    device: &Device,
    model: impl FnMut(Tensor<5>) -> Tensor<5>,
) -> Result<LabelMap> {
    let mut logits = slide(volume, num_classes, window, multiples, device, model)?;
    let voxels = logits.len() / num_classes;
    for voxel in 0..voxels {
        if (0..num_classes).any(|class| !logits[class * voxels + voxel].is_finite()) {
            (0..num_classes).for_each(|class| logits[class * voxels + voxel] = 0.0);
        }
    }
    Ok(LabelMap::argmax(&volume.with_data(logits, num_classes)?)?)
}

/// Logits, those of a class after those of the one before.
fn slide(
    volume: &Volume,
    num_classes: usize,
    window: &SlidingWindow,
    multiples: [usize; 3],
    device: &Device,
    mut model: impl FnMut(Tensor<5>) -> Tensor<5>,
) -> Result<Vec<f32>> {
    let mut one = |patch: Vec<f32>, shape: [usize; 4]| model(tensor(patch, shape, device));
    Ok(window.run(volume, num_classes, |patch, shape| through(patch, shape, multiples, &mut one))?)
}

/// A trained model that segments volumes.
#[derive(Debug)]
pub struct Segmenter {
    model: Network,
    section: SegmentationSection,
    precision: Precision,
    device: Device,
}

impl Segmenter {
    /// The model of a section with weights from a file, ours or MONAI's, on a device without autodiff.
    ///
    /// # Errors
    ///
    /// [`SystemError::Config`](crate::SystemError::Config), [`SystemError::Weights`](crate::SystemError::Weights).
    pub fn load(section: &SegmentationSection, context: &Context<'_>, weights: &Path, device: &Device) -> Result<Self> {
        reject(context, section.validate(context))?;
        let mut model = section.model().init(device);
        weights::load(&mut model, weights)?;
        let precision = context.device.resolved_precision();
        Ok(Self { model, section: section.clone(), precision, device: device.clone() })
    }

    /// The section that it was built from.
    pub fn section(&self) -> &SegmentationSection {
        &self.section
    }

    /// Patches for a volume of an extent: of the size that the model is trained on, as data of that configuration says, with a
    /// quarter of overlap and Gaussian weights.
    ///
    /// # Panics
    ///
    /// If the configuration is not valid.
    pub fn window(&self, data: &DataConfig, extent: [usize; 3]) -> SlidingWindow {
        window(data, extent)
    }

    /// The logits of a volume that was [prepared](leanburn_data::prepare) as for training, with a call of `patch_done` after each
    /// patch; see [`predict_logits`].
    ///
    /// # Errors
    ///
    /// As [`predict_logits`].
    ///
    /// # Panics
    ///
    /// If the volume has other channels than the model takes.
    pub fn logits(&self, volume: &Volume, window: &SlidingWindow, mut patch_done: impl FnMut()) -> Result<Volume> {
        let (classes, multiples) = (self.section.num_classes, self.section.multiples());
        predict_logits(volume, classes, window, multiples, &self.device, |patch| {
            let logits = widen(self.model.forward(self.precision.cast(patch)));
            patch_done();
            logits
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_logits_are_not_finite_is_background_and_elsewhere_their_largest() {
        let affine = std::array::from_fn(|row| std::array::from_fn(|column| f64::from(u8::from(row == column))));
        let volume = Volume::new(vec![1.0, 2.0, f32::MAX, 3.0], [1, 1, 2, 2], affine).unwrap();
        let window = SlidingWindow::new([1, 2, 2], 0.0).unwrap();
        // the second class is ahead, and infinite in the third voxel
        let model = |volumes: Tensor<5>| Tensor::cat(vec![volumes.clone(), volumes * 2.0], 1);
        let device = Device::flex();
        let classes = predict_classes(&volume, 2, &window, [1; 3], &device, model).unwrap();
        assert_eq!(classes.data(), [1, 1, 0, 1]);
        let error = predict_logits(&volume, 2, &window, [1; 3], &device, model).unwrap_err();
        assert!(error.to_string().contains("the network's output: expected finite logits, found inf"), "{error}");
        assert!(error.help().unwrap().contains("device.precision"));
    }
}
