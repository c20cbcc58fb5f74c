//! A step in the graph of autodiff, registered.

use burn::backend::Backend;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::ops::{Backward, NodeGuard, OpsKind};
use burn::backend::tensor::FloatTensor;

use crate::autodiff::AutodiffTensor;

/// Registers one tracked step.
pub(super) fn step<B, C, S, const N: usize>(
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
