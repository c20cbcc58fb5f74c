//! What the ranks of a group agree on: whether a step goes on, and the losses that it reports.

use std::collections::BTreeMap;

use burn::tensor::Tensor;
use leanburn_ops::recording::value_or;

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
    let Some((rank, said)) = there.iter().enumerate().find(|(_, said)| !said.is_empty()) else { return Ok(()) };
    let said = String::from_utf8_lossy(said);
    Err(match said.strip_prefix(OUT_OF_MEMORY) {
        Some(reason) => TrainError::out_of_memory(step, "forward or backward", format!("rank {rank} says: {reason}")),
        None => TrainError::Rank { step, rank, reason: said.into_owned() },
    })
}

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
