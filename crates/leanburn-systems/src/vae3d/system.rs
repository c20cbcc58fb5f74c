//! The voxel autoencoder as a system.

use std::path::Path;
use std::sync::Arc;

use burn::tensor::{Device, Tensor};
use image::RgbImage;
use leanburn_common::ValidationError;
use leanburn_data::Dataset;
use leanburn_train::{Learner, Precision, VaeWorkload};

use super::section::{Vae3dSection, VaeType};
use crate::codec::{Codec, CodecShape};
use crate::error::Result;
use crate::evaluation::{Curves, L1, Metrics, PictureLabel};
use crate::picture::fields;
use crate::recipe::Recipe;
use crate::shared::{
    CODEBOOK, COMMITMENT, CodeUse, Context, DISTANCE, DIVERGENCE, OCCUPANCY, PERCEPTUAL, RECONSTRUCTION, Recompute,
    TrainingSection, check_shape, exhibit, learner, of_section, policy_and_seed, streamed_only, validate_volumes,
};
use crate::system::{FlatKey, ModelChange, NamedSize, System, TrainedOn};
use crate::yaml::Section;

impl System for Vae3dSection {
    type Batch = Tensor<5>;
    type Workload = VaeWorkload;

    const NAME: &'static str = "vae3d";
    const FLAT_KEYS: &'static [FlatKey] = &[FlatKey { key: "vae_type", section: "vae3d", is_telling: true }];
    const RECIPES: &'static [Recipe] = &[Recipe {
        name: "radar-vae",
        about: "a small autoencoder of synthetic radar scenes, gradients accumulated: minutes on a CPU",
        text: include_str!("../../recipes/radar-vae.yaml"),
    }];
    const PICTURE: PictureLabel = PictureLabel {
        name: "reconstruction",
        caption: "scene and reconstruction from above, and their absolute difference",
    };
    const CURVES: &'static [Curves] =
        &[RECONSTRUCTION, OCCUPANCY, DISTANCE, CODEBOOK, COMMITMENT, PERCEPTUAL, DIVERGENCE];
    const ERRORS: &'static [&'static str] = &[L1, "reconstruction", "chamfer_voxels"];
    /// Radar scenes at the size of their guide.
    const GUIDE: Option<&'static str> = Some(
        "\
vae3d: {}
data: {radar: {shape: [32, 128, 128]}, voxel_size: [32, 128, 128], normalize: none}
device: {name: flex}
",
    );

    fn read(section: &mut Section<'_>, _on: &TrainedOn<'_>) -> Self {
        Self::read_keys(section)
    }

    fn validate(&self, _context: &Context<'_>) -> Vec<ValidationError> {
        let model = of_section(
            self.model().validate(),
            Self::NAME,
            &[("initial_deviation", "vae3d.training.initial_deviation")],
        );
        let objective = &self.training.objective;
        let voxels = objective.voxels.validate(Self::NAME, self.in_channels);
        [model, voxels, objective.perceptual.validate(Self::NAME)].concat()
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
        let perceptual = &self.training.objective.perceptual;
        let is_known = |pattern: &str| perceptual.is_segment(pattern);
        let segments = || Ok([model.init(&Device::flex()).segments(), perceptual.segments()].concat());
        let chains = || model.init(&Device::flex()).unstreamable();
        let policy = policy_and_seed(context, Self::NAME, training, device, is_known, segments, chains)?;
        let model = model.init(device).with_residency(policy);
        let vae = Learner::new("vae", model, learner(context, training, training.learning_rate))?;
        let perceptual = perceptual.build(Self::NAME, device)?;
        let precision = context.device.resolved_precision();
        Ok(VaeWorkload::new(vae, self.training.objective.loss(), perceptual, precision))
    }

    fn codec(&self, context: &Context<'_>, weights: &Path, device: &Device) -> Result<Option<Codec>> {
        let shape = CodecShape {
            in_channels: self.in_channels,
            out_channels: self.in_channels,
            latent_channels: self.latent_channels,
            multiples: self.multiples(),
        };
        let precision = context.device.resolved_precision();
        let (model, training) = (self.model().init(device), &self.training.common);
        let policy = streamed_only(context, Self::NAME, training, &model.segments(), &model.unstreamable())?;
        Codec::load(model.with_residency(policy), weights, shape, precision, device).map(Some)
    }

    fn check_sample(&self, name: &str, shape: [usize; 4]) -> Result<()> {
        let [_, extent @ ..] = shape;
        self.training.objective.perceptual.check_sample(name, extent)?;
        check_shape(name, shape, |input| self.model().check_input(input))
    }

    fn multiples(&self) -> [usize; 3] {
        self.model().downsampling().unwrap_or([1; 3])
    }

    fn evaluate(&self, workload: &Self::Workload, data: &Arc<Dataset>, device: &Device) -> Result<Metrics> {
        let (voxels, mut codes) = (&self.training.objective.voxels, CodeUse::default());
        let reconstruct = |volumes| workload.reconstruct(volumes);
        let mut metrics = validate_volumes(data, device, reconstruct, |sample, volume, reconstruction| {
            workload.codes(volume.clone()).into_iter().for_each(|latent| codes.add(latent));
            voxels.metrics(sample, volume, reconstruction)
        })?;
        metrics.extend(self.codebook.iter().flat_map(|codebook| codes.metrics(codebook.num_embeddings)));
        Ok(metrics)
    }

    /// From above: the scene is sparse and shallow, a plane through the middle would miss most of it.
    fn picture(&self, workload: &Self::Workload, data: &Arc<Dataset>, device: &Device) -> Result<RgbImage> {
        let exhibit = exhibit(data, self.multiples(), device, |volumes| workload.reconstruct(volumes))?;
        let [_, height, width] = exhibit.extent;
        let [scene, made] =
            [&exhibit.original, &exhibit.reconstruction].map(|voxels| from_above(voxels, exhibit.extent));
        Ok(fields([("from above", &scene), ("reconstruction", &made)], [height, width])?)
    }

    /// The guide's smaller voxel autoencoders, and the smallest without residual blocks in the encoder.
    fn smaller(&self) -> Vec<ModelChange<Self>> {
        let smaller = VaeType::ALL.into_iter().skip_while(|size| *size != self.vae_type).skip(1);
        let change = |vae_type: VaeType| ModelChange {
            text: format!("vae3d.vae_type = {}", vae_type.name()),
            cost: "a smaller model",
            section: Self { vae_type, ..self.clone() },
        };
        let bare =
            (self.vae_type == VaeType::UltraLightweight && self.num_res_blocks != Some(0)).then(|| ModelChange {
                text: "vae3d.num_res_blocks = 0".into(),
                cost: "a smaller model: an encoder of strided convolutions",
                section: Self { num_res_blocks: Some(0), ..self.clone() },
            });
        smaller.map(change).chain(bare).collect()
    }

    /// The radar guide's levels: smaller models and batches, then half precision, then recomputation.
    fn sizes(&self) -> Vec<NamedSize<Self>> {
        let sized = |vae_type: VaeType, batch_size: usize| {
            let mut section = Self { vae_type, ..self.clone() };
            let training = &mut section.training.common;
            (training.batch_size, training.gradient_accumulation_steps) = (batch_size, 1);
            training.recompute = Recompute::none();
            section
        };
        let smallest = sized(VaeType::UltraLightweight, 1);
        let mut recomputed = smallest.clone();
        recomputed.training.common.recompute = Recompute::all();
        [
            ("standard, batch 8", sized(VaeType::Standard, 8), Precision::F32),
            ("lightweight, batch 2", sized(VaeType::Lightweight, 2), Precision::F32),
            ("ultra_lightweight, batch 1", smallest.clone(), Precision::F32),
            ("  + bf16", smallest, Precision::Bf16),
            ("  + recomputation", recomputed, Precision::Bf16),
        ]
        .map(|(name, section, precision)| NamedSize { name: name.into(), section, precision: Some(precision) })
        .into()
    }
}

/// The largest value of each column of voxels along the depth, `[height, width]`.
fn from_above(voxels: &[f32], [_, height, width]: [usize; 3]) -> Vec<f32> {
    let mut seen = vec![f32::MIN; height * width];
    for plane in voxels.chunks_exact(height * width) {
        seen.iter_mut().zip(plane).for_each(|(seen, value)| *seen = seen.max(*value));
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_size_proposes_what_is_smaller() {
        let smaller = |vae_type, num_res_blocks| {
            let section = Vae3dSection::new(vae_type).with_num_res_blocks(num_res_blocks);
            section.smaller().into_iter().map(|change| change.text).collect::<Vec<_>>()
        };
        let sizes = ["vae3d.vae_type = lightweight", "vae3d.vae_type = ultra_lightweight"];
        assert_eq!(smaller(VaeType::Standard, None), sizes);
        assert_eq!(smaller(VaeType::UltraLightweight, None), ["vae3d.num_res_blocks = 0"]);
        assert!(smaller(VaeType::UltraLightweight, Some(0)).is_empty());
        let bare = Vae3dSection::new(VaeType::UltraLightweight).with_num_res_blocks(Some(0));
        assert_eq!(bare.model().num_res_blocks, 0);
    }

    #[test]
    fn a_scene_from_above_shows_what_is_highest_in_value() {
        assert_eq!(from_above(&[0.0, 1.0, 5.0, 0.5], [2, 1, 2]), [5.0, 1.0]);
    }
}
