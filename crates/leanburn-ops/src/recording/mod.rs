//! What a recording has beyond Burn's operations: kernel calls, segments, passes, what tensors are for.
//!
//! `Device::capture()` writes down the operations that reach it. Inside [`as_on_cpu`] the operations of this crate reach it
//! as the kernel calls that the CPU would run; outside, as the kernel calls and Burn's operations that a GPU would.
//! Everything that is not one of Burn's operations is an `OperationIr::Custom`: a kernel call, or a *marker*, an operation
//! without outputs that says where something begins or ends. [`Note::of`] reads both.

mod call;
mod note;
mod operation;
mod pass;
mod purpose;
mod recorder;
mod repeat;
mod segment;
mod step;
mod target;
mod workarounds;

pub use note::Note;
pub use pass::{Pass, in_pass};
pub use purpose::{Purpose, serves, tensors_serve};
pub use recorder::is_recording;
pub use step::step_begins;
pub use target::as_on_cpu;
pub use workarounds::{require_grad, valid, value_or, without_autodiff};

pub(crate) use call::Call;
pub(crate) use operation::{in_operation, operation_consumed};
pub(crate) use pass::in_first_run;
pub(crate) use recorder::Recorder;
pub(crate) use repeat::repeated;
pub(crate) use segment::{current_segment, in_segment};
pub(crate) use target::stands_for_cpu;
