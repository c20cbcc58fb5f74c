//! From volumes to latents, and what these depend on.

use leanburn_data::{DataConfig, Dataset, Progress, Sample, find_volumes};

use super::latent::Latent;
use super::latent_files::{Encoded, Origin, checksum, stamp};
use super::stage::Stage;
use crate::codec::Codec;
use crate::codec_memory::CodecTask;
use crate::device::device_of;
use crate::error::{Result, SystemError};
use crate::shared::Context;

/// Reads the volumes and encodes their samples, those that are trained on first, and has each latent kept.
pub(super) fn encode_all(
    stage: &Stage,
    context: &Context<'_>,
    progress: &mut dyn FnMut(Progress<'_>),
    keep: &mut dyn FnMut(Latent) -> Result<()>,
) -> Result<Encoded> {
    let [training, validation] = Dataset::expected_len(context.data, context.seed)?;
    let to_encode = training * stage.section.samples_per_volume + validation;
    let volumes = Dataset::open_with(context.data, context.seed, |read| {
        progress(Progress { total: read.total + to_encode, ..read });
    })?;
    let [_, extent @ ..] = volumes.train_sample(0)?.shape;
    let codec = stage.open_for(CodecTask::Encode, extent, &device_of(context.device)?)?;
    let (read, training) = (volumes.names().len(), volumes.len() * stage.section.samples_per_volume);
    for number in 0..training + volumes.val_len() {
        let sample = match number.checked_sub(training) {
            None => volumes.train_sample(number as u64)?,
            Some(number) => volumes.val_sample(number)?,
        };
        let latent = encode(&codec, sample)?;
        progress(Progress { done: read + number + 1, total: read + to_encode, name: &latent.name });
        keep(latent)?;
    }
    Ok(Encoded { volumes: volumes.names(), training })
}

fn encode(codec: &Codec, sample: Sample) -> Result<Latent> {
    let (expected, found) = (codec.shape().in_channels, sample.shape[0]);
    if expected != found {
        return Err(SystemError::Input {
            subject: sample.name,
            expected: format!("{expected} channels, as the first stage has"),
            found: found.to_string(),
            remedy: "give the volumes that the first stage was trained on, or name another one".into(),
        });
    }
    let [mean, deviation] = codec.distribution(&sample.data, sample.shape)?;
    let shape = mean.shape();
    Ok(Latent {
        name: sample.name,
        class: sample.class,
        shape,
        mean: mean.data().to_vec(),
        deviation: deviation.data().to_vec(),
    })
}

/// What the latents of a configuration depend on.
pub(super) fn origin(stage: &Stage, context: &Context<'_>) -> Result<Origin> {
    let DataConfig { cache_rate, num_workers, prefetch, .. } = DataConfig::default();
    let data = DataConfig { cache_rate, num_workers, prefetch, ..context.data.clone() };
    let weights = stage.section.weights();
    let json = |value: &DataConfig| serde_json::to_string(value).expect("a section serialises");
    let files = if data.paths.is_empty() { Vec::new() } else { find_volumes(&data.paths)? };
    Ok([
        ("weights", format!("crc32c {:08x}", checksum(&weights)?)),
        ("data", json(&data)),
        ("volumes", stamp(&files)),
        ("samples", stage.section.samples_per_volume.to_string()),
        ("seeds", context.seed.to_string()),
        ("precision", context.device.resolved_precision().to_string()),
    ]
    .map(|(what, value)| (what.to_string(), value))
    .into())
}
