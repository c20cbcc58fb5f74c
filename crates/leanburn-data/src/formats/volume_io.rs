//! Reading and writing volumes and label maps, by the end of the file's name.

use crate::error::DataError;
use crate::formats::format::Format;
use crate::formats::text_header::{self, TextHeader};
use crate::formats::{array_volume, dicom, nifti, npz, numpy, safetensors};
use crate::volumes::{LabelMap, Volume};
use std::path::Path;

impl Volume {
    /// Reads a volume, by the end of its name.
    ///
    /// - `.nii`, `.nii.gz`, and `.hdr` with its `.img`: NIfTI-1 or NIfTI-2 of any integer or float type, 3D or 4D (the fourth axis becomes
    ///   channels), brought to RAS order; the position comes from the sform, else the qform, else
    ///   the voxel sizes alone.
    /// - `.nrrd`, `.nhdr`, `.mha`, `.mhd`: NRRD and MetaImage of such types, raw or packed, in one file or two; an axis that is none of
    ///   space becomes channels.
    /// - a folder: a DICOM series, a file for each slice, in the order of their places; not packed.
    /// - `.npy`: 3D `[x, y, z]` or 4D `[channels, x, y, z]`, voxels of 1 mm.
    /// - `.npz`, `.safetensors`, and NetCDF and HDF5 (`.nc`, `.h5`): the array `volume` or the only one, shaped likewise; an `affine` of
    ///   shape `[4, 4]` next to it is used. A grid `[channels, depth, height, width]` is read in that
    ///   order: its depth, height and width are what this crate calls x, y and z.
    /// - The same, for a sparse grid: whole numbers `coordinates` `[voxels, 3]` (depth, height,
    ///   width, counted from 0), `features` `[voxels, channels]` and the lengths of the three axes
    ///   as `shape`. All other voxels are 0. Voxels may come in any order, each once.
    ///
    /// # Errors
    /// If the file is missing, of an unknown kind, damaged, or holds values that are not finite; of a series, if slices are missing,
    /// doubled or of another series; of a sparse grid, if a voxel lies outside, is named twice, or the dense grid would take more
    /// than 1 GiB.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, DataError> {
        let path = path.as_ref();
        if path.is_dir() {
            return dicom::read(path);
        }
        match Format::of(path)? {
            Format::Nifti { .. } | Format::NiftiPair => nifti::read(path),
            Format::Nrrd | Format::NrrdHeader => text_header::read(path, TextHeader::Nrrd),
            Format::MetaImage | Format::MetaImageHeader => text_header::read(path, TextHeader::MetaImage),
            Format::Numpy | Format::Npz | Format::Safetensors | Format::Hdf5 => {
                array_volume::read(path).map_err(|error| error.at(path))
            }
        }
    }

    /// Writes the volume as 32-bit floats, by the end of the name, as its axes lie now.
    ///
    /// The file appears whole or not at all. `.npy` does not keep the affine. For a file on the
    /// grid of the one that was read, write [`Volume::into_original_orientation`].
    ///
    /// # Errors
    /// If the name is of an unknown kind, the folder is missing or the disk is full.
    pub fn write(&self, path: impl AsRef<Path>) -> Result<(), DataError> {
        let path = path.as_ref();
        let written = match Format::of_output(path)? {
            Format::Nifti { gzip } => nifti::write(self, path, gzip),
            Format::Nrrd => text_header::write(self, path, TextHeader::Nrrd),
            Format::MetaImage => text_header::write(self, path, TextHeader::MetaImage),
            Format::Numpy => numpy::write(self, path),
            Format::Npz => npz::write(self, path),
            Format::Safetensors => safetensors::write(self, path),
            Format::NiftiPair | Format::NrrdHeader | Format::MetaImageHeader | Format::Hdf5 => {
                unreachable!("no output")
            }
        };
        written.map_err(|error| error.at(path))
    }
}

impl LabelMap {
    /// Reads a label map from any file that [`Volume::read`] takes: whole numbers from 0 to 255 in one channel.
    ///
    /// # Errors
    /// As [`Volume::read`] and [`LabelMap::from_volume`].
    pub fn read(path: impl AsRef<Path>) -> Result<Self, DataError> {
        let path = path.as_ref();
        Self::from_volume(&Volume::read(path)?).map_err(|error| error.at(path))
    }

    /// Writes the labels as 8-bit integers to a `.nii`, `.nii.gz`, `.nrrd` or `.mha` file, with their affine.
    ///
    /// The file appears whole or not at all.
    ///
    /// # Errors
    /// If the name ends otherwise, the folder is missing or the disk is full.
    ///
    /// # Example
    /// ```no_run
    /// use leanburn_data::{LabelMap, Volume};
    /// // scores of a model on the prepared grid, back on the grid of the file, and there the best class
    /// let scores = Volume::read("scores.nii.gz")?.into_original_grid()?;
    /// LabelMap::argmax(&scores)?.write("labels.nii.gz")?;
    /// # Ok::<(), leanburn_data::DataError>(())
    /// ```
    pub fn write(&self, path: impl AsRef<Path>) -> Result<(), DataError> {
        let path = path.as_ref();
        let written = match Format::of(path)? {
            Format::Nifti { gzip } => nifti::write_labels(self, path, gzip),
            Format::Nrrd => text_header::write_labels(self, path, TextHeader::Nrrd),
            Format::MetaImage => text_header::write_labels(self, path, TextHeader::MetaImage),
            _ => Err(DataError::malformed(
                "a name that ends in .nii, .nii.gz, .nrrd or .mha",
                "another one",
                "Write the labels as NIfTI, which keeps their grid.",
            )),
        };
        written.map_err(|error| error.at(path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::volumes::affine::IDENTITY;
    use proptest::prelude::*;
    use std::fs;

    const NAMES: [&str; 7] = ["a.nii", "a.b.nii.gz", "a.npy", "a.npz", "a.safetensors", "a.nrrd", "a.mha"];

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

    /// Noise, as a reconstruction has: the last bits of floats cannot be packed, their exponents can.
    #[test]
    fn a_packed_file_is_smaller() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let mut state = 1u32;
        let mut noise = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1 << 24) as f32
        };
        let volume = Volume::new((0..32 * 32 * 32).map(|_| noise()).collect(), [1, 32, 32, 32], IDENTITY).unwrap();
        let [raw, packed] = ["a.nii", "a.nii.gz"].map(|name| {
            volume.write(path(name)).unwrap();
            fs::metadata(path(name)).unwrap().len()
        });
        assert!(packed < raw, "{packed} of {raw} bytes");
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

    #[test]
    fn label_maps_are_written_as_bytes_on_their_grid() {
        let folder = tempfile::tempdir().unwrap();
        let grid = sample(1);
        let labels = LabelMap::new((0..24).map(|label| label * 11).collect(), [2, 3, 4], *grid.affine()).unwrap();
        for (name, voxels) in [("l.nii", 352 + 24), ("l.nii.gz", 0), ("l.nrrd", 0), ("l.mha", 0)] {
            let path = folder.path().join(name);
            labels.write(&path).unwrap();
            assert_eq!(LabelMap::read(&path).unwrap(), labels, "{name}");
            let length = fs::metadata(&path).unwrap().len();
            assert!(voxels == 0 || length == voxels, "{length} bytes");
        }
        assert!(labels.write(folder.path().join("l.npy")).unwrap_err().to_string().contains(".nii.gz"));
        let path = folder.path().join("scan.nii");
        grid.write(&path).unwrap();
        assert!(LabelMap::read(&path).unwrap_err().to_string().contains("scan.nii"));
    }
}
