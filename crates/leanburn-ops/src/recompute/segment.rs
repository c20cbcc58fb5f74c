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

use std::fmt;
use std::sync::{Arc, Mutex};

use burn::backend::autodiff::NodeId;
use burn::backend::autodiff::checkpoint::{base::Checkpointer, strategy::CheckpointStrategy};
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, NodeGuard, Ops, OpsKind};
use burn::backend::ops::FloatTensorOps;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, Backend, Dispatch, DispatchAutodiffContext, DispatchTensor, TensorMetadata};
use burn::tensor::{DType, Device, FloatDType, Shape};

use crate::autodiff::{AutodiffTensor, Reachable, lower, raise, raise_plain};
use crate::recording::{Pass, in_pass};

/// The second run: from the segment's tensors (inputs, then parameters) to its outputs.
pub(super) type Replay = Box<dyn FnOnce(Vec<DispatchTensor>) -> Vec<DispatchTensor> + Send>;

/// Whether gradients flow through the tensor.
pub(super) fn is_tracked(tensor: &DispatchTensor) -> bool {
    tensor.autodiff != DispatchAutodiffContext::Disabled && Dispatch::is_tracked(tensor)
}

/// What a segment keeps of one of its tensors.
#[derive(Clone)]
enum Kept<B: Backend> {
    /// Has no autodiff at all, stays as it is.
    Plain(DispatchTensor),
    /// Has autodiff but no gradient.
    Constant(FloatTensor<B>),
    /// A parameter, or another leaf: its gradient is registered under its node.
    Leaf(FloatTensor<B>, NodeId),
    /// The result of an earlier operation: its gradient goes through a gate.
    Gated(FloatTensor<B>),
}

impl<B: Backend> Kept<B> {
    /// Takes a tensor apart; the guard is there for a gate.
    fn of<C: CheckpointStrategy>(tensor: DispatchTensor) -> (Self, Option<NodeGuard>)
    where
        DispatchTensor: Reachable<B, C>,
    {
        let is_leaf = tensor.autodiff != DispatchAutodiffContext::Disabled && Dispatch::float_is_require_grad(&tensor);
        match lower::<B, C>(&tensor) {
            None => (Self::Plain(tensor), None),
            Some(tensor) if !tensor.is_tracked() => (Self::Constant(tensor.into_primitive()), None),
            Some(tensor) if is_leaf => {
                let id = tensor.id();
                (Self::Leaf(tensor.into_primitive(), id), None)
            }
            Some(tensor) => {
                let (primitive, guard) = tensor.into_parts();
                (Self::Gated(primitive), Some(guard))
            }
        }
    }

    /// The tensor for the first run: under autodiff where it was, so that layers know that they train, but without a graph.
    fn for_first_run<C: CheckpointStrategy>(&self) -> DispatchTensor
    where
        DispatchTensor: Reachable<B, C>,
    {
        match self {
            Self::Plain(tensor) => tensor.clone(),
            Self::Constant(primitive) | Self::Leaf(primitive, _) | Self::Gated(primitive) => {
                raise::<B, C>(<AutodiffTensor<B>>::new(primitive.clone()))
            }
        }
    }
}

/// Where the steps of one segment meet in backward.
struct Meeting<B: Backend> {
    kept: Vec<Kept<B>>,
    replay: Option<Replay>,
    output_gradients: Vec<Option<FloatTensor<B>>>,
    input_gradients: Vec<Option<FloatTensor<B>>>,
}

/// A handle to the meeting place, and the token that the steps pass.
struct Place<B: Backend> {
    meeting: Arc<Mutex<Meeting<B>>>,
    token: FloatTensor<B>,
}

impl<B: Backend> Clone for Place<B> {
    fn clone(&self) -> Self {
        Self { meeting: self.meeting.clone(), token: self.token.clone() }
    }
}

impl<B: Backend> fmt::Debug for Place<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Place").finish_non_exhaustive()
    }
}

impl<B: Backend> Place<B> {
    fn with<T>(&self, action: impl FnOnce(&mut Meeting<B>) -> T) -> T {
        action(&mut self.meeting.lock().expect("a segment's steps run one after the other"))
    }
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
    let (kept, guards): (Vec<_>, Vec<_>) = tensors.into_iter().map(Kept::<B>::of::<C>).unzip();
    let outputs = first(kept.iter().map(Kept::for_first_run::<C>).collect());
    // Its second run would wait for the graph that runs backward, for ever.
    let captured = outputs.iter().filter_map(|output| lower::<B, C>(output)).any(|output| output.is_tracked());
    assert!(!captured, "a recomputed segment captures a tensor that has a gradient: hand it over among the inputs");
    let Some(device) = outputs.iter().find_map(|output| lower::<B, C>(output).map(|output| output.device())) else {
        return outputs;
    };

    let token = B::float_zeros([1].into(), &device, FloatDType::F32);
    let count = kept.len();
    let meeting = Meeting {
        kept,
        replay: Some(replay),
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

/// Registers one tracked step.
fn step<B, C, S, const N: usize>(
    backward: S,
    parents: [NodeGuard; N],
    state: S::State,
    output: FloatTensor<B>,
) -> AutodiffTensor<B>
where
    B: Backend,
    C: CheckpointStrategy,
    S: Backward<B, N>,
{
    match backward.prepare::<C>(parents).compute_bound().stateful() {
        OpsKind::Tracked(prepared) => prepared.finish(state, output),
        OpsKind::UnTracked(prepared) => prepared.finish(output),
    }
}

/// Leaves the gradient of one output for the hub.
#[derive(Debug)]
struct Output;

impl<B: Backend> Backward<B, 1> for Output {
    type State = (Place<B>, usize);

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _checkpointer: &mut Checkpointer) {
        let gradient = grads.consume::<B>(&ops.node);
        let (place, index) = ops.state;
        place.with(|meeting| meeting.output_gradients[index] = Some(gradient));
        pass_on(ops.parents[0].as_ref().map(|parent| parent.id), &place, grads);
    }
}

/// Passes the gradient that the second run left on to one input.
#[derive(Debug)]
struct Gate;

impl<B: Backend> Backward<B, 2> for Gate {
    type State = (Place<B>, usize);

    fn backward(self, ops: Ops<Self::State, 2>, grads: &mut Gradients, _checkpointer: &mut Checkpointer) {
        grads.consume::<B>(&ops.node);
        let (place, index) = ops.state;
        let gradient = place.with(|meeting| meeting.input_gradients[index].take());
        if let (Some(input), Some(gradient)) = (&ops.parents[0], gradient) {
            grads.register::<B>(input.id, gradient);
        }
        pass_on(ops.parents[1].as_ref().map(|parent| parent.id), &place, grads);
    }
}

/// Hands the token to the step before.
fn pass_on<B: Backend>(parent: Option<NodeId>, place: &Place<B>, grads: &mut Gradients) {
    if let Some(parent) = parent {
        grads.register::<B>(parent, place.token.clone());
    }
}

/// Runs the segment again and backward through it.
struct Hub<C>(std::marker::PhantomData<fn() -> C>);

impl<C> Hub<C> {
    fn new() -> Self {
        Self(std::marker::PhantomData)
    }
}

impl<C> fmt::Debug for Hub<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hub")
    }
}

impl<B: Backend, C: CheckpointStrategy> Backward<B, 1> for Hub<C>
where
    DispatchTensor: Reachable<B, C>,
{
    type State = Place<B>;

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _checkpointer: &mut Checkpointer) {
        grads.consume::<B>(&ops.node);
        let place = ops.state;
        let (kept, replay, output_gradients) = place.with(|meeting| {
            let replay = meeting.replay.take().expect("backward consumes a graph once");
            (std::mem::take(&mut meeting.kept), replay, std::mem::take(&mut meeting.output_gradients))
        });
        let (leaves, tensors): (Vec<_>, Vec<_>) =
            kept.into_iter().map(|kept| Leaf::of::<C>(kept, &place.token)).unzip();
        let device = Device::new(raise_plain::<B>(place.token.clone()).device());
        let mut inner = in_pass(Pass::SecondRun, &device, || {
            let outputs = replay(tensors);
            in_pass(Pass::Backward, &device, || backward_through::<B, C>(outputs, output_gradients, &place.token))
        });
        let input_gradients = leaves.into_iter().map(|leaf| leaf.hand_over(inner.as_mut(), grads)).collect();
        place.with(|meeting| meeting.input_gradients = input_gradients);
        pass_on(ops.parents[0].as_ref().map(|parent| parent.id), &place, grads);
    }
}

/// Where the gradient of one tensor of the second run is found.
enum Leaf<B: Backend> {
    /// Nowhere: it has none.
    Constant,
    /// Under its node.
    Parameter(AutodiffTensor<B>, NodeId),
    /// In a slot. The tensor itself is not held here, so that it is freed as soon as backward has used it.
    Input { slot: Slot<B>, shape: Shape, device: B::Device, dtype: DType },
}

impl<B: Backend> Leaf<B> {
    /// The leaf, and its tensor for the second run.
    fn of<C: CheckpointStrategy>(kept: Kept<B>, token: &FloatTensor<B>) -> (Self, DispatchTensor)
    where
        DispatchTensor: Reachable<B, C>,
    {
        match kept {
            Kept::Plain(tensor) => (Self::Constant, tensor),
            Kept::Constant(primitive) => (Self::Constant, raise::<B, C>(<AutodiffTensor<B>>::new(primitive))),
            Kept::Leaf(primitive, id) => {
                let tensor = <AutodiffTensor<B>>::new(primitive).require_grad();
                (Self::Parameter(tensor.clone(), id), raise::<B, C>(tensor))
            }
            Kept::Gated(primitive) => {
                let slot = Slot::<B>::default();
                let (shape, device, dtype) = (primitive.shape(), primitive.device(), primitive.dtype());
                let root = <AutodiffTensor<B>>::new(token.clone()).require_grad();
                let tensor = step::<B, C, _, 1>(Catch, [root.node()], slot.clone(), primitive);
                (Self::Input { slot, shape, device, dtype }, raise::<B, C>(tensor))
            }
        }
    }

    /// Registers a parameter's gradient, gives an input's: zeros where the outputs do not depend on it, as the step
    /// before it expects a gradient all the same.
    fn hand_over(self, inner: Option<&mut Gradients>, outer: &mut Gradients) -> Option<FloatTensor<B>> {
        match self {
            Self::Constant => None,
            Self::Parameter(tensor, id) => {
                if let Some(gradient) = inner.and_then(|inner| tensor.grad_remove(inner)) {
                    outer.register::<B>(id, gradient);
                }
                None
            }
            Self::Input { slot, shape, device, dtype } => {
                let caught = slot.0.lock().expect("backward is over").take();
                Some(caught.unwrap_or_else(|| B::float_zeros(shape, &device, dtype.into())))
            }
        }
    }
}

/// Where [`Catch`] leaves a gradient.
struct Slot<B: Backend>(Arc<Mutex<Option<FloatTensor<B>>>>);

impl<B: Backend> Clone for Slot<B> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<B: Backend> Default for Slot<B> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<B: Backend> fmt::Debug for Slot<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slot").finish_non_exhaustive()
    }
}

/// Stands before an input of the second run and catches its gradient.
#[derive(Debug)]
struct Catch;

impl<B: Backend> Backward<B, 1> for Catch {
    type State = Slot<B>;

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _checkpointer: &mut Checkpointer) {
        let gradient = grads.consume::<B>(&ops.node);
        *ops.state.0.lock().expect("one step leaves it, the hub takes it") = Some(gradient);
    }
}

/// Starts backward at `output` with a gradient that is already known.
#[derive(Debug)]
struct Start;

impl<B: Backend> Backward<B, 1> for Start {
    type State = FloatTensor<B>;

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _checkpointer: &mut Checkpointer) {
        grads.consume::<B>(&ops.node);
        if let Some(output) = &ops.parents[0] {
            grads.register::<B>(output.id, ops.state);
        }
    }
}

/// Runs backward from all outputs that have a gradient at once; none if no gradient reaches the segment.
fn backward_through<B: Backend, C: CheckpointStrategy>(
    outputs: Vec<DispatchTensor>,
    gradients: Vec<Option<FloatTensor<B>>>,
    token: &FloatTensor<B>,
) -> Option<Gradients>
where
    DispatchTensor: Reachable<B, C>,
{
    let start = |(output, gradient): (DispatchTensor, Option<FloatTensor<B>>)| {
        let output = lower::<B, C>(&output).filter(|output| output.is_tracked())?;
        let (_, guard) = output.into_parts();
        Some(step::<B, C, _, 1>(Start, [guard], gradient?, token.clone()))
    };
    let starts = outputs.into_iter().zip(gradients).filter_map(start);
    let root = starts.reduce(<Autodiff<B, C> as FloatTensorOps<Autodiff<B, C>>>::float_add)?;
    Some(root.backward())
}
