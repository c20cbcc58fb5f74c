//! Finding the volume files of folders.

use crate::error::DataError;
use crate::formats::format::Format;
use std::fs;
use std::path::{Path, PathBuf};

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
}
