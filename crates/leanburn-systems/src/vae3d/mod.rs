//! The voxel autoencoder of sparse volumes, such as radar, with a Gaussian latent or a codebook.

mod section;
mod system;

pub use section::{Vae3dObjectiveSection, Vae3dSection, VaeType};
