//! `leanburn calibrate`.

use leanburn_systems::planning::{measure_rates, save_rates};

use crate::console::print_line;
use crate::error::Result;

/// Measures what the processor reaches and keeps it for plans.
pub(super) fn run() -> Result<()> {
    let rates = measure_rates();
    let path = save_rates(&rates)?;
    print_line(format_args!("float32      {:>8.1} GFLOP/s", rates.flops / 1e9))?;
    print_line(format_args!("bfloat16     {:>8.1} GFLOP/s", rates.half_flops / 1e9))?;
    print_line(format_args!("memory       {:>8.1} GB/s", rates.bandwidth / 1e9))?;
    print_line(format_args!("an operation {:>8.1} microseconds", rates.overhead * 1e6))?;
    print_line(format_args!("kept in {}", path.display()))
}
