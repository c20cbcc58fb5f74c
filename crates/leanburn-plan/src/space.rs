//! What can be planned: the changes of a training, by class, and how a step of each is recorded.

use std::fmt;

use leanburn_common::Bytes;
use serde::{Deserialize, Serialize};

use crate::candidate::Candidate;
use crate::knob::Knob;
use crate::recording::Recording;

/// What a change does to the training, mildest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// The mathematics stays: the same sums, in another order at most.
    #[default]
    Lossless,
    /// The model stays, its arithmetic is rounded differently.
    Numerics,
    /// The model or its task is another.
    Model,
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Lossless => "lossless",
            Self::Numerics => "numerics",
            Self::Model => "model",
        })
    }
}

/// A change of the training, apart from micro-batch, recomputation and knobs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Variant {
    /// What is changed, such as `precision bf16`; empty for the training as configured.
    pub change: String,
    /// Its class.
    pub class: Class,
    /// What it costs, in words.
    pub cost: String,
}

/// Every split of `effective_batch` items into micro-batches of one size: items of one, and how many; the largest first.
pub fn splits(effective_batch: usize) -> Vec<(usize, u64)> {
    let small = (1..=effective_batch.isqrt()).filter(|items| effective_batch.is_multiple_of(*items));
    let mut divisors: Vec<usize> = small.flat_map(|items| [items, effective_batch / items]).collect();
    divisors.sort_unstable_by(|one, other| other.cmp(one));
    divisors.dedup();
    divisors.into_iter().map(|items| (items, (effective_batch / items) as u64)).collect()
}

/// What can be planned.
pub trait Space {
    /// What recording can fail with.
    type Error;

    /// The variants, the training as configured first; by default that one only.
    fn variants(&self) -> Vec<Variant> {
        vec![Variant::default()]
    }

    /// Micro-batch and accumulation of one effective batch.
    fn splits(&self) -> Vec<(usize, u64)>;

    /// Records a step with [`Candidate::recorded`] micro-batches.
    ///
    /// # Errors
    ///
    /// As the implementation says.
    fn record(&self, candidate: &Candidate) -> Result<Recording, Self::Error>;

    /// What can be set lower where the peak of a candidate stands; by default nothing.
    fn knobs(&self, _candidate: &Candidate) -> Vec<Knob> {
        Vec::new()
    }

    /// Other bytes than those of a candidate's step, such as batches that wait; by default none.
    fn other_bytes(&self, _candidate: &Candidate) -> Bytes {
        Bytes(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_effective_batch_is_split_in_every_way() {
        assert_eq!(splits(6), [(6, 1), (3, 2), (2, 3), (1, 6)]);
        assert_eq!(splits(1), [(1, 1)]);
        assert_eq!(splits(4), [(4, 1), (2, 2), (1, 4)]);
        assert_eq!(splits(1 << 32).len(), 33);
    }
}
