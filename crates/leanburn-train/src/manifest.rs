//! Sizes and checksums of a checkpoint's files: whatever is damaged is found before any of it is used.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::TrainError;

/// What is known of a file.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Sum {
    bytes: u64,
    crc32c: u32,
}

/// Writes the manifest of the files that are in `folder`.
pub(crate) fn write(folder: &Path) -> Result<(), TrainError> {
    let sums = sums_of(folder).map_err(|error| TrainError::writing(folder, error))?;
    let text = serde_json::to_vec_pretty(&sums).expect("names and numbers serialise");
    let path = folder.join(MANIFEST);
    fs::write(&path, text).map_err(|error| TrainError::writing(&path, error))
}

/// Whether a folder has a manifest.
pub(crate) fn is_in(folder: &Path) -> bool {
    folder.join(MANIFEST).is_file()
}

/// Checks that the files of `folder` are those of its manifest, byte for byte.
///
/// # Errors
///
/// [`TrainError::Checkpoint`] with the first file that is not.
pub(crate) fn verify(folder: &Path) -> Result<(), TrainError> {
    let path = folder.join(MANIFEST);
    let text = fs::read(&path).map_err(|error| TrainError::reading(&path, error))?;
    let sums: BTreeMap<String, Sum> =
        serde_json::from_slice(&text).map_err(|error| TrainError::reading(&path, error))?;
    for (name, expected) in sums {
        let path = folder.join(name);
        let found = sum_of(&path).map_err(|error| TrainError::reading(&path, error))?;
        if found.bytes != expected.bytes {
            let reason = format!("it has {} bytes instead of {}", found.bytes, expected.bytes);
            return Err(TrainError::reading(&path, reason));
        }
        if found != expected {
            return Err(TrainError::reading(&path, "its bytes are not those that were written"));
        }
    }
    Ok(())
}

const MANIFEST: &str = "manifest.json";

fn sums_of(folder: &Path) -> io::Result<BTreeMap<String, Sum>> {
    let mut sums = BTreeMap::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        sums.insert(entry.file_name().to_string_lossy().into_owned(), sum_of(&entry.path())?);
    }
    Ok(sums)
}

fn sum_of(path: &Path) -> io::Result<Sum> {
    let mut file = File::open(path)?;
    let mut sum = Sum { bytes: 0, crc32c: 0 };
    let mut chunk = vec![0; 1 << 16];
    loop {
        match file.read(&mut chunk)? {
            0 => return Ok(sum),
            read => {
                sum.bytes += read as u64;
                sum.crc32c = crc32c::crc32c_append(sum.crc32c, &chunk[..read]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_damage_is_found_and_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("weights");
        fs::write(&file, vec![7; 100_000]).unwrap();
        write(folder.path()).unwrap();
        verify(folder.path()).unwrap();
        let message = || verify(folder.path()).unwrap_err().to_string();

        let mut flipped = vec![7; 100_000];
        flipped[99_999] = 6;
        fs::write(&file, flipped).unwrap();
        assert!(message().contains("weights: its bytes are not"), "{}", message());
        fs::write(&file, vec![7; 99_999]).unwrap();
        assert!(message().contains("weights: it has 99999 bytes instead of 100000"), "{}", message());
        fs::remove_file(&file).unwrap();
        assert!(message().contains("weights"), "{}", message());
        fs::write(folder.path().join(MANIFEST), "{").unwrap();
        assert!(message().contains(MANIFEST), "{}", message());
        fs::remove_file(folder.path().join(MANIFEST)).unwrap();
        assert!(message().contains(MANIFEST), "{}", message());
    }
}
