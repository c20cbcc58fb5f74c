//! Files that appear whole or not at all.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

/// Writes `bytes` to `path`, replacing what was there, so that no reader ever sees half a file.
///
/// # Errors
///
/// As [`replace`].
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    replace(path, ".tmp", |file, _| file.write_all(bytes))
}

/// Lets `write` fill a temporary file in the folder of `path`, given open and by name, then moves it into place.
///
/// The bytes go to the disk, and only then under their name. Its permissions are those of an ordinary file under the
/// user's mask. `suffix` is the end of the temporary file's name, for writers that need it.
///
/// # Errors
///
/// Those of the file system and of `write`. The temporary file is removed and an older file at `path` is untouched.
pub fn replace(path: &Path, suffix: &str, write: impl FnOnce(&mut File, &Path) -> io::Result<()>) -> io::Result<()> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let mut builder = tempfile::Builder::new();
    builder.prefix(".leanburn-").suffix(suffix);
    readable_by_all(&mut builder);
    let mut file = builder.tempfile_in(folder)?;
    let name = file.path().to_path_buf();
    write(file.as_file_mut(), &name)?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    sync_folder(folder)
}

/// A temporary file is private by default.
#[cfg(unix)]
fn readable_by_all(builder: &mut tempfile::Builder<'_, '_>) {
    use std::os::unix::fs::PermissionsExt;
    builder.permissions(std::fs::Permissions::from_mode(0o666));
}

#[cfg(not(unix))]
fn readable_by_all(_builder: &mut tempfile::Builder<'_, '_>) {}

/// Makes the rename itself survive a power failure, where folders can be opened.
fn sync_folder(folder: &Path) -> io::Result<()> {
    if cfg!(unix) {
        File::open(folder)?.sync_all()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{replace, write};
    use std::fs;

    fn names(folder: &std::path::Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn replaces_and_leaves_only_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.html");
        write(&path, b"first, and longer").unwrap();
        write(&path, b"second").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"second");
        assert_eq!(names(folder.path()), ["report.html"]);
    }

    #[test]
    fn leaves_nothing_when_the_parent_is_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let parent = folder.path().join("file");
        fs::write(&parent, "untouched").unwrap();
        assert!(write(&parent.join("report.html"), b"bytes").is_err());
        assert_eq!(names(folder.path()), ["file"]);
        assert_eq!(fs::read_to_string(parent).unwrap(), "untouched");
    }

    #[test]
    fn leaves_nothing_when_the_rename_fails() {
        let folder = tempfile::tempdir().unwrap();
        let occupied = folder.path().join("report.html");
        fs::create_dir(&occupied).unwrap();
        assert!(write(&occupied, b"bytes").is_err());
        assert_eq!(names(folder.path()), ["report.html"]);
    }

    #[cfg(unix)]
    #[test]
    fn is_readable_by_others() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let (path, plain) = (folder.path().join("report"), folder.path().join("plain"));
        write(&path, b"bytes").unwrap();
        fs::write(&plain, b"bytes").unwrap();
        let mode = |path| fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode(path), mode(plain));
    }

    #[test]
    fn a_writer_that_fails_leaves_the_old_file_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kept.npy");
        fs::write(&path, "old").unwrap();
        let failed = replace(&path, ".npy", |_, name| {
            assert!(name.extension().is_some_and(|extension| extension == "npy"));
            fs::write(name, "half")?;
            Err(std::io::Error::other("disk full"))
        });
        assert!(failed.unwrap_err().to_string().contains("disk full"));
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        assert_eq!(names(folder.path()), ["kept.npy"]);
    }
}
