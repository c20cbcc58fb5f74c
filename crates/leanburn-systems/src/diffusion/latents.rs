//! The latents of a first stage, encoded once, and held in memory or in files.

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

use image::RgbImage;
use leanburn_common::Bytes;
use leanburn_data::{DataError, Dataset, Intensity, Progress};

use super::encoding::{encode_all, origin};
use super::latent::{Latent, Spread, spread};
use super::latent_files::{Encoded, LatentFiles, checksum};
use super::stage::Stage;
use crate::data::{Data, DataSize};
use crate::device::device_of;
use crate::error::Result;
use crate::picture::{range_of, side_by_side};
use crate::shared::Context;
use crate::weight_source::weights_of;

/// Mean and deviation of the latents of volumes, with which training draws a latent anew each time it takes one.
///
/// # Memory
///
/// Twice 4 bytes a number of each latent, or of one latent where `latents.folder` has them in files. The volumes are in memory until they are
/// encoded, as `data.cache_rate` says; the autoencoder is there for that time and while a picture is made.
#[derive(Debug)]
pub struct LatentDataset {
    store: Store,
    /// How many latents are trained on: the first ones. The others are validated on.
    training: usize,
    /// `[channels, depth, height, width]` of each.
    shape: [usize; 4],
    names: Vec<String>,
    volumes: usize,
    /// What each channel is multiplied by.
    channels: Vec<Intensity>,
    /// Which part of their variance is what the encoder draws about their means.
    noise: f64,
    seed: u64,
    first_stage: Stage,
    remarks: Vec<String>,
}

/// Where the latents are, as the encoder gave them.
#[derive(Debug)]
enum Store {
    Memory(Vec<Latent>),
    Files(LatentFiles),
}

impl Store {
    fn len(&self) -> usize {
        match self {
            Self::Memory(latents) => latents.len(),
            Self::Files(files) => files.len(),
        }
    }
}

impl LatentDataset {
    /// The numbers of the training latents in the order of an epoch of a run: each of them once, in an order of its own.
    pub(super) fn order(&self, epoch: u64) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.training).collect();
        order.sort_by_key(|index| leanburn_ops::random::derive(self.seed, &[ORDER, epoch, *index as u64]));
        order
    }

    /// How many latents are trained on: those before the others.
    pub(super) fn training_len(&self) -> usize {
        self.training
    }

    /// The numbers of the latents that are validated on.
    pub(super) fn validation(&self) -> std::ops::Range<usize> {
        self.training..self.store.len()
    }

    /// The volume that a latent is of.
    pub(super) fn name(&self, number: usize) -> &str {
        match &self.store {
            Store::Memory(latents) => &latents[number].name,
            Store::Files(files) => files.name(number),
        }
    }

    /// A latent, multiplied by the scale factor.
    ///
    /// # Errors
    ///
    /// If it is in a file and can no longer be read.
    pub(super) fn latent(&self, number: usize) -> std::result::Result<Cow<'_, Latent>, DataError> {
        match &self.store {
            Store::Memory(latents) => Ok(Cow::Borrowed(&latents[number])),
            Store::Files(files) => {
                let mut latent = files.latent(number)?;
                latent.scale(self.channels.first().map_or(1.0, |channel| channel.scale));
                Ok(Cow::Owned(latent))
            }
        }
    }

    /// `[channels, depth, height, width]` of each latent.
    pub(super) fn shape(&self) -> [usize; 4] {
        self.shape
    }

    /// What each channel is multiplied by.
    pub(super) fn channels(&self) -> &[Intensity] {
        &self.channels
    }

    pub(super) fn seed(&self) -> u64 {
        self.seed
    }

    pub(super) fn first_stage(&self) -> &Stage {
        &self.first_stage
    }

    /// Latents that have been encoded or read.
    fn new(
        (mut store, encoded): (Store, Encoded),
        Spread { scale, noise }: Spread,
        stage: Stage,
        seed: u64,
        mut remarks: Vec<String>,
    ) -> Result<Self> {
        let scale = stage.scale_factor()?.unwrap_or(scale);
        remarks.extend((noise > MOSTLY_NOISE).then(|| mostly_noise(noise)));
        let shape = match &mut store {
            Store::Files(files) => files.shape(),
            Store::Memory(latents) => {
                latents.iter_mut().for_each(|latent| latent.scale(scale));
                latents[0].shape
            }
        };
        let Encoded { volumes: mut names, training } = encoded;
        let volumes = names.len();
        names.push(named_with_checksum(&stage.section.weights())?);
        if let Some(path) = &stage.teacher {
            names.push(named_with_checksum(&weights_of(path))?);
        }
        let channels = vec![Intensity { scale, offset: 0.0 }; shape[0]];
        Ok(Self { store, training, shape, names, volumes, channels, noise, seed, first_stage: stage, remarks })
    }
}

/// The part of the variance from which latents are called noise.
const MOSTLY_NOISE: f64 = 0.5;

fn mostly_noise(noise: f64) -> String {
    format!(
        "{:.0} % of the variance of the latents is noise that the encoder draws about their means: there is little to learn. Train the first \
         stage longer, or set its `training.initial_deviation` to 0.01",
        100.0 * noise
    )
}

/// The path of the orders of epochs among what is derived from the seed.
const ORDER: u64 = 0x1a7e_0001;

impl Data for Arc<LatentDataset> {
    fn samples_of_epoch(&self) -> usize {
        self.training
    }

    fn open(context: &Context<'_>, progress: &mut dyn FnMut(Progress<'_>)) -> Result<Self> {
        let stage = Stage::of(context);
        let device = device_of(context.device)?;
        stage.open(&device)?; // before volumes are read
        stage.scale_factor()?;
        let Some(folder) = stage.section.folder.clone() else {
            let mut latents = Vec::new();
            let encoded = encode_all(&stage, context, progress, &mut |latent| {
                latents.push(latent);
                Ok(())
            })?;
            let spread = spread(encoded.training, |number| Ok(Cow::Borrowed(&latents[number])))?;
            let store = (Store::Memory(latents), encoded);
            return Ok(Arc::new(LatentDataset::new(store, spread, stage, context.seed, Vec::new())?));
        };
        let origin = origin(&stage, context)?;
        let (mut remarks, read) = (Vec::new(), |done, total, name: &str| progress(Progress { done, total, name }));
        let files = match LatentFiles::open(&folder, &origin, read) {
            Ok(files) => files,
            Err(reason) => {
                let remark = |reason| format!("{}: {reason}; the latents were encoded anew", folder.display());
                remarks.extend(reason.map(remark));
                LatentFiles::write(&folder, origin, |keep| encode_all(&stage, context, progress, keep))?
            }
        };
        let encoded = Encoded { volumes: files.volumes().to_vec(), training: files.training() };
        let spread = files.spread();
        let store = (Store::Files(files), encoded);
        Ok(Arc::new(LatentDataset::new(store, spread, stage, context.seed, remarks)?))
    }

    fn extent(&self) -> Result<[usize; 3]> {
        let [_, extent @ ..] = self.shape;
        Ok(extent)
    }

    fn samples(&self) -> Result<Vec<(String, [usize; 4])>> {
        let firsts = [0, self.training].into_iter().filter(|number| *number < self.store.len());
        firsts.map(|number| Ok((format!("the latent of {}", self.name(number)), self.latent(number)?.shape))).collect()
    }

    fn size(&self) -> DataSize {
        let bytes = size_of_latents(self.shape.iter().map(|length| *length as u64), self.store.len() as u64);
        match &self.store {
            Store::Memory(_) => DataSize { held: bytes, ..DataSize::default() },
            Store::Files(files) => {
                DataSize { read: Bytes(bytes.get() / files.len().max(1) as u64), ..DataSize::default() }
            }
        }
    }

    fn names(&self) -> Vec<String> {
        self.names.clone()
    }

    fn remarks(&self) -> Vec<String> {
        self.remarks.clone()
    }

    fn facts(&self) -> Result<Vec<(&'static str, String)>> {
        let [channels, depth, height, width] = self.shape;
        let place = self.first_stage.section.folder.as_ref().map(|folder| ("in", folder.display().to_string()));
        let facts = [
            ("volumes", self.volumes.to_string()),
            ("latents", self.training.to_string()),
            ("validation latents", self.validation().len().to_string()),
            ("a latent", format!("{depth}x{height}x{width}, {channels} channels")),
            ("scale factor", self.channels.first().map_or(1.0, |channel| channel.scale).to_string()),
            ("noise of the encoder", format!("{:.1} % of the variance", 100.0 * self.noise)),
        ];
        Ok(facts.into_iter().chain(place).collect())
    }

    fn draw_sample(&self, index: u64) -> Result<(String, RgbImage)> {
        let latent = self.latent(index as usize % self.training)?;
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
        let lengths = || [channels as u64].into_iter().chain(section.extent_of(extent).map(|side| side as u64));
        if section.folder.is_some() {
            return Ok(Some(DataSize { read: size_of_latents(lengths(), 1), ..DataSize::default() }));
        }
        let [training, validation] = Dataset::expected_len(&data, context.seed)?;
        let latents = training.saturating_mul(section.samples_per_volume).saturating_add(validation) as u64;
        Ok(Some(DataSize { held: size_of_latents(lengths(), latents), ..DataSize::default() }))
    }
}

/// Mean and deviation of so many latents.
fn size_of_latents(lengths: impl Iterator<Item = u64>, count: u64) -> Bytes {
    Bytes(lengths.fold(count.saturating_mul(2 * 4), u64::saturating_mul))
}

/// A file's path with the checksum of its bytes, so that a run that goes on sees whether it has changed.
fn named_with_checksum(path: &Path) -> Result<String> {
    Ok(format!("{} (crc32c {:08x})", path.display(), checksum(path)?))
}
