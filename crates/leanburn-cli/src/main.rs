//! The `leanburn` command.

use std::process::ExitCode;

use clap::Parser;
use leanburn_cli::command::Command;

/// Counts the heap, so that memory on the CPU is measured and not guessed.
#[global_allocator]
static HEAP: leanburn_train::CountingAllocator = leanburn_train::CountingAllocator;

/// Memory-lean training of 3D (volumetric) deep-learning models.
#[derive(Parser)]
#[command(name = "leanburn", version, about, propagate_version = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

fn main() -> ExitCode {
    match Arguments::parse().command.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let code = error.exit_code();
            eprintln!("{:?}", miette::Report::new(error));
            ExitCode::from(code)
        }
    }
}
