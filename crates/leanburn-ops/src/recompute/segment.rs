//! The autodiff side of a segment.
//!
//! Autodiff steps have a fixed number of parents and one output; a segment has any number of both. So it is laid out as
//! a chain of steps of fixed arity that pass a one-element token, and leave gradients for each other in a shared place:
//!
//! ```text
//! forward    input_0 ─► gate ─► gate ◄─ input_1            backward runs from right to left:
//!                                 │                         each output leaves its gradient,
//!                                 ▼                         the hub runs the segment again,
//!                                hub ─► output_0            each gate passes on its input's gradient
//!                                  └──► output_1
//! ```
//!
//! Leaves (parameters) need no gate: nothing comes before them, so the hub registers their gradients itself.

use std::sync::{Arc, Mutex};

use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::ops::NodeGuard;
use burn::backend::{Backend, DispatchTensor, TensorMetadata};
use burn::tensor::{FloatDType, Tensor};

use super::early_stop::{LastOperation, noting_last, renamed};
use super::meeting::{Meeting, OwnBackward, Place, Replay, Saved, Second};
use super::samples::sample;
use super::step::step;
use super::steps::{Gate, Hub, Output};
use crate::autodiff::{AutodiffTensor, Reachable, has_autodiff, inner, lower, lower_plain, raise};
use crate::recording::{in_first_run, in_operation};
use crate::storage;

/// Whether gradients flow through the tensor. Burn asks this of float tensors alone, and panics for integers.
pub(crate) fn is_tracked(tensor: &DispatchTensor) -> bool {
    has_autodiff(tensor) && Tensor::<1>::from_dispatch(tensor.clone()).is_tracked() // whatever its rank is
}

/// Runs the segment without a graph and registers its steps; gives its outputs.
pub(super) fn run_and_register<B: Backend, C: CheckpointStrategy>(
    tensors: Vec<DispatchTensor>,
    first: impl FnOnce(Vec<DispatchTensor>) -> Vec<DispatchTensor>,
    replay: Replay,
) -> Vec<DispatchTensor>
where
    DispatchTensor: Reachable<B, C>,
{
    let scope = storage::current();
    let (saved, guards): (Vec<_>, Vec<_>) =
        tensors.into_iter().map(|tensor| Saved::<B>::of::<C>(tensor, &scope)).unzip();
    let (outputs, last) = noting_last(|| first(saved.iter().map(Saved::for_first_run::<C>).collect()));
    saved.iter().for_each(Saved::settle);
    // Its second run would wait for the graph that runs backward, for ever.
    let captured = outputs.iter().filter_map(|output| lower::<B, C>(output)).any(|output| output.is_tracked());
    assert!(!captured, "a recomputed segment captures a tensor that has a gradient: hand it over among the inputs");
    // Nothing in the segment has read the only output if an operation has made it.
    let is_last = |last: &LastOperation| match outputs.as_slice() {
        [output] => lower::<B, C>(output).is_some_and(|output| output.id() == last.output),
        _ => false,
    };
    let last = last.filter(is_last);
    let is_left_out = last.as_ref().is_some_and(|last| last.is_left_out);
    let is_lossy = scope.storage.is_lossy();
    let made_by = last.as_ref().map(|last| last.output);
    let last = last.map(|last| if is_lossy { last.of_other_inputs() } else { last });
    let outputs = register(saved, guards, outputs, Second::Replay(replay, last), !is_lossy && !is_left_out);
    if let (Some(node), Some(output)) = (made_by, outputs.first().and_then(lower::<B, C>)) {
        renamed(node, output.id());
    }
    outputs
}

/// Runs a segment of one output on tensors without autodiff, and registers it with a backward of its own; gives the output.
///
/// `first` gives the output and the backward.
pub(crate) fn run_with_own_backward<B: Backend, C: CheckpointStrategy>(
    tensors: Vec<DispatchTensor>,
    first: impl FnOnce(Vec<DispatchTensor>) -> (DispatchTensor, OwnBackward),
) -> DispatchTensor
where
    DispatchTensor: Reachable<B, C>,
{
    let scope = storage::current();
    let (saved, guards): (Vec<_>, Vec<_>) =
        tensors.into_iter().map(|tensor| Saved::<B>::of::<C>(tensor, &scope)).unzip();
    let (output, backward) = in_first_run(saved.iter().map(Saved::for_first_run::<C>).collect(), |tensors| {
        let tensors: Vec<DispatchTensor> = tensors.into_iter().map(inner).collect();
        in_operation([tensors.first().cloned()], |_| first(tensors))
    });
    saved.iter().for_each(Saved::settle);
    register(saved, guards, vec![without_graph::<B, C>(output)], Second::Own(backward), false).remove(0)
}

/// A tensor without autodiff as one under autodiff that no gradient flows through.
pub(crate) fn without_graph<B: Backend, C: CheckpointStrategy>(tensor: DispatchTensor) -> DispatchTensor
where
    DispatchTensor: Reachable<B, C>,
{
    raise::<B, C>(<AutodiffTensor<B>>::new(lower_plain::<B>(tensor)))
}

/// Registers the steps of a segment; gives its outputs. With `is_checked` the second run has to compute what the first did.
fn register<B: Backend, C: CheckpointStrategy>(
    saved: Vec<Saved<B>>,
    guards: Vec<Option<NodeGuard>>,
    outputs: Vec<DispatchTensor>,
    second: Second,
    is_checked: bool,
) -> Vec<DispatchTensor>
where
    DispatchTensor: Reachable<B, C>,
{
    let Some(device) = outputs.iter().find_map(|output| lower::<B, C>(output).map(|output| output.device())) else {
        return outputs;
    };
    let sampled = |output: &DispatchTensor| {
        lower::<B, C>(output).map_or_else(Vec::new, |output| sample::<B>(&output.into_primitive()))
    };
    let samples = is_checked.then(|| outputs.iter().map(sampled).collect());
    let token = B::float_zeros([1].into(), &device, FloatDType::F32);
    let count = saved.len();
    let meeting = Meeting {
        saved,
        second: Some(second),
        samples,
        output_gradients: outputs.iter().map(|_| None).collect(),
        input_gradients: (0..count).map(|_| None).collect(),
    };
    let place = Place { meeting: Arc::new(Mutex::new(meeting)), token };

    let mut chain = <AutodiffTensor<B>>::new(place.token.clone()).require_grad();
    for (index, guard) in guards.into_iter().enumerate() {
        if let Some(guard) = guard {
            chain = step::<B, C, _, 2>(Gate, [guard, chain.node()], (place.clone(), index), place.token.clone());
        }
    }
    let hub = step::<B, C, _, 1>(Hub::<C>::new(), [chain.node()], place.clone(), place.token.clone());
    let output = |(index, output)| match lower::<B, C>(&output) {
        None => output,
        Some(output) => {
            raise::<B, C>(step::<B, C, _, 1>(Output, [hub.node()], (place.clone(), index), output.into_primitive()))
        }
    };
    outputs.into_iter().enumerate().map(output).collect()
}
