//! A norm by name: `norm` of a U-Net, `norm_name` of a Swin UNETR.

use leanburn_nn::blocks::NormConfig;
use serde::{Deserialize, Serialize};

/// The norm behind a convolution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NormName {
    /// Of each channel of each item.
    Instance,
    /// Over the batch.
    Batch,
    /// No norm.
    None,
}

impl NormName {
    pub(super) fn config(self) -> NormConfig {
        match self {
            Self::Instance => NormConfig::Instance,
            Self::Batch => NormConfig::Batch,
            Self::None => NormConfig::None,
        }
    }
}
