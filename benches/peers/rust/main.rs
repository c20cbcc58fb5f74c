//! Our side of the comparisons, and plain Burn's; run by the scripts of `benches/peers`.
//!
//! Each program takes the arguments of that of the same name in `benches/peers/pytorch` and prints the same line of JSON.

mod attention;
mod autoencoder_step;
mod burn_autoencoder;
mod burn_block;
mod conv3d;
mod diffusion_step;
mod fno_step;
mod measure;
mod residual_chain;
mod segmentation_step;
mod training_step;
mod values;

use clap::{Parser, Subcommand};
use leanburn::prelude::{CountingAllocator, keep_freed_memory, on_pool};

#[global_allocator]
static HEAP: CountingAllocator = CountingAllocator;

/// Training steps and single operations on the CPU, timed.
#[derive(Parser)]
struct Arguments {
    /// Threads; 0 are as many as there are processors.
    #[arg(long, global = true, default_value_t = 0)]
    threads: usize,
    #[command(subcommand)]
    program: Program,
}

#[derive(Subcommand)]
enum Program {
    /// Training steps of a chain of residual blocks.
    ResidualChain(residual_chain::Arguments),
    /// Training steps of the KL autoencoder.
    AutoencoderStep(autoencoder_step::Arguments),
    /// Training steps of the U-Net of a latent diffusion model.
    DiffusionStep(diffusion_step::Arguments),
    /// Training steps of the Fourier neural operator.
    FnoStep(fno_step::Arguments),
    /// Training steps of a segmentation.
    SegmentationStep(segmentation_step::Arguments),
    /// Self-attention, forward and backward.
    Attention(attention::Arguments),
    /// Single convolutions, one for each line of the input.
    Conv3d(conv3d::Arguments),
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    keep_freed_memory();
    let Arguments { threads, program } = Arguments::parse();
    rayon::ThreadPoolBuilder::new().num_threads(threads).build_global()?;
    Ok(on_pool(|| program.run().map_err(|error| error.to_string()))?)
}

impl Program {
    fn run(&self) -> Result<(), Box<dyn std::error::Error>> {
        match self {
            Self::ResidualChain(arguments) => residual_chain::run(arguments),
            Self::AutoencoderStep(arguments) => autoencoder_step::run(arguments),
            Self::DiffusionStep(arguments) => diffusion_step::run(arguments),
            Self::FnoStep(arguments) => fno_step::run(arguments),
            Self::SegmentationStep(arguments) => segmentation_step::run(arguments),
            Self::Attention(arguments) => attention::run(arguments),
            Self::Conv3d(arguments) => conv3d::run(arguments),
        }
    }
}
