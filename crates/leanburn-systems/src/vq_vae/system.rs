//! The discrete autoencoder as a system.

use std::path::Path;
use std::sync::Arc;

use burn::tensor::{Device, Tensor};
use image::RgbImage;
use leanburn_common::ValidationError;
use leanburn_data::Dataset;
use leanburn_train::{Learner, VqVaeWorkload};

use super::section::VqVaeSection;
use crate::codec::{Codec, CodecShape};
use crate::error::Result;
use crate::evaluation::{Curves, L1, Metrics, PictureLabel};
use crate::recipe::Recipe;
use crate::shared::{
    CODEBOOK, COMMITMENT, COMPARISON, CodeUse, Context, DISTANCE, OCCUPANCY, RECONSTRUCTION, TrainingSection,
    check_shape, compared, learner, of_section, policy_and_seed, streamed_only, validate_volumes,
};
use crate::system::{ModelChange, System, TrainedOn, half};
use crate::yaml::Section;

impl System for VqVaeSection {
    type Batch = Tensor<5>;
    type Workload = VqVaeWorkload;

    const NAME: &'static str = "vqvae";
    const RECIPES: &'static [Recipe] = &[Recipe {
        name: "vqvae",
        about: "a discrete autoencoder and its codebook on synthetic scans: minutes on a CPU",
        text: include_str!("../../recipes/vqvae.yaml"),
    }];
    const PICTURE: PictureLabel = COMPARISON;
    const CURVES: &'static [Curves] = &[RECONSTRUCTION, OCCUPANCY, DISTANCE, CODEBOOK, COMMITMENT];
    const ERRORS: &'static [&'static str] = &[L1, "reconstruction", "chamfer_voxels"];

    fn read(section: &mut Section<'_>, _on: &TrainedOn<'_>) -> Self {
        Self::read_keys(section)
    }

    fn validate(&self, _context: &Context<'_>) -> Vec<ValidationError> {
        let fields = [("channels", "vqvae.channels"), ("quantizer", "vqvae.codebook")];
        let voxels = self.training.objective.validate(Self::NAME, self.in_channels);
        [of_section(self.model().validate(), Self::NAME, &fields), voxels].concat()
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
        let model = model.init(device).with_residency(policy);
        let vq_vae = Learner::new("vqvae", model, learner(context, training, training.learning_rate))?;
        Ok(VqVaeWorkload::new(vq_vae, self.training.objective.loss(), context.device.resolved_precision()))
    }

    fn codec(&self, context: &Context<'_>, weights: &Path, device: &Device) -> Result<Option<Codec>> {
        let shape = CodecShape {
            in_channels: self.in_channels,
            out_channels: self.in_channels,
            latent_channels: self.embedding_dim,
            multiples: self.multiples(),
        };
        let precision = context.device.resolved_precision();
        let (model, training) = (self.model().init(device), &self.training.common);
        let policy = streamed_only(context, Self::NAME, training, &model.segments(), &model.unstreamable())?;
        Codec::load(model.with_residency(policy), weights, shape, precision, device).map(Some)
    }

    fn check_sample(&self, name: &str, shape: [usize; 4]) -> Result<()> {
        check_shape(name, shape, |input| self.model().check_input(input))
    }

    fn multiples(&self) -> [usize; 3] {
        [self.model().downsampling().unwrap_or(1); 3]
    }

    fn evaluate(&self, workload: &Self::Workload, data: &Arc<Dataset>, device: &Device) -> Result<Metrics> {
        let (voxels, mut codes) = (&self.training.objective, CodeUse::default());
        let reconstruct = |volumes| workload.reconstruct(volumes);
        let mut metrics = validate_volumes(data, device, reconstruct, |sample, volume, reconstruction| {
            codes.add(workload.codes(volume.clone()));
            voxels.metrics(sample, volume, reconstruction)
        })?;
        metrics.extend(codes.metrics(self.codebook.num_embeddings));
        Ok(metrics)
    }

    fn picture(&self, workload: &Self::Workload, data: &Arc<Dataset>, device: &Device) -> Result<RgbImage> {
        compared(data, self.multiples(), device, |volumes| workload.reconstruct(volumes))
    }

    /// Half of the channels.
    fn smaller(&self) -> Vec<ModelChange<Self>> {
        let section = |channels| Self { channels, num_res_channels: half(&self.num_res_channels), ..self.clone() };
        ModelChange::half_of("vqvae.channels", &self.channels, section)
    }
}
