//! What the ranks of a group agree on: whether a step goes on, and the losses that it reports.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;

use burn::tensor::Tensor;
use leanburn_ops::recording::value_or;
use leanburn_ops::{VolumeRanks, with_rank_sums, with_volume_ranks};

use crate::error::TrainError;
use crate::ranks::Group;

/// What all ranks have come to: an error if one of them has one.
pub(crate) fn agreed(group: &Group, step: u64, here: Result<(), TrainError>) -> Result<(), TrainError> {
    if group.is_alone() {
        return here;
    }
    let said = match &here {
        Ok(()) => Vec::new(),
        Err(error) => format!("{}{error}", if error.is_out_of_memory() { OUT_OF_MEMORY } else { "" }).into_bytes(),
    };
    let there = group.ranks().gather(&said);
    here?;
    no_error(&there, step)
}

/// What ranks do together in the middle of a micro-batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Together {
    /// Whether batch norms have the statistics of all ranks.
    pub norms: bool,
    /// How many hold a volume.
    pub volume_ranks: usize,
}

/// Runs the forward and backward pass of a micro-batch in which ranks wait for each other. The inner error is this rank's, which the others
/// have yet to hear of; the outer one another's, of which all know.
pub(crate) fn together<T>(
    group: &Group,
    step: u64,
    what: Together,
    pass: impl FnOnce() -> Result<T, TrainError>,
) -> Result<Result<T, TrainError>, TrainError> {
    let meeting = Rc::new(Meeting { group: group.clone(), size: what.volume_ranks, step, ended: RefCell::default() });
    let (volumes, norms) = (meeting.clone(), meeting.clone());
    let pass = || if what.volume_ranks > 1 { with_volume_ranks(volumes, pass) } else { pass() };
    let sum = move |values: &mut [f32]| {
        norms.go_on();
        norms.group.ranks().sum(values);
    };
    let pass = || if what.norms { with_rank_sums(sum, pass) } else { pass() };
    let run = catch_unwind(AssertUnwindSafe(pass));
    match (meeting.ended.take(), run) {
        (Some(error), _) => Err(error),
        (None, Ok(result)) => Ok(result),
        (None, Err(panic)) => resume_unwind(panic),
    }
}

/// The ranks in the middle of a micro-batch.
#[derive(Debug)]
struct Meeting {
    group: Group,
    /// How many hold a volume: those with numbers behind each other.
    size: usize,
    step: u64,
    /// What has ended the step on another rank.
    ended: RefCell<Option<TrainError>>,
}

impl Meeting {
    /// Goes on if all ranks do.
    fn go_on(&self) {
        if let Err(error) = no_error(&self.group.ranks().gather(UNDER_WAY), self.step) {
            self.ended.replace(Some(error));
            resume_unwind(Box::new("another rank has ended the step")); // through forward or backward, as where memory runs out
        }
    }
}

impl VolumeRanks for Meeting {
    fn rank(&self) -> usize {
        self.group.ranks().rank() % self.size
    }

    fn size(&self) -> usize {
        self.size
    }

    fn exchange(&self, distance: usize, given: [&[u8]; 2]) -> [Vec<u8>; 2] {
        self.go_on();
        let (rank, number) = (self.rank(), self.group.ranks().rank());
        let before = (rank >= distance).then(|| number - distance);
        let behind = (rank + distance < self.size).then_some(number + distance);
        self.group.ranks().exchange([before, behind], given)
    }
}

/// The error that one of the ranks says it has, if any has.
fn no_error(there: &[Vec<u8>], step: u64) -> Result<(), TrainError> {
    let is_error = |said: &&Vec<u8>| !said.is_empty() && *said != UNDER_WAY;
    let Some((rank, said)) = there.iter().enumerate().find(|(_, said)| is_error(said)) else { return Ok(()) };
    let said = String::from_utf8_lossy(said);
    Err(match said.strip_prefix(OUT_OF_MEMORY) {
        Some(reason) => TrainError::out_of_memory(step, "forward or backward", format!("rank {rank} says: {reason}")),
        None => TrainError::Rank { step, rank, reason: said.into_owned() },
    })
}

/// What a rank says in the middle of a micro-batch.
const UNDER_WAY: &[u8] = b"\x01";

/// How a rank's error begins where it had no more memory.
const OUT_OF_MEMORY: &str = "\0";

/// Parts of losses by name: their sum over micro-batches, and how many those are.
pub(crate) type LossSums = BTreeMap<&'static str, (Tensor<1>, u64)>;

/// The means over the micro-batches of all ranks.
pub(crate) fn means(group: &Group, sums: LossSums) -> BTreeMap<String, f64> {
    let mut all: BTreeMap<String, (f32, u64)> = BTreeMap::new();
    let here = sums.into_iter().map(|(name, (sum, count))| (name.to_string(), value_or(sum, 0.0), count));
    let here: Vec<(String, f32, u64)> = here.collect();
    let there = if group.is_alone() { vec![here] } else { gathered(group, &here) };
    for (name, sum, count) in there.into_iter().flatten() {
        let before = all.get(&name).copied();
        all.insert(name, before.map_or((sum, count), |before| (before.0 + sum, before.1 + count)));
    }
    all.into_iter().map(|(name, (sum, count))| (name, f64::from(sum) / count as f64)).collect()
}

/// The sums of all ranks, in their order.
fn gathered(group: &Group, here: &[(String, f32, u64)]) -> Vec<Vec<(String, f32, u64)>> {
    let bits: Vec<(&str, u32, u64)> =
        here.iter().map(|(name, sum, count)| (name.as_str(), sum.to_bits(), *count)).collect();
    let said = group.ranks().gather(&serde_json::to_vec(&bits).expect("names and numbers serialise"));
    let read =
        |said: &Vec<u8>| -> Vec<(String, u32, u64)> { serde_json::from_slice(said).expect("what another rank wrote") };
    let values = |(name, bits, count)| (name, f32::from_bits(bits), count);
    said.iter().map(|said| read(said).into_iter().map(values).collect()).collect()
}
