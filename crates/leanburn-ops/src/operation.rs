//! One operation of our own on top of autodiff: what it keeps and how its gradients are made.
//!
//! An operation computes on plain tensors, whatever the device. [`apply`] takes autodiff off its inputs, runs it, and
//! registers the one step that calls it again in backward.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use burn::backend::autodiff::checkpoint::{base::Checkpointer, strategy::CheckpointStrategy};
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::{Backend, DispatchAutodiffContext, DispatchKindConversion, DispatchTensor, TensorMetadata};
use burn::tensor::Device;

use crate::autodiff::{AutodiffTensor, Reachable, lower, lower_plain, on_backend_of, raise, raise_plain};
use crate::{probe, recording};

/// What an operation keeps between forward and backward, and its backward.
pub(crate) trait Operation<const N: usize>: Clone + fmt::Debug + Send + 'static {
    /// The gradients of the inputs that need one, from the gradient of the output.
    ///
    /// What is kept is given up: it should be dropped as soon as it is used.
    fn backward(self, gradient: DispatchTensor, needed: [bool; N]) -> [Option<DispatchTensor>; N];
}

/// Runs `forward` on the inputs without autodiff, and registers the operation where a gradient will be asked for.
///
/// It is told which inputs that will be.
pub(crate) fn apply<O: Operation<N>, const N: usize>(
    inputs: [Option<DispatchTensor>; N],
    forward: impl FnOnce([Option<DispatchTensor>; N], [bool; N]) -> (DispatchTensor, O),
) -> DispatchTensor {
    let under_autodiff = |input: &Option<DispatchTensor>| {
        input.as_ref().is_some_and(|input| input.autodiff != DispatchAutodiffContext::Disabled)
    };
    let output = match inputs.iter().position(under_autodiff) {
        None => forward(inputs, [false; N]).0,
        Some(index) => on_backend_of!(
            inputs[index].as_ref().expect("the position of a tensor"),
            apply_on [O, N] (inputs, forward)
        ),
    };
    probe::look();
    output
}

fn apply_on<B, C, O, const N: usize>(
    inputs: [Option<DispatchTensor>; N],
    forward: impl FnOnce([Option<DispatchTensor>; N], [bool; N]) -> (DispatchTensor, O),
) -> DispatchTensor
where
    B: Backend,
    C: CheckpointStrategy,
    O: Operation<N>,
    DispatchTensor: Reachable<B, C>,
{
    let mut plain = [const { None }; N];
    let mut guards = [const { None }; N];
    let mut tracked = [false; N];
    for (index, input) in inputs.into_iter().enumerate() {
        let Some(input) = input else { continue };
        // A copy of the handle is dropped before the operation runs: a buffer that nobody else holds may be reused.
        let tensor = lower::<B, C>(&input).unwrap_or_else(|| <AutodiffTensor<B>>::new(lower_plain::<B>(input)));
        tracked[index] = tensor.is_tracked();
        let (primitive, guard) = tensor.into_parts();
        (plain[index], guards[index]) = (Some(raise_plain::<B>(primitive)), Some(guard));
    }
    let absent = guards.iter().any(Option::is_none).then(|| untracked::<B, C>(&plain));
    let guards =
        guards.map(|guard| guard.unwrap_or_else(|| absent.as_ref().expect("made where one is missing").node()));
    drop(absent);
    let (output, operation) = recording::in_operation(plain, |plain| forward(plain, tracked));
    let output = lower_plain::<B>(output);
    let output = match (Step { operation: PhantomData::<fn() -> O> }).prepare::<C>(guards).compute_bound().stateful() {
        OpsKind::Tracked(prepared) => prepared.finish((operation, recording::segment()), output),
        OpsKind::UnTracked(prepared) => prepared.finish(output),
    };
    raise::<B, C>(output)
}

/// A stand-in for inputs that are not there: tracked by nothing.
fn untracked<B: Backend, C: CheckpointStrategy>(inputs: &[Option<DispatchTensor>]) -> AutodiffTensor<B>
where
    DispatchTensor: Reachable<B, C>,
{
    let some = inputs.iter().flatten().next().expect("an operation has an input");
    <AutodiffTensor<B>>::new(lower_plain::<B>(some.clone()))
}

/// The step of an operation in the graph.
struct Step<O> {
    operation: PhantomData<fn() -> O>,
}

impl<O> fmt::Debug for Step<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(std::any::type_name::<O>())
    }
}

impl<B: Backend, O: Operation<N>, const N: usize> Backward<B, N> for Step<O>
where
    DispatchTensor: DispatchKindConversion<B>,
{
    /// What the operation keeps, and on a recording device the segment that it is part of.
    type State = (O, Option<Arc<str>>);

    fn backward(self, ops: Ops<Self::State, N>, grads: &mut Gradients, _checkpointer: &mut Checkpointer) {
        let gradient = raise_plain::<B>(grads.consume::<B>(&ops.node));
        let needed = ops.parents.each_ref().map(Option::is_some);
        let (operation, segment) = ops.state;
        let device = Device::new(gradient.device());
        let gradients = match segment {
            None => operation.backward(gradient, needed),
            Some(segment) => recording::in_segment(&segment, Some(&device), || operation.backward(gradient, needed)),
        };
        recording::operation_consumed(&device);
        for (parent, gradient) in ops.parents.iter().zip(gradients) {
            if let (Some(parent), Some(gradient)) = (parent, gradient) {
                grads.register::<B>(parent.id, lower_plain::<B>(gradient));
            }
        }
        probe::look();
    }
}
