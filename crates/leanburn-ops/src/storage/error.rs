//! A saved tensor that cannot be stored, on its way out of forward or backward.

use std::cell::Cell;
use std::error::Error;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;

use leanburn_common::Bytes;

/// A saved tensor could not be written to a file, or read back.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StorageError {
    /// "write" or "read".
    pub action: &'static str,
    /// The folder of the file.
    pub folder: PathBuf,
    /// Of the tensor.
    pub bytes: Bytes,
    /// What the system says.
    pub reason: String,
}

impl fmt::Display for StorageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { action, folder, bytes, reason } = self;
        let remedy = "name another folder, on a disk with room, as `offload_folder`, or offload fewer segments";
        write!(f, "cannot {action} {bytes} of saved activations in a file in {}: {reason}; {remedy}", folder.display())
    }
}

impl Error for StorageError {}

thread_local! {
    /// How many [`or_storage_error`] wait on this thread.
    static CATCHING: Cell<usize> = const { Cell::new(0) };
}

/// Runs a part of a step; the error of a saved tensor that could not be stored, which ends it.
///
/// # Panics
///
/// As `part` does. Outside of this function a saved tensor that cannot be stored is a panic with the error's message.
pub fn or_storage_error<T>(part: impl FnOnce() -> T) -> Result<T, StorageError> {
    CATCHING.set(CATCHING.get() + 1);
    // A state that is changed in part is dropped with the graph.
    let result = catch_unwind(AssertUnwindSafe(part));
    CATCHING.set(CATCHING.get() - 1);
    result.map_err(|payload| match payload.downcast::<StorageError>() {
        Ok(error) => *error,
        Err(payload) => resume_unwind(payload),
    })
}

impl StorageError {
    /// Ends the part of a step that cannot go on. No panic hook hears of it where somebody waits for it.
    pub(super) fn unwind(self) -> ! {
        match CATCHING.get() {
            0 => panic!("{self}"),
            _ => resume_unwind(Box::new(self)),
        }
    }
}
