//! How long a step takes: operations and bytes against a device's rates.

use serde::{Deserialize, Serialize};

use crate::{Moment, Phase, Timeline};

/// What a device reaches on this kind of work, measured or taken from a catalogue.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rates {
    /// Floating-point operations a second in float32.
    pub flops: f64,
    /// The same in half precision.
    pub half_flops: f64,
    /// Bytes read and written a second.
    pub bandwidth: f64,
    /// Seconds that every operation takes, however small.
    pub overhead: f64,
}

impl Rates {
    /// Seconds of one operation: the slower of computing and moving, and the overhead
    /// ([Williams et al.](https://doi.org/10.1145/1498765.1498785), the roofline), as often as it runs.
    pub fn seconds_of(&self, moment: &Moment) -> f64 {
        let flops = if moment.is_half { self.half_flops } else { self.flops };
        let once = (moment.flops as f64 / flops).max(moment.bytes_moved as f64 / self.bandwidth) + self.overhead;
        moment.repeats * once
    }

    /// Seconds of a step of `micro_batches`, of which `recorded` are in the timeline.
    pub fn seconds(&self, timeline: &Timeline, micro_batches: u64, recorded: u64) -> f64 {
        let repeated = micro_batches as f64 / recorded.max(1) as f64;
        let weight = |moment: &Moment| if moment.phase == Phase::Update { 1.0 } else { repeated };
        timeline.moments.iter().map(|moment| weight(moment) * self.seconds_of(moment)).sum()
    }
}
