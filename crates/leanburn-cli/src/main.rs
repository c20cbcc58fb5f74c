//! The `leanburn` command.

use std::process::ExitCode;

use clap::Parser;
use leanburn_cli::command::Command;
use leanburn_cli::console::{print_stderr, stderr_has_colours};
use leanburn_cli::diagnostic;
use leanburn_cli::error::CommandError;

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
    // Burn panics where a device has no more memory, and drivers where they are asked what there is; errors say so already
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !leanburn_train::is_out_of_memory(panic.payload()) && !leanburn_systems::device::is_asking() {
            print(panic);
        }
    }));
    match run(Arguments::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let code = error.exit_code();
            if !error.is_printed() {
                print_stderr(diagnostic::render(&error, stderr_has_colours()));
            }
            ExitCode::from(code)
        }
    }
}

/// Runs the command on a thread of rayon's pool; a rank stays on the thread that MPI knows.
fn run(command: Command) -> Result<(), CommandError> {
    match leanburn_mpi::ranks_of_launcher(|name| std::env::var(name).ok()) {
        0 | 1 => leanburn_ops::on_pool(|| command.run()),
        _ => command.run(),
    }
}
