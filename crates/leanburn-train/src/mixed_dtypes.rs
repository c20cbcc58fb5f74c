//! Layers of Burn that are given a volume of another dtype than their weights.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::error::TrainError;
use crate::out_of_memory::line_with;

/// What Burn says then: on the CPU, and on recording devices and GPUs.
const SIGNS: [&str; 2] = ["dtype mismatch", "DTypeMismatch"];

/// Runs a forward pass; an error that says what to write instead, if one of Burn's operations met several dtypes.
///
/// # Panics
///
/// Panics as `forward` does if that is for another reason.
pub(crate) fn or_mixed_dtypes<T>(forward: impl FnOnce() -> T) -> Result<T, TrainError> {
    // A forward pass changes nothing but running statistics, which a step that fails puts back.
    catch_unwind(AssertUnwindSafe(forward)).map_err(|payload| match line_with(payload.as_ref(), &SIGNS) {
        Some(reason) => TrainError::MixedDtypes { reason },
        None => resume_unwind(payload),
    })
}
