//! The discrete autoencoder as a system.

use std::path::Path;
use std::sync::Arc;

use burn::tensor::{Device, Tensor};
use image::RgbImage;
use leanburn_common::ValidationError;
use leanburn_data::{Dataset, Progress, SequenceConfig};
use leanburn_nn::losses::voxel_loss;
use leanburn_nn::weights::{WeightsError, save_safetensors};
use leanburn_train::{Learner, VqVaeWorkload};

use super::section::VqVaeSection;
use crate::error::{Result, SystemError};
use crate::evaluation::{Curves, L1, Metrics, PictureLabel};
use crate::picture::comparison;
use crate::recipe::Recipe;
use crate::shared::{
    CodeUse, Context, TrainingSection, drawn, exhibit, learner, of_section, policy, trained_parameters,
    validate_volumes,
};
use crate::system::{ModelChange, System};
use crate::volume::values;
use crate::yaml::Section;

impl System for VqVaeSection {
    type Batch = Tensor<5>;
    type Data = Arc<Dataset>;
    type Workload = VqVaeWorkload;

    const NAME: &'static str = "vqvae";
    const RECIPES: &'static [Recipe] = &[Recipe {
        name: "vqvae",
        about: "a discrete autoencoder and its codebook on synthetic scans: minutes on a CPU",
        text: include_str!("../../recipes/vqvae.yaml"),
    }];
    const PICTURE: PictureLabel = PictureLabel {
        name: "reconstruction",
        caption: "original, reconstruction and absolute difference; sagittal, coronal and axial mid-planes",
    };
    const CURVES: &'static [Curves] = &[
        Curves {
            title: "Reconstruction",
            y_label: "loss",
            log_y: true,
            train: &[("training", "reconstruction")],
            validation: &["reconstruction", L1],
        },
        Curves {
            title: "Occupancy",
            y_label: "intersection over union",
            log_y: false,
            train: &[],
            validation: &["iou"],
        },
        Curves {
            title: "Codebook",
            y_label: "share of codes used",
            log_y: false,
            train: &[],
            validation: &["codes_used"],
        },
        Curves {
            title: "Commitment",
            y_label: "loss",
            log_y: true,
            train: &[("training", "commitment")],
            validation: &[],
        },
    ];
    const ERRORS: &'static [&'static str] = &[L1, "reconstruction", "chamfer_voxels"];

    fn read(section: &mut Section<'_>, _sequence: Option<&SequenceConfig>) -> Self {
        Self::read_keys(section)
    }

    fn validate(&self, _context: &Context<'_>) -> Vec<ValidationError> {
        let fields = [("channels", "vqvae.channels"), ("quantizer", "vqvae.codebook")];
        of_section(self.model().validate(), Self::NAME, &fields)
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
        let policy = policy(context, Self::NAME, &training.recompute, |_| false, segments)?;
        leanburn_ops::random::seed(device, context.seed);
        let model = drawn(device, |device| model.init(device)).with_residency(policy);
        let vq_vae = Learner::new("vqvae", model, learner(context, training, training.learning_rate))?;
        let voxels = &self.training.objective;
        let (difference, occupancy) = (voxels.reconstruction_loss, voxels.occupancy());
        Ok(VqVaeWorkload::new(vq_vae, difference, occupancy, context.device.resolved_precision()))
    }

    fn parameters(workload: &Self::Workload) -> usize {
        trained_parameters(workload.vq_vae().module())
    }

    fn save_weights(workload: &Self::Workload, path: &Path) -> std::result::Result<(), WeightsError> {
        save_safetensors(&workload.vq_vae().trained(), path)
    }

    fn open(&self, context: &Context<'_>, progress: &mut dyn FnMut(Progress<'_>)) -> Result<Self::Data> {
        Ok(Arc::new(Dataset::open_with(context.data, context.seed, progress)?))
    }

    fn batch_shape(&self, _: &Context<'_>, micro_batch: usize, [depth, height, width]: [usize; 3]) -> [usize; 5] {
        [micro_batch, self.in_channels, depth, height, width]
    }

    fn check_sample(&self, name: &str, [channels, depth, height, width]: [usize; 4]) -> Result<()> {
        let input = [1, channels, depth, height, width];
        self.model().check_input(input).map_err(|reason| SystemError::Shape { volume: name.to_string(), reason })
    }

    fn multiples(&self) -> [usize; 3] {
        [self.model().downsampling().unwrap_or(1); 3]
    }

    fn evaluate(&self, workload: &Self::Workload, data: &Self::Data, device: &Device) -> Result<Metrics> {
        let (section, mut codes) = (&self.training.objective, CodeUse::default());
        let reconstruct = |volumes| workload.reconstruct(volumes);
        let mut metrics = validate_volumes(data, device, reconstruct, |sample, volume, reconstruction| {
            let (difference, occupancy) = (section.reconstruction_loss, section.occupancy());
            let loss = voxel_loss(reconstruction.clone(), volume.clone(), difference, occupancy);
            let mut metrics = vec![("reconstruction", f64::from(loss.into_scalar::<f32>()))];
            let [_, extent @ ..] = sample.shape;
            metrics.extend(section.metrics(&values(reconstruction), &sample.data, extent)?);
            codes.add(workload.codes(volume));
            Ok(metrics)
        })?;
        metrics.extend(codes.metrics(self.codebook.num_embeddings));
        Ok(metrics)
    }

    fn picture(&self, workload: &Self::Workload, data: &Self::Data, device: &Device) -> Result<RgbImage> {
        let exhibit = exhibit(data, self.multiples(), device, |volumes| workload.reconstruct(volumes))?;
        Ok(comparison(&exhibit.original, &exhibit.reconstruction, exhibit.extent, exhibit.range())?)
    }

    /// Half of the channels.
    fn smaller(&self) -> Vec<ModelChange<Self>> {
        let half =
            |channels: &[usize]| -> Vec<usize> { channels.iter().map(|channels| channels.div_ceil(2)).collect() };
        let (channels, num_res_channels) = (half(&self.channels), half(&self.num_res_channels));
        if channels == self.channels {
            return Vec::new();
        }
        vec![ModelChange {
            text: format!("vqvae.channels = {channels:?}"),
            cost: "a smaller model: a quarter of the weights",
            section: Self { channels, num_res_channels, ..self.clone() },
        }]
    }
}
