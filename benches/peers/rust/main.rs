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
mod swin_unetr_step;
mod training_step;
mod values;

use clap::Parser;
use leanburn::prelude::CountingAllocator;

#[global_allocator]
static HEAP: CountingAllocator = CountingAllocator;

/// Training steps and single operations on the CPU, timed.
#[derive(Parser)]
enum Program {
    /// Training steps of a chain of residual blocks.
    ResidualChain(residual_chain::Arguments),
    /// Training steps of the KL autoencoder.
    AutoencoderStep(autoencoder_step::Arguments),
    /// Training steps of the U-Net of a latent diffusion model.
    DiffusionStep(diffusion_step::Arguments),
    /// Training steps of the Fourier neural operator.
    FnoStep(fno_step::Arguments),
    /// Training steps of Swin UNETR.
    SwinUnetrStep(swin_unetr_step::Arguments),
    /// Self-attention, forward and backward.
    Attention(attention::Arguments),
    /// Single convolutions, one for each line of the input.
    Conv3d(conv3d::Arguments),
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    leanburn::ops::keep_freed_memory();
    match Program::parse() {
        Program::ResidualChain(arguments) => residual_chain::run(&arguments),
        Program::AutoencoderStep(arguments) => autoencoder_step::run(&arguments),
        Program::DiffusionStep(arguments) => diffusion_step::run(&arguments),
        Program::FnoStep(arguments) => fno_step::run(&arguments),
        Program::SwinUnetrStep(arguments) => swin_unetr_step::run(&arguments),
        Program::Attention(arguments) => attention::run(&arguments),
        Program::Conv3d(arguments) => conv3d::run(&arguments),
    }
}
