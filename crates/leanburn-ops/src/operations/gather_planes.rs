//! Whole volumes of the shares that processes have, and shares of whole volumes.

use burn::tensor::Tensor;

use super::operation::{AnyTensor, Operation, apply};
use crate::share::{AS_FORWARD, Share, exchanged, gathered, volume_ranks};

/// The whole volume of which each process has a [share](crate::with_volume_ranks); the volume itself for a process on its own.
///
/// Backward sums what all processes have of the gradient of this one's share, in the order of processes.
///
/// # Shapes
///
/// - input: `[batch_size, channels, depth / processes, height, width]`
/// - output: `[batch_size, channels, depth, height, width]`
///
/// # Memory
///
/// Saved for backward: nothing.
///
/// # Panics
///
/// In backward, if it does not run with the processes that forward has run with.
#[must_use]
pub fn gather_planes(x: Tensor<5>) -> Tensor<5> {
    let Some(ranks) = volume_ranks() else { return x };
    apply([x.into()], |[x], _| (Tensor::cat(gathered(&*ranks, x.given()), 2), GatherPlanes))
}

/// The gradient of [`gather_planes`].
#[derive(Clone, Debug)]
struct GatherPlanes;

impl Operation<1> for GatherPlanes {
    fn backward(self, gradient: Tensor<5>, _needed: [bool; 1]) -> [AnyTensor; 1] {
        let ranks = volume_ranks().expect(AS_FORWARD);
        let (rank, size, depth) = (ranks.rank(), ranks.size(), gradient.dims()[2]);
        let of = |rank: usize| {
            let planes = Share::of(rank, size).planes(depth);
            gradient.clone().narrow(2, planes.start, planes.len())
        };
        let given = |other: Option<usize>| other.filter(|other| *other < size).map(of);
        let parts =
            exchanged(&*ranks, of(rank), |distance| [given(rank.checked_sub(distance)), given(Some(rank + distance))]);
        [parts.into_iter().reduce(|sum, part| sum + part).into()]
    }
}

/// This process's [share](crate::with_volume_ranks) of a volume that all have whole; the volume itself for a process on its own.
///
/// # Shapes
///
/// - input: `[batch_size, channels, depth, height, width]`
/// - output: `[batch_size, channels, depth / processes, height, width]`
#[must_use]
pub fn own_planes(x: Tensor<5>) -> Tensor<5> {
    let (share, depth) = (Share::here(), x.dims()[2]);
    let planes = share.planes(depth);
    if planes.len() == depth { x } else { x.narrow(2, planes.start, planes.len()) }
}
