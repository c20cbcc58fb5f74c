//! Whether the machine has the memory that a run is planned to need, before anything large is read or computed.

use burn::tensor::Device;
use leanburn_common::Bytes;
use leanburn_ops::is_gpu;
use leanburn_plan::{Candidate, Space};

use super::attempt::at_rest;
use super::planned::Planned;
use crate::config::Config;
use crate::data::DataSize;
use crate::error::{Result, SystemError};
use crate::machine::machine_memory;
use crate::planning::{ConfigSpace, planner_of, program};

/// What is planned where the configuration names the size of a sample; none where the data has to be opened to know it, or what is
/// wrong is better said by opening it.
///
/// # Errors
///
/// [`SystemError::OutOfMemory`] if the machine has too little for the step alone, or for the program.
pub(super) fn check_before_reading(
    config: &Config,
    name: &str,
    device: &Device,
    limit: Option<Bytes>,
    ranks: usize,
) -> Result<Option<Planned>> {
    if limit.is_some_and(|limit| limit < program() && is_bounded_by_machine(config, device, limit)) {
        return Err(SystemError::OutOfMemory {
            reason: format!("{}, and the program with its threads takes all of it", machine()),
            remedy:
                "no configuration fits: allow the process more memory (`ulimit -v`, the limit of its container or job)"
                    .to_string(),
        });
    }
    let Some(extent) = config.extent() else { return Ok(None) };
    let data = DataSize::of_extent(extent);
    let Ok(planned) = Planned::of(config, name, data.clone(), ranks) else { return Ok(None) };
    check_machine(config, name, &data, device, &planned, limit)?;
    Ok(Some(planned))
}

/// That a run on the CPU is planned to need no more than `limit`, which the heap of this machine may take. Where the configuration has a
/// smaller limit of its own, the run steps down to it.
///
/// # Errors
///
/// [`SystemError::OutOfMemory`] if it needs more, with what would fit.
pub(super) fn check_machine(
    config: &Config,
    name: &str,
    data: &DataSize,
    device: &Device,
    planned: &Planned,
    limit: Option<Bytes>,
) -> Result<()> {
    let needed = at_rest(config, data, device, planned).planned();
    let is_short = |limit: &Bytes| needed > *limit && is_bounded_by_machine(config, device, *limit);
    let Some(limit) = limit.filter(is_short) else { return Ok(()) };
    Err(SystemError::OutOfMemory {
        reason: format!("the run is planned to need {needed}; {}, of which the heap may take {limit}", machine()),
        remedy: remedy(config, name, data, limit),
    })
}

/// Whether a limit of the machine, not of the configuration, bounds a run on the CPU.
fn is_bounded_by_machine(config: &Config, device: &Device, limit: Bytes) -> bool {
    !is_gpu(device) && config.device.memory_limit.is_none_or(|configured| limit < configured)
}

fn machine() -> String {
    machine_memory().map_or("this machine has too little".to_string(), |memory| format!("this machine has {memory}"))
}

/// What fits into `limit`, as the leanest step of the same mathematics shows: one item at a time, everything recomputed.
fn remedy(config: &Config, name: &str, data: &DataSize, limit: Bytes) -> String {
    let budget = limit.to_string().replace(' ', "");
    match leanest(config, name, data) {
        Ok(least) if least <= limit => format!(
            "`leanburn fit CONFIG --budget {budget}` finds the fastest plan that fits (in batches of 1, with everything recomputed, it is \
             {least}); with device.memory_limit={budget} the run starts and steps down"
        ),
        Ok(least) => format!(
            "nothing that computes the same fits: in batches of 1, with everything recomputed, it is still {least}. Make the model or its \
             volumes smaller (`leanburn fit CONFIG --budget {budget} --allow model` finds how), or allow the process more memory"
        ),
        Err(_) => format!("`leanburn fit CONFIG --budget {budget}` finds what fits"),
    }
}

/// What the leanest step is planned to need.
fn leanest(config: &Config, name: &str, data: &DataSize) -> Result<Bytes> {
    let planner = planner_of(&config.device.name, None, None)?;
    let space = ConfigSpace::new(config, name, &planner, || Ok(data.clone()))?;
    let configured = space.configured();
    let items = configured.micro_batch as u64 * configured.accumulation;
    let leanest =
        Candidate { micro_batch: 1, accumulation: items, recompute: vec!["*".to_string()], ..space.configured() };
    let timeline = space.record(&leanest)?.timeline(planner.memory_model());
    Ok(planner.memory_model().needed(&timeline) + space.other_bytes(&leanest))
}
