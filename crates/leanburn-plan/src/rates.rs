//! How long a step takes: operations and bytes against a device's rates.

use serde::{Deserialize, Serialize};

use crate::catalogue::Device;
use crate::timeline::{OperationEvent, Phase, Timeline};

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

/// Shares of a card's peak rates that a training step of this kind is taken to reach until it is measured.
const SHARE_OF_FLOPS: f64 = 0.4;
const SHARE_OF_BANDWIDTH: f64 = 0.7;
/// Bytes a second to and from the place where saved activations are offloaded: a disk that nobody has measured.
const OFFLOAD_BANDWIDTH: f64 = 1e9;
/// Seconds to start a kernel of a card.
const LAUNCH: f64 = 8e-6;

impl Rates {
    /// A processor with two cores: what is assumed of one that was not measured.
    pub const TWO_CORES: Self = Self { flops: 2.5e11, half_flops: 2.5e11, bandwidth: 1.5e10, overhead: 5e-6 };

    /// What a card of the catalogue is taken to reach: 40 % of the arithmetic and 70 % of the bandwidth that its maker states.
    ///
    /// Both shares are assumptions, not measurements: they are for ranking plans.
    pub fn of_card(card: &Device) -> Self {
        Self {
            flops: SHARE_OF_FLOPS * card.f32_rate,
            half_flops: SHARE_OF_FLOPS * card.bf16_rate.or(card.f16_rate).unwrap_or(card.f32_rate),
            bandwidth: SHARE_OF_BANDWIDTH * card.bandwidth,
            overhead: LAUNCH,
        }
    }

    /// Seconds of one operation: the slower of computing and moving, and the overhead
    /// ([Williams et al.](https://doi.org/10.1145/1498765.1498785), the roofline), as often as it runs.
    pub fn seconds_of(&self, event: &OperationEvent) -> f64 {
        let flops = if event.is_half { self.half_flops } else { self.flops };
        let bandwidth = match event.operation.as_str() {
            "offload" | "fetch" => OFFLOAD_BANDWIDTH,
            _ => self.bandwidth,
        };
        let once = (event.flops as f64 / flops).max(event.bytes_moved.get() as f64 / bandwidth) + self.overhead;
        event.repeats * once
    }

    /// Seconds of a step of `micro_batches`, of which `recorded` are in the timeline.
    pub fn seconds(&self, timeline: &Timeline, micro_batches: u64, recorded: u64) -> f64 {
        let repeated = micro_batches as f64 / recorded.max(1) as f64;
        let weight = |event: &OperationEvent| if event.phase == Phase::Update { 1.0 } else { repeated };
        timeline.events.iter().map(|event| weight(event) * self.seconds_of(event)).sum()
    }
}
