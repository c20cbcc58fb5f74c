//! How near samples are to the latents that a model was trained on, and how much they differ from each other.

use std::collections::BTreeMap;
use std::sync::Arc;

use burn::tensor::Device;
use leanburn_data::metrics::{MsSsim, local_patches, mean_pairwise, sliced_wasserstein, unit_directions};
use leanburn_data::{Progress, Volume};
use leanburn_ops::random::{Distribution, derive, drawn};

use super::latents::LatentDataset;
use super::sampling::unscaled;
use crate::codec_memory::CodecTask;
use crate::data::Data as _;
use crate::error::{Result, SystemError};
use crate::shared::Context;
use crate::volume::{grid, values};

/// What samples are worth, in numbers.
///
/// Distances are [sliced 2-Wasserstein distances](leanburn_data::metrics::sliced_wasserstein) along 64 directions between neighbourhoods of
/// 3 x 3 x 3 places, 4096 of each set: of the samples, of noise, and of one half of the real latents, each to the other half. The halves
/// are of different volumes where there are several. Latents are multiplied by the scale factor.
///
/// Likeness is the mean [MS-SSIM](leanburn_data::metrics::MsSsim) over all pairs of up to eight decoded volumes, on their first channel: the
/// nearer to that of real volumes the better; 1 says that all samples are the same.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct SampleQuality {
    /// Distance of the samples to real latents.
    pub distance: f64,
    /// That of other real latents: what no model falls below. Not a number of a single real latent.
    pub floor: f64,
    /// That of noise.
    pub noise: f64,
    /// Likeness among samples; none of a single one.
    pub likeness: Option<f64>,
    /// Likeness among real volumes.
    pub real_likeness: Option<f64>,
    /// Scales of MS-SSIM: fewer than five where volumes are small.
    pub scales: usize,
}

/// Neighbourhoods of a set, places along each of their sides, and directions.
const PATCHES: usize = 4096;
const SIDE: usize = 3;
const DIRECTIONS: usize = 64;

/// The most real latents of each half, and the most volumes that are compared in pairs.
const REAL: usize = 64;
const PAIRED: usize = 8;

/// The path of all that is drawn here among what is derived from the seed.
const QUALITY: u64 = 0x1a7e_0003;

/// The latents that samples are compared with: those of the data of a configuration.
#[derive(Debug)]
pub struct RealLatents(Arc<LatentDataset>);

impl RealLatents {
    /// Encodes the data of a configuration, or reads its latents.
    ///
    /// # Errors
    ///
    /// What keeps the configuration from being trained.
    pub fn open(context: &Context<'_>, progress: &mut dyn FnMut(Progress<'_>)) -> Result<Self> {
        Ok(Self(Arc::open(context, progress)?))
    }

    /// Compares samples, in the units of the first stage.
    ///
    /// # Errors
    ///
    /// [`SystemError::Input`] of samples of another size, or of none.
    pub fn compare(&self, samples: &[Volume], device: &Device) -> Result<SampleQuality> {
        let shape = self.0.shape();
        if let Some(sample) = samples.iter().find(|sample| sample.shape() != shape) {
            let voxels = |shape: [usize; 4]| format!("latents of {} channels and {:?}", shape[0], &shape[1..]);
            return Err(SystemError::Input {
                subject: "--compare".into(),
                expected: format!("{}, as those of the configuration are", voxels(shape)),
                found: voxels(sample.shape()),
                remedy: "leave --size out, or name the configuration that the model was trained with".into(),
            });
        }
        let scaled = |sample: &Volume| {
            let mut values = sample.data().to_vec();
            let places = values.len() / shape[0].max(1);
            let channels = values.chunks_mut(places.max(1)).zip(self.0.channels());
            channels.for_each(|(values, channel)| {
                values.iter_mut().for_each(|value| *value = (f64::from(*value) * channel.scale) as f32);
            });
            values
        };
        quality(&self.0, &samples.iter().map(scaled).collect::<Vec<_>>(), device)
    }
}

/// The quality of samples, `[channels, depth, height, width]` of the data's shape and multiplied by the scale factor.
pub(super) fn quality(data: &LatentDataset, samples: &[Vec<f32>], device: &Device) -> Result<SampleQuality> {
    let shape = data.shape();
    let seed = derive(data.seed(), &[QUALITY]);
    let cube = shape[1..].iter().map(|length| SIDE.min(*length)).product::<usize>();
    let features = shape[0] * cube;
    let directions = unit_directions(features, DIRECTIONS, seed);
    let patches = |latents: &[Vec<f32>], set: u64| -> Vec<f32> {
        let each = PATCHES.div_ceil(latents.len().max(1));
        let of = |(number, latent): (usize, &Vec<f32>)| {
            local_patches(latent, shape, SIDE, each, derive(seed, &[set, number as u64]))
        };
        latents.iter().enumerate().flat_map(of).collect()
    };
    let [reference, other] = halves(data, seed, device)?;
    let reference = patches(&reference, 0);
    let distance = |latents: &[Vec<f32>], set: u64| match latents.is_empty() {
        true => Ok(f64::NAN),
        false => sliced_wasserstein(&patches(latents, set), &reference, features, &directions),
    };
    let noise: Vec<Vec<f32>> =
        (0..samples.len() as u64).map(|number| normal(seed, [3, number], shape, device)).collect();
    let means = apart(data).into_iter().take(PAIRED).map(|number| Ok(data.latent(number)?.mean.clone()));
    let real: Vec<Vec<f32>> = means.collect::<Result<_>>()?;
    let (metric, [likeness, real_likeness]) = likeness(data, [samples, &real], device)?;
    Ok(SampleQuality {
        distance: distance(samples, 1)?,
        floor: distance(&other, 2)?,
        noise: distance(&noise, 3)?,
        likeness,
        real_likeness,
        scales: metric.scales(),
    })
}

/// The likeness among samples and among real latents, all decoded, in the range of values of the real ones.
///
/// A sample that cannot be decoded, of a network that has not learned much and leads out of all bounds, does not count.
fn likeness(
    data: &LatentDataset,
    [samples, real]: [&[Vec<f32>]; 2],
    device: &Device,
) -> Result<(MsSsim, [Option<f64>; 2])> {
    let shape @ [_, extent @ ..] = data.shape();
    let codec = data.first_stage().open_for(CodecTask::Decode, extent, device)?;
    let decode = |latent: &Vec<f32>| -> Result<Volume> {
        let latent = Volume::new(unscaled(latent.clone(), data.channels()), shape, grid([1.0; 3]))?;
        let volume = codec.decode(&latent, None, |_| {})?;
        let places = volume.extent().iter().product();
        let [x, y, z] = volume.extent();
        Ok(Volume::new(volume.data()[..places].to_vec(), [1, x, y, z], grid([1.0; 3]))?)
    };
    let real: Vec<Volume> = real.iter().map(decode).collect::<Result<_>>()?;
    let samples: Vec<Volume> = samples.iter().take(PAIRED).filter_map(|sample| decode(sample).ok()).collect();
    let values = real.iter().flat_map(Volume::data);
    let (low, high) = values.fold((f32::MAX, f32::MIN), |(low, high), value| (low.min(*value), high.max(*value)));
    let range = f64::from(high - low).max(f64::MIN_POSITIVE);
    let metric = MsSsim::of_extent(real.first().map_or([1; 3], Volume::extent), range);
    let alike = |one: &Volume, other: &Volume| metric.similarity(one.data(), other.data(), one.shape());
    let both = [mean_pairwise(&samples, alike)?, mean_pairwise(&real, alike)?];
    Ok((metric, both))
}

/// Real latents in two halves, drawn about their means: of different volumes where there are several.
fn halves(data: &LatentDataset, seed: u64, device: &Device) -> Result<[Vec<Vec<f32>>; 2]> {
    let mut numbers: Vec<usize> = (0..data.training_len()).collect();
    numbers.sort_by_key(|number| data.name(*number));
    let drawn = |number: &usize| -> Result<Vec<f32>> {
        let latent = data.latent(*number)?;
        let noise = normal(seed, [4, *number as u64], latent.shape, device);
        let about = latent.mean.iter().zip(&latent.deviation).zip(noise);
        Ok(about.map(|((mean, deviation), z)| mean + deviation * z).collect())
    };
    let half = |numbers: &[usize]| -> Result<Vec<Vec<f32>>> {
        let stride = numbers.len().div_ceil(REAL).max(1);
        numbers.iter().step_by(stride).map(drawn).collect()
    };
    let (one, other) = numbers.split_at(numbers.len().div_ceil(2));
    Ok([half(one)?, half(other)?])
}

/// The numbers of training latents, one of each volume before the second ones.
fn apart(data: &LatentDataset) -> Vec<usize> {
    let mut seen = BTreeMap::new();
    let times = |number: usize| {
        let times = seen.entry(data.name(number)).or_insert(0_u64);
        *times += 1;
        (*times, number)
    };
    let mut numbers: Vec<(u64, usize)> = (0..data.training_len()).map(times).collect();
    numbers.sort_unstable();
    numbers.into_iter().map(|(_, number)| number).collect()
}

fn normal(seed: u64, path: [u64; 2], [channels, depth, height, width]: [usize; 4], device: &Device) -> Vec<f32> {
    values(drawn(derive(seed, &path), Distribution::STANDARD, [1, channels, depth, height, width], device))
}
