use crate::error::DataError;
use crate::format::Format;
use flate2::bufread::MultiGzDecoder;
use std::fs::{self, File};
use std::io::{self, BufReader, Read, Seek};
use std::path::{Path, PathBuf};

/// The most that one byte of a gzip file can expand to (the limit of the deflate format).
pub(crate) const LARGEST_EXPANSION: u64 = 1032;

/// An opened file, unpacked where it is gzip, with an upper bound of its unpacked length.
pub(crate) struct Source {
    pub(crate) reader: Box<dyn Read>,
    pub(crate) at_most: u64,
}

/// Opens a file for reading; whether it is gzip is told by its first bytes, not by its name.
pub(crate) fn open(path: &Path) -> Result<Source, DataError> {
    let failed = |error| DataError::io(path, "read", error);
    let mut file = File::open(path).map_err(failed)?;
    let length = file.metadata().map_err(failed)?.len();
    let mut start = Vec::new();
    (&mut file).take(2).read_to_end(&mut start).map_err(failed)?;
    file.rewind().map_err(failed)?;
    let file = BufReader::with_capacity(1 << 16, file);
    Ok(match start[..] {
        [0x1f, 0x8b] => {
            Source { reader: Box::new(MultiGzDecoder::new(file)), at_most: length.saturating_mul(LARGEST_EXPANSION) }
        }
        _ => Source { reader: Box::new(file), at_most: length },
    })
}

/// Tells the two faults of reading apart: damaged contents, or a system that refuses.
pub(crate) fn read_failed(path: &Path, error: io::Error) -> DataError {
    match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData => {
            DataError::malformed(
                "a whole file",
                format!("one that is cut short or damaged ({error})"),
                "Copy or download it again.",
            )
            .at(path)
        }
        _ => DataError::io(path, "read", error),
    }
}

/// Lets `write` fill a temporary file in the folder of `path`, then moves it into place, so that
/// `path` holds either its old contents or all of the new ones.
pub(crate) fn replace(path: &Path, suffix: &str, write: impl FnOnce(&Path) -> io::Result<()>) -> Result<(), DataError> {
    let failed = |error| DataError::io(path, "write", error);
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let mut builder = tempfile::Builder::new();
    builder.prefix("leanburn-").suffix(suffix);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(fs::Permissions::from_mode(0o666)); // less the user's umask
    }
    let temporary = builder.tempfile_in(folder).map_err(|error| DataError::io(folder, "write", error))?;
    write(temporary.path()).map_err(failed)?;
    temporary.as_file().sync_all().map_err(failed)?;
    temporary.persist(path).map_err(|error| failed(error.error))?;
    Ok(())
}

/// The volume files among `paths`, folders searched to the bottom, sorted, each once.
///
/// # Errors
/// If a path is missing, a folder holds no volume, or a file that was named outright is of an
/// unknown kind. Other files in folders are passed over.
pub fn find_volumes(paths: &[PathBuf]) -> Result<Vec<PathBuf>, DataError> {
    let mut found = Vec::new();
    for path in paths {
        let metadata = fs::metadata(path).map_err(|error| DataError::io(path, "read", error))?;
        if metadata.is_dir() {
            let before = found.len();
            search(path, &mut found)?;
            if found.len() == before {
                return Err(DataError::NoVolumes { path: path.clone() });
            }
        } else {
            Format::of(path)?;
            found.push(path.clone());
        }
    }
    found.sort();
    found.dedup();
    Ok(found)
}

fn search(folder: &Path, found: &mut Vec<PathBuf>) -> Result<(), DataError> {
    let failed = |error| DataError::io(folder, "list", error);
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let path = entry.path();
        // A link to a folder is not followed: it could lead in a circle.
        if entry.file_type().map_err(failed)?.is_dir() {
            search(&path, found)?;
        } else if path.is_file() && Format::of(&path).is_ok() {
            found.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_volumes_sorted_and_once() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("b/c");
        fs::create_dir_all(&inner).unwrap();
        for name in ["b/c/two.NII.GZ", "a.npy", "notes.txt", "z.safetensors", "b/one.nii"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        let paths = [folder.path().to_path_buf(), folder.path().join("a.npy")];
        let names = ["a.npy", "b/c/two.NII.GZ", "b/one.nii", "z.safetensors"];
        let expected: Vec<PathBuf> = names.iter().map(|name| folder.path().join(name)).collect();
        assert_eq!(find_volumes(&paths).unwrap(), expected);

        let text = find_volumes(&[folder.path().join("notes.txt")]).unwrap_err();
        assert!(matches!(text, DataError::UnknownFormat { .. }));
        assert!(find_volumes(&[folder.path().join("none")]).unwrap_err().is_not_found());
        let empty = tempfile::tempdir().unwrap();
        let error = find_volumes(&[empty.path().to_path_buf()]).unwrap_err();
        assert!(matches!(error, DataError::NoVolumes { .. }));
    }

    #[test]
    fn a_failed_write_leaves_the_old_file_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kept.npy");
        fs::write(&path, "old").unwrap();
        let error = replace(&path, ".npy", |temporary| {
            fs::write(temporary, "half")?;
            Err(io::Error::other("disk full"))
        });
        assert!(error.unwrap_err().to_string().contains("disk full"));
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        replace(&path, ".npy", |temporary| fs::write(temporary, "new")).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert!(replace(&folder.path().join("no/where.npy"), "", |_| Ok(())).unwrap_err().is_not_found());
    }
}
