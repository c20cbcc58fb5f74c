//! The autoencoder as a system.

use std::path::Path;
use std::sync::Arc;

use burn::tensor::{Device, Tensor};
use image::RgbImage;
use leanburn_common::{Validation, ValidationError};
use leanburn_data::Dataset;
use leanburn_nn::weights::{WeightsError, load_matching, save_safetensors};
use leanburn_ops::largest_attention_block;
use leanburn_plan::Knob;
use leanburn_train::{AutoencoderWorkload, MainModel};

use super::build::{build, unstreamable};
use super::discriminator::Discriminator;
use super::section::AutoencoderSection;
use super::smaller::smaller;
use crate::codec::{Codec, CodecShape};
use crate::error::Result;
use crate::evaluation::{Curves, L1, Metrics, PictureLabel};
use crate::recipe::Recipe;
use crate::shared::{
    COMPARISON, Context, DIVERGENCE, PERCEPTUAL, RECONSTRUCTION, TrainingSection, check_shape, compared, of_section,
    streamed_only, validate_volumes,
};
use crate::system::{ModelChange, System, TrainedOn};
use crate::weight_source::{Initialized, WeightSource};
use crate::yaml::Section;

impl System for AutoencoderSection {
    type Batch = Tensor<5>;
    type Workload = AutoencoderWorkload<Discriminator>;

    const NAME: &'static str = "autoencoder";
    const SHARES_VOLUMES: bool = true;
    const RECIPES: &'static [Recipe] = &[
        Recipe {
            name: "mni152-autoencoder",
            about: "a small autoencoder on one public brain scan: minutes on a CPU",
            text: include_str!("../../recipes/mni152-autoencoder.yaml"),
        },
        Recipe {
            name: "autoencoder-24gb",
            about: "256x256x64 volumes on a 24 GB card: every memory saver on",
            text: include_str!("../../recipes/autoencoder-24gb.yaml"),
        },
        Recipe {
            name: "autoencoder-32gb",
            about: "256x256x64 volumes on a 32 GB card: wider, with a perceptual loss",
            text: include_str!("../../recipes/autoencoder-32gb.yaml"),
        },
        Recipe {
            name: "autoencoder-40gb",
            about: "256x256x64 volumes on a card of 40 GB or more: the best quality, 83 minutes a step (30 s with less attention)",
            text: include_str!("../../recipes/autoencoder-40gb.yaml"),
        },
    ];
    const PICTURE: PictureLabel = COMPARISON;
    const CURVES: &'static [Curves] = &[
        Curves { validation: &[L1], ..RECONSTRUCTION },
        PERCEPTUAL,
        DIVERGENCE,
        Curves {
            title: "Adversarial losses",
            y_label: "loss",
            log_y: false,
            train: &[("generator", "generator"), ("discriminator", "discriminator")],
            validation: &[],
        },
    ];
    const ERRORS: &'static [&'static str] = &[L1];
    const KNOBS: &'static [&'static str] = &[ATTENTION_BLOCK];

    fn read(section: &mut Section<'_>, _on: &TrainedOn<'_>) -> Self {
        Self::read_keys(section)
    }

    fn validate(&self, context: &Context<'_>) -> Vec<ValidationError> {
        let objective = &self.training.objective;
        let mut validation = Validation::default();
        validation.check_together(
            self.in_channels == self.out_channels,
            &["autoencoder.in_channels"],
            "autoencoder.out_channels",
            "as many channels as come in, since the two are compared",
            format!("{}, where in_channels is {}", self.out_channels, self.in_channels),
            "set both to the same number",
        );
        validation.check(
            objective.discriminator.is_some() || objective.adversarial_start_step == 0,
            "autoencoder.training.adversarial_start_step",
            "a `discriminator` section",
            "a start of the adversarial loss, but no `discriminator`",
            "add `discriminator:` to the training section, or remove `adversarial_start_step`",
        );
        for (is_there, key) in [
            (objective.discriminator.is_some(), "autoencoder.training.discriminator"),
            (objective.perceptual.use_perceptual_loss, "autoencoder.training.use_perceptual_loss"),
        ] {
            validation.check_together(
                !is_there || self.training.common.volume_ranks == 1,
                &["autoencoder.training.volume_ranks"],
                key,
                "losses of whole volumes only where each process has whole ones",
                format!("one, and {} processes for each volume", self.training.common.volume_ranks),
                "remove it, or `volume_ranks`",
            );
        }
        check_grid(self, context, &mut validation);
        let discriminator = objective.discriminator.iter();
        let discriminator = discriminator.flat_map(|section| section.validate(context, self.out_channels)).collect();
        let model = of_section(self.model().validate(), Self::NAME, &FIELDS);
        [model, validation.errors(), discriminator, objective.perceptual.validate(Self::NAME)].concat()
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

    fn start_at_once(&mut self) {
        self.training.objective.adversarial_start_step = 0;
    }

    fn build(&self, context: &Context<'_>, device: &Device) -> Result<Self::Workload> {
        build(self, context, device)
    }

    fn save_weights(workload: &Self::Workload, path: &Path) -> std::result::Result<(), WeightsError> {
        save_safetensors(&workload.model().trained(), path)?;
        match workload.discriminator() {
            Some(discriminator) => discriminator.trained().save(&path.with_file_name(DISCRIMINATOR)),
            None => Ok(()),
        }
    }

    fn initialize(workload: &mut Self::Workload, source: &WeightSource) -> Result<Vec<Initialized>> {
        let mut initialized = vec![source.initialize(workload.model_mut(), load_matching)?];
        if let Some(discriminator) = workload.discriminator_mut() {
            let (name, load) = (Path::new(DISCRIMINATOR), Discriminator::load_matching);
            initialized.push(source.initialize_beside(discriminator, name, load)?);
        }
        Ok(initialized)
    }

    fn codec(&self, context: &Context<'_>, weights: &Path, device: &Device) -> Result<Option<Codec>> {
        let shape = CodecShape {
            in_channels: self.in_channels,
            out_channels: self.out_channels,
            latent_channels: self.latent_channels,
            multiples: self.multiples(),
        };
        let precision = context.device.resolved_precision();
        let (model, training) = (self.model().init(device), &self.training.common);
        // The discriminator is not run, but the configuration may name its segments.
        let chains = unstreamable(self, context);
        let segments: Vec<String> = chains.iter().map(|(name, _)| name.clone()).collect();
        let policy = streamed_only(context, Self::NAME, training, &segments, &chains)?;
        Codec::load(model.with_residency(policy), weights, shape, precision, device).map(Some)
    }

    fn check_sample(&self, name: &str, shape: [usize; 4]) -> Result<()> {
        let [channels, depth, height, width] = shape;
        self.training.objective.perceptual.check_sample(name, [depth, height, width])?;
        if let Some(discriminator) = &self.training.objective.discriminator {
            discriminator.check_sample(name, [1, channels, depth, height, width])?;
        }
        check_shape(name, shape, |input| self.model().check_input(input))
    }

    fn multiples(&self) -> [usize; 3] {
        [self.model().downsampling(); 3]
    }

    fn evaluate(&self, workload: &Self::Workload, data: &Arc<Dataset>, device: &Device) -> Result<Metrics> {
        validate_volumes(data, device, |volumes| workload.reconstruct(volumes), |_, _, _| Ok(Vec::new()))
    }

    fn picture(&self, workload: &Self::Workload, data: &Arc<Dataset>, device: &Device) -> Result<RgbImage> {
        compared(data, self.multiples(), device, |volumes| workload.reconstruct(volumes))
    }

    fn smaller(&self) -> Vec<ModelChange<Self>> {
        smaller(self)
    }

    fn knob(&self, _name: &str) -> Option<usize> {
        self.training.objective.attention_block
    }

    fn set_knob(&mut self, _name: &str, value: Option<usize>) {
        self.training.objective.attention_block = value;
    }

    fn knobs(&self, micro_batch: usize, extent: [usize; 3]) -> Vec<Knob> {
        attention_block(self, micro_batch, extent).into_iter().collect()
    }
}

/// How many positions attention takes at a time: halves of what is fastest.
///
/// Blocks are not made smaller than 16 positions: their scores are fewer than what else attention holds.
fn attention_block(section: &AutoencoderSection, micro_batch: usize, extent: [usize; 3]) -> Option<Knob> {
    const SMALLEST: usize = 16;
    let last = section.num_channels.len() - 1;
    let attends =
        |level: &usize| section.attention_levels[*level] || (*level == last && section.attends_in_the_middle());
    let block = |level: usize| {
        let positions = extent.map(|length| length >> level).into_iter().product();
        largest_attention_block(micro_batch, 1, positions).min(positions)
    };
    let fastest = (0..=last).filter(attends).map(block).max()?;
    let fastest = section.training.objective.attention_block.map_or(fastest, |block| block.min(fastest));
    let halves = std::iter::successors(Some(fastest.next_power_of_two() / 2), |block| Some(block / 2));
    let values = halves.take_while(|block| *block >= SMALLEST).collect();
    Some(Knob { name: ATTENTION_BLOCK, values, segment: "attention" })
}

/// The file of the discriminator's weights, beside those of the autoencoder.
const DISCRIMINATOR: &str = "discriminator.safetensors";

/// The knob of the most positions that attention takes at a time.
const ATTENTION_BLOCK: &str = "attention_block";

const CHANNELS: &str = "autoencoder.num_channels";

/// Fields of the model's configuration whose keys have other names.
const FIELDS: [(&str, &str); 3] = [
    ("channels", CHANNELS),
    ("attention_block", "autoencoder.training.attention_block"),
    ("initial_deviation", "autoencoder.training.initial_deviation"),
];

/// Sizes that the configuration names must be multiples of what the levels divide them by.
fn check_grid(section: &AutoencoderSection, context: &Context<'_>, validation: &mut Validation) {
    let levels = section.num_channels.len();
    let Some(factor) = u32::try_from(levels).ok().and_then(|levels| 1_usize.checked_shl(levels.checked_sub(1)?)) else {
        return;
    };
    // the model sees patches where there are any
    let (key, size) = match (context.data.patch_size, context.data.voxel_size) {
        (Some(patch), _) => ("data.patch_size", patch),
        (None, Some(grid)) => ("data.voxel_size", grid),
        (None, None) => return,
    };
    let nearest = size.map(|length| length.next_multiple_of(factor));
    validation.check_together(
        size == nearest,
        &[CHANNELS],
        key,
        &format!("multiples of {factor}, since {levels} levels halve the resolution {} times", levels - 1),
        format!("{size:?}"),
        format!("use {nearest:?}, or fewer levels in `num_channels`"),
    );
}
