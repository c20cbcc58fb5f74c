use crate::config::DataConfig;
use crate::error::DataError;
use crate::file::find_volumes;
use crate::phantom::phantom;
use crate::prepare::{Prepared, prepare};
use crate::radar::radar;
use crate::random::{Stream, generator};
use crate::volume::Volume;
use rand::Rng;
use std::path::PathBuf;

/// Where a volume comes from, each time it is needed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Source {
    File(PathBuf),
    Phantom { index: usize, seed: u64 },
    Radar { index: usize, seed: u64 },
}

impl Source {
    /// The sources of a configuration, in their fixed order.
    pub(crate) fn all(config: &DataConfig, seed: u64) -> Result<Vec<Self>, DataError> {
        let draw = |stream: Stream, index: usize| generator(seed, stream, index as u64).next_u64();
        if let Some(phantoms) = &config.phantom {
            let phantom = |index| Self::Phantom { index, seed: draw(Stream::PhantomSeed, index) };
            return Ok((0..phantoms.count).map(phantom).collect());
        }
        if let Some(scenes) = &config.radar {
            let scene = |index| Self::Radar { index, seed: draw(Stream::RadarSeed, index) };
            return Ok((0..scenes.count).map(scene).collect());
        }
        Ok(find_volumes(&config.paths)?.into_iter().map(Self::File).collect())
    }

    pub(crate) fn name(&self) -> String {
        match self {
            Self::File(path) => path.display().to_string(),
            Self::Phantom { index, .. } => format!("phantom {index}"),
            Self::Radar { index, .. } => format!("radar scene {index}"),
        }
    }

    pub(crate) fn path(&self) -> PathBuf {
        match self {
            Self::File(path) => path.clone(),
            Self::Phantom { .. } | Self::Radar { .. } => self.name().into(),
        }
    }

    pub(crate) fn load(&self, config: &DataConfig) -> Result<Prepared, DataError> {
        let volume = match self {
            Self::File(path) => Volume::read(path)?,
            Self::Phantom { seed, .. } => {
                let phantoms = config.phantom.clone().unwrap_or_default();
                phantom(phantoms.shape, phantoms.noise, *seed)?
            }
            Self::Radar { seed, .. } => {
                let scenes = config.radar.clone().unwrap_or_default();
                radar(scenes.shape, scenes.vehicles, scenes.speckle, *seed)?
            }
        };
        prepare(volume, config).map_err(|error| error.at(&self.path()))
    }
}
