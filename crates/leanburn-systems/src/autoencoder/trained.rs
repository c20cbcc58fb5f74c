//! The trained autoencoder alone.

use std::path::Path;

use burn::tensor::Device;
use leanburn_nn::models::AutoencoderKl;
use leanburn_nn::weights;

use super::section::AutoencoderSection;
use crate::error::Result;
use crate::shared::{Context, reject};
use crate::system::System;

/// The model alone, without autodiff, with weights from a file.
///
/// # Errors
///
/// [`SystemError::Config`](crate::SystemError::Config), [`SystemError::Weights`](crate::SystemError::Weights).
pub fn trained_model(
    section: &AutoencoderSection,
    context: &Context<'_>,
    weights_path: &Path,
    device: &Device,
) -> Result<AutoencoderKl> {
    reject(context, section.validate(context))?;
    let mut model = section.model().init(device);
    weights::load(&mut model, weights_path)?;
    Ok(model)
}
