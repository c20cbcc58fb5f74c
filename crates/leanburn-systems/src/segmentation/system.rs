//! Segmentation as a system.

use std::path::Path;
use std::sync::Arc;

use burn::tensor::{Device, Int, Tensor};
use image::RgbImage;
use leanburn_common::{Validation, ValidationError};
use leanburn_data::metrics::{DiceCounts, best_two_thresholds, mean_dice};
use leanburn_data::{DataError, Dataset, LabelMap, Volume};
use leanburn_nn::weights::{WeightsError, save_safetensors};
use leanburn_train::{Learner, MainModel};

use super::dyn_unet::DynUnetSection;
use super::inference::{predict_classes, window};
use super::section::{SegmentationNetwork, SegmentationSection};
use super::supervised::SupervisedNetwork;
use super::unet::UnetSection;
use super::workload::SegmentationWorkload;
use crate::error::Result;
use crate::evaluation::{Curves, Metrics, PictureLabel};
use crate::picture::{classes, range_of};
use crate::recipe::Recipe;
use crate::shared::{Context, TrainingSection, check_shape, learner, of_section, policy_and_seed};
use crate::system::{ModelChange, System, TrainedOn};
use crate::yaml::Section;

/// Names of the Dice scores of the classes from 1 on; further classes are in the mean alone.
const CLASS_DICE: [&str; 8] = [
    "dice_class_1",
    "dice_class_2",
    "dice_class_3",
    "dice_class_4",
    "dice_class_5",
    "dice_class_6",
    "dice_class_7",
    "dice_class_8",
];

impl System for SegmentationSection {
    type Batch = (Tensor<5>, Tensor<4, Int>);
    type Workload = SegmentationWorkload;

    const NAME: &'static str = "segmentation";
    const RECIPES: &'static [Recipe] = &[
        Recipe {
            name: "mni152-segmentation",
            about: "a small residual U-Net learns grey and white matter of a real brain scan: minutes on a CPU",
            text: include_str!("../../recipes/mni152-segmentation.yaml"),
        },
        Recipe {
            name: "mni152-nnunet-segmentation",
            about: "a small nnU-Net U-Net learns the same tissues: kernels and strides of each level and axis, minutes on a CPU",
            text: include_str!("../../recipes/mni152-nnunet-segmentation.yaml"),
        },
        Recipe {
            name: "mni152-swin-segmentation",
            about: "a small Swin UNETR learns the same tissues: attention in windows, minutes on a CPU",
            text: include_str!("../../recipes/mni152-swin-segmentation.yaml"),
        },
    ];
    const PICTURE: PictureLabel = PictureLabel {
        name: "segmentation",
        caption: "volume, labels and predicted labels; sagittal, coronal and axial mid-planes",
    };
    const CURVES: &'static [Curves] = &[
        Curves {
            title: "Dice",
            y_label: "Dice score",
            log_y: false,
            train: &[],
            validation: &["dice", "thresholds_dice", CLASS_DICE[0], CLASS_DICE[1]],
        },
        Curves {
            title: "Loss",
            y_label: "Dice loss + cross-entropy",
            log_y: true,
            train: &[("training", "dice_ce"), ("deep supervision", "deep_supervision")],
            validation: &[],
        },
    ];
    const ERRORS: &'static [&'static str] = &[];

    fn read(section: &mut Section<'_>, on: &TrainedOn<'_>) -> Self {
        Self::read_keys(section, on.data)
    }

    fn validate(&self, context: &Context<'_>) -> Vec<ValidationError> {
        let fields = [("out_channels", "segmentation.num_classes"), ("activation", "segmentation.act")];
        let model = of_section(self.model().validate(), Self::NAME, &fields);
        let objective = self.training.objective.validate("segmentation.training");
        [model, objective, self.validate_supervision(), self.validate_labels(context)].concat()
    }

    fn training(&self) -> &TrainingSection {
        &self.training.common
    }

    fn training_mut(&mut self) -> &mut TrainingSection {
        &mut self.training.common
    }

    fn in_channels(&self) -> usize {
        self.in_channels
    }

    fn build(&self, context: &Context<'_>, device: &Device) -> Result<Self::Workload> {
        let (model, training) = (self.model(), &self.training.common);
        let segments = || Ok(model.init(&Device::flex()).segments());
        let chains = || model.init(&Device::flex()).unstreamable();
        let policy = policy_and_seed(context, Self::NAME, training, device, |_| false, segments, chains)?;
        let network = model.init(device).with_residency(policy);
        let supervised = &model.decoder_levels()[..self.training.objective.deep_supervision];
        let model = SupervisedNetwork::new(network, supervised, self.num_classes, device);
        let name = match &self.network {
            SegmentationNetwork::Unet(_) => "unet",
            SegmentationNetwork::DynUnet(_) => "dyn_unet",
            SegmentationNetwork::SwinUnetr(_) => "swin_unetr",
        };
        let model = Learner::new(name, model, learner(context, training, training.learning_rate))?;
        let precision = context.device.resolved_precision();
        Ok(SegmentationWorkload::new(model, self.training.objective.loss(), precision))
    }

    fn save_weights(workload: &Self::Workload, path: &Path) -> std::result::Result<(), WeightsError> {
        save_safetensors(&workload.model().trained().network, path)
    }

    fn check_sample(&self, name: &str, shape: [usize; 4]) -> Result<()> {
        check_shape(name, shape, |input| self.model().check_input(input))
    }

    fn multiples(&self) -> [usize; 3] {
        self.model().downsampling().unwrap_or([1; 3])
    }

    /// The Dice score over all voxels of the held-out parts, of at most `val_patches` of them: its mean over the classes but the
    /// background, and that of each class. With three classes of volumes of one channel also the best that a pair of intensity
    /// thresholds can reach on the same voxels, where some are of class 1 or 2.
    fn evaluate(&self, workload: &Self::Workload, data: &Arc<Dataset>, device: &Device) -> Result<Metrics> {
        let parts = data.held_out_len().min(data.config().val_patches);
        let mut counts = DiceCounts::new(self.num_classes);
        let (mut values, mut truth) = (Vec::new(), Vec::new());
        for index in 0..parts {
            let part = data.held_out(index)?;
            let labels = part.labels.ok_or_else(DataError::without_labels)?;
            counts.add(self.predict(workload, data, &part.volume, device)?.data(), labels.data())?;
            if self.has_thresholds() {
                values.extend_from_slice(part.volume.data());
                truth.extend_from_slice(labels.data());
            }
        }
        let scores = counts.scores();
        let mut metrics = vec![("dice", mean_dice(&scores))];
        metrics.extend(CLASS_DICE.into_iter().zip(scores.into_iter().skip(1)));
        if !values.is_empty() && truth.iter().any(|class| matches!(class, 1 | 2)) {
            metrics.push(("thresholds_dice", best_two_thresholds(&values, &truth)?.mean));
        }
        Ok(if parts > 0 { metrics } else { Vec::new() })
    }

    fn picture(&self, workload: &Self::Workload, data: &Arc<Dataset>, device: &Device) -> Result<RgbImage> {
        let (volume, labels) = data.exhibit()?;
        let labels = labels.ok_or_else(DataError::without_labels)?;
        let prediction = self.predict(workload, data, &volume, device)?;
        let extent = volume.extent();
        let first = &volume.data()[..labels.data().len()];
        Ok(classes(first, labels.data(), prediction.data(), extent, range_of(first))?)
    }

    /// Half of the channels.
    fn smaller(&self) -> Vec<ModelChange<Self>> {
        let with = |network: SegmentationNetwork| Self { network, ..self.clone() };
        match &self.network {
            SegmentationNetwork::Unet(unet) => {
                ModelChange::half_of("segmentation.channels", &unet.channels, |channels| {
                    with(UnetSection { channels, ..unet.clone() }.into())
                })
            }
            SegmentationNetwork::DynUnet(unet) => {
                ModelChange::half_of("segmentation.filters", &unet.filters, |filters| {
                    with(DynUnetSection { filters, ..unet.clone() }.into())
                })
            }
            SegmentationNetwork::SwinUnetr(swin) => {
                let smaller = with(swin.clone().with_feature_size(swin.feature_size / 2).into());
                let is_sound = swin.feature_size >= 24 && smaller.model().validate().is_empty();
                let text = format!("{}.feature_size = {}", Self::NAME, swin.feature_size / 2);
                let change = ModelChange { text, cost: "a smaller model: a quarter of the weights", section: smaller };
                is_sound.then_some(change).into_iter().collect()
            }
        }
    }
}

impl SegmentationSection {
    /// Whether the decoder has as many levels as are to have a loss.
    fn validate_supervision(&self) -> Vec<ValidationError> {
        let (asked, levels) = (self.training.objective.deep_supervision, self.model().decoder_levels().len());
        let mut validation = Validation::default();
        validation.check_together(
            asked <= levels,
            &["segmentation.channels", "segmentation.strides"],
            "segmentation.training.deep_supervision",
            &format!("at most {levels}, the coarser levels of this decoder"),
            asked,
            "write fewer; 0 has a loss at the finest level alone",
        );
        validation.errors()
    }

    /// Whether the data has labels, and of as many classes.
    fn validate_labels(&self, context: &Context<'_>) -> Vec<ValidationError> {
        let mut validation = Validation::default();
        match context.data.num_classes() {
            None => validation.check_together(
                false,
                &["data"],
                "data.labels",
                "the labels of the volumes",
                "none",
                "add `labels` with `label_maps` or `class_maps` to `data`; a phantom has its own: `labels: {}`",
            ),
            Some(labelled) => validation.check_together(
                labelled == self.num_classes,
                &["data.labels"],
                "segmentation.num_classes",
                &format!("{labelled}, the classes of `data.labels` with the background"),
                self.num_classes,
                format!("write {labelled}, or change `data.labels`"),
            ),
        }
        validation.errors()
    }

    /// Whether intensities alone could tell the classes apart: three of them, in one channel.
    fn has_thresholds(&self) -> bool {
        self.num_classes == 3 && self.in_channels == 1
    }

    /// The classes of a prepared volume, patch by patch so that it needs no larger activations than training.
    fn predict(
        &self,
        workload: &SegmentationWorkload,
        data: &Dataset,
        volume: &Volume,
        device: &Device,
    ) -> Result<LabelMap> {
        let window = window(data.config(), volume.extent());
        let model = |volumes| workload.logits(volumes);
        predict_classes(volume, self.num_classes, &window, self.multiples(), device, model)
    }
}
