//! `leanburn calibrate`.

use leanburn_train::planning::{SaveRatesError, measure_processor, save_processor_rates};

use crate::console::print_line;
use crate::error::{CommandError, Result};

/// Measures what the processor reaches and keeps it for plans.
pub(super) fn run() -> Result<()> {
    let rates = measure_processor();
    let path =
        save_processor_rates(&rates).map_err(|SaveRatesError { path, source }| CommandError::writing(&path)(source))?;
    print_line(format_args!("float32      {:>8.1} GFLOP/s", rates.flops / 1e9))?;
    print_line(format_args!("bfloat16     {:>8.1} GFLOP/s", rates.half_flops / 1e9))?;
    print_line(format_args!("memory       {:>8.1} GB/s", rates.bandwidth / 1e9))?;
    print_line(format_args!("an operation {:>8.1} microseconds", rates.overhead * 1e6))?;
    print_line(format_args!("saved in {}", path.display()))
}
