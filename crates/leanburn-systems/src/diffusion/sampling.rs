//! New latents out of noise, and volumes of them.

use std::path::Path;

use burn::tensor::{Device, Tensor};
use leanburn_data::{Intensity, Volume};
use leanburn_nn::models::DiffusionUNet3d;
use leanburn_nn::weights;
use leanburn_ops::random;
use leanburn_train::Precision;

use super::guidance::{Guide, check_class, guided};
use super::noise::Noise;
use super::scheduler::SamplingMethod;
use super::section::DiffusionSection;
use super::stage::Stage;
use crate::codec::Codec;
use crate::error::{Result, SystemError};
use crate::normalization;
use crate::shared::{Context, reject, with_methods};
use crate::system::System;
use crate::volume::{grid, scale_affine, values};

/// How a latent is sampled.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SamplingPlan {
    /// The sampler; the first of its scheduler's if none.
    pub method: Option<SamplingMethod>,
    /// Its steps.
    pub steps: usize,
    /// The seed of all randomness: the same gives the same latent.
    pub seed: u64,
    /// The class of what is made, for a model with classes; of no class if none.
    pub class: Option<usize>,
    /// How far the class leads: 1 gives what the model says of the class, 0 what it says of none, more exaggerates the difference.
    pub guidance: f64,
}

impl SamplingPlan {
    /// So many steps of the first sampler, without a class.
    pub fn new(steps: usize, seed: u64) -> Self {
        Self { method: None, steps, seed, class: None, guidance: 1.0 }
    }
}

with_methods! { SamplingPlan {
    with_method => method: Option<SamplingMethod>,
    with_steps => steps: usize,
    with_seed => seed: u64,
    with_class => class: Option<usize>,
    with_guidance => guidance: f64,
} }

/// A trained diffusion model with its first stage.
#[derive(Debug)]
pub struct LatentSampler {
    unet: DiffusionUNet3d,
    section: DiffusionSection,
    codec: Codec,
    channels: Vec<Intensity>,
    /// Size of a voxel in millimetres.
    spacing: [f64; 3],
    precision: Precision,
    device: Device,
}

impl LatentSampler {
    /// The model of a section with weights from the folder of a run, and its first stage, on a device without autodiff.
    ///
    /// # Errors
    ///
    /// [`SystemError::Config`], [`SystemError::Weights`], and [`SystemError::Input`] where `normalization.json` does not lie beside the
    /// weights or the first stage is not there.
    pub fn load(section: &DiffusionSection, context: &Context<'_>, weights: &Path, device: &Device) -> Result<Self> {
        reject(context, section.validate(context))?;
        let mut unet = section.model().init(device);
        weights::load(&mut unet, weights)?;
        let channels = normalization::beside(weights)?;
        let codec = Stage::of(context).open(device)?;
        let (expected, found) = (codec.shape().latent_channels, section.in_channels);
        if [found, channels.len()] != [expected; 2] {
            return Err(SystemError::Input {
                subject: context.name.to_string(),
                expected: format!("latents of {expected} channels, as the first stage has"),
                found: format!("in_channels: {found}, and {} channels in normalization.json", channels.len()),
                remedy: "name the first stage that the model was trained with by `latents.autoencoder`".into(),
            });
        }
        let (section, spacing) = (section.clone(), context.data.spacing.unwrap_or([1.0; 3]));
        let precision = context.device.resolved_precision();
        Ok(Self { unet, section, codec, channels, spacing, precision, device: device.clone() })
    }

    /// The first stage, which [decodes](Codec::decode) latents.
    pub fn codec(&self) -> &Codec {
        &self.codec
    }

    /// A new latent of an extent in the units of the first stage, on the grid of the volume that it can be decoded to: voxels of
    /// `data.spacing`, or else of 1 mm, the first at the origin. `asked` is called each time the model has been asked.
    ///
    /// # Errors
    ///
    /// [`SystemError::Input`] for a method of another scheduler, steps that it cannot take, and an extent that the model cannot.
    /// [`SystemError::Data`] if the latent is not finite.
    pub fn latent(&self, extent: [usize; 3], plan: &SamplingPlan, mut asked: impl FnMut()) -> Result<Volume> {
        check_plan(&self.section, plan)?;
        let [depth, height, width] = extent;
        let shape = [self.section.in_channels, depth, height, width];
        self.section.check_sample("the latent", shape)?;
        let noise = Noise::of(&self.section.scheduler, self.section.consistency.as_ref());
        let what = (extent, plan, &self.section);
        let latent = sample(&self.unet, &noise, self.precision, what, &self.device, &mut asked);
        let affine = scale_affine(&grid(self.spacing), self.codec.shape().multiples.map(|factor| factor as f64));
        Ok(Volume::new(unscaled(values(latent), &self.channels), shape, affine)?)
    }
}

/// Rejects what a model's scheduler cannot do.
fn check_plan(section: &DiffusionSection, plan: &SamplingPlan) -> Result<()> {
    let reject = |subject: &str, expected: String, found: String, remedy: String| {
        Err(SystemError::Input { subject: subject.into(), expected, found, remedy })
    };
    let methods = section.methods();
    if let Some(method) = plan.method.filter(|method| !methods.contains(method)) {
        let names = methods.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let expected = format!("a method of the scheduler that the model was trained with: {names}");
        return reject("method", expected, method.to_string(), format!("take {}", methods[0]));
    }
    let most = section.scheduler.most_steps().unwrap_or(usize::MAX);
    if !(1..=most).contains(&plan.steps) {
        let expected = match section.scheduler.most_steps() {
            Some(most) => format!("1 to {most}, the times that the model was trained at"),
            None => "at least 1".into(),
        };
        return reject("steps", expected, plan.steps.to_string(), "50 are enough for most models".into());
    }
    check_class(section, plan.class, plan.guidance)
}

/// A new latent, `[1, channels, depth, height, width]`, multiplied by the scale factor as those of training are.
pub(super) fn sample(
    unet: &DiffusionUNet3d,
    noise: &Noise,
    precision: Precision,
    (extent, plan, section): ([usize; 3], &SamplingPlan, &DiffusionSection),
    device: &Device,
    asked: &mut dyn FnMut(),
) -> Tensor<5> {
    let [depth, height, width] = extent;
    let method = plan.method.unwrap_or(section.methods()[0]);
    let guide = Guide::of(section, plan.class, plan.guidance);
    let mut network = |x: Tensor<5>, level: f64| {
        let answer = noise.ask(x, level, |input, times| guided(unet, precision, (input, times), guide));
        asked();
        answer
    };
    random::scoped(|| {
        random::seed(device, plan.seed);
        let start = random::normal([1, section.in_channels, depth, height, width], device);
        let mut draw = |like: &Tensor<5>| random::normal(like.dims(), &like.device());
        noise.sampler(method, plan.steps, extent).sample_with(start, &mut network, &mut draw)
    })
}

/// Values of latents, a channel after the other, in the units of the first stage.
pub(super) fn unscaled(mut values: Vec<f32>, channels: &[Intensity]) -> Vec<f32> {
    let places = values.len() / channels.len().max(1);
    values.chunks_mut(places.max(1)).zip(channels).for_each(|(values, channel)| channel.invert(values));
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_channel_goes_back_by_its_own_scale() {
        let scale = |scale| Intensity { scale, offset: 0.0 };
        assert_eq!(unscaled(vec![1.0, 2.0, 3.0, 4.0], &[scale(0.5), scale(2.0)]), [2.0, 4.0, 1.5, 2.0]);
    }
}
