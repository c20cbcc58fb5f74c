//! The discrete autoencoder: MONAI's `VQVAE` in three dimensions.

mod section;
mod system;

pub use section::VqVaeSection;
