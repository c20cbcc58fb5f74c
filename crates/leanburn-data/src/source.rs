use crate::config::DataConfig;
use crate::error::DataError;
use crate::file::find_volumes;
use crate::phantom::phantom;
use crate::prepare::{Prepared, prepare};
use crate::random::{Stream, generator};
use crate::volume::Volume;
use rand::Rng;
use std::path::PathBuf;

/// Where a volume comes from, each time it is needed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Source {
    File(PathBuf),
    Phantom { index: usize, seed: u64 },
}

impl Source {
    /// The sources of a configuration, in their fixed order.
    pub(crate) fn all(config: &DataConfig, seed: u64) -> Result<Vec<Self>, DataError> {
        let Some(phantoms) = &config.phantom else {
            return Ok(find_volumes(&config.paths)?.into_iter().map(Self::File).collect());
        };
        let seed = |index: usize| generator(seed, Stream::PhantomSeed, index as u64).next_u64();
        Ok((0..phantoms.count).map(|index| Self::Phantom { index, seed: seed(index) }).collect())
    }

    pub(crate) fn name(&self) -> String {
        match self {
            Self::File(path) => path.display().to_string(),
            Self::Phantom { index, .. } => format!("phantom {index}"),
        }
    }

    pub(crate) fn path(&self) -> PathBuf {
        match self {
            Self::File(path) => path.clone(),
            Self::Phantom { .. } => self.name().into(),
        }
    }

    pub(crate) fn load(&self, config: &DataConfig) -> Result<Prepared, DataError> {
        let volume = match self {
            Self::File(path) => Volume::read(path)?,
            Self::Phantom { seed, .. } => {
                let phantoms = config.phantom.clone().unwrap_or_default();
                phantom(phantoms.shape, phantoms.noise, *seed)?
            }
        };
        prepare(volume, config).map_err(|error| error.at(&self.path()))
    }
}
