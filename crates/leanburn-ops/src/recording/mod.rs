//! What a recording has beyond Burn's operations: kernel calls, segments, passes, what tensors are for.
//!
//! `Device::capture()` writes down the operations that reach it. Inside [`as_on_cpu`] the operations of this crate reach it
//! as the kernel calls that the CPU would run; outside, as the kernel calls and Burn's operations that a GPU would.
//! Everything that is not one of Burn's operations is an `OperationIr::Custom`: a kernel call, or a *marker*, an operation
//! without outputs that says where something begins or ends. [`Marker::of`] reads both.

mod call;
mod marker;
mod operation;
mod pass;
mod recorder;
mod repeat;
mod role;
mod segment;
mod step;
mod target;
mod workarounds;

pub use marker::Marker;
pub use pass::{Pass, in_pass};
pub use recorder::is_recording;
pub use role::{TensorRole, tag_module, tag_tensors};
pub use step::mark_step;
pub use target::as_on_cpu;
pub use workarounds::{constant_beside, require_grad, valid, value_or, without_autodiff};

pub(crate) use call::Call;
pub(crate) use operation::{in_operation, operation_consumed};
pub(crate) use pass::in_first_run;
pub(crate) use recorder::{Recorder, number};
pub(crate) use repeat::repeated;
pub(crate) use role::held_until_here;
pub(crate) use segment::{current_segment, in_segment, mark_streamable};
pub(crate) use target::stands_for_cpu;
