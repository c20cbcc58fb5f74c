//! Which storage what is running now has.

use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;

use super::Storage;
use super::stored::StoredTensor;

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

/// Runs something whose saved tensors have this storage; all of them are where they belong when it is over.
pub(crate) fn within<T>(scope: Scope, run: impl FnOnce() -> T) -> T {
    struct Restore(Scope);
    impl Drop for Restore {
        fn drop(&mut self) {
            SCOPE.replace(std::mem::take(&mut self.0));
            StoredTensor::forget_last(); // none but after a panic
        }
    }
    let _restore = Restore(SCOPE.replace(scope));
    let result = run();
    StoredTensor::settle_last();
    result
}
