//! The `leanburn` command.

use std::process::ExitCode;

use clap::Parser;
use leanburn_cli::command::Command;
use leanburn_cli::console::print_stderr;
use leanburn_cli::diagnostic::Shown;

/// Counts the heap, so that memory on the CPU is measured and not guessed.
#[global_allocator]
static HEAP: leanburn_train::CountingAllocator = leanburn_train::CountingAllocator;

/// Memory-lean training of 3D (volumetric) deep-learning models.
#[derive(Parser)]
#[command(name = "leanburn", version, propagate_version = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

fn main() -> ExitCode {
    leanburn_ops::keep_freed_memory();
    // a path stays in one piece: the terminal breaks lines where it must
    let unbroken = |_: &_| -> Box<dyn miette::ReportHandler> {
        Box::new(miette::MietteHandlerOpts::new().wrap_lines(false).build())
    };
    let _ = miette::set_hook(Box::new(unbroken)); // fails only where one is set already
    // Burn panics where a device has no more memory; the error says so already
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| match leanburn_train::is_out_of_memory(panic.payload()) {
        true => {}
        false => print(panic),
    }));
    match Arguments::parse().command.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let code = error.exit_code();
            if !error.is_over_budget() {
                print_stderr(format_args!("{:?}", miette::Report::new(Shown::from(error))));
            }
            ExitCode::from(code)
        }
    }
}
