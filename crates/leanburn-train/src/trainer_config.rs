//! How a workload is trained, as a value.

use leanburn_common::Bytes;
use serde::{Deserialize, Serialize};

/// How a workload is trained.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TrainerConfig {
    /// Seed of everything that is drawn at random.
    pub seed: u64,
    /// Micro-batches of one optimizer step.
    pub accumulation_steps: u64,
    /// The run gives up after this many steps in a row with infinite or undefined gradients.
    pub max_bad_steps: u64,
    /// The most that the run may hold, if that is less than the device has.
    #[serde(default)]
    pub memory_limit: Option<Bytes>,
    /// Whether several processes give the bits of one, however many they are: gradients are summed after each micro-batch, not once a step.
    #[serde(default)]
    pub deterministic_ranks: bool,
    /// Whether each of several processes updates a part of the weights, and has the optimizer's states of that part alone.
    #[serde(default)]
    pub shard_optimizer: bool,
    /// Whether batch norms take the statistics of the micro-batches of all processes together, and a codebook follows them; else each those of
    /// its own, and running statistics and codebook are those of the first process.
    #[serde(default)]
    pub sync_batch_norm: bool,
    /// Processes that hold a volume together, each a share of its planes; groups of so many take micro-batches of their own. On a process that
    /// is on its own: 1.
    #[serde(default = "one")]
    pub volume_ranks: usize,
    /// Of a recording: as one of how many processes. Steps that are taken ask their group.
    #[serde(default = "one")]
    pub planned_ranks: usize,
}

fn one() -> usize {
    1
}

/// Seed 0, one micro-batch a step; the run gives up after 20 bad steps in a row.
impl Default for TrainerConfig {
    fn default() -> Self {
        Self {
            seed: 0,
            accumulation_steps: 1,
            max_bad_steps: 20,
            memory_limit: None,
            deterministic_ranks: false,
            shard_optimizer: false,
            sync_batch_norm: false,
            volume_ranks: 1,
            planned_ranks: 1,
        }
    }
}

impl TrainerConfig {
    /// With this seed of everything that is drawn at random.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// With so many micro-batches of one optimizer step.
    #[must_use]
    pub fn with_accumulation_steps(mut self, accumulation_steps: u64) -> Self {
        self.accumulation_steps = accumulation_steps;
        self
    }

    /// Giving up after so many steps in a row with infinite or undefined gradients.
    #[must_use]
    pub fn with_max_bad_steps(mut self, max_bad_steps: u64) -> Self {
        self.max_bad_steps = max_bad_steps;
        self
    }

    /// With the bits of one process, however many there are.
    #[must_use]
    pub fn with_deterministic_ranks(mut self, deterministic_ranks: bool) -> Self {
        self.deterministic_ranks = deterministic_ranks;
        self
    }

    /// With the optimizer's states split over processes.
    #[must_use]
    pub fn with_shard_optimizer(mut self, shard_optimizer: bool) -> Self {
        self.shard_optimizer = shard_optimizer;
        self
    }

    /// With batch statistics of all processes together.
    #[must_use]
    pub fn with_sync_batch_norm(mut self, sync_batch_norm: bool) -> Self {
        self.sync_batch_norm = sync_batch_norm;
        self
    }

    /// With so many processes, at least one, that hold a volume together.
    #[must_use]
    pub fn with_volume_ranks(mut self, volume_ranks: usize) -> Self {
        self.volume_ranks = volume_ranks.max(1);
        self
    }

    /// Recorded as one of so many processes.
    #[must_use]
    pub fn with_planned_ranks(mut self, ranks: usize) -> Self {
        self.planned_ranks = ranks;
        self
    }

    /// With a limit of what the run may hold.
    #[must_use]
    pub fn with_memory_limit(mut self, memory_limit: Option<Bytes>) -> Self {
        self.memory_limit = memory_limit;
        self
    }
}
