//! A volume that several processes hold together, each a share of its planes along the depth.

use std::cell::RefCell;
use std::fmt::Debug;
use std::ops::Range;
use std::rc::Rc;

use burn::tensor::{DType, Device, Tensor, TensorData};

use crate::meanwhile::meanwhile;
use crate::recording::{Call, Recorder};

/// The processes that hold a volume together, as one of them sees them. Process 0 has the first planes, the next one those behind them; each
/// has as many.
///
/// All of them call the same functions in the same order; each call returns when all that it concerns have called it.
pub trait VolumeRanks: Debug {
    /// The number of this process.
    fn rank(&self) -> usize;

    /// How many there are.
    fn size(&self) -> usize;

    /// Gives bytes to the process `distance` before this one and to that `distance` behind it, where there are such processes. What these
    /// give this one; nothing where there is none.
    fn exchange(&self, distance: usize, given: [&[u8]; 2]) -> [Vec<u8>; 2];
}

/// A process as a recording has it: what others give is not known, and takes its place.
#[derive(Clone, Copy, Debug)]
pub struct PlannedRanks {
    rank: usize,
    size: usize,
}

impl PlannedRanks {
    /// Process `rank` of `size`.
    pub fn new(rank: usize, size: usize) -> Self {
        Self { rank, size }
    }
}

impl VolumeRanks for PlannedRanks {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn exchange(&self, _: usize, _: [&[u8]; 2]) -> [Vec<u8>; 2] {
        panic!("only a recording has planned processes")
    }
}

thread_local! {
    static RANKS: RefCell<Option<Rc<dyn VolumeRanks>>> = const { RefCell::new(None) };
}

/// Runs a forward and backward pass of a volume that processes hold together. The input of a [streamed](crate::stream) segment is then a
/// process's share of the planes, and so is its output; [`gather_planes`](crate::gather_planes) makes a volume of the shares.
///
/// Losses are parts: the gradients of parameters, and the loss, are those of the whole volume when they are summed over the processes.
pub fn with_volume_ranks<T>(ranks: Rc<dyn VolumeRanks>, run: impl FnOnce() -> T) -> T {
    scoped(Some(ranks), run)
}

/// Runs what each process computes of whole volumes, all of them the same: a [streamed](crate::stream) segment inside has a whole volume.
pub fn with_whole_volumes<T>(run: impl FnOnce() -> T) -> T {
    scoped(None, run)
}

fn scoped<T>(ranks: Option<Rc<dyn VolumeRanks>>, run: impl FnOnce() -> T) -> T {
    meanwhile(|ranks| RANKS.replace(ranks), ranks, run)
}

/// The processes that this runs [with](with_volume_ranks); none for one that is on its own.
pub fn volume_ranks() -> Option<Rc<dyn VolumeRanks>> {
    RANKS.with_borrow(Clone::clone).filter(|ranks| ranks.size() > 1)
}

/// Which planes of each volume a process has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    rank: usize,
    size: usize,
}

impl Share {
    /// That of process `rank` of `size`.
    pub(crate) fn of(rank: usize, size: usize) -> Self {
        Self { rank, size }
    }

    /// That of this process.
    pub(crate) fn here() -> Self {
        volume_ranks().map_or(Self { rank: 0, size: 1 }, |ranks| Self { rank: ranks.rank(), size: ranks.size() })
    }

    /// Processes.
    pub(crate) fn size(self) -> usize {
        self.size
    }

    /// The planes of a volume of so many.
    pub(crate) fn planes(self, depth: usize) -> Range<usize> {
        depth * self.rank / self.size..depth * (self.rank + 1) / self.size
    }

    /// The share in front of this one, and that behind it.
    pub(crate) fn neighbours(self) -> [Option<Self>; 2] {
        let before = self.rank.checked_sub(1).map(|rank| Self { rank, ..self });
        let behind = (self.rank + 1 < self.size).then_some(Self { rank: self.rank + 1, ..self });
        [before, behind]
    }
}

/// Why processes must be there in backward.
pub(crate) const AS_FORWARD: &str = "backward runs in `with_volume_ranks`, as forward did";

/// What every process has of a tensor, in their order.
pub(crate) fn gathered<const D: usize>(ranks: &dyn VolumeRanks, here: Tensor<D>) -> Vec<Tensor<D>> {
    exchanged(ranks, here.clone(), |_| [Some(here.clone()), Some(here.clone())])
}

/// A tensor of this process, and tensors like it from all others, in the order of processes; `given` says what the processes at a distance
/// before this one and behind it get.
pub(crate) fn exchanged<const D: usize>(
    ranks: &dyn VolumeRanks,
    here: Tensor<D>,
    given: impl Fn(usize) -> [Option<Tensor<D>>; 2],
) -> Vec<Tensor<D>> {
    let (rank, size, dims, options) = (ranks.rank(), ranks.size(), here.dims(), (&here.device(), here.dtype()));
    let mut all = vec![None; size];
    for distance in 1..size {
        let others = [rank.checked_sub(distance), Some(rank + distance).filter(|other| *other < size)];
        let taken = others.map(|other| other.map(|_| dims));
        let there = swap(ranks, options, distance, given(distance), taken);
        for (other, tensor) in others.into_iter().zip(there) {
            other.into_iter().for_each(|other| all[other].clone_from(&tensor));
        }
    }
    all[rank] = Some(here);
    all.into_iter().map(|tensor| tensor.expect("each process but this one is at some distance")).collect()
}

/// Gives planes to the process before this one and to that behind it, and takes so many from each; all are planes of a volume of these
/// dimensions, but for the depth.
pub(crate) fn exchange_planes(
    ranks: &dyn VolumeRanks,
    [batch_size, channels, _, height, width]: [usize; 5],
    options: (&Device, DType),
    given: [Option<Tensor<5>>; 2],
    taken: [usize; 2],
) -> [Option<Tensor<5>>; 2] {
    let taken = taken.map(|planes| (planes > 0).then_some([batch_size, channels, planes, height, width]));
    swap(ranks, options, 1, given, taken)
}

/// Gives tensors to the processes at a distance before this one and behind it, and takes tensors of these dimensions.
///
/// # Panics
///
/// Panics if there are more or fewer bytes: the processes do not compute the same.
fn swap<const D: usize>(
    ranks: &dyn VolumeRanks,
    (device, dtype): (&Device, DType),
    distance: usize,
    given: [Option<Tensor<D>>; 2],
    taken: [Option<[usize; D]>; 2],
) -> [Option<Tensor<D>>; 2] {
    if let Some(recorder) = Recorder::of(device) {
        let call = given.into_iter().flatten().fold(Call::new(recorder, EXCHANGE_PLANES), Call::takes);
        let mut there = taken.iter().flatten().fold(call, |call, dims| call.gives(*dims, dtype)).record();
        return taken.map(|dims| dims.map(|_| there.next_tensor()));
    }
    let given = given.map(|planes| planes.map_or(Vec::new(), bytes_of));
    let [before, behind] = ranks.exchange(distance, [&given[0], &given[1]]);
    let tensor = |bytes: Vec<u8>, dims: [usize; D]| {
        let data = TensorData::try_from_bytes_vec(bytes, dims, dtype)
            .unwrap_or_else(|error| panic!("{dims:?} of another process: {error}: all must compute the same"));
        Tensor::from_data(data, (device, dtype))
    };
    [(before, taken[0]), (behind, taken[1])].map(|(bytes, dims)| dims.map(|dims| tensor(bytes, dims)))
}

/// What an exchange between the processes of a volume is called in a recording; its inputs are given, its outputs taken.
pub const EXCHANGE_PLANES: &str = "exchange_planes";

fn bytes_of<const D: usize>(tensor: Tensor<D>) -> Vec<u8> {
    tensor.into_data().as_bytes().to_vec()
}
