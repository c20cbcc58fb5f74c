//! A sample of the device's memory between operations: what is held in the middle of a step.
//!
//! An allocator on a GPU says what is held now and keeps no peak. Sampled after every operation of this crate, forward
//! and backward, it shows the peak but for what single kernels take while they run.

use std::cell::RefCell;
use std::rc::Rc;

use crate::meanwhile::meanwhile;

thread_local! {
    static SAMPLE: RefCell<Option<Rc<dyn Fn()>>> = const { RefCell::new(None) };
}

/// Runs `step`; calls `sample` after each operation of this crate that it makes on this thread, and on GPUs after each of
/// the kernels and convolutions that an operation is made of.
pub fn sampled<T>(sample: Rc<dyn Fn()>, step: impl FnOnce() -> T) -> T {
    meanwhile(|sample| SAMPLE.replace(sample), Some(sample), step)
}

/// Called after each operation.
pub(crate) fn sample() {
    // An operation that a sample makes is not sampled itself.
    if let Some(sample) = SAMPLE.take() {
        sample();
        SAMPLE.set(Some(sample));
    }
}
