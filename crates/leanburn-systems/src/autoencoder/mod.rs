//! The KL autoencoder: MONAI's `AutoencoderKL` in three dimensions, with patch discriminators.

mod build;
mod discriminator;
mod objective;
mod section;
mod smaller;
mod system;

pub use discriminator::{Discriminator, DiscriminatorSection};
pub use objective::AutoencoderObjectiveSection;
pub use section::AutoencoderSection;
