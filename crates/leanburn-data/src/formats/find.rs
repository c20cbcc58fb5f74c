//! Finding the volume files of folders.

use crate::error::DataError;
use crate::formats::dicom;
use crate::formats::format::Format;
use std::fs;
use std::path::{Path, PathBuf};

/// The volume files among `paths`, folders searched to the bottom, through links too, sorted, each once. A path that is not there and has `*`, `?`, `[..]`
/// or `**` in it is a pattern, and stands for what it matches. A folder with DICOM slices in it is one volume.
///
/// # Errors
/// If a path is missing, a pattern matches nothing, a folder holds no volume, or a file that was named outright is of an
/// unknown kind. Other files in folders, and files that a pattern matches, are passed over.
pub fn find_volumes(paths: &[PathBuf]) -> Result<Vec<PathBuf>, DataError> {
    let mut found = Vec::new();
    for path in paths {
        if let Some(matched) = matches(path) {
            let before = found.len();
            for path in matched {
                match path.is_dir() {
                    true => search(&path, &mut Vec::new(), &mut found)?,
                    false => found.extend(Some(path).filter(|path| Format::of(path).is_ok())),
                }
            }
            if found.len() == before {
                return Err(DataError::NoVolumes { path: path.clone() });
            }
            continue;
        }
        let metadata = fs::metadata(path).map_err(|error| DataError::io(path, "read", error))?;
        if metadata.is_dir() {
            let before = found.len();
            search(path, &mut Vec::new(), &mut found)?;
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

/// What a pattern matches; none of a path that is there, or is no pattern.
pub fn matches(path: &Path) -> Option<Vec<PathBuf>> {
    let text = path.to_str().filter(|text| text.contains(['*', '?', '[']) && !path.exists())?;
    let pattern = glob::glob(text).ok()?;
    Some(pattern.filter_map(Result::ok).collect())
}

/// Searches a folder that lies below the folders `around`. A link to one of them, or to itself, leads in a circle and is not followed.
fn search(folder: &Path, around: &mut Vec<PathBuf>, found: &mut Vec<PathBuf>) -> Result<(), DataError> {
    let failed = |error| DataError::io(folder, "list", error);
    let place = folder.canonicalize().map_err(failed)?;
    if around.contains(&place) {
        return Ok(());
    }
    around.push(place);
    let mut is_series = false;
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.is_dir() {
            search(&path, around, found)?;
        } else if path.is_file() && Format::of(&path).is_ok() {
            found.push(path);
        } else {
            is_series = is_series || (path.is_file() && dicom::is_slice(&path));
        }
    }
    around.pop();
    found.extend(is_series.then(|| folder.to_path_buf()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_stands_for_what_it_matches() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("b")).unwrap();
        for name in
            ["case_1_t1.nii", "case_2_t1.nii", "case_2_t2.nii", "case_3_t1.txt", "b/case_4_t1.npy", "odd[1].nii"]
        {
            fs::write(folder.path().join(name), "").unwrap();
        }
        let found = |pattern: &str| {
            let found = find_volumes(&[folder.path().join(pattern)])?;
            Ok::<_, DataError>(
                found.iter().map(|path| path.file_name().unwrap().display().to_string()).collect::<Vec<_>>(),
            )
        };
        assert_eq!(found("*_t1*").unwrap(), ["case_1_t1.nii", "case_2_t1.nii"]);
        assert_eq!(found("**/*_t1.*").unwrap(), ["case_4_t1.npy", "case_1_t1.nii", "case_2_t1.nii"]);
        assert_eq!(found("b*").unwrap(), ["case_4_t1.npy"], "a folder that it matches is searched");
        assert_eq!(found("odd[1].nii").unwrap(), ["odd[1].nii"], "what is there is no pattern");
        assert!(matches!(found("*_t3*"), Err(DataError::NoVolumes { .. })));
        assert!(found("none.nii").unwrap_err().is_not_found());
    }

    #[cfg(unix)]
    #[test]
    fn links_to_folders_are_followed_and_circles_end() {
        use std::os::unix::fs::symlink;
        let [study, archive] = [0; 2].map(|_| tempfile::tempdir().unwrap());
        fs::create_dir_all(archive.path().join("case_2/deep")).unwrap();
        for path in [study.path().join("case_1.nii"), archive.path().join("case_2/deep/scan.nii")] {
            fs::write(path, "").unwrap();
        }
        symlink(archive.path().join("case_2"), study.path().join("case_2")).unwrap();
        symlink(study.path(), archive.path().join("case_2/deep/back")).unwrap();
        symlink("nowhere", study.path().join("dangling")).unwrap();
        let expected = ["case_1.nii", "case_2/deep/scan.nii"].map(|name| study.path().join(name));
        assert_eq!(find_volumes(&[study.path().to_path_buf()]).unwrap(), expected);
    }

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
