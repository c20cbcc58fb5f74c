//! What the steps of one segment share: the saved tensors, the second run, and the gradients they leave for each other.

use std::fmt;
use std::sync::{Arc, Mutex};

use burn::backend::autodiff::NodeId;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::ops::NodeGuard;
use burn::backend::ops::FloatTensorOps;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, DispatchKindConversion, DispatchTensor};

use super::early_stop::LastOperation;
use crate::autodiff::{AutodiffTensor, Reachable, has_autodiff, lower, lower_plain, raise, raise_plain};
use crate::storage::{Scope, StoredTensor};

/// The second run: from the segment's tensors (inputs, then parameters) to its outputs.
pub(super) type Replay = Box<dyn FnOnce(Vec<DispatchTensor>) -> Vec<DispatchTensor> + Send>;

/// A backward of the segment's own: from its tensors without autodiff and the gradients of its outputs to the gradients of its tensors.
pub(crate) type OwnBackward =
    Box<dyn FnOnce(Vec<DispatchTensor>, Vec<Option<DispatchTensor>>) -> Vec<Option<DispatchTensor>> + Send>;

/// How the hub comes from the gradients of the outputs to those of the inputs.
pub(super) enum Second {
    /// Runs the segment again with a graph, but for the result of its last operation, and backward through that.
    Replay(Replay, Option<LastOperation>),
    /// Without a graph.
    Own(OwnBackward),
}

/// What a segment saves of one of its tensors.
#[allow(clippy::large_enum_variant, reason = "a handle of a tensor, large with GPUs built in; a segment has a few")]
pub(super) enum Saved<B: Backend> {
    /// Has no autodiff at all, stays as it is.
    Plain(DispatchTensor),
    /// Has autodiff but no gradient.
    Constant(FloatTensor<B>),
    /// A parameter, or another leaf: its gradient is registered under its node.
    Leaf(FloatTensor<B>, NodeId),
    /// The result of an earlier operation, wherever it lives until backward: its gradient goes through a gate.
    Gated(StoredTensor),
}

impl<B: Backend> Saved<B> {
    /// Takes a tensor apart; the guard is there for a gate, and what goes through it is stored as the scope says.
    pub(super) fn of<C: CheckpointStrategy>(tensor: DispatchTensor, scope: &Scope) -> (Self, Option<NodeGuard>)
    where
        DispatchTensor: Reachable<B, C>,
    {
        let is_leaf = has_autodiff(&tensor) && Dispatch::float_is_require_grad(&tensor);
        match lower::<B, C>(&tensor) {
            None => (Self::Plain(tensor), None),
            Some(tensor) if !tensor.is_tracked() => (Self::Constant(tensor.into_primitive()), None),
            Some(tensor) if is_leaf => {
                let id = tensor.id();
                (Self::Leaf(tensor.into_primitive(), id), None)
            }
            Some(tensor) => {
                let (primitive, guard) = tensor.into_parts();
                (Self::Gated(StoredTensor::begin(raise_plain::<B>(primitive), scope)), Some(guard))
            }
        }
    }

    /// The tensor for the first run: under autodiff where it was, so that layers know that they train, but without a graph.
    pub(super) fn for_first_run<C: CheckpointStrategy>(&self) -> DispatchTensor
    where
        DispatchTensor: Reachable<B, C>,
    {
        let primitive = match self {
            Self::Plain(tensor) => return tensor.clone(),
            Self::Constant(primitive) | Self::Leaf(primitive, _) => primitive.clone(),
            Self::Gated(stored) => lower_plain::<B>(stored.tensor()),
        };
        raise::<B, C>(<AutodiffTensor<B>>::new(primitive))
    }

    /// The first run is over: what is stored elsewhere is not held any more.
    pub(super) fn settle(&self) {
        if let Self::Gated(stored) = self {
            stored.settle();
        }
    }
}

impl<B: Backend> Saved<B>
where
    DispatchTensor: DispatchKindConversion<B>,
{
    /// The tensor without autodiff.
    pub(super) fn plain(self) -> DispatchTensor {
        match self {
            Self::Plain(tensor) => tensor,
            Self::Constant(primitive) | Self::Leaf(primitive, _) => raise_plain::<B>(primitive),
            Self::Gated(stored) => stored.take(),
        }
    }
}

/// Where the steps of one segment meet in backward.
pub(super) struct Meeting<B: Backend> {
    pub(super) saved: Vec<Saved<B>>,
    pub(super) second: Option<Second>,
    /// Of each output of the first run; none where the second run starts from rounded inputs, or the first one left its output out.
    pub(super) samples: Option<Vec<Vec<f32>>>,
    pub(super) output_gradients: Vec<Option<FloatTensor<B>>>,
    pub(super) input_gradients: Vec<Option<FloatTensor<B>>>,
}

/// A handle to the meeting place, and the token that the steps pass.
pub(super) struct Place<B: Backend> {
    pub(super) meeting: Arc<Mutex<Meeting<B>>>,
    pub(super) token: FloatTensor<B>,
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
    pub(super) fn with<T>(&self, action: impl FnOnce(&mut Meeting<B>) -> T) -> T {
        action(&mut self.meeting.lock().expect("a segment's steps run one after the other"))
    }
}
