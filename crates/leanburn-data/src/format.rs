use crate::error::DataError;
use crate::volume::Volume;
use crate::{nifti_file, npz_file, numpy_file, safetensors_file, volume_file};
use std::path::Path;

/// The kinds of file that hold a volume, told by the end of the name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// `.nii`, or `.nii.gz` for the packed form.
    Nifti {
        /// Whether a written file is packed.
        gzip: bool,
    },
    /// `.npy`, NumPy's array file.
    Numpy,
    /// `.npz`, several of NumPy's arrays in one file.
    Npz,
    /// `.safetensors`.
    Safetensors,
}

impl Format {
    /// The kind of file that `path` names; the file need not exist.
    ///
    /// # Errors
    /// If the name ends like none of them.
    pub fn of(path: &Path) -> Result<Self, DataError> {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        let endings = [
            (".nii", Self::Nifti { gzip: false }),
            (".nii.gz", Self::Nifti { gzip: true }),
            (".npy", Self::Numpy),
            (".npz", Self::Npz),
            (".safetensors", Self::Safetensors),
        ];
        let format = endings.iter().find(|(ending, _)| name.ends_with(ending));
        format.map(|(_, format)| *format).ok_or_else(|| DataError::UnknownFormat { path: path.into() })
    }
}

impl Volume {
    /// Reads a volume, by the end of its name.
    ///
    /// - `.nii`, `.nii.gz`: NIfTI-1 of any integer or float type, 3D or 4D (the fourth axis becomes
    ///   channels), brought to RAS order; the position comes from the sform, else the qform, else
    ///   the voxel sizes alone.
    /// - `.npy`: 3D `[x, y, z]` or 4D `[channels, x, y, z]`, voxels of 1 mm.
    /// - `.npz`, `.safetensors`: the array `volume` or the only one, shaped likewise; an `affine` of
    ///   shape `[4, 4]` beside it is used. A grid `[channels, depth, height, width]` is read in that
    ///   order: its depth, height and width are what this crate calls x, y and z.
    /// - The same two, for a sparse grid: whole numbers `coordinates` `[voxels, 3]` (depth, height,
    ///   width, counted from 0), `features` `[voxels, channels]` and the lengths of the three axes
    ///   as `shape`. All other voxels are 0. Voxels may come in any order, each once.
    ///
    /// # Errors
    /// If the file is missing, of an unknown kind, damaged, or holds values that are not finite; of
    /// a sparse grid, if a voxel lies outside, is named twice, or the dense grid would take more
    /// than 1 GiB.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, DataError> {
        let path = path.as_ref();
        let volume = match Format::of(path)? {
            Format::Nifti { .. } => nifti_file::read(path),
            Format::Numpy | Format::Npz | Format::Safetensors => volume_file::read(path),
        };
        volume.map_err(|error| error.at(path))
    }

    /// Writes the volume as 32-bit floats, by the end of the name, as its axes lie now.
    ///
    /// The file appears whole or not at all. `.npy` does not keep the affine. For a file on the
    /// grid of the one that was read, write [`Volume::to_original_orientation`].
    ///
    /// # Errors
    /// If the name is of an unknown kind, the folder is missing or the disk is full.
    pub fn write(&self, path: impl AsRef<Path>) -> Result<(), DataError> {
        let path = path.as_ref();
        let written = match Format::of(path)? {
            Format::Nifti { gzip } => nifti_file::write(self, path, gzip),
            Format::Numpy => numpy_file::write(self, path),
            Format::Npz => npz_file::write(self, path),
            Format::Safetensors => safetensors_file::write(self, path),
        };
        written.map_err(|error| error.at(path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::affine::IDENTITY;
    use proptest::prelude::*;
    use std::fs;

    const NAMES: [&str; 5] = ["a.nii", "a.b.nii.gz", "a.npy", "a.npz", "a.safetensors"];

    fn sample(channels: usize) -> Volume {
        let data = (0..channels * 24).map(|value| value as f32 * 0.37 - 3.0).collect();
        let affine = [[1.5, 0.1, 0.0, -4.0], [0.0, 2.0, 0.0, 5.5], [0.0, 0.0, 3.0, 1e3], IDENTITY[3]];
        let affine = affine.map(|row: [f64; 4]| row.map(|entry| f64::from(entry as f32)));
        Volume::new(data, [channels, 2, 3, 4], affine).unwrap()
    }

    #[test]
    fn what_is_written_is_read() {
        let folder = tempfile::tempdir().unwrap();
        for name in NAMES {
            for channels in [1, 3] {
                let (path, volume) = (folder.path().join(name), sample(channels));
                volume.write(&path).unwrap();
                let read = Volume::read(&path).unwrap();
                assert_eq!((read.data(), read.shape()), (volume.data(), volume.shape()), "{name}");
                let kept = name != "a.npy";
                assert_eq!(read.affine() == volume.affine(), kept, "{name}");
                assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "{name}");
            }
            fs::remove_file(folder.path().join(name)).unwrap();
        }
    }

    #[test]
    fn missing_and_unknown_files() {
        for name in NAMES {
            let error = Volume::read(Path::new("/nowhere").join(name)).unwrap_err();
            assert!(error.is_not_found() && error.to_string().contains(name), "{error}");
            let error = sample(1).write(Path::new("/nowhere").join(name)).unwrap_err();
            assert!(error.is_not_found(), "{error}");
        }
        let unknown = Volume::read("scan.dcm").unwrap_err();
        assert!(matches!(unknown, DataError::UnknownFormat { .. }));
        assert!(matches!(sample(1).write("scan"), Err(DataError::UnknownFormat { .. })));
    }

    #[test]
    fn a_file_cut_anywhere_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        for name in NAMES {
            let path = folder.path().join(name);
            sample(2).write(&path).unwrap();
            let whole = fs::read(&path).unwrap();
            for length in 0..whole.len() {
                fs::write(&path, &whole[..length]).unwrap();
                let error = Volume::read(&path).expect_err(name);
                assert!(error.is_malformed(), "{name} cut at {length}: {error}");
                assert!(error.to_string().contains(name), "{error}");
            }
        }
    }

    #[test]
    fn a_file_that_says_it_is_huge_is_named() {
        let folder = tempfile::tempdir().unwrap();
        for name in &NAMES[..2] {
            let path = folder.path().join(name);
            sample(1).write(&path).unwrap();
            let (mut bytes, is_packed) = (fs::read(&path).unwrap(), name.ends_with(".gz"));
            if is_packed {
                let mut whole = Vec::new();
                std::io::copy(&mut flate2::read::GzDecoder::new(&bytes[..]), &mut whole).unwrap();
                bytes = whole;
            }
            bytes[42..48].fill(0x70); // 28784 voxels along each axis
            if is_packed {
                let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
                std::io::Write::write_all(&mut packer, &bytes).unwrap();
                bytes = packer.finish().unwrap();
            }
            fs::write(&path, bytes).unwrap();
            let error = Volume::read(&path).unwrap_err();
            assert!(error.is_too_large() && error.to_string().contains(name), "{error}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]
        #[test]
        fn damaged_bytes_never_panic(
            kind in 0..NAMES.len(),
            damage in proptest::collection::vec((0..400_usize, any::<u8>()), 1..8),
        ) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join(NAMES[kind]);
            sample(2).write(&path).unwrap();
            let mut bytes = fs::read(&path).unwrap();
            let length = bytes.len();
            for (place, value) in damage {
                bytes[place % length] = value;
            }
            fs::write(&path, bytes).unwrap();
            if let Err(error) = Volume::read(&path) {
                prop_assert!(error.to_string().contains(NAMES[kind]), "{}", error);
            }
        }
    }
}
