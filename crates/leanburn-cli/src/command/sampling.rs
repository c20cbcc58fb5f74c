//! `leanburn sample`.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use clap::{Args, ValueEnum};
use leanburn_common::Bytes;
use leanburn_data::{DataError, Points, Volume};
use leanburn_ops::random::derive;
use leanburn_systems::diffusion::{LatentSampler, RealLatents, SampleQuality, SamplingMethod, SamplingPlan};
use leanburn_systems::picture::{encode_png, side_by_side};
use leanburn_systems::{CodecTask, Config, SystemError, SystemSection};

use super::output::{Force, Output};
use super::trained::{ModelArguments, other_system};
use crate::console::print_line;
use crate::error::{CommandError, Result};
use crate::progress::{Progress, Reading};

/// `leanburn sample`: new volumes by a latent diffusion model and the autoencoder that it was trained with, in the normalized units of
/// training, each with a picture of its mid-planes.
#[derive(Debug, Args)]
pub struct Sample {
    #[command(flatten)]
    model: ModelArguments,
    /// Folder for the samples, made if need be: sample-0000.nii.gz and so on.
    #[arg(long)]
    out: PathBuf,
    /// How many.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    count: u64,
    /// Steps from noise to sample; by default num_inference_steps of the configuration, which is 50 for a diffusion model and 1 for a
    /// consistency model where nothing is said.
    #[arg(long)]
    steps: Option<usize>,
    /// The sampler: ddim, pndm or ddpm for a model of the scheduler ddpm, rflow for rflow, heun, euler or euler_ancestral for edm, and
    /// multistep, heun, euler or euler_ancestral for a consistency model. By default the first of these.
    #[arg(long, value_enum)]
    method: Option<Method>,
    /// The seed of all randomness: the same seed gives the same samples, however many there are.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// The class of the samples, for a model of `data.classes`: its name, or its number from 0. By default they are of no class.
    #[arg(long)]
    class: Option<String>,
    /// Classifier-free guidance to the class: 1 samples what the model says of the class, 0 what it says of none; 2 to 5 exaggerate the
    /// class. Each step asks the model twice, one after the other.
    #[arg(long, default_value_t = 1.0)]
    guidance: f64,
    /// Voxels of a sample along x, y and z: --size 64,64,64. By default those of a training sample.
    #[arg(long, value_delimiter = ',')]
    size: Option<Vec<usize>>,
    /// The run or the weights of the autoencoder, where they are not where the configuration says.
    #[arg(long)]
    autoencoder: Option<PathBuf>,
    /// Write latents as well: sample-0000.latent.safetensors and so on, which `leanburn decode` takes.
    #[arg(long)]
    latents: bool,
    /// Write so many points as well, at most: sample-0000.ply and so on, the voxels whose first channel is largest.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    points: Option<u64>,
    /// Voxels are points where the first channel is above this.
    #[arg(long, value_name = "VALUE", default_value_t = 0.1, requires = "points", allow_negative_numbers = true)]
    points_above: f32,
    /// Memory that a sample may take while it is decoded, such as 2GiB: where it needs more, what can be is done in slabs, without seams.
    #[arg(long, value_name = "BYTES")]
    budget: Option<Bytes>,
    /// Say how near the samples are to the latents of a configuration, and how much they differ from each other: that which the model was
    /// trained with, or one with other volumes.
    #[arg(long, value_name = "CONFIG")]
    compare: Option<PathBuf>,
    #[command(flatten)]
    force: Force,
}

/// The samplers, as they are named on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
enum Method {
    Ddim,
    Pndm,
    Ddpm,
    Rflow,
    Heun,
    Euler,
    EulerAncestral,
    Multistep,
}

impl From<Method> for SamplingMethod {
    fn from(method: Method) -> Self {
        match method {
            Method::Ddim => Self::Ddim,
            Method::Pndm => Self::Pndm,
            Method::Ddpm => Self::Ddpm,
            Method::Rflow => Self::Rflow,
            Method::Heun => Self::Heun,
            Method::Euler => Self::Euler,
            Method::EulerAncestral => Self::EulerAncestral,
            Method::Multistep => Self::Multistep,
        }
    }
}

/// What is written of a sample.
struct Outputs {
    volume: Output,
    picture: Output,
    latent: Option<Output>,
    points: Option<(Output, Points)>,
}

impl Sample {
    pub(super) fn run(self) -> Result<()> {
        let outputs = (0..self.count).map(|number| self.outputs(number)).collect::<Result<Vec<_>>>()?;
        let (mut config, name, device) = self.model.config()?;
        if let (Some(latents), Some(autoencoder)) = (&mut config.latents, &self.autoencoder) {
            latents.autoencoder = autoencoder.clone();
        }
        let SystemSection::Diffusion(section) = &config.system else {
            return Err(other_system(&config, name, "diffusion", "only diffusion models make samples"));
        };
        let extent = self.extent(&config, &name)?;
        let class = self.class(&config)?;
        let steps = self.steps.unwrap_or(section.training.objective.num_inference_steps);
        let sampler = LatentSampler::load(section, &config.context(&name), &self.model.weights, &device)?;
        let within = self.budget.map(|budget| sampler.codec().within(budget, CodecTask::Decode, extent)).transpose()?;
        let codec = within.as_ref().unwrap_or(sampler.codec());
        let real = self.compare.as_deref().map(|path| real_latents(path, &self.model.device)).transpose()?;
        let (mut latents, mut progress) = (Vec::new(), Progress::counting("asking the model"));
        for (number, outputs) in outputs.into_iter().enumerate() {
            let seed = derive(self.seed, &[number as u64]);
            let plan =
                SamplingPlan { method: self.method.map(Into::into), steps, seed, class, guidance: self.guidance };
            let asked = || progress.step(|| format!("sample {} of {}, {steps} steps each", number + 1, self.count));
            let latent = sampler.latent(extent, &plan, asked)?;
            let volume = codec.decode(&latent, None, |_| {})?;
            outputs.write(&latent, &volume)?;
            if real.is_some() {
                latents.push(latent);
            }
        }
        progress.finish();
        real.map_or(Ok(()), |real| print_quality(&real.compare(&latents, &device)?))
    }

    fn outputs(&self, number: u64) -> Result<Outputs> {
        let inputs: Rc<[PathBuf]> = self.model.files().into();
        let output = |ending: &str| {
            let path = self.out.join(format!("sample-{number:04}{ending}"));
            Output::in_new_folder(&path, &inputs, self.force)
        };
        let latent = self.latents.then(|| output(".latent.safetensors")).transpose()?;
        let points = self.points.map(|most| Points { above: self.points_above, most: most as usize });
        let points = points.map(|points| Ok::<_, CommandError>((output(".ply")?, points))).transpose()?;
        Ok(Outputs { volume: output(".nii.gz")?, picture: output(".png")?, latent, points })
    }

    /// The number of the class.
    fn class(&self, config: &Config) -> Result<Option<usize>> {
        let (Some(name), classes) = (&self.class, &config.data.classes) else { return Ok(None) };
        let class = classes.iter().position(|class| class == name).or_else(|| name.parse().ok());
        class.map(Some).ok_or_else(|| {
            let expected = match classes.is_empty() {
                true => "none: the model was trained without classes".to_string(),
                false => format!("one of {}, or a number", classes.join(", ")),
            };
            let remedy =
                "`leanburn train` with `data.classes` and `diffusion.num_class_embeds` trains a model of classes";
            let (found, remedy) = (name.clone(), remedy.to_string());
            SystemError::Input { subject: "--class".into(), expected, found, remedy }.into()
        })
    }

    /// Extent of the latents.
    fn extent(&self, config: &Config, name: &str) -> Result<[usize; 3]> {
        let reject = |subject: &str, expected: &str, found: String| -> Result<[usize; 3]> {
            let remedy = "give voxels along x, y and z, such as --size 64,64,64".to_string();
            Err(SystemError::Input { subject: subject.into(), expected: expected.into(), found, remedy }.into())
        };
        let size = match self.size.as_deref() {
            None => None,
            Some([side]) => Some([*side; 3]),
            Some([x, y, z]) => Some([*x, *y, *z]),
            Some(size) => return reject("--size", "one size for all axes, or one for each", format!("{size:?}")),
        };
        let given = size.and_then(|size| Some(config.latents.as_ref()?.extent_of(size)));
        match given.or_else(|| config.extent()) {
            Some(extent) if extent.contains(&0) => reject("--size", "sizes of at least 1", format!("{size:?}")),
            Some(extent) => Ok(extent),
            None => reject(name, "a size of samples", "neither data.patch_size nor data.voxel_size".into()),
        }
    }
}

impl Outputs {
    fn write(&self, latent: &Volume, volume: &Volume) -> Result<()> {
        if let Some(output) = &self.latent {
            output.write_with(|path| latent.write(path))?;
        }
        self.volume.write_with(|path| volume.write(path))?;
        self.picture.write_bytes(&picture(volume)?)?;
        let [channels, x, y, z] = volume.shape();
        print_line(format_args!("{}: {channels} x {x} x {y} x {z}", self.volume.path().display()))?;
        let Some((output, points)) = &self.points else { return Ok(()) };
        let mut count = 0;
        output.write_with(|path| {
            count = volume.write_points(path, *points)?;
            Ok::<_, DataError>(())
        })?;
        print_line(format_args!("{}: {count} points", output.path().display()))
    }
}

/// The latents that samples are compared with, encoded on the device.
fn real_latents(path: &Path, device: &str) -> Result<RealLatents> {
    let (mut config, name) = (Config::load(path, &[])?, path.display().to_string());
    config.device.name = device.into();
    if config.latents.is_none() {
        return Err(other_system(&config, name, "diffusion", "name the configuration of a diffusion model"));
    }
    config.check_run(&name)?;
    let mut reading = Reading::default();
    Ok(RealLatents::open(&config.context(&name), &mut |state| reading.step(state))?)
}

fn print_quality(quality: &SampleQuality) -> Result<()> {
    let SampleQuality { distance, floor, noise, likeness, real_likeness, scales, .. } = *quality;
    print_line(format_args!(
        "sliced Wasserstein distance to real latents: {distance:.4}; of other real latents {floor:.4}, of noise {noise:.4}"
    ))?;
    let Some(likeness) = likeness else { return Ok(()) };
    let real = real_likeness.map_or(String::new(), |real| format!("; of real volumes {real:.4}"));
    print_line(format_args!("MS-SSIM of pairs, at {scales} scales: {likeness:.4}{real}"))
}

/// The mid-planes of the first channel, as PNG; grey runs over the values.
fn picture(volume: &Volume) -> Result<Vec<u8>> {
    let extent = volume.extent();
    let first = &volume.data()[..extent.iter().product()];
    let range = first.iter().fold((f32::MAX, f32::MIN), |(low, high), value| (low.min(*value), high.max(*value)));
    let picture = side_by_side(&[("sample", first)], extent, range).map_err(SystemError::from)?;
    Ok(encode_png(&picture).map_err(SystemError::from)?)
}
