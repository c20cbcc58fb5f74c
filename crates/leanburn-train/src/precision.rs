//! Mixed precision as a per-operation policy.

use std::fmt;

use burn::tensor::{DType, Device, Tensor};
use serde::{Deserialize, Serialize};

use crate::loss_scale::LossScale;

/// The dtype of convolutions and matrix products. Weights are always f32 masters.
///
/// Source: Micikevicius et al., [Mixed Precision Training](https://arxiv.org/abs/1710.03740).
///
/// The models of `leanburn-nn` compute each operation in the dtype of its input: casting a model's input with
/// [`cast`](Self::cast) is all there is to choosing a precision. Statistics, softmax and losses stay in f32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Precision {
    /// Single precision throughout.
    #[default]
    F32,
    /// bfloat16: the range of f32, 8 bits of mantissa; needs no loss scale.
    Bf16,
    /// IEEE half: 11 bits of mantissa, overflows above 65,504; needs a loss scale.
    F16,
}

/// Its name in configurations.
impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
            Self::F16 => "f16",
        })
    }
}

impl Precision {
    /// The dtype of convolutions and matrix products.
    pub fn dtype(self) -> DType {
        match self {
            Self::F32 => DType::F32,
            Self::Bf16 => DType::BF16,
            Self::F16 => DType::F16,
        }
    }

    /// The tensor in this precision.
    pub fn cast<const D: usize>(self, tensor: Tensor<D>) -> Tensor<D> {
        if tensor.dtype() == self.dtype() { tensor } else { tensor.cast(self.dtype()) }
    }

    /// The factor of the loss that goes with it: as large as it goes in f16, none in f32 and bf16.
    pub fn loss_scale(self) -> LossScale {
        match self {
            Self::F32 | Self::Bf16 => LossScale::NONE,
            Self::F16 => LossScale::DYNAMIC,
        }
    }

    /// Whether the device computes in this precision.
    pub fn is_supported_by(self, device: &Device) -> bool {
        device.supports_dtype(self.dtype())
    }
}
