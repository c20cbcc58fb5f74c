//! Which storage what is running now has.

use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;

use super::Storage;

/// A storage, and the folder of its files.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scope {
    pub(crate) storage: Storage,
    /// The system's folder for temporary files where there is none.
    pub(crate) folder: Option<Arc<Path>>,
}

thread_local! {
    static SCOPE: RefCell<Scope> = RefCell::default();
}

/// The storage of what is running on this thread.
pub(crate) fn current() -> Scope {
    SCOPE.with_borrow(Clone::clone)
}

/// Changes the storage of what runs from here on; gives that of before.
pub(super) fn replace(scope: Scope) -> Scope {
    SCOPE.replace(scope)
}
