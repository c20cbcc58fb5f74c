//! The windows of a sequence, split in time.

use crate::datasets::Progress;
use crate::error::DataError;
use crate::random::{Stream, generator};
use crate::sequences::advection::Advection;
use crate::sequences::config::SequenceConfig;
use crate::sequences::degradation::Resize;
use crate::sequences::navier_stokes::NavierStokes;
use crate::sequences::normalization::normalize;
use crate::sequences::placement::Placement;
use crate::sequences::sequence::Sequence;
use crate::sequences::split::TimeSplit;
use crate::sequences::window::{Window, WindowBatch};
use crate::volumes::{Intensity, zeros};
use rand::seq::SliceRandom;
use std::path::{Path, PathBuf};

/// The windows of a sequence, split in time: first those to train on, then those to validate on.
///
/// No frame of a validation window, not even of its input, is seen in training, nor does it enter
/// the normalization: values of the validation part may lie outside of the common range. A window
/// is a pure function of the seed and its index.
///
/// # Memory
/// The whole sequence after `use_channels` and `downsample`, 4 bytes a value; while it is opened,
/// one file more, and the training part of one channel.
#[derive(Debug)]
pub struct SequenceDataset {
    config: SequenceConfig,
    seed: u64,
    sequence: Sequence,
    /// For each channel that is used, or each place of them.
    intensities: Vec<Intensity>,
    /// The channels of a target, among those that are used.
    targets: Vec<usize>,
    split: TimeSplit,
    /// What makes the fields of super-resolution coarse.
    degradation: Option<Resize>,
}

impl SequenceDataset {
    /// Reads the sequence, prepares and splits it.
    ///
    /// # Errors
    /// Every validation error of the configuration; else the first file that is missing, damaged,
    /// without the channels or on another grid than those before, or if there are too few frames
    /// for one window of each part.
    pub fn open(config: &SequenceConfig, seed: u64) -> Result<Self, DataError> {
        Self::open_with(config, seed, |_| {})
    }

    /// As [`SequenceDataset::open`], calling `progress` for each flow that a solver computes, a few at a time.
    ///
    /// # Errors
    /// As [`SequenceDataset::open`].
    pub fn open_with(
        config: &SequenceConfig,
        seed: u64,
        progress: impl FnMut(Progress<'_>),
    ) -> Result<Self, DataError> {
        DataError::if_invalid(config.validate())?;
        let synthetic = if config.navier_stokes.is_some() { "navier_stokes" } else { "advection" };
        let place = config.paths.first().cloned().unwrap_or_else(|| PathBuf::from(synthetic));
        let named = |error| at_unless_named(error, &place);
        let mut sequence = read(config, seed, progress).map_err(named)?;
        let [frames, all, size @ ..] = sequence.shape();
        let split = TimeSplit::new(frames, sequence.trajectory_length(), config.days(), config.val_fraction);
        let split = split.map_err(named)?;
        let degradation = degradation(config.sample_factor, size).map_err(named)?;
        if config.rotate90 && size[0] != size[1] {
            let (expected, remedy) = ("square fields, as `rotate90` says", "Leave `rotate90` out, or cut the fields.");
            return Err(named(DataError::malformed(expected, format!("{size:?}"), remedy)));
        }
        let intensities = normalize(&mut sequence, split.border(), config)?;
        let targets = match config.target_channel {
            Some(target) if config.use_channels.is_empty() => vec![target],
            Some(target) => config.use_channels.iter().position(|channel| *channel == target).into_iter().collect(),
            None => (0..all).collect(),
        };
        if let Some(target) = targets.iter().find(|target| **target >= all) {
            let expected = format!("a `target_channel` below {all}");
            let error = DataError::malformed(expected, target.to_string(), "Count the channels from 0.");
            return Err(error.at(&place));
        }
        Ok(Self { config: config.clone(), seed, sequence, intensities, targets, split, degradation })
    }

    /// Number of windows to train on; one epoch has as many samples.
    pub fn len(&self) -> usize {
        self.split.train_len()
    }

    /// Whether there is nothing to train on, which no opened data set is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of validation windows.
    pub fn val_len(&self) -> usize {
        self.split.val_len()
    }

    /// The configuration it was opened with.
    pub fn config(&self) -> &SequenceConfig {
        &self.config
    }

    /// The prepared frames, `[time, channels, height, width]`.
    pub fn sequence(&self) -> &Sequence {
        &self.sequence
    }

    /// What normalizing did to each channel that is used, or to each place of them, `[channels, height, width]`.
    pub fn intensities(&self) -> &[Intensity] {
        &self.intensities
    }

    /// The channels of a target, among those that are used.
    pub fn target_channels(&self) -> &[usize] {
        &self.targets
    }

    /// Training window `index`; indices run on over the epochs without end.
    ///
    /// Window `index` belongs to epoch `index / len()`; each epoch visits every window once, in an
    /// order of its own.
    ///
    /// # Errors
    /// If there is no memory.
    pub fn train_window(&self, index: u64) -> Result<Window, DataError> {
        let (start, placement) = self.train_place(index);
        self.window(start, placement)
    }

    /// So many training windows, made in place: no window is in memory besides the batch. None may be missing.
    pub(crate) fn train_batch(
        &self,
        batch_size: usize,
        indices: impl Iterator<Item = u64>,
    ) -> Result<WindowBatch, DataError> {
        let mut batch = WindowBatch::zeros(batch_size, self.window_shapes())?;
        let mut places = indices.map(|index| self.train_place(index));
        let mut frame = self.scratch()?;
        batch.fill(|input, target| {
            self.write_window(places.next()?, &mut frame, input, target);
            Some(())
        })?;
        Ok(batch)
    }

    /// The time of the first frame of training window `index`, and how it lies on the fields.
    fn train_place(&self, index: u64) -> (usize, Placement) {
        let count = self.len() as u64;
        let mut order: Vec<usize> = (0..self.len()).collect();
        order.shuffle(&mut generator(self.seed, Stream::EpochOrder, index / count));
        let [.., height, width] = self.sequence.shape();
        let placement = Placement::draw(&self.config, [height, width], self.seed, index);
        (self.split.train_start(order[(index % count) as usize]), placement)
    }

    /// Validation window `index`, in the order of time.
    ///
    /// # Errors
    /// If `index` is not below [`SequenceDataset::val_len`], or there is no memory.
    pub fn val_window(&self, index: usize) -> Result<Window, DataError> {
        if index >= self.val_len() {
            return Err(DataError::OutOfRange {
                expected: format!("a validation window below {}", self.val_len()),
                found: index.to_string(),
            });
        }
        self.window(self.split.val_start(index), Placement::PLAIN)
    }

    /// What to be better than: that nothing changes, the last frame that is seen, once for each target frame; of super-resolution what
    /// is seen, enlarged by bicubic interpolation.
    ///
    /// # Errors
    /// If there is no memory.
    pub fn persistence(&self, window: &Window) -> Result<Vec<f32>, DataError> {
        let [_, channels, height, width] = window.input_shape;
        let last = window.input.len() - channels * height * width;
        let plane = |channel: &usize| &window.input[last + channel * height * width..][..height * width];
        let frame: Vec<f32> = self.targets.iter().flat_map(plane).copied().collect();
        match self.degradation {
            Some(_) => Resize::enlarge([height, width], self.config.sample_factor).apply(&frame),
            None => Ok(frame.repeat(window.target_shape[0])),
        }
    }

    fn window(&self, start: usize, placement: Placement) -> Result<Window, DataError> {
        let [input_shape, target_shape] = self.window_shapes();
        let (mut input, mut target) = (zeros(&input_shape)?, zeros(&target_shape)?);
        self.write_window((start, placement), &mut self.scratch()?, &mut input, &mut target);
        Ok(Window { input, input_shape, target, target_shape, start })
    }

    /// `[days, channels, height, width]` of what is seen and of what is predicted.
    fn window_shapes(&self) -> [[usize; 4]; 2] {
        let [_, channels, height, width] = self.sequence.shape();
        let of = |days, channels, [height, width]: [usize; 2]| [days, channels, height, width];
        let seen = self.degradation.as_ref().map_or([height, width], Resize::size);
        let predicted = of(self.config.predict_days, self.targets.len(), [height, width]);
        [of(self.config.input_days, channels, seen), predicted]
    }

    /// Room for a plane that [`write_window`](Self::write_window) places and makes coarse; none where nothing is made coarse.
    fn scratch(&self) -> Result<Vec<f32>, DataError> {
        let [.., height, width] = self.sequence.shape();
        if self.degradation.is_some() { zeros(&[height, width]) } else { Ok(Vec::new()) }
    }

    /// The window that starts at a time and lies so on the fields, into places of its [shapes](Self::window_shapes).
    fn write_window(
        &self,
        (start, placement): (usize, Placement),
        placed: &mut [f32],
        input: &mut [f32],
        target: &mut [f32],
    ) {
        let [_, channels, height, width] = self.sequence.shape();
        let place = |[time, channel]: [usize; 2], values: &mut [f32]| {
            let field = &self.sequence.data()[(time * channels + channel) * height * width..][..height * width];
            placement.place(field, [height, width], values);
        };
        let seen = input.len() / (self.config.input_days * channels);
        for (index, values) in input.chunks_exact_mut(seen).enumerate() {
            let at = [start + index / channels, index % channels];
            match &self.degradation {
                Some(degradation) => {
                    place(at, placed);
                    degradation.write(placed, values);
                }
                None => place(at, values),
            }
        }
        let (first, targets) = (start + self.config.days() - self.config.predict_days, self.targets.len());
        for (index, values) in target.chunks_exact_mut(height * width).enumerate() {
            place([first + index / targets, self.targets[index % targets]], values);
        }
    }
}

/// The prepared frames of a configuration.
fn read(config: &SequenceConfig, seed: u64, progress: impl FnMut(Progress<'_>)) -> Result<Sequence, DataError> {
    if let Some(flows) = &config.navier_stokes {
        return config.prepare(NavierStokes::new(flows, seed)?.sequence_with(progress)?);
    }
    match &config.advection {
        Some(advection) => config.prepare(Advection::new(advection, seed)?.sequence()?),
        None => Sequence::read_all(&config.paths, |path| config.read(path)),
    }
}

/// What makes fields of a size coarse, if they are to be.
fn degradation(factor: usize, size: [usize; 2]) -> Result<Option<Resize>, DataError> {
    if factor == 1 {
        return Ok(None);
    }
    if size.iter().any(|length| !length.is_multiple_of(factor)) {
        let expected = format!("a height and width that are multiples of {factor}");
        let remedy = "Cut the fields, or choose a `sample_factor` that divides both.";
        return Err(DataError::malformed(expected, format!("{size:?}"), remedy));
    }
    Ok(Some(Resize::degrade(size, factor)))
}

/// Names the source in an error that does not name a file yet.
fn at_unless_named(error: DataError, place: &Path) -> DataError {
    match &error {
        DataError::Malformed { path, .. } if path == Path::new("volume in memory") => error.at(place),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::skill;
    use crate::sequences::advection::AdvectionConfig;
    use crate::sequences::sequence::tests::write;
    use crate::volumes::Normalize;
    use std::collections::BTreeSet;

    fn fields(steps: usize) -> SequenceConfig {
        let advection = Some(AdvectionConfig { steps, shape: [6, 8], ..AdvectionConfig::default() });
        SequenceConfig { advection, input_days: 3, predict_days: 2, ..SequenceConfig::default() }
    }

    #[test]
    fn windows_are_consecutive_and_an_epoch_visits_each_once() {
        let config = SequenceConfig { use_channels: vec![3, 0], target_channel: Some(0), ..fields(30) };
        let dataset = SequenceDataset::open(&config, 1).unwrap();
        assert_eq!((dataset.len(), dataset.val_len(), dataset.is_empty()), (20, 2, false));
        assert_eq!((dataset.sequence().shape(), dataset.target_channels()), ([30, 2, 6, 8], &[1][..]));
        let epoch = |epoch: u64| -> Vec<usize> {
            (epoch * 20..epoch * 20 + 20).map(|index| dataset.train_window(index).unwrap().start).collect()
        };
        assert_eq!(epoch(0).into_iter().collect::<BTreeSet<_>>(), (0..20).collect());
        assert_eq!(epoch(7).into_iter().collect::<BTreeSet<_>>(), (0..20).collect());
        assert!((1..5).any(|later| epoch(later) != epoch(0)));
        let window = dataset.train_window(4).unwrap();
        assert_eq!((window.input_shape, window.target_shape), ([3, 2, 6, 8], [2, 1, 6, 8]));
        let data = dataset.sequence().data();
        assert_eq!(window.input, data[window.start * 96..(window.start + 3) * 96]);
        for day in 0..2 {
            let field = (window.start + 3 + day) * 96 + 48;
            assert_eq!(window.target[day * 48..day * 48 + 48], data[field..field + 48]);
            assert_eq!(dataset.persistence(&window).unwrap()[day * 48..day * 48 + 48], window.input[240..288]);
        }
        let unchanged = dataset.persistence(&window).unwrap();
        assert_eq!(skill(&unchanged, &window.target, &unchanged).unwrap(), 0.0);
        let all = SequenceDataset::open(&fields(30), 1).unwrap();
        assert_eq!(all.train_window(0).unwrap().target_shape, [2, 4, 6, 8]);
        let raw = Advection::new(fields(30).advection.as_ref().unwrap(), 1).unwrap().sequence().unwrap();
        let mut back = all.sequence().data()[..48].to_vec();
        all.intensities()[0].invert(&mut back);
        assert!(back.iter().zip(raw.data()).all(|(a, b)| (a - b).abs() < 1e-5));
    }

    #[test]
    fn nothing_of_the_validation_part_leaks_into_training() {
        let folder = tempfile::tempdir().unwrap();
        let open = |normalize| {
            let paths = vec![folder.path().into()];
            let config = SequenceConfig { paths, input_days: 2, normalize, ..SequenceConfig::default() };
            SequenceDataset::open(&config, 1).unwrap()
        };
        write(&folder.path().join("1.npy"), 0, &[12, 2, 1, 2]);
        for normalize in [Normalize::ZScore, Normalize::MinMax, Normalize::Percentile, Normalize::None] {
            let later = folder.path().join("2.npy");
            write(&later, 48, &[3, 2, 1, 2]);
            let first = open(normalize);
            write(&later, 90_000, &[3, 2, 1, 2]);
            let second = open(normalize);
            assert_eq!(first.intensities(), second.intensities(), "{normalize:?}");
            assert_eq!((first.len(), first.val_len()), (10, 1));
            for index in 0..10 {
                let window = first.train_window(index).unwrap();
                assert_eq!(window, second.train_window(index).unwrap());
                assert!(window.start + 3 <= 12);
            }
            assert_eq!(first.val_window(0).unwrap().start, 12);
            assert_ne!(first.val_window(0).unwrap(), second.val_window(0).unwrap());
            assert!(first.val_window(1).is_err());
        }
        // Channel 0 of the training part counts 0, 1, 4, 5 .. 44, 45: its mean is 22.5, each channel's own.
        let [first, second] = open(Normalize::ZScore).intensities().to_vec()[..] else { panic!("two channels") };
        assert!((first.offset / first.scale + 22.5).abs() < 1e-9 && (second.offset / second.scale + 24.5).abs() < 1e-9);
        let [first, _] = open(Normalize::MinMax).intensities().to_vec()[..] else { panic!("two channels") };
        assert_eq!(first, Intensity { scale: 1.0 / 45.0, offset: 0.0 });
    }

    #[test]
    fn the_seed_decides_the_order() {
        let starts = |seed: u64| -> Vec<usize> {
            let dataset = SequenceDataset::open(&fields(40), seed).unwrap();
            (0..12).map(|index| dataset.train_window(index).unwrap().start).collect()
        };
        assert_eq!(starts(1), starts(1));
        assert_ne!(starts(1), starts(2));
    }

    #[test]
    fn training_windows_are_rolled_and_turned_as_a_whole_and_others_are_not() {
        let square = AdvectionConfig { steps: 40, shape: [8, 8], ..AdvectionConfig::default() };
        let plain = SequenceConfig { advection: Some(square), ..fields(40) };
        let moved = SequenceConfig { roll: true, rotate90: true, ..plain.clone() };
        let open = |config: &SequenceConfig| SequenceDataset::open(config, 1).unwrap();
        let (plain, moved) = (open(&plain), open(&moved));
        assert_eq!(plain.val_window(0).unwrap(), moved.val_window(0).unwrap());
        let mut changed = 0;
        for index in 0..20 {
            let (one, other) = (plain.train_window(index).unwrap(), moved.train_window(index).unwrap());
            assert_eq!((one.start, one.input_shape), (other.start, other.input_shape));
            let values = |window: &Window| [&window.input[..], &window.target].concat();
            let (one, other) = (values(&one), values(&other));
            // Where each place of the first plane went, so did that of all others, of the input and of the target.
            let mut places: Vec<usize> = Vec::new();
            for at in 0..64 {
                let same =
                    |place: &usize| one.chunks(64).zip(other.chunks(64)).all(|(one, other)| other[*place] == one[at]);
                places.push((0..64).find(same).expect("a place for every value"));
            }
            changed += usize::from(places.iter().enumerate().any(|(at, place)| at != *place));
            places.sort_unstable();
            assert_eq!(places, (0..64).collect::<Vec<_>>());
        }
        assert!(changed >= 18, "{changed}");
        let batch = moved.train_batch(3, 4..).unwrap();
        let one = moved.train_window(5).unwrap();
        assert_eq!(batch.target[one.target.len()..][..one.target.len()], one.target);
    }

    #[test]
    fn a_field_is_moved_before_it_is_made_coarse() {
        let square = AdvectionConfig { steps: 40, shape: [8, 8], ..AdvectionConfig::default() };
        let config = SequenceConfig {
            advection: Some(square),
            input_days: 1,
            predict_days: 1,
            sample_factor: 2,
            roll: true,
            rotate90: true,
            ..SequenceConfig::default()
        };
        let dataset = SequenceDataset::open(&config, 1).unwrap();
        let window = dataset.train_window(3).unwrap();
        let coarse = Resize::degrade([8, 8], 2).apply(&window.target).unwrap();
        assert_eq!(window.input, coarse);
        let plain = dataset.window(window.start, Placement::PLAIN).unwrap();
        assert_ne!(window.target, plain.target);
    }

    #[test]
    fn what_does_not_fit_is_reported() {
        let message = |config: &SequenceConfig| SequenceDataset::open(config, 1).unwrap_err().to_string();
        let few = message(&fields(20));
        assert!(few.contains("16 for training and 4 for validation") && few.contains("advection"), "{few}");
        assert!(message(&fields(1)).contains("1 for training and 0 for validation"));
        let whole = SequenceConfig { val_fraction: 0.0, ..fields(5) };
        let dataset = SequenceDataset::open(&whole, 1).unwrap();
        assert_eq!((dataset.len(), dataset.val_len()), (1, 0));
        assert!(message(&SequenceConfig { val_fraction: 0.0, ..fields(4) }).contains("5 frames"));
        assert!(message(&SequenceConfig { use_channels: vec![0, 4], ..fields(30) }).contains("below 4"));
        assert!(
            message(&SequenceConfig { target_channel: Some(4), ..fields(30) }).contains("`target_channel` below 4")
        );
        assert!(SequenceDataset::open(&SequenceConfig { input_days: 0, ..fields(30) }, 1).unwrap_err().is_config());
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("few.npy");
        write(&path, 0, &[30, 2, 3, 3]);
        let config = SequenceConfig { paths: vec![path], advection: None, downsample: 2, ..fields(1) };
        assert_eq!(SequenceDataset::open(&config, 1).unwrap().sequence().shape(), [30, 2, 2, 2]);
        let turned =
            message(&SequenceConfig { paths: config.paths.clone(), rotate90: true, downsample: 1, ..fields(1) });
        assert!(turned.contains("square"), "{turned}");
        let wrong = message(&SequenceConfig { use_channels: vec![2], ..config });
        assert!(wrong.contains("few.npy") && wrong.contains("below 2"), "{wrong}");
    }
}
