//! What real steps take, on volumes of noise.

pub use leanburn_train::planning::Measured;

use crate::config::Config;
use crate::device::device_of;
use crate::error::Result;

/// Takes real steps on noise of an extent, on the device of the configuration: one that makes the optimizers' states, and
/// `steps` that are timed and whose memory is measured.
///
/// # Errors
///
/// What keeps the models from being built and the steps from being taken.
///
/// # Panics
///
/// Panics if `steps` is 0.
pub fn measure(config: &Config, name: &str, extent: [usize; 3], steps: u64) -> Result<Measured> {
    config.check(name)?;
    let mut config = config.clone();
    config.start_at_once();
    let device = device_of(&config.device)?.autodiff();
    config.system.any().measure(&config.context(name), &device, extent, steps)
}
