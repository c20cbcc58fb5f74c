//! NumPy's `.npz` files: a zip archive with one `.npy` file for each array, by the `zip` crate.

use crate::error::DataError;
use crate::formats::array::{AFFINE, Array, VOLUME};
use crate::formats::file::{self, LARGEST_EXPANSION};
use crate::formats::numpy;
use crate::volumes::Volume;
use npyz::npz::{array_name_from_file_name, file_name_from_array_name};
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use zip::result::ZipError;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

const SAVE_AGAIN: &str = "Save the arrays again with numpy.savez_compressed.";

/// An opened archive.
pub(crate) struct Npz {
    path: PathBuf,
    archive: ZipArchive<BufReader<File>>,
    length: u64,
}

impl Npz {
    pub(crate) fn open(path: &Path) -> Result<Self, DataError> {
        let failed = |error| DataError::io(path, "read", error);
        let file = File::open(path).map_err(failed)?;
        let length = file.metadata().map_err(failed)?.len();
        let archive = ZipArchive::new(BufReader::new(file)).map_err(|error| damaged(path, error))?;
        Ok(Self { path: path.into(), archive, length })
    }

    pub(crate) fn names(&self) -> Vec<String> {
        let files = self.archive.file_names().flatten();
        files.filter_map(|name| array_name_from_file_name(&name).map(Into::into)).collect()
    }

    pub(crate) fn read<T: Clone>(&mut self, name: &str, cast: fn(f64) -> T) -> Result<Array<T>, DataError> {
        let Self { path, archive, length } = self;
        let mut entry = archive.by_name(&file_name_from_array_name(name)).map_err(|error| damaged(path, error))?;
        if !matches!(entry.compression(), CompressionMethod::Stored | CompressionMethod::Deflated) {
            let found = format!("one packed by {}", entry.compression());
            return Err(DataError::malformed("arrays packed by deflate or not at all", found, SAVE_AGAIN));
        }
        // The archive may lie about a size; the file on the disk cannot.
        let packed = entry.compressed_size().min(*length);
        let at_most = entry.size().min(packed.saturating_mul(LARGEST_EXPANSION));
        let array = numpy::read(path, &mut entry, at_most, cast)?;
        // The checksum is compared at the end of the entry, which must be here.
        match entry.read(&mut [0]).map_err(|error| file::read_failed(path, error))? {
            0 => Ok(array),
            _ => {
                Err(DataError::malformed(format!("the end of `{name}`"), "more bytes than its shape needs", SAVE_AGAIN))
            }
        }
    }
}

fn damaged(path: &Path, error: ZipError) -> DataError {
    match error {
        ZipError::Io(error) => file::read_failed(path, error),
        other => {
            DataError::malformed("a whole .npz archive, packed by deflate or not at all", other.to_string(), SAVE_AGAIN)
        }
    }
}

/// Writes `volume` as 32-bit floats and `affine` as 64-bit floats, packed.
pub(crate) fn write(volume: &Volume, path: &Path) -> Result<(), DataError> {
    file::replace(path, ".npz", |file, _| {
        let mut archive = ZipWriter::new(BufWriter::new(file));
        let options = SimpleFileOptions::default().large_file(true);
        archive.start_file(file_name_from_array_name(VOLUME), options)?;
        numpy::write_array(&mut archive, &volume.shape(), volume.data().iter().copied())?;
        archive.start_file(file_name_from_array_name(AFFINE), options)?;
        numpy::write_array(&mut archive, &[4, 4], volume.affine().iter().flatten().copied())?;
        archive.finish()?.flush()
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A shape and its values.
    pub(crate) type Values<'a> = (&'a [usize], &'a [f64]);

    /// An archive of 64-bit float arrays.
    pub(crate) fn write_npz(path: &Path, arrays: &[(&str, Values<'_>)]) {
        let mut archive = ZipWriter::new(File::create(path).unwrap());
        for (name, (shape, values)) in arrays {
            archive.start_file(file_name_from_array_name(name), SimpleFileOptions::default()).unwrap();
            numpy::write_array(&mut archive, shape, values.iter().copied()).unwrap();
        }
        archive.finish().unwrap();
    }

    /// An archive of one file with these bytes.
    fn packed(name: &str, bytes: &[u8]) -> Result<Volume, DataError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("scene.npz");
        let mut archive = ZipWriter::new(File::create(&path).unwrap());
        archive.start_file(name, SimpleFileOptions::default()).unwrap();
        archive.write_all(bytes).unwrap();
        archive.finish().unwrap();
        Volume::read(&path)
    }

    fn array(shape: &str, bytes: usize) -> Vec<u8> {
        let text = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}\n");
        let mut file = b"\x93NUMPY\x01\x00".to_vec();
        file.extend((text.len() as u16).to_le_bytes());
        file.extend(text.as_bytes());
        file.resize(file.len() + bytes, 0);
        file
    }

    #[test]
    fn the_named_array_wins_else_the_only_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("scene.npz");
        let shape: &[usize] = &[4, 1, 1, 1];
        write_npz(&path, &[("volume", (shape, &[1.0, 2.0, 3.0, 4.0])), ("other", (&[1], &[9.0]))]);
        assert_eq!(Volume::read(&path).unwrap().data(), [1.0, 2.0, 3.0, 4.0]);
        write_npz(&path, &[("arr_0", (shape, &[5.0, 6.0, 7.0, 8.0]))]);
        assert_eq!(Volume::read(&path).unwrap().data(), [5.0, 6.0, 7.0, 8.0]);
        write_npz(&path, &[("arr_0", (shape, &[0.0; 4])), ("arr_1", (shape, &[0.0; 4]))]);
        assert!(Volume::read(&path).unwrap_err().to_string().contains("2 arrays"));
        write_npz(&path, &[("coordinates", (&[0, 3], &[]))]);
        assert!(Volume::read(&path).unwrap_err().to_string().contains("`shape`"));
    }

    #[test]
    fn an_archive_that_lies_is_an_error() {
        assert_eq!(packed("volume.npy", &array("(1, 1, 2)", 8)).unwrap().data(), [0.0; 2]);
        let message = |name: &str, bytes: &[u8]| {
            let error = packed(name, bytes).unwrap_err();
            assert!(error.is_malformed() && error.to_string().contains("scene.npz"), "{error}");
            error.to_string()
        };
        assert!(message("volume.npy", &array("(1, 1, 2)", 9)).contains("more bytes"));
        assert!(message("volume.npy", &array("(1, 1, 2)", 7)).contains("cut short"));
        assert!(message("volume.npy", &array("(2048, 1024, 1024)", 8)).contains("bytes of values"));
        assert!(message("notes.txt", b"no array").contains("0 arrays"));
        assert!(message("volume.npy", b"no array").contains("magic"));
        let huge = packed("volume.npy", &array("(9223372036854775808, 3, 0)", 0)).unwrap_err();
        assert!(huge.is_too_large(), "{huge}");
    }

    #[test]
    fn a_method_that_is_not_read_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("scene.npz");
        write_npz(&path, &[("volume", (&[1, 1, 1, 1], &[1.0]))]);
        let mut bytes = std::fs::read(&path).unwrap();
        // LZMA, in the header of the entry and in that of the archive's table.
        for (header, method) in [(b"PK\x03\x04", 8), (b"PK\x01\x02", 10)] {
            let start = bytes.windows(4).position(|bytes| bytes == header).unwrap();
            bytes[start + method] = 14;
        }
        std::fs::write(&path, bytes).unwrap();
        let error = Volume::read(&path).unwrap_err();
        assert!(error.is_malformed() && error.to_string().contains("packed by Lzma"), "{error}");
        assert!(error.to_string().contains("savez_compressed"), "{error}");
    }

    #[test]
    fn a_changed_value_does_not_pass_the_checksum() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("scene.npz");
        let mut archive = ZipWriter::new(File::create(&path).unwrap());
        let options = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
        archive.start_file("volume.npy", options).unwrap();
        archive.write_all(&array("(1, 1, 2)", 8)).unwrap();
        archive.finish().unwrap();
        assert_eq!(Volume::read(&path).unwrap().data(), [0.0; 2]);
        let mut bytes = std::fs::read(&path).unwrap();
        let header = bytes.windows(8).position(|bytes| bytes == b"'shape':").unwrap();
        let newline = bytes[header..].iter().position(|byte| *byte == b'\n').unwrap();
        bytes[header + newline + 3] = 1;
        std::fs::write(&path, bytes).unwrap();
        let error = Volume::read(&path).unwrap_err();
        assert!(error.is_malformed() && error.to_string().contains("hecksum"), "{error}");
    }
}
