//! The latents of a first stage, encoded once and held in memory.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use burn::tensor::Device;
use image::RgbImage;
use leanburn_common::Bytes;
use leanburn_data::{DataConfig, Dataset, Intensity, Progress, Sample};

use super::teacher;
use crate::codec::Codec;
use crate::codec_memory::CodecTask;
use crate::data::{Data, DataSize};
use crate::device::device_of;
use crate::error::{Result, SystemError};
use crate::picture::{range_of, side_by_side};
use crate::shared::{Context, DeviceSection, LatentsSection, OpenFirstStage};
use crate::weight_source::weights_of;

/// Mean and deviation of the latents of volumes, with which training draws a latent anew each time it takes one.
///
/// # Memory
///
/// Twice 4 bytes a number of each latent. The volumes are in memory until they are encoded, as `data.cache_rate` says; the autoencoder is
/// there for that time and while a picture is made.
#[derive(Debug)]
pub struct LatentDataset {
    training: Vec<Latent>,
    validation: Vec<Latent>,
    names: Vec<String>,
    volumes: usize,
    /// What each channel was multiplied by.
    channels: Vec<Intensity>,
    seed: u64,
    first_stage: Stage,
}

/// The latent of a sample, multiplied by the scale factor.
#[derive(Debug)]
pub(super) struct Latent {
    /// The volume that it is of.
    pub name: String,
    /// `[channels, depth, height, width]`.
    pub shape: [usize; 4],
    pub mean: Vec<f32>,
    pub deviation: Vec<f32>,
}

/// Where the first stage is, to be opened when it is needed.
#[derive(Debug)]
pub(super) struct Stage {
    section: LatentsSection,
    open: OpenFirstStage,
    data: DataConfig,
    device: DeviceSection,
    teacher: Option<PathBuf>,
}

impl Stage {
    pub fn of(context: &Context<'_>) -> Self {
        Self {
            section: context.latents.cloned().unwrap_or_else(|| LatentsSection::new("")),
            open: context.first_stage,
            data: context.data.clone(),
            device: context.device.clone(),
            teacher: context.teacher.map(Path::to_path_buf),
        }
    }

    /// The first stage on a device without autodiff.
    ///
    /// # Errors
    ///
    /// [`SystemError::Input`] if it is not there, is no autoencoder, or is not the one that the configuration speaks of; what its
    /// configuration and its weights cannot be read for.
    pub fn open(&self, device: &Device) -> Result<Codec> {
        let weights = self.section.weights();
        if !weights.is_file() {
            return Err(missing(&self.section, &weights));
        }
        let stage = (self.open)(&weights, device)?;
        let reject = |subject: &str, expected: String, found: String, remedy: String| {
            Err(SystemError::Input { subject: subject.into(), expected, found, remedy })
        };
        let Some(codec) = stage.codec else {
            let remedy = "name a run of the system `autoencoder` or `vae3d`".to_string();
            return reject("latents.autoencoder", "an autoencoder".into(), "a model without latents".into(), remedy);
        };
        let (there, here) = (codec.shape().multiples, self.section.downsampling);
        if there != here {
            let expected = format!("{there:?}, by which {} divides volumes", weights.display());
            let remedy = format!("write `downsampling: {there:?}`");
            return reject("latents.downsampling", expected, format!("{here:?}"), remedy);
        }
        if (stage.data.normalize, stage.data.percentiles) != (self.data.normalize, self.data.percentiles) {
            let said = |data: &DataConfig| format!("{:?} with percentiles {:?}", data.normalize, data.percentiles);
            let expected = format!("{}, as the first stage was trained", said(&stage.data));
            let remedy = "write `normalize` and `percentiles` of the config.yaml of its run".to_string();
            return reject("data.normalize", expected, said(&self.data), remedy);
        }
        Ok(codec)
    }

    /// What latents are multiplied by, where the configuration or a teacher says it: a teacher knows no other latents.
    fn scale_factor(&self) -> Result<Option<f64>> {
        let Some(path) = &self.teacher else { return Ok(self.section.scale_factor) };
        let scale = teacher::scale_factor(path)?;
        match self.section.scale_factor {
            Some(found) if found != scale => Err(SystemError::Input {
                subject: "latents.scale_factor".into(),
                expected: format!("{scale}, as the teacher was trained"),
                found: found.to_string(),
                remedy: "leave it out".into(),
            }),
            _ => Ok(Some(scale)),
        }
    }

    /// The first stage for a task with a volume, or a latent, of an extent: within the memory limit of the run, if there is one.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open), and [`SystemError::OutOfMemory`] if it does not fit in slabs either.
    pub fn open_for(&self, task: CodecTask, extent: [usize; 3], device: &Device) -> Result<Codec> {
        let codec = self.open(device)?;
        let Some(limit) = self.device.memory_limit else { return Ok(codec) };
        codec.within(limit, task, extent).map_err(|error| SystemError::OutOfMemory {
            reason: format!("the first stage does not fit into the memory of the run: {error}"),
            remedy: "set a smaller data.patch_size, or allow the process more memory".into(),
        })
    }
}

fn missing(section: &LatentsSection, weights: &Path) -> SystemError {
    let name = section.autoencoder.file_name().unwrap_or_default().display();
    SystemError::Input {
        subject: "latents.autoencoder".into(),
        expected: format!("the weights of a trained autoencoder in {}", weights.display()),
        found: if section.autoencoder.exists() { "none there" } else { "nothing there" }.into(),
        remedy: format!(
            "train the first stage: `leanburn train {name}.yaml`, or have it trained before this one by `leanburn train ... --with-stages`"
        ),
    }
}

impl LatentDataset {
    /// Training latent `index` in the order of a run: each epoch has each of them once, in an order of its own.
    pub(super) fn order(&self, epoch: u64) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.training.len()).collect();
        order.sort_by_key(|index| leanburn_ops::random::derive(self.seed, &[ORDER, epoch, *index as u64]));
        order
    }

    pub(super) fn training(&self) -> &[Latent] {
        &self.training
    }

    pub(super) fn validation(&self) -> &[Latent] {
        &self.validation
    }

    pub(super) fn seed(&self) -> u64 {
        self.seed
    }

    pub(super) fn first_stage(&self) -> &Stage {
        &self.first_stage
    }
}

/// The path of the orders of epochs among what is derived from the seed.
const ORDER: u64 = 0x1a7e_0001;

impl Data for Arc<LatentDataset> {
    fn samples_of_epoch(&self) -> usize {
        self.training.len()
    }

    fn open(context: &Context<'_>, progress: &mut dyn FnMut(Progress<'_>)) -> Result<Self> {
        let stage = Stage::of(context);
        let device = device_of(context.device)?;
        stage.open(&device)?; // before volumes are read
        stage.scale_factor()?;
        let [training, validation] = Dataset::expected_len(context.data, context.seed)?;
        let to_encode = training * stage.section.samples_per_volume + validation;
        let volumes = Dataset::open_with(context.data, context.seed, |read| {
            progress(Progress { total: read.total + to_encode, ..read });
        })?;
        let [_, extent @ ..] = volumes.train_sample(0)?.shape;
        let codec = stage.open_for(CodecTask::Encode, extent, &device)?;
        let (read, count) = (volumes.names().len(), volumes.len() * stage.section.samples_per_volume);
        let mut next = |index: usize, sample: Sample| -> Result<Latent> {
            let latent = encode(&codec, sample)?;
            progress(Progress { done: read + index + 1, total: read + to_encode, name: &latent.name });
            Ok(latent)
        };
        let training = (0..count).map(|index| next(index, volumes.train_sample(index as u64)?));
        let mut training: Vec<Latent> = training.collect::<Result<_>>()?;
        let validation = (0..volumes.val_len()).map(|index| next(count + index, volumes.val_sample(index)?));
        let mut validation: Vec<Latent> = validation.collect::<Result<_>>()?;
        let scale = stage.scale_factor()?.unwrap_or_else(|| scale_factor(&training));
        for latent in training.iter_mut().chain(&mut validation) {
            let values = latent.mean.iter_mut().chain(&mut latent.deviation);
            values.for_each(|value| *value = (f64::from(*value) * scale) as f32);
        }
        let mut names = volumes.names();
        names.push(named_with_checksum(&stage.section.weights())?);
        if let Some(path) = &stage.teacher {
            names.push(named_with_checksum(&weights_of(path))?);
        }
        let channels = vec![Intensity { scale, offset: 0.0 }; codec.shape().latent_channels];
        let dataset = LatentDataset {
            training,
            validation,
            names,
            volumes: read,
            channels,
            seed: context.seed,
            first_stage: stage,
        };
        Ok(Arc::new(dataset))
    }

    fn extent(&self) -> Result<[usize; 3]> {
        let [_, extent @ ..] = self.training[0].shape;
        Ok(extent)
    }

    fn samples(&self) -> Result<Vec<(String, [usize; 4])>> {
        let samples = self.training.first().into_iter().chain(self.validation.first());
        Ok(samples.map(|latent| (format!("the latent of {}", latent.name), latent.shape)).collect())
    }

    fn size(&self) -> DataSize {
        let latents = self.training.iter().chain(&self.validation);
        let held =
            latents.map(|latent| size_of_val(&latent.mean[..]) + size_of_val(&latent.deviation[..])).sum::<usize>();
        DataSize { held: Bytes(held as u64), ..DataSize::default() }
    }

    fn names(&self) -> Vec<String> {
        self.names.clone()
    }

    fn facts(&self) -> Result<Vec<(&'static str, String)>> {
        let [channels, depth, height, width] = self.training[0].shape;
        Ok(vec![
            ("volumes", self.volumes.to_string()),
            ("latents", self.training.len().to_string()),
            ("validation latents", self.validation.len().to_string()),
            ("a latent", format!("{depth}x{height}x{width}, {channels} channels")),
            ("scale factor", self.channels.first().map_or(1.0, |channel| channel.scale).to_string()),
        ])
    }

    fn draw_sample(&self, index: u64) -> Result<(String, RgbImage)> {
        let latent = &self.training[index as usize % self.training.len()];
        let [_, extent @ ..] = latent.shape;
        let first = ..extent.iter().product::<usize>();
        let columns = [("mean", &latent.mean[first]), ("deviation", &latent.deviation[first])];
        let picture = side_by_side(&columns, extent, range_of(columns[0].1))?;
        Ok((format!("the latent of {}, its first channel", latent.name), picture))
    }

    fn normalization(&self) -> &[Intensity] {
        &self.channels
    }

    fn expected(context: &Context<'_>, channels: usize) -> Result<Option<DataSize>> {
        let Stage { section, data, .. } = Stage::of(context);
        let Some(extent) = data.patch_size.or(data.voxel_size) else { return Ok(None) };
        let [training, validation] = Dataset::expected_len(&data, context.seed)?;
        let latents = training.saturating_mul(section.samples_per_volume).saturating_add(validation) as u64;
        let values =
            section.extent_of(extent).iter().fold(channels as u64, |values, &side| values.saturating_mul(side as u64));
        let held = latents.saturating_mul(values).saturating_mul(2 * 4);
        Ok(Some(DataSize { held: Bytes(held), ..DataSize::default() }))
    }
}

fn encode(codec: &Codec, sample: Sample) -> Result<Latent> {
    let (expected, found) = (codec.shape().in_channels, sample.shape[0]);
    if expected != found {
        return Err(SystemError::Input {
            subject: sample.name,
            expected: format!("{expected} channels, as the first stage has"),
            found: found.to_string(),
            remedy: "give the volumes that the first stage was trained on, or name another one".into(),
        });
    }
    let Some([mean, deviation]) = codec.distribution(&sample.data, sample.shape)? else {
        return Err(SystemError::Input {
            subject: "latents.autoencoder".into(),
            expected: "an autoencoder with a Gaussian latent".into(),
            found: "one with a codebook".into(),
            remedy: "name a run of `autoencoder`, or of `vae3d` without a codebook".into(),
        });
    };
    let shape = mean.shape();
    Ok(Latent { name: sample.name, shape, mean: mean.data().to_vec(), deviation: deviation.data().to_vec() })
}

/// What brings the deviation of latents to 1: of their means, and of what is drawn about these.
fn scale_factor(latents: &[Latent]) -> f64 {
    let means = || latents.iter().flat_map(|latent| &latent.mean).map(|value| f64::from(*value));
    let count = latents.iter().map(|latent| latent.mean.len()).sum::<usize>().max(1) as f64;
    let centre = means().sum::<f64>() / count;
    let about = means().map(|value| (value - centre).powi(2)).sum::<f64>();
    let within =
        latents.iter().flat_map(|latent| &latent.deviation).map(|value| f64::from(*value).powi(2)).sum::<f64>();
    let variance = (about + within) / count;
    if variance > 0.0 { 1.0 / variance.sqrt() } else { 1.0 }
}

/// A file's path with the checksum of its bytes, so that a run that goes on sees whether it has changed.
fn named_with_checksum(path: &Path) -> Result<String> {
    let bytes = fs::read(path).map_err(|error| SystemError::Input {
        subject: path.display().to_string(),
        expected: "a file that can be read".into(),
        found: error.to_string(),
        remedy: "check the path and its permissions".into(),
    })?;
    Ok(format!("{} (crc32c {:08x})", path.display(), crc32c::crc32c(&bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scale_factor_counts_means_and_what_is_drawn_about_them() {
        let latent = |mean: [f32; 2], deviation: [f32; 2]| Latent {
            name: String::new(),
            shape: [1, 1, 1, 2],
            mean: mean.into(),
            deviation: deviation.into(),
        };
        // variance of the means 9, mean square of the deviations 16
        let scale = scale_factor(&[latent([7.0, 1.0], [4.0, 4.0]), latent([1.0, 7.0], [0.0, 32f32.sqrt()])]);
        assert!((scale - 0.2).abs() < 1e-7, "{scale}");
        assert_eq!(scale_factor(&[latent([3.0, 3.0], [0.0, 0.0])]), 1.0);
    }
}
