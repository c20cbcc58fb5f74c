//! What a network is trained for, and how samples are made in validations: keys of `super_resolution.training`.

use serde::{Deserialize, Serialize};

use crate::shared::with_methods;
use crate::yaml::{MANY, Section};

/// The loss, and what a validation samples.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct SuperResolutionObjectiveSection {
    /// The loss between the noise that the network says and that which was added. Default: l2.
    pub loss: SuperResolutionLoss,
    /// Steps in which samples are made; as many as the scheduler has times for the best. Default: 50.
    pub num_inference_steps: usize,
    /// Samples of each window, whose mean is compared with the truth. Default: 4.
    pub num_samples: usize,
    /// Windows that a validation samples, spread over the validation part. Default: 8.
    pub val_windows: usize,
}

/// How the noise is compared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SuperResolutionLoss {
    /// The mean squared difference.
    #[default]
    L2,
    /// The mean absolute difference.
    L1,
    /// `|prediction - noise| / |noise|` of each window.
    RelativeL2,
}

impl Default for SuperResolutionObjectiveSection {
    fn default() -> Self {
        Self { loss: SuperResolutionLoss::L2, num_inference_steps: 50, num_samples: 4, val_windows: 8 }
    }
}

with_methods! { SuperResolutionObjectiveSection {
    with_loss => loss: SuperResolutionLoss,
    with_num_inference_steps => num_inference_steps: usize,
    with_num_samples => num_samples: usize,
    with_val_windows => val_windows: usize,
} }

impl SuperResolutionObjectiveSection {
    pub(super) fn read(section: &mut Section<'_>) -> Self {
        let default = Self::default();
        Self {
            loss: section.choice("loss", default.loss),
            num_inference_steps: section.number("num_inference_steps", default.num_inference_steps, 1..=MANY),
            num_samples: section.number("num_samples", default.num_samples, 1..=MANY),
            val_windows: section.number("val_windows", default.val_windows, 1..=MANY),
        }
    }
}
