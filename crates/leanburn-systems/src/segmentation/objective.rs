//! The loss of a segmentation: keys of `segmentation.training`.

use leanburn_common::{Validation, ValidationError};
use leanburn_nn::losses::{DiceCeLoss, DiceLoss};
use serde::Serialize;

use crate::shared::{of_section, with_methods};
use crate::yaml::{MANY, POSITIVE, Section};

/// Dice loss plus cross-entropy; the keys are those of MONAI's `DiceCELoss`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct SegmentationObjectiveSection {
    /// Whether class 0 counts in the Dice loss. Default: true.
    pub include_background: bool,
    /// Whether the denominator of the Dice loss sums squares. Default: false.
    pub squared_pred: bool,
    /// Weight of the Dice loss. Default: 1.
    pub lambda_dice: f64,
    /// Weight of the cross-entropy. Default: 1.
    pub lambda_ce: f64,
    /// Added to the numerator of the Dice coefficient. Default: 1e-5.
    pub smooth_nr: f64,
    /// Added to its denominator. Default: 1e-5.
    pub smooth_dr: f64,
    /// Coarser levels of the decoder that have a loss of their own. Default: 0.
    pub deep_supervision: usize,
}

impl Default for SegmentationObjectiveSection {
    fn default() -> Self {
        Self {
            include_background: true,
            squared_pred: false,
            lambda_dice: 1.0,
            lambda_ce: 1.0,
            smooth_nr: 1e-5,
            smooth_dr: 1e-5,
            deep_supervision: 0,
        }
    }
}

with_methods! { SegmentationObjectiveSection {
    with_include_background => include_background: bool,
    with_squared_pred => squared_pred: bool,
    with_lambda_dice => lambda_dice: f64,
    with_lambda_ce => lambda_ce: f64,
    with_smooth_nr => smooth_nr: f64,
    with_smooth_dr => smooth_dr: f64,
    with_deep_supervision => deep_supervision: usize,
} }

impl SegmentationObjectiveSection {
    pub(super) fn read(section: &mut Section<'_>) -> Self {
        let default = Self::default();
        Self {
            include_background: section.get("include_background", default.include_background),
            squared_pred: section.get("squared_pred", default.squared_pred),
            lambda_dice: section.number("lambda_dice", default.lambda_dice, 0..),
            lambda_ce: section.number("lambda_ce", default.lambda_ce, 0..),
            smooth_nr: section.number("smooth_nr", default.smooth_nr, 0..),
            smooth_dr: section.number("smooth_dr", default.smooth_dr, POSITIVE),
            deep_supervision: section.number("deep_supervision", default.deep_supervision, 0..=MANY),
        }
    }

    /// What is wrong with the keys of `training`, the section at the path `training`.
    pub(super) fn validate(&self, training: &str) -> Vec<ValidationError> {
        let fields = [
            ("dice.smooth_numerator", "segmentation.training.smooth_nr"),
            ("dice.smooth_denominator", "segmentation.training.smooth_dr"),
            ("dice_weight", "segmentation.training.lambda_dice"),
            ("cross_entropy_weight", "segmentation.training.lambda_ce"),
        ];
        let mut validation = Validation::default();
        validation.check_together(
            self.lambda_dice != 0.0 || self.lambda_ce != 0.0,
            &["segmentation.training.lambda_ce"],
            "segmentation.training.lambda_dice",
            "a weight above 0 for the Dice loss or for the cross-entropy",
            "0 for both",
            "leave one of them out: their defaults are 1",
        );
        [of_section(self.loss().validate(), training, &fields), validation.errors()].concat()
    }

    /// The loss.
    pub fn loss(&self) -> DiceCeLoss {
        let dice = DiceLoss::new()
            .with_include_background(self.include_background)
            .with_squared_predictions(self.squared_pred)
            .with_smooth_numerator(self.smooth_nr)
            .with_smooth_denominator(self.smooth_dr);
        DiceCeLoss::new().with_dice(dice).with_dice_weight(self.lambda_dice).with_cross_entropy_weight(self.lambda_ce)
    }
}
