//! Where the volumes of a configuration, and their labels, come from.

use crate::datasets::config::DataConfig;
use crate::datasets::labels::LabelFiles;
use crate::datasets::prepare::{Prepared, new_grid, prepare};
use crate::error::DataError;
use crate::formats::find_volumes;
use crate::random::{Stream, generator};
use crate::synthetic::{phantom, phantom_labels, radar};
use crate::volumes::{LabelMap, Volume};
use rand::Rng;
use std::path::PathBuf;

/// Where a volume comes from, each time it is needed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Source {
    File { path: PathBuf, labels: Option<LabelFiles> },
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
        let paths = find_volumes(&config.paths)?;
        let labels = match &config.labels {
            Some(labels) => LabelFiles::of(labels, &paths)?.into_iter().map(Some).collect(),
            None => vec![None; paths.len()],
        };
        Ok(paths.into_iter().zip(labels).map(|(path, labels)| Self::File { path, labels }).collect())
    }

    pub(crate) fn name(&self) -> String {
        match self {
            Self::File { path, .. } => path.display().to_string(),
            Self::Phantom { index, .. } => format!("phantom {index}"),
            Self::Radar { index, .. } => format!("radar scene {index}"),
        }
    }

    pub(crate) fn path(&self) -> PathBuf {
        match self {
            Self::File { path, .. } => path.clone(),
            Self::Phantom { .. } | Self::Radar { .. } => self.name().into(),
        }
    }

    /// Reads or makes the volume, and its labels where the configuration has them, and prepares both.
    pub(crate) fn load(&self, config: &DataConfig) -> Result<(Prepared, Option<LabelMap>), DataError> {
        let volume = match self {
            Self::File { path, .. } => Volume::read(path)?,
            Self::Phantom { seed, .. } => {
                let phantoms = config.phantom.clone().unwrap_or_default();
                phantom(phantoms.shape, phantoms.noise, *seed)?
            }
            Self::Radar { seed, .. } => {
                let scenes = config.radar.clone().unwrap_or_default();
                radar(scenes.shape, scenes.vehicles, scenes.speckle, *seed)?
            }
        };
        let labels = self.labels(&volume, config)?;
        let prepared = prepare(volume, config).map_err(|error| error.at(&self.path()))?;
        Ok((prepared, labels))
    }

    /// The labels on the grid that the volume will have.
    fn labels(&self, volume: &Volume, config: &DataConfig) -> Result<Option<LabelMap>, DataError> {
        let grid = new_grid(volume, config)?;
        match self {
            Self::File { path, labels: Some(files) } => files.load(volume, path, grid.as_ref()).map(Some),
            Self::Phantom { seed, .. } if config.labels.is_some() => {
                let labels = phantom_labels(volume.extent(), *seed)?;
                match grid {
                    Some(grid) => labels.resample(&grid).map(Some),
                    None => Ok(Some(labels)),
                }
            }
            _ => Ok(None),
        }
    }
}
