//! Super-resolution as a system.

use std::sync::Arc;

use burn::tensor::Device;
use image::RgbImage;
use leanburn_common::{Validation, ValidationError};
use leanburn_data::{SequenceConfig, SequenceDataset};
use leanburn_train::{ForecastBatch, Learner, MainModel};

use super::evaluation::evaluate;
use super::network::Sr3Section;
use super::sampling::mean;
use super::section::SuperResolutionSection;
use super::workload::{FieldNoise, SuperResolutionWorkload};
use crate::diffusion::DdpmSection;
use crate::error::{Result, SystemError};
use crate::evaluation::{Curves, Metrics, PictureLabel};
use crate::picture::fields;
use crate::recipe::Recipe;
use crate::shared::{Context, Source, TrainingSection, check_shape, learner, of_section, policy_and_seed};
use crate::system::{ModelChange, System, TrainedOn};
use crate::yaml::Section;

impl System for SuperResolutionSection {
    type Batch = ForecastBatch;
    type Workload = SuperResolutionWorkload;

    const NAME: &'static str = "super_resolution";
    const SOURCE: Source = Source::Fields;
    const RECIPES: &'static [Recipe] = &[Recipe {
        name: "field-sr3",
        about: "flows on a grid four times finer, by diffusion (SR3), on a CPU",
        text: include_str!("../../recipes/field-sr3.yaml"),
    }];
    const PICTURE: PictureLabel = PictureLabel {
        name: "super-resolution",
        caption: "truth, what the network makes of the coarse field (the mean of samples, and one), bicubic interpolation, the coarse \
                  field, and the absolute difference of the first two",
    };
    const CURVES: &'static [Curves] = &[
        Curves {
            title: "Loss",
            y_label: "of the noise, or of the fine field",
            log_y: true,
            train: &[("training, denoising", "denoising"), ("training, refining", "refining")],
            validation: &[],
        },
        Curves {
            title: "Peak signal-to-noise ratio",
            y_label: "decibels",
            log_y: false,
            train: &[],
            validation: &["psnr", "psnr_one", "psnr_bicubic"],
        },
        Curves {
            title: "Structural similarity",
            y_label: "1 is the same",
            log_y: false,
            train: &[],
            validation: &["ssim", "ssim_one", "ssim_bicubic"],
        },
        Curves {
            title: "Energy of the shortest waves",
            y_label: "a sample's by the truth's, and how far that is off",
            log_y: false,
            train: &[],
            validation: &["top_octave_ratio", "top_octave_error"],
        },
    ];
    const ERRORS: &'static [&'static str] = &["relative_l2", "top_octave_error"];
    const SMALLER_EVALUATION: &'static str = "a smaller training.num_samples: samples are made together";

    fn read(section: &mut Section<'_>, on: &TrainedOn<'_>) -> Self {
        Self::read_keys(section, on.sequence.unwrap_or(&SequenceConfig::default()))
    }

    fn validate(&self, context: &Context<'_>) -> Vec<ValidationError> {
        let names = [("channels", "super_resolution.num_channels")];
        let model = of_section(self.model().validate(), Self::NAME, &names);
        let (mut scheduler, mut validation) = (Vec::new(), Validation::default());
        if let Some((unet, _)) = self.network.diffusion() {
            let clip = [("clip", "super_resolution.clip_sample_range")];
            scheduler = of_section(unet.process().validate(), "super_resolution.scheduler", &clip);
            self.check_noise(&unet.scheduler, &mut validation);
        }
        self.check_fields(&context.fields(), model.is_empty(), &mut validation);
        [model, scheduler, validation.errors()].concat()
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
        let policy = policy_and_seed(context, Self::NAME, training, device, |_| false, segments, Vec::new)?;
        let learner = learner(context, training, training.learning_rate);
        let network = Learner::new("network", model.init(device).with_residency(policy), learner)?;
        let noise = |(unet, condition): (&Sr3Section, _)| FieldNoise { process: unet.process().init(), condition };
        let (noise, loss) = (self.network.diffusion().map(noise), self.training.objective.loss);
        Ok(SuperResolutionWorkload::new(network, noise, loss, context.device.resolved_precision()))
    }

    fn check_sample(&self, name: &str, [channels, _, height, width]: [usize; 4]) -> Result<()> {
        if channels != self.in_channels {
            return Err(SystemError::Input {
                subject: name.to_string(),
                expected: format!("{} channels, as super_resolution.in_channels says", self.in_channels),
                found: channels.to_string(),
                remedy: "set super_resolution.in_channels, or name the channels in sequence.use_channels".into(),
            });
        }
        let check = |input| self.model().check_coarse(input, self.upscale_factor);
        check_shape(&format!("{name} on the fine grid"), [channels, 1, height, width], check)
    }

    fn multiples(&self) -> [usize; 3] {
        self.model().downsampling().map(|factor| factor.div_ceil(self.upscale_factor.max(1)))
    }

    /// Ratio, similarity and relative error, also of one sample and of bicubic interpolation.
    fn evaluate(&self, workload: &Self::Workload, data: &Arc<SequenceDataset>, device: &Device) -> Result<Metrics> {
        evaluate(self, workload, data, device)
    }

    fn picture(&self, workload: &Self::Workload, data: &Arc<SequenceDataset>, device: &Device) -> Result<RgbImage> {
        let window = if data.val_len() > 0 { data.val_window(0)? } else { data.train_window(0)? };
        let [.., height, width] = window.target_shape;
        let ours = self.fine_fields((workload, &workload.model().trained()), &window, 0, device);
        let (mean, bicubic) = (mean(&ours), data.persistence(&window)?);
        let coarse = blocks(&window.input, [height, width], self.upscale_factor);
        let columns = [
            ("truth", &window.target[..]),
            ("ours", &mean),
            ("one", &ours[0]),
            ("bicubic", &bicubic),
            ("coarse", &coarse),
        ];
        Ok(fields(columns, [height, width])?)
    }

    /// Half of the channels.
    fn smaller(&self) -> Vec<ModelChange<Self>> {
        let (text, network) = self.network.half();
        let section = Self { network, ..self.clone() };
        if section.network == self.network || !section.model().validate().is_empty() {
            return Vec::new();
        }
        let text = format!("{}.{text}", Self::NAME);
        vec![ModelChange { text, cost: "a smaller model: a quarter of the weights", section }]
    }
}

impl SuperResolutionSection {
    /// A network is asked at most as often as it has times.
    fn check_noise(&self, scheduler: &DdpmSection, validation: &mut Validation) {
        let steps = self.training.objective.num_inference_steps;
        validation.check_together(
            steps <= scheduler.num_train_timesteps,
            &["super_resolution.scheduler.num_train_timesteps"],
            "super_resolution.training.num_inference_steps",
            "no more steps than `num_train_timesteps`",
            steps,
            "use 50",
        );
    }

    /// Fields must become finer, and be such that the levels can halve them.
    fn check_fields(&self, fields: &SequenceConfig, is_sound: bool, validation: &mut Validation) {
        let factor = fields.sample_factor;
        let (key, help) = ("sequence.sample_factor", "write how many times finer the result is, such as 4");
        validation.check(factor > 1, key, "2 or more: a coarse field that is refined", factor, help);
        validation.check_together(
            self.upscale_factor == factor,
            &["sequence.sample_factor"],
            "super_resolution.upscale_factor",
            "the `sample_factor` of `sequence`",
            format!("{}, where sample_factor is {factor}", self.upscale_factor),
            "leave `upscale_factor` out",
        );
        let (Some([height, width]), true) = (fields.size(), is_sound) else { return };
        let coarse = [1, self.in_channels, 1, height / factor.max(1), width / factor.max(1)];
        if let Err(error) = self.model().check_coarse(coarse, factor) {
            let key = if self.network.diffusion().is_some() { "num_channels" } else { "model" };
            let error = error.into_validation_error(&format!("super_resolution.{key}"));
            let help = "use fewer levels, or fields of other sizes";
            validation.check_together(
                false,
                &["sequence.navier_stokes.size", "sequence.advection.shape", "sequence.shape"],
                &error.key,
                &error.expected,
                format!("fields of {height} x {width}"),
                help,
            );
        }
    }
}

/// The first channel of a coarse field on the fine grid: each value a block.
fn blocks(coarse: &[f32], [height, width]: [usize; 2], factor: usize) -> Vec<f32> {
    let value = |at: usize| coarse[at / width / factor * (width / factor) + at % width / factor];
    (0..height * width).map(value).collect()
}
