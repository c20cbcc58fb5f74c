//! The first stage of a model of latents: where it is, and whether it is the one that the configuration speaks of.

use std::path::{Path, PathBuf};

use burn::tensor::Device;
use leanburn_data::DataConfig;

use super::teacher;
use crate::codec::Codec;
use crate::codec_memory::CodecTask;
use crate::error::{Result, SystemError};
use crate::shared::{Context, DeviceSection, LatentsSection, OpenFirstStage};

/// Where the first stage is, to be opened when it is needed.
#[derive(Debug)]
pub(super) struct Stage {
    pub section: LatentsSection,
    pub data: DataConfig,
    pub device: DeviceSection,
    pub teacher: Option<PathBuf>,
    open: OpenFirstStage,
}

impl Stage {
    pub fn of(context: &Context<'_>) -> Self {
        Self {
            section: context.latents.cloned().unwrap_or_else(|| LatentsSection::new("")),
            open: context.first_stage,
            data: context.data.clone(),
            device: context.device.clone(),
            teacher: context.teacher.map(Path::to_path_buf),
        }
    }

    /// The first stage on a device without autodiff.
    ///
    /// # Errors
    ///
    /// [`SystemError::Input`] if it is not there, is no autoencoder, or is not the one that the configuration speaks of; what its
    /// configuration and its weights cannot be read for.
    pub fn open(&self, device: &Device) -> Result<Codec> {
        let weights = self.section.weights();
        if !weights.is_file() {
            return Err(missing(&self.section, &weights));
        }
        let stage = (self.open)(&weights, device)?;
        let reject = |subject: &str, expected: String, found: String, remedy: String| {
            Err(SystemError::Input { subject: subject.into(), expected, found, remedy })
        };
        let Some(codec) = stage.codec else {
            let remedy = "name a run of the system `autoencoder`, `vae3d` or `vqvae`".to_string();
            return reject("latents.autoencoder", "an autoencoder".into(), "a model without latents".into(), remedy);
        };
        let (there, here) = (codec.shape().multiples, self.section.downsampling);
        if there != here {
            let expected = format!("{there:?}, by which {} divides volumes", weights.display());
            let remedy = format!("write `downsampling: {there:?}`");
            return reject("latents.downsampling", expected, format!("{here:?}"), remedy);
        }
        if (stage.data.normalize, stage.data.percentiles) != (self.data.normalize, self.data.percentiles) {
            let said = |data: &DataConfig| format!("{:?} with percentiles {:?}", data.normalize, data.percentiles);
            let expected = format!("{}, as the first stage was trained", said(&stage.data));
            let remedy = "write `normalize` and `percentiles` of the config.yaml of its run".to_string();
            return reject("data.normalize", expected, said(&self.data), remedy);
        }
        Ok(codec)
    }

    /// What latents are multiplied by, where the configuration or a teacher says it: a teacher knows no other latents.
    pub fn scale_factor(&self) -> Result<Option<f64>> {
        let Some(path) = &self.teacher else { return Ok(self.section.scale_factor) };
        let scale = teacher::scale_factor(path)?;
        match self.section.scale_factor {
            Some(found) if found != scale => Err(SystemError::Input {
                subject: "latents.scale_factor".into(),
                expected: format!("{scale}, as the teacher was trained"),
                found: found.to_string(),
                remedy: "leave it out".into(),
            }),
            _ => Ok(Some(scale)),
        }
    }

    /// The first stage for a task with a volume, or a latent, of an extent: within the memory limit of the run, if there is one.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open), and [`SystemError::OutOfMemory`] if it does not fit in slabs either.
    pub fn open_for(&self, task: CodecTask, extent: [usize; 3], device: &Device) -> Result<Codec> {
        let codec = self.open(device)?;
        let Some(limit) = self.device.memory_limit else { return Ok(codec) };
        codec.within(limit, task, extent).map_err(|error| SystemError::OutOfMemory {
            reason: format!("the first stage does not fit into the memory of the run: {error}"),
            remedy: "set a smaller data.patch_size, or allow the process more memory".into(),
        })
    }
}

fn missing(section: &LatentsSection, weights: &Path) -> SystemError {
    let name = section.autoencoder.file_name().unwrap_or_default().display();
    SystemError::Input {
        subject: "latents.autoencoder".into(),
        expected: format!("the weights of a trained autoencoder in {}", weights.display()),
        found: if section.autoencoder.exists() { "none there" } else { "nothing there" }.into(),
        remedy: format!(
            "train the first stage: `leanburn train {name}.yaml`, or have it trained before this one by `leanburn train ... --with-stages`"
        ),
    }
}
