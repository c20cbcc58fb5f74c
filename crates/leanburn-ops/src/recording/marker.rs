//! Kernel calls and markers, read from a recording.

use burn::backend::ir::{CustomOpIr, ScalarIr};

use super::call::KERNEL;
use super::operation::{OPERATION, OPERATION_CONSUMED, OPERATION_END};
use super::pass::{PASS_END, Pass};
use super::repeat::{REPEAT, REPEAT_END};
use super::role::{HELD, TensorRole};
use super::segment::{SEGMENT, SEGMENT_END, STREAMABLE};
use super::step::STEP;

/// A kernel call, or a marker: what is recorded beyond Burn's operations.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Marker<'a> {
    /// A call of one of our kernels.
    Kernel {
        /// Its name.
        name: &'a str,
        /// Floating-point operations.
        flops: u64,
        /// Bytes of memory that are there only while it runs.
        workspace: u64,
        /// Input over which the first output is written if nothing else holds it.
        over: Option<usize>,
    },
    /// A segment begins; segments nest.
    SegmentBegins(&'a str),
    /// The innermost segment ends.
    SegmentEnds,
    /// The segment of this name is described in stages: it could be streamed.
    Streamable(&'a str),
    /// A pass begins; passes nest.
    PassBegins(Pass),
    /// The innermost pass ends.
    PassEnds,
    /// An operation of this crate begins, with the marker's inputs; what it runs until its end leaves no steps in the graph
    /// of autodiff but its own.
    OperationBegins,
    /// The operation ends.
    OperationEnds,
    /// Backward has gone through an operation of this crate, and has freed what it saved.
    OperationConsumed,
    /// What follows is recorded once and runs several times, on parts of a whole.
    RepeatBegins {
        /// Size of the whole.
        whole: u64,
        /// Size of the part that is recorded.
        part: u64,
    },
    /// What runs several times ends.
    RepeatEnds,
    /// A training step begins; what came before prepared it.
    StepBegins,
    /// The marker's inputs have this role, and are alive here.
    Tag(TensorRole),
    /// The marker's inputs have been held until here, and are let go of.
    Held,
}

impl<'a> Marker<'a> {
    /// Reads a custom operation; `None` if it is not one of ours.
    pub fn of(operation: &'a CustomOpIr) -> Option<Self> {
        let id = operation.id.as_str();
        let number = |index: usize| match operation.scalars.get(index) {
            Some(ScalarIr::UInt(number)) => Some(*number),
            _ => None,
        };
        if let Some(name) = id.strip_prefix(KERNEL) {
            let over = number(2)?.checked_sub(1).map(|index| index as usize);
            return Some(Self::Kernel { name, flops: number(0)?, workspace: number(1)?, over });
        }
        if let Some(name) = id.strip_prefix(SEGMENT) {
            return Some(Self::SegmentBegins(name));
        }
        if let Some(name) = id.strip_prefix(STREAMABLE) {
            return Some(Self::Streamable(name));
        }
        match id {
            HELD => Some(Self::Held),
            SEGMENT_END => Some(Self::SegmentEnds),
            PASS_END => Some(Self::PassEnds),
            OPERATION => Some(Self::OperationBegins),
            OPERATION_END => Some(Self::OperationEnds),
            OPERATION_CONSUMED => Some(Self::OperationConsumed),
            STEP => Some(Self::StepBegins),
            REPEAT => Some(Self::RepeatBegins { whole: number(0)?, part: number(1)? }),
            REPEAT_END => Some(Self::RepeatEnds),
            _ => Pass::of_id(id).map(Self::PassBegins).or_else(|| TensorRole::of_id(id).map(Self::Tag)),
        }
    }
}
