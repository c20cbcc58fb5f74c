//! Discriminators of patches of a volume rather than of the whole.
//!
//! Isola et al., [Image-to-Image Translation with Conditional Adversarial Networks](https://arxiv.org/abs/1611.07004);
//! at several scales Wang et al., [High-Resolution Image Synthesis with Conditional GANs](https://arxiv.org/abs/1711.11585).
//! A few strided convolutions, each output voxel the logits of the part of the volume it sees.

mod config;
mod layer;
mod model;
mod multi_scale;
mod names;

pub use config::PatchDiscriminatorConfig;
pub use layer::PatchLayer;
pub use model::PatchDiscriminator;
pub use multi_scale::{MultiScaleFeatures, MultiScalePatchDiscriminator, MultiScalePatchDiscriminatorConfig};
