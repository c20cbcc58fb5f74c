//! An operation with a backward of its own, on top of Burn's autodiff.
//!
//! An operation computes on plain tensors, regardless of the device. [`apply`] takes autodiff off its inputs, runs it, and
//! registers the one step that calls it again in backward.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use burn::backend::autodiff::checkpoint::{base::Checkpointer, strategy::CheckpointStrategy};
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::{Backend, DispatchAutodiffContext, DispatchKindConversion, DispatchTensor};
use burn::tensor::{DType, Device, Tensor};

use crate::autodiff::{AutodiffTensor, Reachable, lower, lower_plain, on_backend_of, raise, raise_plain};
use crate::recompute::Beginning;
use crate::storage::{self, Storage, StoredTensor};
use crate::{probe, recording};

/// What an operation saves between forward and backward, and its backward.
pub(super) trait Operation<const N: usize>: Clone + fmt::Debug + Send + 'static {
    /// The gradients of the inputs that need one, from the gradient of the output.
    ///
    /// The saved tensors are given up: each should be dropped as soon as it has been used.
    fn backward(self, gradient: Tensor<5>, needed: [bool; N]) -> [AnyTensor; N];

    /// Gives `exchange` each volume that it saves and that may be [stored elsewhere](crate::storage) until backward.
    fn exchange(&mut self, _exchange: &mut dyn FnMut(&mut Tensor<5>)) {}

    /// Whether backward needs the very values of forward: they are not rounded.
    const IS_EXACT: bool = false;
}

/// A float tensor of any rank, or none: an input of an operation, or the gradient of one.
#[derive(Debug)]
pub(super) struct AnyTensor(Option<DispatchTensor>);

impl AnyTensor {
    /// The tensor.
    ///
    /// # Panics
    ///
    /// Panics if there is none.
    pub(super) fn given<const D: usize>(self) -> Tensor<D> {
        self.optional().expect("a required input of the operation")
    }

    /// The tensor, if there is one.
    pub(super) fn optional<const D: usize>(self) -> Option<Tensor<D>> {
        self.0.map(Tensor::from_dispatch)
    }
}

impl<const D: usize> From<Tensor<D>> for AnyTensor {
    fn from(tensor: Tensor<D>) -> Self {
        Self(Some(tensor.into_dispatch()))
    }
}

impl<const D: usize> From<Option<Tensor<D>>> for AnyTensor {
    fn from(tensor: Option<Tensor<D>>) -> Self {
        Self(tensor.map(Tensor::into_dispatch))
    }
}

/// The result of an operation.
pub(super) trait Outcome {
    /// Whether backward does without it, so that the [second run](crate::recompute()) of a segment may leave it out.
    const CAN_BE_LEFT_OUT: bool;

    /// Computes it.
    fn compute(self) -> Tensor<5>;

    /// A tensor of its shape that takes no memory.
    fn stand_in(self) -> Tensor<5>;
}

/// A result that backward, or forward, cannot do without.
impl Outcome for Tensor<5> {
    const CAN_BE_LEFT_OUT: bool = false;

    fn compute(self) -> Tensor<5> {
        self
    }

    fn stand_in(self) -> Tensor<5> {
        self
    }
}

/// How a result is computed that is not saved.
pub(super) struct Unsaved<F> {
    pub(super) dims: [usize; 5],
    pub(super) dtype: DType,
    pub(super) device: Device,
    pub(super) compute: F,
}

impl<F: FnOnce() -> Tensor<5>> Outcome for Unsaved<F> {
    const CAN_BE_LEFT_OUT: bool = true;

    fn compute(self) -> Tensor<5> {
        (self.compute)()
    }

    fn stand_in(self) -> Tensor<5> {
        Tensor::<5>::zeros([1; 5], (&self.device, self.dtype)).expand(self.dims)
    }
}

/// Runs `forward` on the inputs without autodiff, and registers the operation where a gradient will be asked for.
///
/// `forward` takes the inputs, and which of them that will be. Autodiff goes back through the last inputs first.
pub(super) fn apply<O: Operation<N>, R: Outcome, const N: usize>(
    inputs: [AnyTensor; N],
    forward: impl FnOnce([AnyTensor; N], [bool; N]) -> (R, O),
) -> Tensor<5> {
    let under_autodiff =
        |input: &AnyTensor| input.0.as_ref().is_some_and(|input| input.autodiff != DispatchAutodiffContext::Disabled);
    let output = match inputs.iter().position(under_autodiff) {
        None => {
            let (outcome, operation) = forward(inputs, [false; N]);
            drop(operation);
            outcome.compute()
        }
        Some(index) => Tensor::from_dispatch(on_backend_of!(
            inputs[index].0.as_ref().expect("the position of a tensor"),
            apply_on [O, R, N] (inputs, forward)
        )),
    };
    probe::sample();
    output
}

fn apply_on<B, C, O, R, const N: usize>(
    inputs: [AnyTensor; N],
    forward: impl FnOnce([AnyTensor; N], [bool; N]) -> (R, O),
) -> DispatchTensor
where
    B: Backend,
    C: CheckpointStrategy,
    O: Operation<N>,
    R: Outcome,
    DispatchTensor: Reachable<B, C>,
{
    let mut plain = [const { None }; N];
    let mut guards = [const { None }; N];
    let mut tracked = [false; N];
    for (index, input) in inputs.into_iter().enumerate() {
        let Some(input) = input.0 else { continue };
        // A copy of the handle is dropped before the operation runs: a buffer that nothing else holds may be reused.
        let tensor = lower::<B, C>(&input).unwrap_or_else(|| <AutodiffTensor<B>>::new(lower_plain::<B>(input)));
        tracked[index] = tensor.is_tracked();
        let (primitive, guard) = tensor.into_parts();
        (plain[index], guards[index]) = (Some(raise_plain::<B>(primitive)), Some(guard));
    }
    let absent = guards.iter().any(Option::is_none).then(|| untracked::<B, C>(&plain));
    let guards =
        guards.map(|guard| guard.unwrap_or_else(|| absent.as_ref().expect("made where one is missing").node()));
    drop(absent);
    let beginning = Beginning::of::<B, O>(&plain, R::CAN_BE_LEFT_OUT);
    let (output, operation) = recording::in_operation(plain, |plain| {
        let (outcome, operation) = forward(plain.map(AnyTensor), tracked);
        let output = if beginning.is_left_out { outcome.stand_in() } else { outcome.compute() };
        (output, operation)
    });
    let output = lower_plain::<B>(output.into_dispatch());
    let output = match (Step { operation: PhantomData::<fn() -> O> }).prepare::<C>(guards).compute_bound().stateful() {
        OpsKind::Tracked(prepared) => prepared.finish((Put::of(operation), recording::current_segment()), output),
        OpsKind::UnTracked(prepared) => prepared.finish(output),
    };
    beginning.ended(output.id());
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

/// An operation whose volumes live where the [storage](crate::storage) of its segment says.
#[derive(Clone, Debug)]
struct Put<O> {
    operation: O,
    /// Of the volumes that it gives to be exchanged, in that order; none where they stay where they are.
    volumes: Vec<StoredTensor>,
}

impl<O> Put<O> {
    fn of<const N: usize>(mut operation: O) -> Self
    where
        O: Operation<N>,
    {
        let (mut volumes, storage) = (Vec::new(), storage::current().storage);
        if storage != Storage::Memory && !(O::IS_EXACT && storage.is_lossy()) {
            operation.exchange(&mut |volume| {
                let stand_in = Tensor::zeros([1; 5], (&volume.device(), volume.dtype()));
                volumes.push(StoredTensor::put(std::mem::replace(volume, stand_in).into_dispatch()));
            });
        }
        Self { operation, volumes }
    }

    fn take<const N: usize>(self) -> O
    where
        O: Operation<N>,
    {
        let Self { mut operation, volumes } = self;
        let mut volumes = volumes.into_iter();
        if volumes.len() > 0 {
            operation.exchange(&mut |volume| {
                let stored = volumes.next().expect("as many as were put away");
                *volume = Tensor::from_dispatch(stored.take());
            });
        }
        operation
    }
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
    /// What the operation saves, and on a recording device the segment that it is part of.
    type State = (Put<O>, Option<Arc<str>>);

    fn backward(self, ops: Ops<Self::State, N>, grads: &mut Gradients, _checkpointer: &mut Checkpointer) {
        let gradient = Tensor::<5>::from_dispatch(raise_plain::<B>(grads.consume::<B>(&ops.node)));
        let needed = ops.parents.each_ref().map(Option::is_some);
        let (operation, segment) = ops.state;
        let device = gradient.device();
        let backward = || operation.take().backward(gradient, needed);
        let gradients = match segment {
            None => backward(),
            Some(segment) => recording::in_segment(&segment, Some(&device), backward),
        };
        recording::operation_consumed(&device);
        for (parent, gradient) in ops.parents.iter().zip(gradients) {
            if let (Some(parent), Some(gradient)) = (parent, gradient.0) {
                grads.register::<B>(parent.id, lower_plain::<B>(gradient));
            }
        }
        probe::sample();
    }
}
