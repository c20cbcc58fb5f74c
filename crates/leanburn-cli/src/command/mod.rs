//! The commands, one file each.

mod account;
mod codec;
mod devices;
mod outcome;
mod recipes;
mod reconstruct;
mod session;
mod train;
mod volume;

use clap::Subcommand;

use crate::error::Result;

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Train a model from a configuration.
    Train(train::Train),
    /// Reconstruct a volume with a trained autoencoder.
    Reconstruct(reconstruct::Reconstruct),
    /// Turn a volume into its latent.
    Encode(codec::Encode),
    /// Turn a latent into a volume.
    Decode(codec::Decode),
    /// List the devices that can compute.
    Devices,
    /// List the configurations that come with the command.
    Recipes,
    /// Write a recipe's configuration into a file to edit.
    Init(recipes::Init),
}

impl Command {
    /// Runs the command.
    ///
    /// # Errors
    ///
    /// [`CommandError`](crate::error::CommandError) with what to do.
    pub fn run(self) -> Result<()> {
        match self {
            Self::Train(train) => train.run(),
            Self::Reconstruct(reconstruct) => reconstruct.run(),
            Self::Encode(encode) => encode.run(),
            Self::Decode(decode) => decode.run(),
            Self::Devices => devices::run(),
            Self::Recipes => recipes::run(),
            Self::Init(init) => init.run(),
        }
    }
}
