//! What a diffusion model is trained for: keys of `diffusion.training`.

use leanburn_nn::losses::Difference;
use serde::Serialize;

use crate::shared::{TrainingSection, with_methods};
use crate::yaml::{MANY, Section};

/// The loss of a diffusion model, and how its pictures are sampled.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct DiffusionObjectiveSection {
    /// The loss between what the network gives and what it should. Default: l2.
    pub loss: Difference,
    /// Steps in which the samples of pictures are made. Default: 50, of a consistency model 1.
    pub num_inference_steps: usize,
    /// Samples that each evaluation makes, in `num_inference_steps`, to compare them with real latents. Default: 0, no comparison.
    pub evaluation_samples: usize,
    /// Training latents that evaluations fit the best linear predictor to, whose loss the network's is compared with. Default: 0, none.
    pub linear_baseline: usize,
    /// How often a latent is trained on without its class, for a model with classes: what guidance away from no class needs. Default: 0.1.
    pub condition_dropout: f64,
}

impl Default for DiffusionObjectiveSection {
    fn default() -> Self {
        Self {
            loss: Difference::L2,
            num_inference_steps: 50,
            evaluation_samples: 0,
            linear_baseline: 0,
            condition_dropout: 0.1,
        }
    }
}

with_methods! { DiffusionObjectiveSection {
    with_loss => loss: Difference,
    with_num_inference_steps => num_inference_steps: usize,
    with_evaluation_samples => evaluation_samples: usize,
    with_linear_baseline => linear_baseline: usize,
    with_condition_dropout => condition_dropout: f64,
} }

impl DiffusionObjectiveSection {
    /// Reads the keys of a model, of a consistency model if it is one.
    pub(super) fn read(section: &mut Section<'_>, is_consistent: bool) -> Self {
        let default = Self::default().with_num_inference_steps(if is_consistent { 1 } else { 50 });
        section.section("input_noise", reject_input_noise);
        Self {
            loss: section.choice("loss", default.loss),
            num_inference_steps: section.number("num_inference_steps", default.num_inference_steps, 1..=MANY),
            evaluation_samples: section.number("evaluation_samples", default.evaluation_samples, 0..=MANY),
            linear_baseline: section.number("linear_baseline", default.linear_baseline, 0..=MOST_FITTED),
            condition_dropout: section.number("condition_dropout", default.condition_dropout, 0..=1),
        }
    }
}

/// The noise that another program adds to the volumes that it encodes: one of the augmentations of the data here, and relative.
fn reject_input_noise(section: &mut Section<'_>) {
    section.reject_if(
        "enabled",
        true,
        "false: noise is one of the augmentations of the data",
        "set it to false and add `--set data.augmentation.noise.probability=1 --set data.augmentation.noise.range=[0.03,0.03]`, shares of the volume's deviation",
    );
    section.get("noise_type", String::new());
    for key in ["noise_std", "dropout_prob"] {
        section.get(key, 0.0_f64);
    }
}

/// The most latents that a linear predictor is fitted to: its time grows with the third power of their number.
const MOST_FITTED: i32 = 4096;

/// Decay of the average of weights where nothing is said.
const EMA_DECAY: f64 = 0.995;

/// How a diffusion model is trained where nothing is said: samples are made by averaged weights.
pub(crate) fn training() -> TrainingSection {
    TrainingSection::default().with_ema_decay(Some(EMA_DECAY))
}
