//! Latents in a folder: encoded once, read again latent by latent, by this run and by later ones.
//!
//! `latents.npy` has their values, float32 `[latents, 2, channels, depth, height, width]`: means and deviations as the encoder gave them.
//! `latents.json` says what they are of, and has a checksum of each. It is written last, and each file appears whole or not at all.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use leanburn_common::atomic;
use leanburn_data::DataError;
use serde::{Deserialize, Serialize};

use super::latent::{Latent, Spread, spread};
use crate::error::{Result, SystemError};

/// What latents depend on, each by a name for people, such as `weights`.
pub(super) type Origin = BTreeMap<String, String>;

/// The latents of a folder, checked.
#[derive(Debug)]
pub(super) struct LatentFiles {
    values: Mutex<File>,
    path: PathBuf,
    index: Index,
}

/// `latents.json`
#[derive(Debug, Serialize, Deserialize)]
struct Index {
    origin: Origin,
    /// The volumes that were read.
    volumes: Vec<String>,
    /// How many of the latents are trained on: those before the others.
    training: usize,
    shape: [usize; 4],
    spread: Spread,
    latents: Vec<Entry>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    name: String,
    class: Option<usize>,
    crc32c: u32,
}

/// What all latents of a folder are, besides their values.
#[derive(Debug)]
pub(super) struct Encoded {
    /// The volumes that were read.
    pub volumes: Vec<String>,
    /// How many of the latents are trained on.
    pub training: usize,
}

/// Bytes in front of the values.
const HEADER: usize = 128;

impl LatentFiles {
    /// The latents of a folder, each of them read and compared with its checksum. What keeps them from being used is the error, in words that
    /// follow the folder's name; none where there are none yet.
    pub fn open(
        folder: &Path,
        origin: &Origin,
        mut read: impl FnMut(usize, usize, &str),
    ) -> std::result::Result<Self, Option<String>> {
        let json = match fs::read(folder.join(INDEX)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(None),
            json => json.map_err(|error| Some(format!("{INDEX} cannot be read: {error}")))?,
        };
        let index: Index = serde_json::from_slice(&json).map_err(|_| Some(format!("{INDEX} is damaged")))?;
        if let Some(what) = origin.iter().find(|(what, value)| index.origin.get(*what) != Some(value)) {
            return Err(Some(format!("they are of other {}", what.0)));
        }
        let path = folder.join(VALUES);
        let file = File::open(&path).map_err(|error| Some(format!("{VALUES} cannot be read: {error}")))?;
        let (expected, found) = (index.file_size(), file.metadata().map_or(0, |found| found.len()));
        if expected != found {
            return Err(Some(format!("{VALUES} has {found} bytes in place of {expected}")));
        }
        let files = Self { values: Mutex::new(file), path, index };
        for number in 0..files.len() {
            let latent = files.latent(number).map_err(|_| Some(format!("{VALUES} is damaged")))?;
            read(number + 1, files.len(), &latent.name);
        }
        Ok(files)
    }

    /// Writes the latents that `encode` gives one after the other, those that are trained on first.
    ///
    /// # Errors
    ///
    /// Those of `encode`, [`SystemError::Write`], and [`SystemError::Input`] for a latent of another shape than those before it.
    pub fn write(
        folder: &Path,
        origin: Origin,
        encode: impl FnOnce(&mut dyn FnMut(Latent) -> Result<()>) -> Result<Encoded>,
    ) -> Result<Self> {
        let path = folder.join(VALUES);
        let (mut encoding, mut encoded) = (None, None);
        let (mut shape, mut latents) = ([0; 4], Vec::new());
        let written = fs::create_dir_all(folder).and_then(|()| {
            atomic::replace(&path, ".npy", |file, _| {
                let mut out = BufWriter::new(&mut *file);
                out.write_all(&[0; HEADER])?;
                let mut keep = |latent: Latent| -> Result<()> {
                    let bytes = bytes_of(&latent);
                    if !latents.is_empty() && latent.shape != shape {
                        return Err(of_another_shape(&latent, shape));
                    }
                    shape = latent.shape;
                    latents.push(Entry { name: latent.name, class: latent.class, crc32c: crc32c::crc32c(&bytes) });
                    out.write_all(&bytes).map_err(SystemError::writing(&path))
                };
                match encode(&mut keep) {
                    Ok(found) => encoded = Some(found),
                    Err(error) => {
                        encoding = Some(error);
                        return Err(io::Error::other("not encoded"));
                    }
                }
                out.flush()?;
                drop(out);
                file.seek(SeekFrom::Start(0))?;
                file.write_all(&header(latents.len(), shape))
            })
        });
        if let Some(error) = encoding {
            return Err(error);
        }
        written.map_err(SystemError::writing(&path))?;
        let Encoded { volumes, training } = encoded.expect("what was written was encoded");
        let values = Mutex::new(File::open(&path).map_err(SystemError::writing(&path))?);
        let unknown = Spread { scale: 1.0, noise: 0.0 };
        let index = Index { origin, volumes, training, shape, spread: unknown, latents };
        let mut files = Self { values, path, index };
        files.index.spread = spread(training, |number| Ok(files.latent(number)?.into()))?;
        let json = serde_json::to_vec_pretty(&files.index).expect("names and numbers serialise");
        atomic::write(&folder.join(INDEX), &json).map_err(SystemError::writing(&folder.join(INDEX)))?;
        Ok(files)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.index.latents.len()
    }

    /// How many of them are trained on.
    pub fn training(&self) -> usize {
        self.index.training
    }

    /// The volumes that they are of.
    pub fn volumes(&self) -> &[String] {
        &self.index.volumes
    }

    /// `[channels, depth, height, width]` of each.
    pub fn shape(&self) -> [usize; 4] {
        self.index.shape
    }

    /// How far those spread that are trained on.
    pub fn spread(&self) -> Spread {
        self.index.spread
    }

    /// The volume that a latent is of.
    pub fn name(&self, number: usize) -> &str {
        &self.index.latents[number].name
    }

    /// A latent as the encoder gave it.
    ///
    /// # Errors
    ///
    /// [`DataError`] if it cannot be read, or is not what was written.
    pub fn latent(&self, number: usize) -> std::result::Result<Latent, DataError> {
        let (shape, entry) = (self.index.shape, &self.index.latents[number]);
        let mut bytes = vec![0; self.index.latent_size()];
        let offset = HEADER as u64 + number as u64 * bytes.len() as u64;
        let mut file = self.values.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let read = file.seek(SeekFrom::Start(offset)).and_then(|_| file.read_exact(&mut bytes));
        drop(file);
        read.map_err(|source| DataError::Io { path: self.path.clone(), action: "read", source })?;
        if crc32c::crc32c(&bytes) != entry.crc32c {
            return Err(DataError::Malformed {
                path: self.path.clone(),
                expected: format!("the latent of {} as it was written", entry.name),
                found: "other values".into(),
                remedy: "Remove the file: the run, resumed, encodes the latents anew.",
            });
        }
        let values = |bytes: &[u8]| -> Vec<f32> {
            bytes.chunks_exact(4).map(|value| f32::from_le_bytes(value.try_into().expect("four bytes"))).collect()
        };
        let (mean, deviation) = bytes.split_at(bytes.len() / 2);
        let (mean, deviation) = (values(mean), values(deviation));
        Ok(Latent { name: entry.name.clone(), shape, class: entry.class, mean, deviation })
    }
}

impl Index {
    /// Bytes of mean and deviation of one.
    fn latent_size(&self) -> usize {
        self.shape.iter().fold(2 * size_of::<f32>(), |bytes, length| bytes.saturating_mul(*length))
    }

    fn file_size(&self) -> u64 {
        HEADER as u64 + (self.latent_size() as u64).saturating_mul(self.latents.len() as u64)
    }
}

const INDEX: &str = "latents.json";
const VALUES: &str = "latents.npy";

fn bytes_of(latent: &Latent) -> Vec<u8> {
    latent.mean.iter().chain(&latent.deviation).flat_map(|value| value.to_le_bytes()).collect()
}

fn of_another_shape(latent: &Latent, shape: [usize; 4]) -> SystemError {
    SystemError::Input {
        subject: format!("the latent of {}", latent.name),
        expected: format!(
            "{shape:?} (channels, depth, height, width), as the latents before it have: those of a folder are alike"
        ),
        found: format!("{:?}", latent.shape),
        remedy: "cut all samples to one size by data.patch_size, or leave latents.folder out".into(),
    }
}

/// The header of NumPy's format, version 1.
fn header(latents: usize, [channels, depth, height, width]: [usize; 4]) -> Vec<u8> {
    let shape = format!("({latents}, 2, {channels}, {depth}, {height}, {width})");
    let dictionary = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}");
    let mut header = b"\x93NUMPY\x01\x00".to_vec();
    header.extend((HEADER as u16 - 10).to_le_bytes());
    header.extend(dictionary.bytes());
    header.resize(HEADER - 1, b' ');
    header.push(b'\n');
    header
}

/// The checksum of a file, and of what stands for it: its length and when it was changed.
///
/// # Errors
///
/// [`SystemError::Input`] if it cannot be read.
pub(super) fn checksum(path: &Path) -> Result<u32> {
    let unreadable = |error: io::Error| SystemError::Input {
        subject: path.display().to_string(),
        expected: "a file that can be read".into(),
        found: error.to_string(),
        remedy: "check the path and its permissions".into(),
    };
    let mut file = BufReader::with_capacity(1 << 20, File::open(path).map_err(unreadable)?);
    let (mut sum, mut part) = (0, vec![0; 1 << 20]);
    loop {
        match file.read(&mut part).map_err(unreadable)? {
            0 => return Ok(sum),
            read => sum = crc32c::crc32c_append(sum, &part[..read]),
        }
    }
}

/// What stands for files in the [`Origin`] of latents: a checksum of their names, lengths and times.
pub(super) fn stamp(paths: &[PathBuf]) -> String {
    let mut sum = 0;
    for path in paths {
        let found = fs::metadata(path).ok();
        let time = found.as_ref().and_then(|found| found.modified().ok());
        let text = format!("{} {:?} {time:?}\n", path.display(), found.map(|found| found.len()));
        sum = crc32c::crc32c_append(sum, text.as_bytes());
    }
    format!("{} files, crc32c {sum:08x}", paths.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn latent(number: usize) -> Latent {
        let values = |base: f32| (0..2 * 3 * 4 * 5).map(|index| base + index as f32).collect();
        let class = (number > 0).then_some(number);
        Latent {
            name: format!("volume {number}"),
            shape: [2, 3, 4, 5],
            class,
            mean: values(number as f32),
            deviation: values(0.5),
        }
    }

    fn origin(weights: &str) -> Origin {
        [("weights".to_string(), weights.to_string()), ("seed".into(), "1".into())].into()
    }

    fn written(folder: &Path) -> LatentFiles {
        let encode = |keep: &mut dyn FnMut(Latent) -> Result<()>| {
            (0..3).try_for_each(|number| keep(latent(number)))?;
            Ok(Encoded { volumes: vec!["a".into(), "b".into()], training: 2 })
        };
        LatentFiles::write(folder, origin("one"), encode).unwrap()
    }

    #[test]
    fn latents_are_read_as_they_were_written() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("deep/er");
        let first = written(&folder);
        let mut seen = Vec::new();
        let again =
            LatentFiles::open(&folder, &origin("one"), |done, all, name| seen.push(format!("{done}/{all} {name}")))
                .unwrap();
        assert_eq!(seen, ["1/3 volume 0", "2/3 volume 1", "3/3 volume 2"]);
        assert_eq!(
            (again.len(), again.training(), again.volumes(), again.shape()),
            (3, 2, first.volumes(), [2, 3, 4, 5])
        );
        assert_eq!(again.spread(), first.spread());
        for number in 0..3 {
            let (read, latent) = (again.latent(number).unwrap(), latent(number));
            assert_eq!((read.name, read.class), (latent.name, latent.class));
            assert_eq!((read.mean, read.deviation), (latent.mean, latent.deviation));
        }
        // others can read it
        let bytes = fs::read(folder.join(VALUES)).unwrap();
        assert!(bytes.starts_with(
            b"\x93NUMPY\x01\x00\x76\x00{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2, 2, 3, 4, 5), }"
        ));
        assert_eq!((bytes[HEADER - 1], bytes.len()), (b'\n', HEADER + 3 * 2 * 4 * 2 * 3 * 4 * 5));
    }

    #[test]
    fn what_is_stale_or_damaged_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let reason = |origin: &Origin| LatentFiles::open(folder, origin, |_, _, _| {}).err();
        assert_eq!(reason(&origin("one")), Some(None), "there is nothing yet");
        let files = written(folder);
        assert_eq!(reason(&origin("one")), None);
        assert_eq!(reason(&origin("two")), Some(Some("they are of other weights".into())));
        let (values, index) = (folder.join(VALUES), folder.join(INDEX));
        let whole = fs::read(&values).unwrap();
        fs::write(&values, &whole[..whole.len() - 8]).unwrap();
        let size = whole.len();
        assert_eq!(reason(&origin("one")), Some(Some(format!("{VALUES} has {} bytes in place of {size}", size - 8))));
        let mut damaged = whole.clone();
        damaged[HEADER + 3] ^= 1;
        fs::write(&values, &damaged).unwrap();
        assert_eq!(reason(&origin("one")), Some(Some(format!("{VALUES} is damaged"))));
        // in the middle of a run it is an error with the file's name
        let error = files.latent(0).map(|_| ()).and_then(|()| {
            let reopened = LatentFiles { values: Mutex::new(File::open(&values).unwrap()), ..files };
            reopened.latent(0).map(|_| ())
        });
        let error = error.unwrap_err().to_string();
        assert!(error.contains(VALUES) && error.contains("volume 0") && error.contains("anew"), "{error}");
        fs::write(&index, b"{").unwrap();
        assert_eq!(reason(&origin("one")), Some(Some(format!("{INDEX} is damaged"))));
    }

    #[test]
    fn latents_of_several_shapes_are_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let encode = |keep: &mut dyn FnMut(Latent) -> Result<()>| {
            keep(latent(0))?;
            keep(Latent { shape: [2, 3, 5, 4], ..latent(1) })?;
            Ok(Encoded { volumes: vec!["a".into()], training: 1 })
        };
        let error = LatentFiles::write(folder.path(), origin("one"), encode).unwrap_err().to_string();
        assert!(
            error.contains("volume 1") && error.contains("[2, 3, 4, 5]") && error.contains("[2, 3, 5, 4]"),
            "{error}"
        );
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_failure_while_encoding_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let encode = |keep: &mut dyn FnMut(Latent) -> Result<()>| {
            keep(latent(0))?;
            Err(SystemError::NoBudget)
        };
        let error = LatentFiles::write(folder.path(), origin("one"), encode).unwrap_err();
        assert!(matches!(error, SystemError::NoBudget), "{error}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
