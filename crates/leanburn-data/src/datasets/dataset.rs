//! The volumes of a configuration, split, as samples.

use crate::augmentation::Drawn;
use crate::datasets::batch::{Batch, Sample};
use crate::datasets::config::DataConfig;
use crate::datasets::item::{Item, Reader, Scan, check_against, load};
use crate::datasets::memory::{DataMemory, stays};
use crate::datasets::source::Source;
use crate::error::DataError;
use crate::random::{Stream, generator};
use crate::sampling::patch::{Cut, Region};
use crate::sampling::places::{Place, choose};
use crate::sampling::split::{Role, roles};
use crate::volumes::affine::subgrid;
use crate::volumes::{LabelMap, Volume, zeros};
use rand::rngs::ChaCha8Rng;
use rand::seq::SliceRandom;
use rand::{Rng, RngExt};
use rayon::prelude::*;

/// How far opening a dataset has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress<'a> {
    /// Volumes read so far.
    pub done: usize,
    /// Volumes in all.
    pub total: usize,
    /// The volume that was read last.
    pub name: &'a str,
}

/// A training sample before and after it is augmented, for people to look at.
#[derive(Debug, Clone)]
pub struct Preview {
    /// As it lies in the prepared volume.
    pub plain: Sample,
    /// As the model sees it.
    pub seen: Sample,
    /// What was done to it, in words; the jitter is not named.
    pub changes: Vec<String>,
}

/// A whole held-out part: a volume that is validated on, or the end of the only volume.
#[derive(Debug, Clone)]
pub struct HeldOut {
    /// Prepared values.
    pub volume: Volume,
    /// Their classes, on the same grid; none without labels.
    pub labels: Option<LabelMap>,
    /// The file (or phantom).
    pub name: String,
}

/// The volumes of a configuration, split into training and validation.
///
/// A sample is a pure function of the seed and its index: any thread may ask for any sample at any
/// time, and a run that goes on after a stop sees what it would have seen.
///
/// # Memory
/// A share `cache_rate` of the prepared volumes, 4 bytes a value, and of their labels, 1 byte a voxel; see
/// [`Dataset::cached_bytes`].
#[derive(Debug)]
pub struct Dataset {
    config: DataConfig,
    seed: u64,
    items: Vec<Item>,
    training: Vec<usize>,
    validation: Vec<Place>,
}

impl Dataset {
    /// Reads every volume once, checks it, and splits them.
    ///
    /// # Errors
    /// Every validation error of the configuration; else the first volume that is missing, damaged,
    /// of other channels than the first, or (without `patch_size`) of another size, or whose labels are missing or do
    /// not fit.
    pub fn open(config: &DataConfig, seed: u64) -> Result<Self, DataError> {
        Self::open_with(config, seed, |_| {})
    }

    /// As [`Dataset::open`], calling `progress` after each volume.
    ///
    /// # Errors
    /// As [`Dataset::open`].
    pub fn open_with(
        config: &DataConfig,
        seed: u64,
        mut progress: impl FnMut(Progress<'_>),
    ) -> Result<Self, DataError> {
        DataError::if_invalid(config.validate())?;
        DataError::if_invalid(config.missing_source())?;
        let sources = Source::all(config, seed)?;
        let total = sources.len();
        let roles = roles(total, config.val_fraction, seed);
        let stays = stays(config, &roles);
        let jobs: Vec<(usize, &Source)> = sources.iter().enumerate().collect();
        let (mut items, mut places): (Vec<Item>, Vec<Place>) = (Vec::new(), Vec::new());
        for jobs in jobs.chunks(config.num_workers.max(1)) {
            let loaded: Vec<Result<(Item, Vec<Place>), DataError>> = jobs
                .par_iter()
                .map(|(index, source)| load(config, source, *index, roles[*index], stays[*index], seed))
                .collect();
            for loaded in loaded {
                let (item, found) = loaded?;
                check_against(config, items.first(), &item)?;
                progress(Progress { done: items.len() + 1, total, name: &item.source.name() });
                items.push(item);
                places.extend(found);
            }
        }
        let training = (0..total).filter(|index| items[*index].training.is_some()).collect();
        let validation = choose(&places, config.val_patches);
        Ok(Self { config: config.clone(), seed, items, training, validation })
    }

    /// The volumes to train on and the validation samples that the data of a configuration has, without reading a volume. A single volume is
    /// taken to be one that can be split.
    ///
    /// # Errors
    /// If the volumes are not there.
    pub fn expected_len(config: &DataConfig, seed: u64) -> Result<[usize; 2], DataError> {
        let roles = roles(Source::all(config, seed)?.len(), config.val_fraction, seed);
        let count = |other: Role| roles.iter().filter(|role| **role != other).count();
        let places = count(Role::Train).saturating_mul(config.patch_size.map_or(1, |_| config.val_patches));
        Ok([count(Role::Validate), places.min(config.val_patches)])
    }

    /// Number of volumes to train on; one epoch has as many samples.
    pub fn len(&self) -> usize {
        self.training.len()
    }

    /// Whether there is nothing to train on, which no opened dataset is.
    pub fn is_empty(&self) -> bool {
        self.training.is_empty()
    }

    /// Number of channels of every sample.
    pub fn channels(&self) -> usize {
        self.items.first().map_or(0, |item| item.shape[0])
    }

    /// The configuration it was opened with.
    pub fn config(&self) -> &DataConfig {
        &self.config
    }

    /// Number of classes of the labels, the background among them; none without labels.
    pub fn num_classes(&self) -> Option<usize> {
        self.config.num_classes()
    }

    /// The files (or phantoms) of its volumes, in their fixed order.
    pub fn names(&self) -> Vec<String> {
        self.items.iter().map(|item| item.source.name()).collect()
    }

    /// As [`Dataset::names`], each name with the files of its labels behind it: `scan.nii with labels scan_seg.nii`.
    pub fn names_with_labels(&self) -> Vec<String> {
        self.items.iter().map(|item| item.source.name_with_labels()).collect()
    }

    /// What its volumes and labels take in memory.
    pub fn memory(&self) -> DataMemory {
        let labels = u64::from(self.config.labels.is_some());
        let bytes =
            |item: &Item| item.shape[1..].iter().product::<usize>() as u64 * (4 * item.shape[0] as u64 + labels);
        let read = self.items.iter().filter(|item| item.training.is_some() && item.cached.is_none()).map(bytes);
        DataMemory {
            cached: self.cached_bytes(),
            read: read.max().map_or(0, |bytes| DataMemory::of_readers(&self.config, bytes)),
        }
    }

    /// Bytes of the volumes and labels in memory.
    pub fn cached_bytes(&self) -> u64 {
        let labels = |scan: &Scan| scan.labels.as_ref().map_or(0, |labels| labels.data().len());
        let scans = self.items.iter().filter_map(|item| item.cached.as_ref());
        scans.map(|scan| (size_of_val(scan.volume.data()) + labels(scan)) as u64).sum()
    }

    /// Training sample `index`; indices run on over the epochs without end.
    ///
    /// Sample `index` belongs to epoch `index / len()`; each epoch visits every volume once, in an
    /// order of its own.
    ///
    /// # Errors
    /// If a volume that is not cached can no longer be read or has changed, or there is no memory.
    pub fn train_sample(&self, index: u64) -> Result<Sample, DataError> {
        let mut reader = Reader::default();
        let mut placed = self.placed(index, &mut reader)?;
        let Cut { start, size: size @ [x, y, z], .. } = placed.patch;
        let shape = [self.channels(), x, y, z];
        let mut data = zeros(&shape)?;
        let mut labels = placed.scan.labels.as_ref().map(|_| zeros(&size)).transpose()?;
        self.write(&mut placed, index, &mut data, labels.as_deref_mut())?;
        let Item { source, intensity, .. } = placed.item;
        Ok(Sample { data, shape, labels, name: source.name(), class: source.class(), start, intensity: *intensity })
    }

    /// So many training samples, made in place: none is in memory besides the batch. None may be missing.
    pub(crate) fn train_batch(
        &self,
        batch_size: usize,
        mut indices: impl Iterator<Item = u64>,
        reader: &mut Reader,
    ) -> Result<Batch, DataError> {
        let mut batch = None;
        for place in 0..batch_size {
            let index = indices.next().ok_or_else(Batch::too_few)?;
            let mut placed = self.placed(index, reader)?;
            let [x, y, z] = placed.patch.size; // the same for all: what has no patch size has volumes of one size
            let batch = match &mut batch {
                Some(batch) => batch,
                None => {
                    let shape = [batch_size, self.channels(), x, y, z];
                    batch.insert(Batch::zeros(shape, placed.scan.labels.is_some())?)
                }
            };
            let (data, labels) = batch.place_mut(place);
            self.write(&mut placed, index, data, labels)?;
        }
        batch.ok_or_else(Batch::too_few)
    }

    /// A training sample, augmented, into places of as many voxels.
    fn write(
        &self,
        Placed { scan, patch, random, .. }: &mut Placed<'_>,
        index: u64,
        data: &mut [f32],
        labels: Option<&mut [u8]>,
    ) -> Result<(), DataError> {
        let drawn = self.drawn(index);
        scan.write(patch, drawn.as_ref().and_then(|drawn| drawn.warp.as_ref()), data, labels);
        if let Some(drawn) = drawn {
            drawn.change(data, patch.size)?;
        }
        jitter(data, self.config.intensity_jitter, random);
        Ok(())
    }

    /// Training sample `index` before and after it is augmented, and what was drawn for it.
    ///
    /// # Errors
    /// As [`Dataset::train_sample`].
    pub fn preview(&self, index: u64) -> Result<Preview, DataError> {
        let mut reader = Reader::default();
        let Placed { item, scan, patch, .. } = self.placed(index, &mut reader)?;
        let plain = item.sample(scan, Cut { flips: [false; 3], ..patch })?;
        let axes = ["x", "y", "z"].into_iter().zip(patch.flips).filter(|(_, flip)| *flip);
        let mirrored = axes.map(|(axis, _)| format!("mirrored along {axis}"));
        let changes: Vec<String> = self.drawn(index).iter().flat_map(Drawn::describe).chain(mirrored).collect();
        Ok(Preview { plain, seen: self.train_sample(index)?, changes })
    }

    /// What augments training sample `index`.
    fn drawn(&self, index: u64) -> Option<Drawn> {
        let augmentation = self.config.augmentation.as_ref()?;
        Some(Drawn::of(augmentation, self.channels(), &mut generator(self.seed, Stream::Augmentation, index)))
    }

    fn placed<'a>(&'a self, index: u64, reader: &'a mut Reader) -> Result<Placed<'a>, DataError> {
        let count = self.training.len() as u64;
        let mut order = self.training.clone();
        order.shuffle(&mut generator(self.seed, Stream::EpochOrder, index / count));
        let item = &self.items[order[(index % count) as usize]];
        let Some((region, foreground)) = &item.training else {
            unreachable!("only volumes with a training region are in the list");
        };
        let mut random = generator(self.seed, Stream::TrainSample, index);
        let scan = reader.scan(item, &self.config)?;
        let size = self.config.patch_size.unwrap_or(region.extent());
        let prefer = random.random_bool(self.config.foreground_probability);
        let centre = if prefer { foreground.draw(&scan.volume, &mut random) } else { None };
        let start = match centre {
            Some(centre) => region.start_around(centre, size),
            None => region.random_start(size, &mut random),
        };
        let flips = self.config.flip.map(|flip| random.random_bool(0.5) && flip);
        Ok(Placed { item, scan, patch: Cut { region: *region, start, size, flips }, random })
    }

    /// Number of validation samples.
    pub fn val_len(&self) -> usize {
        self.validation.len()
    }

    /// Validation sample `index`: a fixed patch without flips or jitter.
    ///
    /// # Errors
    /// If `index` is not below [`Dataset::val_len`], or as [`Dataset::train_sample`].
    pub fn val_sample(&self, index: usize) -> Result<Sample, DataError> {
        let place = self.validation.get(index).ok_or_else(|| DataError::OutOfRange {
            expected: format!("a validation sample below {}", self.validation.len()),
            found: index.to_string(),
        })?;
        let item = &self.items[place.volume];
        let patch = Cut { region: place.region, start: place.start, size: place.size, flips: [false; 3] };
        item.sample(&*item.scan(&self.config)?, patch)
    }

    /// Number of held-out parts.
    pub fn held_out_len(&self) -> usize {
        self.held_out_items().count()
    }

    /// Held-out part `index`, whole: for measures that patches cannot give.
    ///
    /// # Errors
    /// If `index` is not below [`Dataset::held_out_len`], or as [`Dataset::train_sample`].
    pub fn held_out(&self, index: usize) -> Result<HeldOut, DataError> {
        let (item, region) = self.held_out_items().nth(index).ok_or_else(|| DataError::OutOfRange {
            expected: format!("a held-out part below {}", self.held_out_len()),
            found: index.to_string(),
        })?;
        let scan = item.scan(&self.config)?;
        let (start, extent) = (region.start.map(|at| at as i64), region.extent());
        let part = item.sample(&scan, Cut { region, start, size: extent, flips: [false; 3] })?;
        let affine = subgrid(scan.volume.affine(), region.start.map(|at| at as f64), [1.0; 3]);
        let labels = part.labels.map(|labels| LabelMap::new(labels, extent, affine)).transpose()?;
        Ok(HeldOut { volume: Volume::new(part.data, part.shape, affine)?, labels, name: part.name })
    }

    fn held_out_items(&self) -> impl Iterator<Item = (&Item, Region)> {
        self.items.iter().filter_map(|item| Some((item, item.held_out?)))
    }

    /// A whole prepared volume to show, with its labels if it has some: the first one that is validated on, or else the first
    /// of all.
    ///
    /// # Errors
    /// As [`Dataset::train_sample`].
    pub fn exhibit(&self) -> Result<(Volume, Option<LabelMap>), DataError> {
        let index = self.validation.first().map_or(0, |place| place.volume);
        let Scan { volume, labels } = self.items[index].scan(&self.config)?.into_owned();
        Ok((volume, labels))
    }
}

/// The volume of a training sample, where in it the sample lies, and the generator of what else is drawn.
struct Placed<'a> {
    item: &'a Item,
    scan: &'a Scan,
    patch: Cut,
    random: ChaCha8Rng,
}

fn jitter(values: &mut [f32], most: f64, random: &mut impl Rng) {
    let mut draw = || (random.random_range(-1.0..=1.0) * most) as f32;
    let (scale, shift) = (1.0 + draw(), draw());
    if most > 0.0 {
        values.iter_mut().for_each(|value| *value = *value * scale + shift);
    }
}
