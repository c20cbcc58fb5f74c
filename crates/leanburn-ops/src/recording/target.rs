//! Which device a recording device stands for.

use std::cell::Cell;

use crate::meanwhile::meanwhile;

thread_local! {
    static AS_ON_CPU: Cell<bool> = const { Cell::new(false) };
}

/// Runs `record`; on a recording device the operations of this crate are written down as the kernels that the CPU runs.
pub fn as_on_cpu<T>(record: impl FnOnce() -> T) -> T {
    meanwhile(|value| AS_ON_CPU.replace(value), true, record)
}

/// Whether a recording device stands for the CPU, rather than for a GPU.
pub(crate) fn stands_for_cpu() -> bool {
    AS_ON_CPU.get()
}
