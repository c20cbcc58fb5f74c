use crate::batch::Sample;
use crate::config::DataConfig;
use crate::error::DataError;
use crate::foreground::Foreground;
use crate::intensity::Intensity;
use crate::patch::{Region, cut};
use crate::prepare::Prepared;
use crate::random::{Stream, generator};
use crate::source::Source;
use crate::split::{Role, roles};
use crate::validation::{Place, choose, places};
use crate::volume::Volume;
use rand::seq::SliceRandom;
use rand::{Rng, RngExt};
use rayon::prelude::*;
use std::borrow::Cow;

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

#[derive(Debug)]
struct Item {
    source: Source,
    shape: [usize; 4],
    intensity: Intensity,
    /// The part that may be trained on, and what is bright in it.
    training: Option<(Region, Foreground)>,
    cached: Option<Volume>,
}

/// The volumes of a configuration, split into training and validation.
///
/// A sample is a pure function of the seed and its index: any thread may ask for any sample at any
/// time, and a run that goes on after a stop sees what it would have seen.
///
/// # Memory
/// A share `cache_rate` of the prepared volumes, 4 bytes a value; see [`Dataset::cached_bytes`].
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
    /// All mistakes of the configuration at once; else the first volume that is missing, damaged,
    /// of other channels than the first, or (without `patch_size`) of another size.
    pub fn open(config: &DataConfig, seed: u64) -> Result<Self, DataError> {
        Self::open_with(config, seed, |_| {})
    }

    /// As [`Dataset::open`], telling `progress` after each volume.
    ///
    /// # Errors
    /// As [`Dataset::open`].
    pub fn open_with(
        config: &DataConfig,
        seed: u64,
        mut progress: impl FnMut(Progress<'_>),
    ) -> Result<Self, DataError> {
        let mistakes = config.mistakes();
        if !mistakes.is_empty() {
            return Err(DataError::Config { mistakes });
        }
        let sources = Source::all(config, seed)?;
        let total = sources.len();
        let cached = (config.cache_rate * total as f64).ceil() as usize;
        let roles = roles(total, config.val_fraction, seed);
        let jobs: Vec<(usize, &Source)> = sources.iter().enumerate().collect();
        let (mut items, mut places): (Vec<Item>, Vec<Place>) = (Vec::new(), Vec::new());
        for jobs in jobs.chunks(config.num_workers.max(1)) {
            let loaded: Vec<Result<(Item, Vec<Place>), DataError>> = jobs
                .par_iter()
                .map(|(index, source)| load(config, source, *index, roles[*index], *index < cached, seed))
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

    /// Bytes of the volumes held in memory.
    pub fn cached_bytes(&self) -> u64 {
        let volumes = self.items.iter().filter_map(|item| item.cached.as_ref());
        volumes.map(|volume| size_of_val(volume.data()) as u64).sum()
    }

    /// Training sample `index`; indices run on over the epochs without end.
    ///
    /// Sample `index` belongs to epoch `index / len()`; each epoch visits every volume once, in an
    /// order of its own.
    ///
    /// # Errors
    /// If a volume that is not cached can no longer be read or has changed, or there is no memory.
    pub fn train_sample(&self, index: u64) -> Result<Sample, DataError> {
        let count = self.training.len() as u64;
        let mut order = self.training.clone();
        order.shuffle(&mut generator(self.seed, Stream::EpochOrder, index / count));
        let item = &self.items[order[(index % count) as usize]];
        let Some((region, foreground)) = &item.training else {
            unreachable!("only volumes with a training region are in the list");
        };
        let mut random = generator(self.seed, Stream::TrainSample, index);
        let volume = self.volume(item)?;
        let size = self.config.patch_size.unwrap_or(region.extent());
        let prefer = random.random_bool(self.config.foreground_probability);
        let centre = if prefer { foreground.draw(&volume, &mut random) } else { None };
        let start = match centre {
            Some(centre) => region.start_around(centre, size),
            None => region.random_start(size, &mut random),
        };
        let flips = self.config.flip.map(|flip| random.random_bool(0.5) && flip);
        let mut sample = sample(item, &volume, region, start, size, flips)?;
        jitter(&mut sample.data, self.config.intensity_jitter, &mut random);
        Ok(sample)
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
        let volume = self.volume(item)?;
        sample(item, &volume, &place.region, place.start, place.size, [false; 3])
    }

    /// A whole prepared volume to look at: the first one that is validated on, or else the first of all.
    ///
    /// # Errors
    /// As [`Dataset::train_sample`].
    pub fn exhibit(&self) -> Result<Volume, DataError> {
        let index = self.validation.first().map_or(0, |place| place.volume);
        Ok(self.volume(&self.items[index])?.into_owned())
    }

    fn volume<'a>(&self, item: &'a Item) -> Result<Cow<'a, Volume>, DataError> {
        if let Some(volume) = &item.cached {
            return Ok(Cow::Borrowed(volume));
        }
        let volume = item.source.load(&self.config)?.volume;
        if volume.shape() != item.shape {
            return Err(DataError::Mismatch {
                path: item.source.path(),
                expected: format!("shape {:?}, as when the run began", item.shape),
                found: format!("{:?}", volume.shape()),
                remedy: "Leave the files alone during a run.",
            });
        }
        Ok(Cow::Owned(volume))
    }
}

fn load(
    config: &DataConfig,
    source: &Source,
    index: usize,
    role: Role,
    keep: bool,
    seed: u64,
) -> Result<(Item, Vec<Place>), DataError> {
    let Prepared { volume, intensity } = source.load(config)?;
    let [training, validation] = role.regions(volume.extent(), config.val_fraction);
    let held_out = |region| places(&volume, index, region, config.patch_size, config.val_patches, seed);
    let places = validation.map_or(Vec::new(), held_out);
    let item = Item {
        source: source.clone(),
        shape: volume.shape(),
        intensity,
        training: training.map(|region| (region, Foreground::of(&volume, region))),
        cached: keep.then_some(volume),
    };
    Ok((item, places))
}

fn check_against(config: &DataConfig, first: Option<&Item>, item: &Item) -> Result<(), DataError> {
    let mismatch = |expected: String, remedy: &'static str| DataError::Mismatch {
        path: item.source.path(),
        expected,
        found: format!("shape {:?}", item.shape),
        remedy,
    };
    if let Some(channels) = config.channels.filter(|channels| *channels != item.shape[0]) {
        let expected = format!("{channels} channels, as `channels` says");
        return Err(mismatch(expected, "Save the volume with all its channels first, or change `channels`."));
    }
    let Some(first) = first else {
        return Ok(());
    };
    if item.shape[0] != first.shape[0] {
        let expected = format!("{} channels, as in {}", first.shape[0], first.source.name());
        return Err(mismatch(expected, "Train on volumes of equal channels."));
    }
    if config.patch_size.is_none() && item.shape != first.shape {
        let expected = format!("shape {:?}, as in {}", first.shape, first.source.name());
        return Err(mismatch(expected, "Set voxel_size to resize them all, or patch_size to cut patches."));
    }
    Ok(())
}

fn sample(
    item: &Item,
    volume: &Volume,
    region: &Region,
    start: [i64; 3],
    size: [usize; 3],
    flips: [bool; 3],
) -> Result<Sample, DataError> {
    let data = cut(volume, region, start, size, flips)?;
    let shape = [volume.channels(), size[0], size[1], size[2]];
    Ok(Sample { data, shape, name: item.source.name(), start, intensity: item.intensity })
}

fn jitter(values: &mut [f32], most: f64, random: &mut impl Rng) {
    let mut draw = || (random.random_range(-1.0..=1.0) * most) as f32;
    let (scale, shift) = (1.0 + draw(), draw());
    if most > 0.0 {
        values.iter_mut().for_each(|value| *value = *value * scale + shift);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::affine::IDENTITY;
    use crate::config::PhantomConfig;
    use crate::intensity::Normalize;
    use crate::radar::RadarConfig;
    use std::collections::HashSet;
    use std::path::PathBuf;

    fn phantoms(count: usize) -> DataConfig {
        DataConfig {
            phantom: Some(PhantomConfig { count, shape: [16, 14, 12], noise: 0.05 }),
            patch_size: Some([6, 6, 6]),
            ..DataConfig::default()
        }
    }

    fn write(folder: &std::path::Path, name: &str, data: Vec<f32>, shape: [usize; 4]) -> PathBuf {
        let path = folder.join(name);
        Volume::new(data, shape, IDENTITY).unwrap().write(&path).unwrap();
        path
    }

    #[test]
    fn an_epoch_visits_every_training_volume_once() {
        let dataset = Dataset::open(&phantoms(10), 3).unwrap();
        assert_eq!((dataset.len(), dataset.channels(), dataset.is_empty()), (8, 1, false));
        let epoch = |epoch: u64| -> Vec<String> {
            (epoch * 8..epoch * 8 + 8).map(|index| dataset.train_sample(index).unwrap().name).collect()
        };
        let names: HashSet<String> = epoch(0).into_iter().collect();
        assert_eq!(names.len(), 8);
        assert!((1..5).any(|later| epoch(later) != epoch(0)));
        assert_eq!(epoch(4).into_iter().collect::<HashSet<_>>(), names);
        for index in 0..dataset.val_len() {
            assert!(!names.contains(&dataset.val_sample(index).unwrap().name));
        }
        assert_eq!(dataset.val_len(), 8);
        assert!(dataset.val_sample(8).is_err());
        assert_eq!(dataset.exhibit().unwrap().shape(), [1, 16, 14, 12]);
    }

    #[test]
    fn samples_depend_on_seed_and_index_alone() {
        let config = DataConfig { flip: [true; 3], intensity_jitter: 0.1, ..phantoms(4) };
        let uncached = DataConfig { cache_rate: 0.0, num_workers: 0, ..config.clone() };
        let (first, second) = (Dataset::open(&config, 1).unwrap(), Dataset::open(&uncached, 1).unwrap());
        for index in [5, 0, 17, 5] {
            assert_eq!(first.train_sample(index).unwrap(), second.train_sample(index).unwrap());
        }
        assert_eq!(first.val_sample(1).unwrap(), second.val_sample(1).unwrap());
        assert_ne!(first.train_sample(0).unwrap().data, first.train_sample(3).unwrap().data);
        let other = Dataset::open(&config, 2).unwrap();
        assert_ne!(first.train_sample(0).unwrap().data, other.train_sample(0).unwrap().data);
        assert_eq!((first.cached_bytes(), second.cached_bytes()), (4 * 16 * 14 * 12 * 4, 0));
        let half = Dataset::open(&DataConfig { cache_rate: 0.5, ..config }, 1).unwrap();
        assert_eq!(half.cached_bytes(), 2 * 16 * 14 * 12 * 4);
    }

    /// One volume whose last fifth along y is 1000, all else 1.
    fn slab(patch_size: Option<[usize; 3]>) -> (tempfile::TempDir, Dataset) {
        let folder = tempfile::tempdir().unwrap();
        let data = (0..8 * 20 * 9).map(|index| if index / 9 % 20 < 16 { 1.0 } else { 1000.0 });
        let path = write(folder.path(), "one.npy", data.collect(), [1, 8, 20, 9]);
        let config = DataConfig {
            paths: vec![path],
            normalize: Normalize::None,
            patch_size,
            foreground_probability: 0.5,
            flip: [true; 3],
            ..DataConfig::default()
        };
        let dataset = Dataset::open(&config, 1).unwrap();
        (folder, dataset)
    }

    #[test]
    fn training_never_touches_the_held_out_slab() {
        for patch_size in [Some([4, 4, 4]), Some([10, 30, 4]), None] {
            let (_folder, dataset) = slab(patch_size);
            assert_eq!(dataset.len(), 1);
            for index in 0..300 {
                let sample = dataset.train_sample(index).unwrap();
                assert!(sample.data.iter().all(|value| *value == 1.0), "{patch_size:?} {index}");
                // A patch that fits does not stand out either.
                assert!(patch_size != Some([4, 4, 4]) || (0..=12).contains(&sample.start[1]));
            }
            assert!(dataset.val_len() > 0);
            for index in 0..dataset.val_len() {
                let sample = dataset.val_sample(index).unwrap();
                assert!(sample.data.iter().all(|value| *value == 1000.0), "{patch_size:?} {index}");
                assert_eq!(sample.shape[1..], patch_size.unwrap_or([8, 4, 9]));
            }
        }
    }

    #[test]
    fn every_sample_is_drawn_afresh() {
        let (_folder, dataset) = slab(Some([2, 2, 2]));
        let start = |index| dataset.train_sample(index).unwrap().start;
        for offset in 1..4 {
            let equal = (0..100).filter(|index| start(*index) == start(index + offset)).count();
            assert!(equal < 10, "{equal} of 100 samples equal those {offset} later");
        }
    }

    #[test]
    fn patches_centre_on_foreground_as_often_as_told() {
        let folder = tempfile::tempdir().unwrap();
        let mut data = vec![0.0; 30 * 30 * 30];
        data[(11 * 30 + 17) * 30 + 20] = 1.0;
        let path = write(folder.path(), "spot.npy", data, [1, 30, 30, 30]);
        let config = DataConfig {
            paths: vec![path],
            patch_size: Some([3, 3, 3]),
            foreground_probability: 0.7,
            normalize: Normalize::MinMax,
            val_fraction: 0.0,
            ..DataConfig::default()
        };
        let dataset = Dataset::open(&config, 1).unwrap();
        assert_eq!(dataset.val_len(), 0);
        let centred = (0..400).filter(|index| dataset.train_sample(*index).unwrap().data[13] == 1.0);
        let centred = centred.count();
        assert!((250..310).contains(&centred), "{centred} of 400");
    }

    #[test]
    fn flips_and_jitter_change_what_they_should() {
        let folder = tempfile::tempdir().unwrap();
        let path = write(folder.path(), "v.npy", vec![0.0, 1.0], [1, 1, 1, 2]);
        let mut config = DataConfig {
            paths: vec![path],
            val_fraction: 0.0,
            normalize: Normalize::None,
            flip: [false, false, true],
            ..DataConfig::default()
        };
        let dataset = Dataset::open(&config, 1).unwrap();
        let flipped = (0..200).filter(|index| dataset.train_sample(*index).unwrap().data == [1.0, 0.0]);
        assert!((75..125).contains(&flipped.count()));
        (config.flip, config.intensity_jitter) = ([false; 3], 0.25);
        let dataset = Dataset::open(&config, 1).unwrap();
        let (mut low, mut high) = (0.0_f32, 0.0_f32);
        for index in 0..200 {
            let data = dataset.train_sample(index).unwrap().data;
            let (shift, scale) = (data[0], data[1] - data[0]);
            assert!(shift.abs() <= 0.25 && (scale - 1.0).abs() <= 0.2501);
            (low, high) = (low.min(shift), high.max(shift));
        }
        assert!(low < -0.2 && high > 0.2);
    }

    #[test]
    fn reports_what_does_not_go_together() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "a.npy", vec![0.0; 8], [1, 2, 2, 2]);
        let b = write(folder.path(), "b.nii.gz", vec![0.0; 12], [1, 2, 2, 3]);
        let mut config = DataConfig { paths: vec![folder.path().into()], ..DataConfig::default() };
        let error = Dataset::open(&config, 0).unwrap_err().to_string();
        assert!(error.contains("b.nii.gz") && error.contains("voxel_size"), "{error}");
        config.voxel_size = Some([3, 3, 3]);
        let sample = Dataset::open(&config, 0).unwrap().train_sample(0).unwrap();
        assert_eq!(sample.shape, [1, 3, 3, 3]);
        Volume::new(vec![0.0; 24], [2, 2, 2, 3], IDENTITY).unwrap().write(&b).unwrap();
        assert!(Dataset::open(&config, 0).unwrap_err().to_string().contains("channels"));
        config.cache_rate = 7.0;
        assert!(Dataset::open(&config, 0).unwrap_err().is_config());
    }

    #[test]
    fn radar_scenes_and_files_need_the_channels_told() {
        let radar = RadarConfig { count: 3, shape: [8, 16, 12], ..RadarConfig::default() };
        let mut config = DataConfig {
            radar: Some(radar),
            channels: Some(4),
            patch_size: Some([4, 8, 8]),
            normalize: Normalize::None,
            ..DataConfig::default()
        };
        let dataset = Dataset::open(&config, 1).unwrap();
        let sample = dataset.train_sample(0).unwrap();
        assert_eq!((sample.shape, &sample.name[..11]), ([4, 4, 8, 8], "radar scene"));
        let other = Dataset::open(&DataConfig { num_workers: 0, cache_rate: 0.0, ..config.clone() }, 1).unwrap();
        assert_eq!(sample, other.train_sample(0).unwrap());
        assert_ne!(dataset.train_sample(0).unwrap().data, dataset.train_sample(1).unwrap().data);
        let folder = tempfile::tempdir().unwrap();
        let path = write(folder.path(), "three.npz", vec![0.0; 24], [3, 2, 2, 2]);
        (config.radar, config.paths) = (None, vec![path]);
        let error = Dataset::open(&config, 1).unwrap_err().to_string();
        assert!(error.contains("three.npz") && error.contains("expected 4 channels"), "{error}");
        config.channels = Some(3);
        assert_eq!(Dataset::open(&config, 1).unwrap().channels(), 3);
    }

    #[test]
    fn a_file_that_changes_or_goes_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = write(folder.path(), "a.npy", vec![0.0; 8], [1, 2, 2, 2]);
        let config = DataConfig { paths: vec![path.clone()], cache_rate: 0.0, ..DataConfig::default() };
        let dataset = Dataset::open(&config, 0).unwrap();
        write(folder.path(), "a.npy", vec![0.0; 12], [1, 2, 2, 3]);
        assert!(dataset.train_sample(0).unwrap_err().to_string().contains("a.npy"));
        std::fs::remove_file(&path).unwrap();
        assert!(dataset.train_sample(0).unwrap_err().is_not_found());
    }

    #[test]
    fn progress_counts_every_volume() {
        let mut seen = Vec::new();
        let config = phantoms(5);
        Dataset::open_with(&config, 0, |p| seen.push((p.done, p.total, p.name.to_string()))).unwrap();
        assert_eq!(seen.len(), 5);
        assert_eq!(seen[4], (5, 5, "phantom 4".to_string()));
    }
}
