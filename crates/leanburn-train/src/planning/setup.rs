//! How a step is run, as far as a fit may choose it.

use std::fmt;

use leanburn_ops::{Residency, ResidencyPolicy};
use serde::{Deserialize, Serialize};

use crate::precision::Precision;

/// How an optimizer step is run, as far as that changes memory and time and not what is trained.
///
/// [`Planner::fit`](super::Planner::fit) chooses it. Whatever builds the trainer takes the parts that it can vary: a model
/// without segments has no use for `residency`, one that trains in float32 only none for `precision`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StepSetup {
    /// Items of a micro-batch.
    pub micro_batch: usize,
    /// Micro-batches of a step, as [`TrainerConfig::accumulation_steps`](crate::TrainerConfig::accumulation_steps) must have it.
    pub accumulation_steps: u64,
    /// Which segments of the model run again in backward.
    pub residency: ResidencyPolicy,
    /// The dtype of convolutions and matrix products.
    pub precision: Precision,
}

impl StepSetup {
    /// So many micro-batches of so many items, in float32, with nothing recomputed.
    pub fn new(micro_batch: usize, accumulation_steps: u64) -> Self {
        Self { micro_batch, accumulation_steps, residency: ResidencyPolicy::keep(), precision: Precision::F32 }
    }

    /// With these segments run again in backward.
    #[must_use]
    pub fn with_residency(mut self, residency: ResidencyPolicy) -> Self {
        self.residency = residency;
        self
    }

    /// In this precision.
    #[must_use]
    pub fn with_precision(mut self, precision: Precision) -> Self {
        self.precision = precision;
        self
    }

    /// Items of a step.
    pub fn effective_batch(&self) -> u64 {
        self.micro_batch as u64 * self.accumulation_steps
    }

    /// Names of the segments that a rule has recomputed.
    pub fn recomputed(&self) -> impl Iterator<Item = &str> {
        let rules = self.residency.rules.iter().filter(|rule| rule.residency == Residency::Recompute);
        rules.map(|rule| rule.pattern.as_str())
    }

    /// Names of the segments that a rule has streamed.
    pub fn streamed(&self) -> impl Iterator<Item = &str> {
        let rules = self.residency.rules.iter().filter(|rule| matches!(rule.residency, Residency::Stream(_)));
        rules.map(|rule| rule.pattern.as_str())
    }
}

/// Micro-batches, precision, what is recomputed and what is streamed.
impl fmt::Display for StepSetup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} x {}, {}", self.micro_batch, self.accumulation_steps, self.precision)?;
        if self.residency.default == Residency::Recompute {
            write!(f, ", everything recomputed")?;
        }
        let (recomputed, streamed): (Vec<&str>, Vec<&str>) = (self.recomputed().collect(), self.streamed().collect());
        for (what, names) in [("recomputed", recomputed), ("streamed", streamed)] {
            if !names.is_empty() {
                write!(f, ", {what}: {}", names.join(", "))?;
            }
        }
        Ok(())
    }
}
