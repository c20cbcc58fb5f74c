//! Files that appear whole or not at all.

use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

/// Writes `bytes` to `path`, replacing the file that was there, so that no reader ever sees half a file.
///
/// # Errors
///
/// As [`replace`].
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    replace(path, ".tmp", |file, _| file.write_all(bytes))
}

/// Lets `write` fill a temporary file in the folder of `path`, given open and by name, then moves it into place.
///
/// The bytes go to the disk, and only then under their name. Links are followed: the file that `path` leads to is replaced, the
/// links stay. The new file has the permissions of the old one, and its owner where the user may give files away; without an
/// old one, those of an ordinary file under the user's mask. `suffix` is the end of the temporary file's name, for writers that
/// need it.
///
/// # Errors
///
/// Those of [`destination`], of the file system and of `write`. The temporary file is removed and an older file at `path` is
/// untouched.
pub fn replace(path: &Path, suffix: &str, write: impl FnOnce(&mut File, &Path) -> io::Result<()>) -> io::Result<()> {
    let path = destination(path)?;
    let folder = folder_of(&path);
    let old = fs::metadata(&path).ok();
    let mut builder = tempfile::Builder::new();
    builder.prefix(".leanburn-").suffix(suffix);
    if old.is_none() {
        readable_by_all(&mut builder);
    }
    let mut file = builder.tempfile_in(folder)?;
    let name = file.path().to_path_buf();
    write(file.as_file_mut(), &name)?;
    if let Some(old) = &old {
        keep_permissions(file.as_file(), old)?;
    }
    file.as_file().sync_all()?;
    file.persist(&path).map_err(|error| error.error)?;
    sync_folder(folder)
}

/// The file that writing to `path` makes or replaces: links are followed, also one to a file that is not there yet.
///
/// # Errors
///
/// If a folder, a device or a pipe is there, if the folder of the file is missing, or if links lead in a circle.
pub fn destination(path: &Path) -> io::Result<PathBuf> {
    match fs::metadata(path) {
        Ok(found) if found.is_file() => path.canonicalize(),
        Ok(found) => Err(io::Error::new(ErrorKind::InvalidInput, format!("{}, not a file", kind(&found)))),
        Err(error) if error.kind() == ErrorKind::NotFound => match (fs::read_link(path), path.file_name()) {
            (Ok(target), _) => destination(&folder_of(path).join(target)),
            (Err(_), Some(name)) => Ok(folder_of(path).canonicalize()?.join(name)),
            (Err(_), None) => Err(error),
        },
        Err(error) => Err(error),
    }
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// What something that is no file is called.
#[cfg(unix)]
fn kind(found: &Metadata) -> &'static str {
    use std::os::unix::fs::FileTypeExt;
    match found.file_type() {
        kind if kind.is_dir() => "a folder",
        kind if kind.is_fifo() => "a pipe",
        kind if kind.is_socket() => "a socket",
        _ => "a device",
    }
}

#[cfg(not(unix))]
fn kind(found: &Metadata) -> &'static str {
    if found.is_dir() { "a folder" } else { "a device" }
}

/// A temporary file is private by default.
#[cfg(unix)]
fn readable_by_all(builder: &mut tempfile::Builder<'_, '_>) {
    use std::os::unix::fs::PermissionsExt;
    builder.permissions(std::fs::Permissions::from_mode(0o666));
}

#[cfg(not(unix))]
fn readable_by_all(_builder: &mut tempfile::Builder<'_, '_>) {}

/// Permissions, and the owner where the user may give files away, as root may.
#[cfg(unix)]
fn keep_permissions(file: &File, old: &Metadata) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt, fchown};
    file.set_permissions(old.permissions())?;
    let _ = fchown(file, Some(old.uid()), Some(old.gid()));
    Ok(())
}

#[cfg(not(unix))]
fn keep_permissions(_file: &File, _old: &Metadata) -> io::Result<()> {
    Ok(())
}

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
    fn what_is_no_file_is_named_and_stays() {
        let folder = tempfile::tempdir().unwrap();
        let occupied = folder.path().join("report.html");
        fs::create_dir(&occupied).unwrap();
        assert_eq!(write(&occupied, b"bytes").unwrap_err().to_string(), "a folder, not a file");
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

    #[cfg(unix)]
    #[test]
    fn a_socket_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let _socket = std::os::unix::net::UnixListener::bind(&path).unwrap();
        assert_eq!(write(&path, b"bytes").unwrap_err().to_string(), "a socket, not a file");
        assert!(!fs::metadata(&path).unwrap().is_file());
    }

    #[cfg(unix)]
    #[test]
    fn links_are_followed_also_to_a_file_that_is_not_there_yet() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::create_dir(path("inner")).unwrap();
        std::os::unix::fs::symlink("second", path("first")).unwrap();
        std::os::unix::fs::symlink("inner/file", path("second")).unwrap();
        for text in ["new", "replaced"] {
            write(&path("first"), text.as_bytes()).unwrap();
            assert_eq!(fs::read_to_string(path("inner/file")).unwrap(), text);
            assert!(["first", "second"].iter().all(|link| path(link).is_symlink()), "{text}");
            assert_eq!(names(&path("inner")), ["file"]);
        }
        std::os::unix::fs::symlink("circle", path("circle")).unwrap();
        assert!(write(&path("circle"), b"bytes").is_err());
        assert!(path("circle").is_symlink());
    }

    #[cfg(unix)]
    #[test]
    fn permissions_stay() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        // 0o666 is more than the usual mask leaves
        for mode in [0o600, 0o666, 0o400] {
            fs::write(&path, "old").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            write(&path, b"new").unwrap();
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, mode);
            assert_eq!(fs::read_to_string(&path).unwrap(), "new");
            fs::remove_file(&path).unwrap();
        }
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
