//! Recomputation of a segment: save its inputs, run it again in backward.
//!
//! Chen et al., [Training deep nets with sublinear memory cost](https://arxiv.org/abs/1604.06174), 2016, as one
//! operation on top of autodiff. Forward runs the segment on tensors that record no graph. Backward makes fresh leaves
//! of the segment's inputs and parameters, runs it again with a graph, and runs backward through that.
//!
//! - `runs.rs`: the two runs of a segment, with the same parameters, flags and random numbers.
//! - `segment.rs`: the steps that stand for it in the graph; `steps.rs` is their backward, `second_run.rs` the leaves of
//!   the second run, `meeting.rs` what they share, `samples.rs` the check that both runs computed the same.
//! - `early_stop.rs`: the result that the second run leaves out.
//!
//! A segment that is [streamed](crate::stream) has the same steps, and a backward of its own in place of the second run.
//!
//! What the operation cannot see is a tensor with a gradient that the closure captures from outside: it rejects outputs that
//! depend on one. Hand such tensors over as inputs.

mod early_stop;
mod meeting;
mod parameters;
mod runs;
mod samples;
mod second_run;
mod segment;
mod step;
mod steps;
mod tensors;

pub use runs::recompute;
pub use tensors::Tensors;

pub(crate) use early_stop::Beginning;
pub(crate) use meeting::OwnBackward;
pub(crate) use runs::keep;
pub(crate) use segment::{is_tracked, run_with_own_backward, without_graph};
