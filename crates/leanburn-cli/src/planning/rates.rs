//! How fast a device is: a card of the catalogue, or this machine's processor.

use leanburn_plan::{Rates, catalogue};
use leanburn_train::planning::processor_rates;

/// The rates of a card of the catalogue, or of this machine's processor: as `leanburn calibrate` found them, if it was run.
pub fn rates_for(gpu: Option<&catalogue::Device>) -> Rates {
    gpu.map_or_else(processor_rates, Rates::of_card)
}
