//! Trained models that turn volumes into latents and back: what `reconstruct`, `encode` and `decode` of the command call.

use std::fmt::Debug;
use std::path::Path;

use burn::tensor::{Device, Tensor};
use leanburn_data::{SlidingWindow, Volume};
use leanburn_nn::blocks::VectorQuantizer;
use leanburn_nn::models::{AutoencoderKl, Vae3d, VqVae3d};
use leanburn_nn::weights::{MonaiWeights, load};
use leanburn_ops::recording::valid;
use leanburn_ops::{ResidencyPolicy, Unstreamable};
use leanburn_train::Precision;

use crate::error::{Result, SystemError};
use crate::volume::{grid, pad, scale_affine, tensor, through, values};

/// A model with a latent, deterministic: without the noise of training.
pub trait LatentModel: Debug {
    /// The latent, `[batch_size, latent_channels, ..]`, of volumes `[batch_size, in_channels, depth, height, width]`: its mean, or
    /// the vectors of the codebook.
    fn encode(&self, volumes: Tensor<5>) -> Tensor<5>;

    /// Mean and deviation of the latent of volumes; the vectors of a codebook have none.
    fn distribution(&self, volumes: Tensor<5>) -> (Tensor<5>, Tensor<5>);

    /// The volumes of latents. Where there is a codebook, each place is first taken for its nearest vector.
    fn decode(&self, latents: Tensor<5>) -> Tensor<5>;

    /// Which segments are streamed.
    fn policy(&self) -> ResidencyPolicy;

    /// The same model, weights shared, with other segments streamed.
    fn with_policy(&self, policy: ResidencyPolicy) -> Box<dyn LatentModel>;

    /// Each segment that may be streamed, and what stands against it, if anything does.
    fn unstreamable(&self) -> Vec<(String, Option<Unstreamable>)>;

    /// A model like it on another device, for plans: its weights are as they are drawn, and take no gradient.
    fn like(&self, device: &Device) -> Box<dyn LatentModel>;
}

/// The methods that all models have.
macro_rules! segmented_latent_model {
    () => {
        fn policy(&self) -> ResidencyPolicy {
            self.residency().clone()
        }

        fn with_policy(&self, policy: ResidencyPolicy) -> Box<dyn LatentModel> {
            Box::new(self.clone().with_residency(policy))
        }

        fn unstreamable(&self) -> Vec<(String, Option<Unstreamable>)> {
            self.unstreamable()
        }

        fn like(&self, device: &Device) -> Box<dyn LatentModel> {
            Box::new(valid(&self.config().init(device)))
        }
    };
}

impl LatentModel for AutoencoderKl {
    fn encode(&self, volumes: Tensor<5>) -> Tensor<5> {
        self.encode(volumes).0
    }

    fn distribution(&self, volumes: Tensor<5>) -> (Tensor<5>, Tensor<5>) {
        self.encode(volumes)
    }

    fn decode(&self, latents: Tensor<5>) -> Tensor<5> {
        self.decode(latents)
    }

    segmented_latent_model!();
}

impl LatentModel for Vae3d {
    fn encode(&self, volumes: Tensor<5>) -> Tensor<5> {
        match self.quantizer() {
            Some(_) => self.quantize(volumes).0,
            None => self.encode(volumes).0,
        }
    }

    fn distribution(&self, volumes: Tensor<5>) -> (Tensor<5>, Tensor<5>) {
        match self.quantizer() {
            Some(_) => without_deviation(self.quantize(volumes).0),
            None => self.encode(volumes),
        }
    }

    fn decode(&self, latents: Tensor<5>) -> Tensor<5> {
        self.decode(match self.quantizer() {
            Some(codebook) => nearest(codebook, latents),
            None => latents,
        })
    }

    segmented_latent_model!();
}

impl LatentModel for VqVae3d {
    fn encode(&self, volumes: Tensor<5>) -> Tensor<5> {
        self.quantize(self.encode(volumes)).0
    }

    fn distribution(&self, volumes: Tensor<5>) -> (Tensor<5>, Tensor<5>) {
        without_deviation(LatentModel::encode(self, volumes))
    }

    fn decode(&self, latents: Tensor<5>) -> Tensor<5> {
        self.decode(nearest(self.quantizer(), latents))
    }

    segmented_latent_model!();
}

/// What is known of vectors: they are as they are.
fn without_deviation(vectors: Tensor<5>) -> (Tensor<5>, Tensor<5>) {
    let deviation = vectors.zeros_like();
    (vectors, deviation)
}

/// The vector of the codebook that is nearest to each place of the latents.
fn nearest(codebook: &VectorQuantizer, latents: Tensor<5>) -> Tensor<5> {
    let dtype = latents.dtype();
    codebook.embed(codebook.codes(latents)).cast(dtype)
}

/// Channels and sizes of a [`Codec`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CodecShape {
    /// Channels of the volumes that it takes.
    pub in_channels: usize,
    /// Channels of the volumes that it gives.
    pub out_channels: usize,
    /// Channels of the latent.
    pub latent_channels: usize,
    /// By how much the latent is smaller than the volume, on each axis.
    pub multiples: [usize; 3],
}

/// A trained model that turns volumes into latents and back, on a device.
///
/// Volumes are [prepared](leanburn_data::prepare) as for training. Their sizes are padded to what the model takes. With a window, a
/// volume goes through in patches, whose sizes are counted in voxels of the volume; where they overlap they are averaged.
#[derive(Debug)]
pub struct Codec {
    model: Box<dyn LatentModel>,
    shape: CodecShape,
    precision: Precision,
    device: Device,
}

impl Codec {
    /// The model with weights from a file, ours or MONAI's.
    ///
    /// # Errors
    ///
    /// [`SystemError::Weights`].
    pub(crate) fn load<M: LatentModel + MonaiWeights + 'static>(
        mut model: M,
        weights: &Path,
        shape: CodecShape,
        precision: Precision,
        device: &Device,
    ) -> Result<Self> {
        load(&mut model, weights)?;
        Ok(Self { model: Box::new(model), shape, precision, device: device.clone() })
    }

    /// The same codec with another model.
    pub(crate) fn with_model(&self, model: Box<dyn LatentModel>) -> Self {
        Self { model, shape: self.shape, precision: self.precision, device: self.device.clone() }
    }

    pub(crate) fn model(&self) -> &dyn LatentModel {
        &*self.model
    }

    pub(crate) fn precision(&self) -> Precision {
        self.precision
    }

    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    /// Its channels and sizes.
    pub fn shape(&self) -> CodecShape {
        self.shape
    }

    /// The reconstruction of a volume, on its grid. `patch_done` is called after each patch, with how many there are.
    ///
    /// # Errors
    ///
    /// [`SystemError::Input`] of a volume with other channels, and if there is no memory for the result or it is not finite.
    pub fn reconstruct(
        &self,
        volume: &Volume,
        window: Option<&SlidingWindow>,
        mut patch_done: impl FnMut(usize),
    ) -> Result<Volume> {
        check_channels(volume, self.shape.in_channels)?;
        let one = |data: &[f32], shape: [usize; 4]| {
            through(data, shape, self.shape.multiples, |data, shape| {
                self.run(data, shape, |volumes| self.model.decode(self.model.encode(volumes)))
            })
        };
        let channels = self.shape.out_channels;
        let data = match window {
            None => one(volume.data(), volume.shape()),
            Some(window) => {
                let patches = window.count(volume.extent());
                window.run(volume, channels, |patch, shape| {
                    let output = one(patch, shape);
                    patch_done(patches);
                    output
                })?
            }
        };
        Ok(volume.with_data(data, channels)?)
    }

    /// The latent of a volume, on its coarser grid in the same space. Otherwise as [`reconstruct`](Self::reconstruct).
    ///
    /// # Errors
    ///
    /// As [`reconstruct`](Self::reconstruct).
    pub fn encode(
        &self,
        volume: &Volume,
        window: Option<&SlidingWindow>,
        patch_done: impl FnMut(usize),
    ) -> Result<Volume> {
        let CodecShape { in_channels, latent_channels, multiples, .. } = self.shape;
        check_channels(volume, in_channels)?;
        let (data, shape) = pad(volume.data(), volume.shape(), multiples);
        let padded = Volume::new(data, shape, *volume.affine())?;
        let encode = |volumes| self.model.encode(volumes);
        let data = self.resample(&padded, latent_channels, (multiples, [1; 3]), window, encode, patch_done)?;
        let [depth, height, width] = [0, 1, 2].map(|axis| padded.extent()[axis] / multiples[axis]);
        let affine = scale_affine(volume.affine(), multiples.map(|factor| factor as f64));
        Ok(Volume::new(data, [latent_channels, depth, height, width], affine)?)
    }

    /// Mean and deviation of the latent of values `[channels, depth, height, width]`, padded to what the model takes.
    ///
    /// # Errors
    ///
    /// As [`reconstruct`](Self::reconstruct).
    pub(crate) fn distribution(&self, data: &[f32], shape: [usize; 4]) -> Result<[Volume; 2]> {
        let (data, shape) = pad(data, shape, self.shape.multiples);
        let volumes = self.precision.cast(tensor(data, shape, &self.device));
        let (mean, deviation) = self.model.distribution(volumes);
        let [_, channels, depth, height, width] = mean.dims();
        let volume = |tensor| Volume::new(values(tensor), [channels, depth, height, width], grid([1.0; 3]));
        Ok([volume(mean)?, volume(deviation)?])
    }

    /// The volume of a latent, on the finer grid in the same space, in the normalized units of training. Patches are counted in
    /// voxels of that volume.
    ///
    /// # Errors
    ///
    /// As [`reconstruct`](Self::reconstruct).
    pub fn decode(
        &self,
        latent: &Volume,
        window: Option<&SlidingWindow>,
        patch_done: impl FnMut(usize),
    ) -> Result<Volume> {
        let CodecShape { out_channels, latent_channels, multiples, .. } = self.shape;
        check_channels(latent, latent_channels)?;
        let decode = |latents| self.model.decode(latents);
        let data = self.resample(latent, out_channels, ([1; 3], multiples), window, decode, patch_done)?;
        let [depth, height, width] = [0, 1, 2].map(|axis| latent.extent()[axis] * multiples[axis]);
        let affine = scale_affine(latent.affine(), multiples.map(|factor| 1.0 / factor as f64));
        Ok(Volume::new(data, [out_channels, depth, height, width], affine)?)
    }

    /// What `model` makes of a volume, at once or in patches; a place of the latent is `scales` voxels of what it takes and gives.
    fn resample(
        &self,
        volume: &Volume,
        channels: usize,
        (input, output): ([usize; 3], [usize; 3]),
        window: Option<&SlidingWindow>,
        model: impl Fn(Tensor<5>) -> Tensor<5>,
        mut patch_done: impl FnMut(usize),
    ) -> Result<Vec<f32>> {
        let Some(window) = window.map(|window| window.coarser(self.shape.multiples)) else {
            return Ok(values(self.run(volume.data().to_vec(), volume.shape(), model)));
        };
        let patches = window.count([0, 1, 2].map(|axis| volume.extent()[axis] / input[axis]));
        let one = |patch: &[f32], shape: [usize; 4]| {
            let output = values(self.run(patch.to_vec(), shape, &model));
            patch_done(patches);
            output
        };
        Ok(window.run_scaled(volume, channels, input, output, one)?)
    }

    fn run(&self, data: Vec<f32>, shape: [usize; 4], model: impl FnOnce(Tensor<5>) -> Tensor<5>) -> Tensor<5> {
        model(self.precision.cast(tensor(data, shape, &self.device)))
    }
}

fn check_channels(volume: &Volume, expected: usize) -> Result<()> {
    match volume.channels() == expected {
        true => Ok(()),
        false => Err(SystemError::Input {
            subject: "volume".into(),
            expected: format!("{expected} channels, as the model has"),
            found: volume.channels().to_string(),
            remedy: "give the volume that the model was trained on, or the model that goes with it".into(),
        }),
    }
}
