//! A sequence of fields, from memory or from files.

use crate::error::DataError;
use crate::formats::{Archive, Format, find_volumes, numpy};
use crate::sequences::axes::{Arranged, Axes};
use crate::volumes::{Intensity, count, zeros};
use std::path::{Path, PathBuf};

/// The array that holds the fields.
const SEQUENCE: &str = "sequence";
const SAVE_AGAIN: &str = "Save one array named `sequence`, of shape [time, channels, height, width].";

/// Fields on a grid that change with time, such as weather: frames of several channels.
///
/// # Shapes
/// `[time, channels, height, width]`, the last axis fastest.
#[derive(Debug, Clone, PartialEq)]
pub struct Sequence {
    data: Vec<f32>,
    shape: [usize; 4],
    /// Frames of each trajectory, where the time is not one.
    trajectory: Option<usize>,
}

impl Sequence {
    /// A sequence from its values and its shape `[time, channels, height, width]`.
    ///
    /// # Errors
    /// If an axis is empty, the number of values is not that of the shape, or a value is infinite
    /// or not a number.
    pub fn new(data: Vec<f32>, shape: [usize; 4]) -> Result<Self, DataError> {
        let expected = count(&shape)?;
        if expected != data.len() || expected == 0 {
            let found = format!("{} values for shape {shape:?}", data.len());
            return Err(DataError::malformed("a value for every place of 1 or more", found, SAVE_AGAIN));
        }
        check_finite(&data, shape)?;
        Ok(Self { data, shape, trajectory: None })
    }

    /// The same as trajectories of so many frames, one behind the other: no window reaches from one into the next.
    ///
    /// # Errors
    /// If the last one is not whole.
    pub fn with_trajectory_length(self, frames: usize) -> Result<Self, DataError> {
        if frames == 0 || !self.shape[0].is_multiple_of(frames) {
            let (expected, found) = (format!("a multiple of {frames} frames"), self.shape[0].to_string());
            return Err(DataError::malformed(expected, found, "Save whole trajectories of one length."));
        }
        Ok(Self { trajectory: Some(frames), ..self })
    }

    /// Frames of each trajectory; none if all frames are one.
    pub fn trajectory_length(&self) -> Option<usize> {
        self.trajectory
    }

    /// Reads one file: `.npy`, or the array `sequence` or the only one of `.npz`, `.safetensors`, NetCDF and HDF5 files, which has four
    /// axes, or three without channels. Coordinates are not counted: those are the arrays of one axis.
    ///
    /// # Errors
    /// If the file is missing, of an unknown kind, damaged, of other axes, or holds values that are not finite, those among them that the
    /// file says are missing.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, DataError> {
        Self::read_as(path.as_ref(), None, None)
    }

    /// The same of the array of a name, with other axes.
    pub(crate) fn read_as(path: &Path, key: Option<&str>, axes: Option<Axes<'_>>) -> Result<Self, DataError> {
        let read = || {
            let mut file = Archive::open(path)?;
            let array = match key {
                Some(key) if !file.is_unnamed() => file.array(key, |value| value as f32)?,
                _ => file.array_or_only(SEQUENCE, |value| value as f32)?,
            };
            let axes = axes.unwrap_or_else(|| Axes::usual(array.shape.len()));
            let Arranged { data, shape, trajectory } = axes.arrange(array)?;
            Ok(Self { trajectory, ..Self::new(data, shape)? })
        };
        read().map_err(|error: DataError| error.at(path))
    }

    /// Writes it as `.npy`, `[time, channels, height, width]`, whole or not at all.
    ///
    /// # Errors
    /// If the name ends otherwise, or the file cannot be written.
    pub fn write(&self, path: impl AsRef<Path>) -> Result<(), DataError> {
        let path = path.as_ref();
        match Format::of(path)? {
            Format::Numpy => numpy::write_values(&self.shape, &self.data, path),
            _ => Err(DataError::UnknownFormat { path: path.into() }),
        }
    }

    /// The last frames.
    ///
    /// # Errors
    /// If there are fewer.
    pub fn last(&self, frames: usize) -> Result<Self, DataError> {
        let [time, rest @ ..] = self.shape;
        if frames > time {
            let remedy = "Give a file with more of the days before, or a model that sees fewer.";
            return Err(DataError::malformed(format!("{frames} frames or more"), time.to_string(), remedy));
        }
        let frame: usize = rest.iter().product();
        Ok(Self {
            data: self.data[(time - frames) * frame..].to_vec(),
            shape: [frames, rest[0], rest[1], rest[2]],
            trajectory: None,
        })
    }

    /// Each channel by a line of its own, as normalizing does; back to input units if `inverse`.
    ///
    /// # Errors
    /// If there are not as many lines as channels.
    pub fn scaled(mut self, intensities: &[Intensity], inverse: bool) -> Result<Self, DataError> {
        let [_, channels, height, width] = self.shape;
        if intensities.len() == channels * height * width && height * width > 1 {
            Intensity::apply_each(intensities, &mut self.data, inverse);
            return Ok(self);
        }
        if intensities.len() != channels {
            let remedy = "Give the channels that the model was trained on.";
            return Err(DataError::malformed(format!("{} channels", intensities.len()), channels.to_string(), remedy));
        }
        for (plane, intensity) in self.data.chunks_exact_mut(height * width).zip(intensities.iter().cycle()) {
            match inverse {
                true => intensity.invert(plane),
                false => intensity.apply(plane),
            }
        }
        Ok(self)
    }

    /// The values, last axis fastest.
    pub fn data(&self) -> &[f32] {
        &self.data
    }

    pub(crate) fn data_mut(&mut self) -> &mut [f32] {
        &mut self.data
    }

    /// `[time, channels, height, width]`.
    pub fn shape(&self) -> [usize; 4] {
        self.shape
    }

    /// Some channels of every frame, in the order given.
    ///
    /// # Errors
    /// If there is no such channel, or no memory.
    pub fn select_channels(&self, channels: &[usize]) -> Result<Self, DataError> {
        let [time, all, height, width] = self.shape;
        if channels.is_empty() || channels.iter().any(|channel| *channel >= all) {
            let expected = format!("channels below {all}, as `use_channels` names them");
            return Err(DataError::malformed(expected, format!("{channels:?}"), "Count the channels from 0."));
        }
        let shape = [time, channels.len(), height, width];
        let mut data = zeros(&shape)?;
        for (index, plane) in data.chunks_exact_mut(height * width).enumerate() {
            let from = (index / channels.len() * all + channels[index % channels.len()]) * height * width;
            plane.copy_from_slice(&self.data[from..from + height * width]);
        }
        Ok(Self { data, shape, trajectory: self.trajectory })
    }

    /// A coarser grid: the mean of each block of `factor` x `factor` places, and at the far edges of
    /// what is left of a block.
    ///
    /// # Errors
    /// If the factor is 0, or there is no memory.
    pub fn downsample(&self, factor: usize) -> Result<Self, DataError> {
        if factor == 0 {
            return Err(DataError::malformed("a factor of 1 or more", "0", "Set `downsample` to 1 for no change."));
        }
        let [time, channels, height, width] = self.shape;
        let shape = [time, channels, height.div_ceil(factor), width.div_ceil(factor)];
        let mut data = zeros(&shape)?;
        let planes = self.data.chunks_exact(height * width).zip(data.chunks_exact_mut(shape[2] * shape[3]));
        for (fine, coarse) in planes {
            for (index, value) in coarse.iter_mut().enumerate() {
                let (top, left) = (index / shape[3] * factor, index % shape[3] * factor);
                let (rows, columns) = (factor.min(height - top), factor.min(width - left));
                let block = (top..top + rows).flat_map(|row| &fine[row * width + left..row * width + left + columns]);
                let sum: f64 = block.map(|value| f64::from(*value)).sum();
                *value = (sum / (rows * columns) as f64) as f32;
            }
        }
        Ok(Self { data, shape, trajectory: self.trajectory })
    }

    /// Consecutive files as one sequence, each through `prepare` as soon as it is read.
    ///
    /// Folders are searched to the bottom; all files are sorted by name, numbers by value, so that
    /// `day_2` comes before `day_10`.
    pub(crate) fn read_all(
        paths: &[PathBuf],
        read: impl Fn(&Path) -> Result<Self, DataError>,
    ) -> Result<Self, DataError> {
        let mut files = find_volumes(paths)?;
        files.sort_by_cached_key(|path| natural_key(&path.to_string_lossy()));
        let mut whole: Option<Self> = None;
        for path in &files {
            let part = read(path).map_err(|error| error.at(path))?;
            whole = Some(match whole {
                None => part,
                Some(whole) => whole.followed_by(part, path)?,
            });
        }
        whole.ok_or_else(|| DataError::malformed("at least one file", "none", "Name a file in `paths`."))
    }

    fn followed_by(mut self, next: Self, path: &Path) -> Result<Self, DataError> {
        if self.shape[1..] != next.shape[1..] {
            return Err(DataError::Mismatch {
                path: path.into(),
                expected: format!("[channels, height, width] of {:?}, as in the files before", &self.shape[1..]),
                found: format!("{:?}", &next.shape[1..]),
                remedy: "Bring all files of a sequence to one grid.",
            });
        }
        if self.trajectory != next.trajectory {
            let length = |trajectory: Option<usize>| trajectory.map_or("none".into(), |frames| frames.to_string());
            return Err(DataError::Mismatch {
                path: path.into(),
                expected: format!("trajectories of {} frames, as in the files before", length(self.trajectory)),
                found: length(next.trajectory),
                remedy: "Bring all trajectories to one length.",
            });
        }
        let mut shape = self.shape;
        shape[0] += next.shape[0];
        let values = count(&shape)?;
        self.data.try_reserve(next.data.len()).map_err(|_| DataError::too_large(&shape, values))?;
        self.data.extend_from_slice(&next.data);
        Ok(Self { shape, ..self })
    }
}

/// Text and number by turns; numbers without their leading zeros, the shorter first.
fn natural_key(name: &str) -> Vec<(String, usize, String)> {
    let (mut key, mut rest) = (Vec::new(), name);
    while !rest.is_empty() {
        let (text, after) = rest.split_at(rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len()));
        let (digits, after) = after.split_at(after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len()));
        let number = digits.trim_start_matches('0');
        key.push((text.into(), number.len(), number.into()));
        rest = after;
    }
    key
}

pub(crate) fn check_finite(data: &[f32], shape: [usize; 4]) -> Result<(), DataError> {
    let Some(first) = data.iter().position(|value| !value.is_finite()) else {
        return Ok(());
    };
    let [_, channels, height, width] = shape;
    let (plane, place) = (first / (height * width), first % (height * width));
    let (time, channel) = (plane / channels, plane % channels);
    Err(DataError::NotFinite {
        path: "sequence in memory".into(),
        place: format!("time {time}, channel {channel}, row {}, column {}", place / width, place % width),
        value: data[first],
        count: data.iter().filter(|value| !value.is_finite()).count(),
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::formats::npz::tests::write_npz;
    use crate::formats::numpy::write_array;
    use std::fs::{self, File};

    /// A `.npy` file whose values count up from `first`.
    pub(crate) fn write(path: &Path, first: usize, shape: &[usize]) {
        let last = first + shape.iter().product::<usize>();
        let mut file = File::create(path).unwrap();
        write_array(&mut file, shape, (first..last).map(|value| value as f32)).unwrap();
    }

    #[test]
    fn files_follow_each_other_by_number() {
        let folder = tempfile::tempdir().unwrap();
        for (name, first) in [("day_10.npy", 16), ("day_2.npy", 8), ("day_01.npy", 0)] {
            write(&folder.path().join(name), first, &[1, 2, 2, 2]);
        }
        let values: Vec<f64> = (24..32).map(f64::from).collect();
        let shape: &[usize] = &[1, 2, 2, 2];
        write_npz(&folder.path().join("day_11.npz"), &[("sequence", (shape, &values)), ("more", (&[1], &[0.0]))]);
        let paths = [folder.path().to_path_buf()];
        let sequence = Sequence::read_all(&paths, |path| Sequence::read(path)).unwrap();
        assert_eq!(sequence.shape(), [4, 2, 2, 2]);
        assert_eq!(sequence.data(), (0..32).map(|value| value as f32).collect::<Vec<_>>());
        write(&folder.path().join("day_12.npy"), 0, &[1, 2, 2, 3]);
        let error = Sequence::read_all(&paths, |path| Sequence::read(path)).unwrap_err().to_string();
        assert!(error.contains("day_12.npy") && error.contains("[2, 2, 3]"), "{error}");
    }

    #[test]
    fn channels_are_picked_and_blocks_averaged() {
        let sequence = Sequence::new((0..2 * 3 * 6).map(|value| value as f32).collect(), [2, 3, 2, 3]).unwrap();
        let picked = sequence.select_channels(&[2, 0]).unwrap();
        assert_eq!(picked.shape(), [2, 2, 2, 3]);
        assert_eq!((picked.data()[0], picked.data()[6], picked.data()[12]), (12.0, 0.0, 30.0));
        let coarse = sequence.downsample(2).unwrap();
        assert_eq!(coarse.shape(), [2, 3, 1, 2]);
        assert_eq!(coarse.data()[..4], [2.0, 3.5, 8.0, 9.5], "the last column has half a block");
        assert_eq!(sequence.downsample(1).unwrap(), sequence);
        assert_eq!(sequence.downsample(usize::MAX).unwrap().shape(), [2, 3, 1, 1]);
        assert!(sequence.downsample(0).unwrap_err().is_malformed());
        for channels in [&[3][..], &[]] {
            assert!(sequence.select_channels(channels).unwrap_err().to_string().contains("below 3"));
        }
    }

    #[test]
    fn broken_files_have_errors_of_their_own() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fields.npy");
        let message = || {
            let error = Sequence::read(&path).unwrap_err();
            assert!(error.is_malformed() && error.to_string().contains("fields.npy"), "{error}");
            error.to_string()
        };
        for shape in [&[2, 2][..], &[1, 2, 2, 2, 2]] {
            write(&path, 0, shape);
            assert!(message().contains(&format!("{shape:?}")));
        }
        write(&path, 0, &[0, 2, 2, 2]);
        assert!(message().contains("[0, 2, 2, 2]"));
        write(&path, 0, &[2, 2, 2, 2]);
        let whole = fs::read(&path).unwrap();
        for length in 0..whole.len() {
            fs::write(&path, &whole[..length]).unwrap();
            message();
        }
        let mut values = [0.0_f32; 16];
        values[13] = f32::NAN;
        write_array(&mut File::create(&path).unwrap(), &[2, 2, 2, 2], values).unwrap();
        assert!(message().contains("time 1, channel 1, row 0, column 1"));
        assert!(Sequence::new(vec![0.0], [usize::MAX, 2, 1, 1]).unwrap_err().is_too_large());
        assert!(Sequence::read(folder.path().join("no.npy")).unwrap_err().is_not_found());
        fs::write(folder.path().join("a.nii"), "").unwrap();
        assert!(Sequence::read(folder.path().join("a.nii")).unwrap_err().to_string().contains("NIfTI"));
    }
}
