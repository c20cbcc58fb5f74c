//! A file that a command writes: its path is checked before anything is computed.

use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use clap::Args;
use leanburn_common::atomic;
use leanburn_systems::SystemError;

use crate::error::{CommandError, Result};

/// `--force`
#[derive(Debug, Clone, Copy, Args)]
pub(super) struct Force {
    /// Replace a file that is there already.
    #[arg(long)]
    force: bool,
}

impl Force {
    /// What is there may be replaced.
    pub const FORCE: Self = Self { force: true };
}

/// A file that a command will write.
///
/// It is a new file, or with `--force` one that is replaced and keeps its permissions. It is never a folder, a device or a
/// pipe, and never a file that the command reads. Links are followed.
#[derive(Debug)]
pub(super) struct Output {
    path: PathBuf,
    inputs: Rc<[PathBuf]>,
    force: bool,
    makes_folder: bool,
}

impl Output {
    /// The output at `path` of a command that reads `inputs`.
    ///
    /// # Errors
    ///
    /// [`SystemError::Input`] if there may be no such output, or its folder may not be written to.
    pub fn new(path: &Path, inputs: &[PathBuf], Force { force }: Force) -> Result<Self> {
        Self::in_folder(path, &inputs.into(), Force { force })
    }

    /// The same with inputs that several outputs have.
    fn in_folder(path: &Path, inputs: &Rc<[PathBuf]>, Force { force }: Force) -> Result<Self> {
        let output = Self { path: path.to_path_buf(), inputs: Rc::clone(inputs), force, makes_folder: false };
        let destination = output.check()?;
        let folder = destination.parent().unwrap_or(Path::new("."));
        tempfile::tempfile_in(folder).map_err(|error| output.reject_place(&error))?;
        Ok(output)
    }

    /// The same in a folder that need not be there yet: it is made when the file is written.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn in_new_folder(path: &Path, inputs: &Rc<[PathBuf]>, Force { force }: Force) -> Result<Self> {
        let folders = path.ancestors().skip(1).map(|folder| match folder.as_os_str().is_empty() {
            true => Path::new("."),
            false => folder,
        });
        let (missing, there): (Vec<_>, Vec<_>) = folders.partition(|folder| !folder.exists());
        let Some(existing) = there.first().filter(|_| !missing.is_empty()) else {
            return Self::in_folder(path, inputs, Force { force });
        };
        let output = Self { path: path.to_path_buf(), inputs: Rc::clone(inputs), force, makes_folder: true };
        tempfile::tempfile_in(existing).map_err(|error| output.reject_place(&error))?;
        Ok(output)
    }

    /// Writes the file.
    ///
    /// # Errors
    ///
    /// As [`write_with`](Self::write_with).
    pub fn write(&self, text: &str) -> Result<()> {
        self.write_bytes(text.as_bytes())
    }

    /// Writes the file.
    ///
    /// # Errors
    ///
    /// As [`write_with`](Self::write_with).
    pub fn write_bytes(&self, bytes: &[u8]) -> Result<()> {
        self.write_with(|path| atomic::write(path, bytes).map_err(CommandError::writing(path)))
    }

    /// Where it is written.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Lets `write` write the file by [`atomic`].
    ///
    /// # Errors
    ///
    /// Those of `write`, and [`SystemError::Input`] if a file has come to be there since the command began.
    pub fn write_with<E>(&self, write: impl FnOnce(&Path) -> std::result::Result<(), E>) -> Result<()>
    where
        CommandError: From<E>,
    {
        if let Some(folder) = self.path.parent().filter(|_| self.makes_folder) {
            fs::create_dir_all(folder).map_err(CommandError::writing(folder))?;
        }
        self.check()?;
        Ok(write(&self.path)?)
    }

    /// Whether both paths lead to one file.
    pub fn is_same_file(&self, other: &Self) -> bool {
        let [one, other] = [self, other].map(|output| atomic::destination(&output.path).ok());
        one.is_some() && one == other
    }

    /// The file that is written, unless it is something that this command must not replace.
    fn check(&self) -> Result<PathBuf> {
        let destination = atomic::destination(&self.path).map_err(|error| self.reject_place(&error))?;
        if !destination.exists() {
            return Ok(destination);
        }
        if self.inputs.iter().any(|input| is_same_file(input, &destination)) {
            let expected = "a file that this command does not read";
            return Err(self.reject(expected, "an input".into(), "name another file"));
        }
        match self.force {
            true => Ok(destination),
            false => Err(self.reject(
                "a new file",
                "one that is there already".into(),
                "name another file, or replace this one with --force",
            )),
        }
    }

    fn reject_place(&self, error: &std::io::Error) -> CommandError {
        let remedy = match error.kind() {
            std::io::ErrorKind::NotFound => "make the folder, or name another file",
            _ => "name another file",
        };
        self.reject("the name of a file in a folder that may be written to", error.to_string(), remedy)
    }

    fn reject(&self, expected: &str, found: String, remedy: &str) -> CommandError {
        let subject = self.path.display().to_string();
        let error = SystemError::Input { subject, expected: expected.into(), found, remedy: remedy.into() };
        error.into()
    }
}

/// Whether two files are one, hard links included.
#[cfg(unix)]
fn is_same_file(one: &Path, other: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let [one, other] = [one, other].map(|path| fs::metadata(path).ok().map(|found| (found.dev(), found.ino())));
    one.is_some() && one == other
}

/// Whether two files are one.
#[cfg(not(unix))]
fn is_same_file(one: &Path, other: &Path) -> bool {
    let [one, other] = [one, other].map(|path| fs::canonicalize(path).ok());
    one.is_some() && one == other
}
