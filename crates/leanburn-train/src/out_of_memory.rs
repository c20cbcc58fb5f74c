//! A device that has no more memory, distinguished from other defects.
//!
//! CubeCL runs operations later, and an allocation that failed shows when a value is read: Burn panics there, with a
//! message that says what was asked for.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// What allocators and drivers say when they have no more.
const SIGNS: [&str; 8] = [
    "out of device memory",
    "out-of-memory",
    "out of memory",
    "can't allocate buffer",
    "not enough memory",
    "ERROR_OUT_OF_MEMORY",
    "hipErrorOutOfMemory",
    "ERROR_OUT_OF_DEVICE_MEMORY",
];

/// Runs something on a device; the line that says what was asked for, if the device has no more memory. CubeCL and Burn panic
/// then; [`is_out_of_memory`] lets a panic hook leave such panics out.
///
/// # Panics
///
/// Panics as `part` does if that is for another reason.
pub fn or_out_of_memory<T>(part: impl FnOnce() -> T) -> Result<T, String> {
    // A state that is changed in part is dropped, or reported as lost.
    catch_unwind(AssertUnwindSafe(part)).map_err(|payload| match reason(payload.as_ref()) {
        Some(reason) => reason,
        None => resume_unwind(payload),
    })
}

/// Whether a panic says that a device has no more memory.
pub fn is_out_of_memory(payload: &(dyn Any + Send)) -> bool {
    reason(payload).is_some()
}

/// A limit that was exceeded, on its way to [`or_out_of_memory`].
struct Exceeded(String);

/// Ends the part of a step that has exceeded its limit. No panic hook hears of it.
pub(crate) fn unwind(reason: String) -> ! {
    resume_unwind(Box::new(Exceeded(reason)))
}

fn reason(payload: &(dyn Any + Send)) -> Option<String> {
    if let Some(Exceeded(reason)) = payload.downcast_ref() {
        return Some(reason.clone());
    }
    line_with(payload, &SIGNS)
}

/// The line of a panic's message that has one of the signs.
pub(crate) fn line_with(payload: &(dyn Any + Send), signs: &[&str]) -> Option<String> {
    let message = payload.downcast_ref::<String>().map(String::as_str);
    let message = message.or_else(|| payload.downcast_ref::<&str>().copied())?;
    let is_sign = |line: &&str| signs.iter().any(|sign| line.to_lowercase().contains(&sign.to_lowercase()));
    message.lines().find(is_sign).map(|line| line.trim().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_allocation_that_failed_is_distinguished_from_a_defect() {
        let message = "Error when reading\n  out of device memory allocating 4096 bytes\n  at ..";
        let found = or_out_of_memory(|| -> () { panic!("{message}") });
        assert_eq!(found.unwrap_err(), "out of device memory allocating 4096 bytes");
        for code in ["CUDA_ERROR_OUT_OF_MEMORY", "hipErrorOutOfMemory", "VK_ERROR_OUT_OF_DEVICE_MEMORY"] {
            assert_eq!(
                or_out_of_memory(|| -> () { panic!("the launch failed: {code}") }).unwrap_err(),
                format!("the launch failed: {code}")
            );
        }
        assert_eq!(or_out_of_memory(|| -> () { unwind("it held more".into()) }).unwrap_err(), "it held more");
        assert_eq!(or_out_of_memory(|| 3), Ok(3));
        let other = catch_unwind(|| or_out_of_memory(|| -> () { panic!("index out of bounds") }));
        assert!(other.is_err());
    }
}
