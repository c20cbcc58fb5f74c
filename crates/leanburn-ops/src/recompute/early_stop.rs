//! The second run of a segment stops early: the result of its last operation is left out.
//!
//! Backward asks an operation for what it saved, and of the last one nobody reads the result: its gradient is there already. So
//! the first run says which operation made the segment's only output, and when the second run comes to it, the operation saves
//! what it saves and gives a stand-in of the same shape, without computing. Of a residual block that is one of two convolutions, of a
//! segment of one operation everything.
//!
//! An operation is known by its place among those of the segment and its kind, and on the CPU by samples of what it is given. Where they
//! are not those of the first run nothing is left out, and the [outputs](super::samples) are compared.

use std::any::type_name;
use std::cell::RefCell;

use burn::backend::autodiff::NodeId;
use burn::backend::{Backend, DispatchKindConversion, DispatchTensor};

use super::samples::{agree, sample};
use crate::autodiff::lower_plain;

/// The last operation of a segment, as its first run met it.
#[derive(Clone)]
pub(super) struct LastOperation {
    /// Among all that this thread has run; of a segment that is over, among those of the segment.
    place: usize,
    kind: &'static str,
    /// Samples of what it is given. None where the second run is given something else.
    given: Option<Vec<Vec<f32>>>,
    pub(super) output: NodeId,
    /// Whether it had no result to give: this first run is part of a second run itself.
    pub(super) is_left_out: bool,
}

impl LastOperation {
    /// The same for a second run that starts from rounded inputs.
    pub(super) fn of_other_inputs(self) -> Self {
        Self { given: None, ..self }
    }
}

#[derive(Default)]
struct Operations {
    /// How many this thread has run.
    count: usize,
    /// How many first runs are under way.
    first_runs: usize,
    /// The last one of a first run, where it can do without its result.
    last: Option<LastOperation>,
    /// The one whose result is to be left out.
    unneeded: Option<LastOperation>,
}

thread_local! {
    static OPERATIONS: RefCell<Operations> = RefCell::default();
}

fn with<T>(action: impl FnOnce(&mut Operations) -> T) -> T {
    OPERATIONS.with_borrow_mut(action)
}

/// Undoes something when it is dropped, in a panic too.
struct Finally<F: FnMut()>(F);

impl<F: FnMut()> Drop for Finally<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Runs the first run of a segment; its last operation, if that could do without its result.
pub(super) fn noting_last<T>(run: impl FnOnce() -> T) -> (T, Option<LastOperation>) {
    let start = with(|operations| {
        operations.first_runs += 1;
        operations.last = None;
        operations.count
    });
    let _finally = Finally(|| with(|operations| operations.first_runs -= 1));
    let result = run();
    let last = with(|operations| operations.last.clone());
    (result, last.map(|last| LastOperation { place: last.place - start, ..last }))
}

/// Runs the second run of a segment, without the result of its last operation; the stand-in's node, if it came to that.
pub(super) fn leaving_out<T>(last: Option<LastOperation>, run: impl FnOnce() -> T) -> (T, Option<NodeId>) {
    let mut outer = with(|operations| {
        let place = operations.count;
        let unneeded = last.map(|last| LastOperation { place: place + last.place, is_left_out: false, ..last });
        std::mem::replace(&mut operations.unneeded, unneeded)
    });
    let finally = Finally(|| with(|operations| operations.unneeded = outer.take()));
    let result = run();
    let left_out =
        with(|operations| operations.unneeded.as_ref().filter(|last| last.is_left_out).map(|last| last.output));
    drop(finally);
    (result, left_out)
}

/// A segment has been run, and its output, which was the first node, is the second one in the graph around it.
pub(super) fn renamed(from: NodeId, to: NodeId) {
    with(|operations| {
        let known = [&mut operations.last, &mut operations.unneeded].into_iter().flatten();
        known.filter(|last| last.output == from).for_each(|last| last.output = to);
    });
}

/// An operation that is about to run.
pub(crate) struct Beginning {
    place: usize,
    kind: &'static str,
    /// Samples of what it is given, where somebody wants to know.
    given: Vec<Vec<f32>>,
    can_be_left_out: bool,
    /// Whether its result is left out.
    pub(crate) is_left_out: bool,
}

impl Beginning {
    /// The operation `O`, given these; `can_be_left_out` says whether it could do without its result.
    pub(crate) fn of<B: Backend, O>(given: &[Option<DispatchTensor>], can_be_left_out: bool) -> Self
    where
        DispatchTensor: DispatchKindConversion<B>,
    {
        let kind = type_name::<O>();
        let place = with(|operations| {
            operations.count += 1;
            operations.count - 1
        });
        let is_this = |last: &LastOperation| last.place == place && last.kind == kind;
        let (is_unneeded, is_noted) =
            with(|operations| (operations.unneeded.as_ref().is_some_and(is_this), operations.first_runs > 0));
        let sampled = |tensor: &DispatchTensor| sample::<B>(&lower_plain::<B>(tensor.clone()));
        let given = match can_be_left_out && (is_unneeded || is_noted) {
            true => given.iter().flatten().map(sampled).collect(),
            false => Vec::new(),
        };
        let agrees = |first: &Vec<Vec<f32>>| {
            first.len() == given.len() && first.iter().zip(&given).all(|(first, second)| agree(first, second))
        };
        let is_left_out = can_be_left_out
            && is_unneeded
            && with(|operations| {
                operations.unneeded.as_ref().is_some_and(|last| last.given.as_ref().is_none_or(agrees))
            });
        Self { place, kind, given, can_be_left_out, is_left_out }
    }

    /// Its result, or the stand-in, is this node.
    pub(crate) fn ended(self, output: NodeId) {
        let Self { place, kind, given, can_be_left_out, is_left_out } = self;
        with(|operations| {
            if let Some(last) = operations.unneeded.as_mut().filter(|_| is_left_out) {
                (last.output, last.is_left_out) = (output, true);
            }
            if operations.first_runs > 0 {
                let last = LastOperation { place, kind, given: Some(given), output, is_left_out };
                operations.last = can_be_left_out.then_some(last);
            }
        });
    }
}
