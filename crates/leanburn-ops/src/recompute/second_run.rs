//! The leaves of a segment's second run, and backward through it.

use std::fmt;
use std::sync::{Arc, Mutex};

use burn::backend::autodiff::NodeId;
use burn::backend::autodiff::checkpoint::{base::Checkpointer, strategy::CheckpointStrategy};
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops};
use burn::backend::ops::FloatTensorOps;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, Backend, DispatchTensor, TensorMetadata};
use burn::tensor::{DType, Shape};

use super::meeting::Saved;
use super::step::step;
use crate::autodiff::{AutodiffTensor, Reachable, lower, lower_plain, raise};

/// Where the gradient of one tensor of the second run is found.
pub(super) enum Leaf<B: Backend> {
    /// Nowhere: it has none.
    Constant,
    /// Under its node.
    Parameter(AutodiffTensor<B>, NodeId),
    /// In a slot. The tensor itself is not held here, so that it is freed as soon as backward has used it.
    Input { slot: Slot<B>, shape: Shape, device: B::Device, dtype: DType },
}

impl<B: Backend> Leaf<B> {
    /// The leaf, and its tensor for the second run.
    pub(super) fn of<C: CheckpointStrategy>(saved: Saved<B>, token: &FloatTensor<B>) -> (Self, DispatchTensor)
    where
        DispatchTensor: Reachable<B, C>,
    {
        match saved {
            Saved::Plain(tensor) => (Self::Constant, tensor),
            Saved::Constant(primitive) => (Self::Constant, raise::<B, C>(<AutodiffTensor<B>>::new(primitive))),
            Saved::Leaf(primitive, id) => {
                let tensor = <AutodiffTensor<B>>::new(primitive).require_grad();
                (Self::Parameter(tensor.clone(), id), raise::<B, C>(tensor))
            }
            Saved::Gated(stored) => {
                let primitive = lower_plain::<B>(stored.take());
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
    pub(super) fn hand_over(self, inner: Option<&mut Gradients>, outer: &mut Gradients) -> Option<FloatTensor<B>> {
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
pub(super) struct Slot<B: Backend>(Arc<Mutex<Option<FloatTensor<B>>>>);

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
pub(super) fn backward_through<B: Backend, C: CheckpointStrategy>(
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
