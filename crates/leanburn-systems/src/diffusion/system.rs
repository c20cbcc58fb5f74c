//! Latent diffusion as a system.

use std::path::Path;
use std::sync::Arc;

use burn::tensor::Device;
use image::RgbImage;
use leanburn_common::{Validation, ValidationError};
use leanburn_data::Volume;
use leanburn_nn::weights::load_matching;
use leanburn_ops::random::derive;
use leanburn_ops::recording::valid;
use leanburn_train::{Learner, MainModel};

use super::consistency::Consistency;
use super::consistency_section::ConsistencySection;
use super::evaluation::{DISTANCES, LEVEL_NAMES, LIKENESS, LINEAR, LOSS, evaluate, of_quality};
use super::latents::LatentDataset;
use super::noise::Noise;
use super::quality::quality;
use super::sampling::{SamplingPlan, sample, unscaled};
use super::section::{DiffusionSection, most_groups};
use super::teacher;
use super::workload::{ClassDropout, DiffusionWorkload, LatentBatch, Objective};
use crate::codec_memory::CodecTask;
use crate::data::Data;
use crate::error::{Result, SystemError};
use crate::evaluation::{Curves, Metrics, PictureLabel};
use crate::picture::{range_of, side_by_side};
use crate::recipe::Recipe;
use crate::shared::{Context, Source, TrainingSection, check_shape, learner, of_section, policy_and_seed};
use crate::system::{FlatKey, ModelChange, System, TrainedOn};
use crate::volume::{grid, values};
use crate::weight_source::weights_of;
use crate::yaml::Section;

impl System for DiffusionSection {
    type Batch = LatentBatch;
    type Workload = DiffusionWorkload;

    const NAME: &'static str = "diffusion";
    const SOURCE: Source = Source::Latents;
    const FLAT_KEYS: &'static [FlatKey] = &[FlatKey { key: "scheduler", section: "diffusion", is_telling: false }];
    const RECIPES: &'static [Recipe] = &[
        Recipe {
            name: "mni152-latent-diffusion",
            about: "new patches of a brain: diffusion on the latents of mni152-autoencoder, minutes on a CPU",
            text: include_str!("../../recipes/mni152-latent-diffusion.yaml"),
        },
        Recipe {
            name: "radar-diffusion",
            about: "new radar scenes: diffusion on the latents of radar-vae, on a CPU",
            text: include_str!("../../recipes/radar-diffusion.yaml"),
        },
        Recipe {
            name: "radar-consistency",
            about: "new radar scenes in one step: radar-diffusion distilled, on a CPU",
            text: include_str!("../../recipes/radar-consistency.yaml"),
        },
    ];
    const PICTURE: PictureLabel = PictureLabel {
        name: "samples",
        caption: "a reconstructed volume and two samples; sagittal, coronal and axial mid-planes",
    };
    const CURVES: &'static [Curves] = &[
        Curves {
            title: "Denoising",
            y_label: "loss",
            log_y: true,
            train: &[("training", "denoising"), ("training, at two levels of noise", "consistency")],
            validation: &[LOSS, LINEAR],
        },
        Curves {
            title: "Denoising by noise, from little (1) to much (4)",
            y_label: "loss",
            log_y: true,
            train: &[],
            validation: LEVEL_NAMES,
        },
        Curves {
            title: "Distance to real latents",
            y_label: "sliced Wasserstein",
            log_y: true,
            train: &[],
            validation: DISTANCES,
        },
        Curves { title: "Likeness in pairs", y_label: "MS-SSIM", log_y: false, train: &[], validation: LIKENESS },
    ];
    const ERRORS: &'static [&'static str] = &[LOSS, DISTANCES[0]];
    const SMALLER_EVALUATION: &'static str =
        "a smaller data.patch_size, since pictures decode a latent of it, or visualize_interval: 0";

    fn read(section: &mut Section<'_>, _on: &TrainedOn<'_>) -> Self {
        Self::read_keys(section)
    }

    fn validate(&self, context: &Context<'_>) -> Vec<ValidationError> {
        let model = of_section(self.model().validate(), Self::NAME, &[("channels", "diffusion.num_channels")]);
        let scheduler = self.scheduler.validate("diffusion.scheduler");
        let mut validation = Validation::default();
        validation.check_together(
            self.in_channels == self.out_channels,
            &["diffusion.in_channels"],
            "diffusion.out_channels",
            "as many channels as the latents have",
            format!("{}, where in_channels is {}", self.out_channels, self.in_channels),
            "leave `out_channels` out",
        );
        let (steps, most) = (self.training.objective.num_inference_steps, self.scheduler.most_steps());
        validation.check_together(
            most.is_none_or(|most| steps <= most),
            &["diffusion.scheduler.num_train_timesteps"],
            "diffusion.training.num_inference_steps",
            "no more steps than `num_train_timesteps`",
            steps,
            "use 50",
        );
        validation.check(
            self.training.objective.linear_baseline != 1,
            "diffusion.training.linear_baseline",
            "two latents or more, or 0",
            1,
            "use 512; one latent has no covariance",
        );
        self.check_classes(context, &mut validation);
        self.check_grid(context, &mut validation);
        self.check_consistency(&mut validation);
        let consistency = self.consistency.iter().flat_map(ConsistencySection::validate).collect();
        let consistency = of_section(
            consistency,
            "diffusion.consistency",
            &[
                ("training_mode", "diffusion.consistency.training_mode"),
                ("start_scales", "diffusion.consistency.start_scales"),
            ],
        );
        [model, scheduler, validation.errors(), consistency].concat()
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
        let student = model.init(device).with_residency(policy);
        let mut unet = Learner::new("unet", student, learner(context, training, training.learning_rate))?;
        let mut objective = Objective::Denoising(self.training.objective.loss);
        if let Some((consistency, edm)) = self.consistent() {
            let (steps, curriculum) = (training.steps(context.samples), consistency.curriculum());
            if let Some(ema) = consistency.target_ema() {
                unet = unet.with_target(move |step| ema.decay(curriculum, step as usize, steps as usize));
            }
            if consistency.is_distilled() {
                unet.set_teacher(valid(&model.init(device)));
            }
            objective = Objective::Consistency(Consistency::of(consistency, edm, steps));
        }
        let noise = Noise::of(&self.scheduler, self.consistency.as_ref());
        let dropout = |none| ClassDropout { none, probability: self.training.objective.condition_dropout };
        let classes = self.no_class().map(dropout);
        Ok(DiffusionWorkload::new(unet, noise, (objective, classes), context.device.resolved_precision()))
    }

    fn teacher(&self) -> Option<&Path> {
        self.consistency.as_ref()?.teacher.as_deref()
    }

    /// Starts from the weights of the teacher, and keeps them beside where they are asked in every step.
    fn learn_from(&self, workload: &mut Self::Workload, context: &Context<'_>, device: &Device) -> Result<()> {
        let Some(path) = self.teacher() else { return Ok(()) };
        let network = teacher::load(self, path, context, &device.clone().inner())?;
        let unet = workload.model_mut();
        unet.initialize(|student| load_matching(student, &weights_of(path)))?;
        if unet.teacher().is_some() {
            unet.set_teacher(network);
        }
        Ok(())
    }

    fn check_sample(&self, name: &str, shape: [usize; 4]) -> Result<()> {
        if shape[0] != self.in_channels {
            return Err(SystemError::Input {
                subject: "diffusion.in_channels".into(),
                expected: format!("{}, the channels of {name}", shape[0]),
                found: self.in_channels.to_string(),
                remedy: format!("write `in_channels: {}`, the `latent_channels` of the first stage", shape[0]),
            });
        }
        check_shape(name, shape, |input| self.model().check_input(input))
    }

    fn multiples(&self) -> [usize; 3] {
        [self.model().downsampling(); 3]
    }

    /// The loss at four levels of noise, and its mean; where samples are asked for, how near they are to real latents.
    fn evaluate(&self, workload: &Self::Workload, data: &Arc<LatentDataset>, device: &Device) -> Result<Metrics> {
        let mut metrics = evaluate(workload, data, self.training.objective.linear_baseline, device)?;
        let count = self.training.objective.evaluation_samples as u64;
        if count > 0 {
            let samples: Vec<Vec<f32>> =
                (0..count).map(|number| self.sampled(workload, data, number, device)).collect();
            metrics.extend(of_quality(&quality(data, &samples, device)?));
        }
        Ok(metrics)
    }

    /// A latent of the data and two that are sampled, decoded.
    fn picture(&self, workload: &Self::Workload, data: &Arc<LatentDataset>, device: &Device) -> Result<RgbImage> {
        let (real, shape) = (data.latent(0)?, data.shape());
        let [_, extent @ ..] = shape;
        let codec = data.first_stage().open_for(CodecTask::Decode, extent, device)?;
        let decode = |latent: Vec<f32>| -> Result<Volume> {
            let latent = Volume::new(unscaled(latent, data.normalization()), shape, grid([1.0; 3]))?;
            codec.decode(&latent, None, |_| {})
        };
        let volume = decode(real.mean.clone())?;
        let voxels = volume.extent().iter().product::<usize>();
        // a sample of a network that has not learned much may be out of all bounds, and is drawn as such
        let shown = |number| match decode(self.sampled(workload, data, number, device)) {
            Ok(sample) => sample.data()[..voxels].to_vec(),
            Err(_) => vec![f32::NAN; voxels],
        };
        let (one, two) = (shown(0), shown(1));
        let columns = [("data", &volume.data()[..voxels]), ("sample", &one[..]), ("sample", &two[..])];
        Ok(side_by_side(&columns, volume.extent(), range_of(columns[0].1))?)
    }

    /// Half of the channels; none where a teacher says how many there are.
    fn smaller(&self) -> Vec<ModelChange<Self>> {
        if self.teacher().is_some() {
            return Vec::new();
        }
        let changes = ModelChange::half_of("diffusion.num_channels", &self.num_channels, |num_channels| Self {
            norm_num_groups: most_groups(&num_channels).min(self.norm_num_groups),
            num_channels,
            ..self.clone()
        });
        // channels of a head must divide the channels
        changes.into_iter().filter(|change| change.section.model().validate().is_empty()).collect()
    }
}

impl DiffusionSection {
    /// A sample of the trained weights, of the classes by turns: `[channels, depth, height, width]` of the data, multiplied by the scale factor.
    fn sampled(&self, workload: &DiffusionWorkload, data: &LatentDataset, number: u64, device: &Device) -> Vec<f32> {
        let [_, extent @ ..] = data.shape();
        let plan = SamplingPlan::new(self.training.objective.num_inference_steps, derive(data.seed(), &[number]))
            .with_class(self.no_class().map(|classes| number as usize % classes));
        let unet = workload.model().trained();
        values(sample(&unet, workload.noise(), workload.precision(), (extent, &plan, self), device, &mut || {}))
    }
}
