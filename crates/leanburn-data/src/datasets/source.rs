//! Where the volumes of a configuration, and their labels, come from.

use crate::datasets::config::DataConfig;
use crate::datasets::labels::{LabelFiles, listed};
use crate::datasets::prepare::{Prepared, new_grid, prepare};
use crate::error::DataError;
use crate::formats::find_volumes;
use crate::random::{Stream, generator};
use crate::synthetic::{PHANTOM_KINDS, PhantomKind, phantom_labels_of, phantom_of, radar};
use crate::volumes::{LabelMap, Volume};
use rand::Rng;
use std::path::{Path, PathBuf};

/// Where a volume comes from, each time it is needed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Source {
    File { path: PathBuf, labels: Option<LabelFiles>, class: Option<usize> },
    Phantom { index: usize, seed: u64, class: Option<usize> },
    Radar { index: usize, seed: u64 },
}

impl Source {
    /// The sources of a configuration, in their fixed order.
    pub(crate) fn all(config: &DataConfig, seed: u64) -> Result<Vec<Self>, DataError> {
        let draw = |stream: Stream, index: usize| generator(seed, stream, index as u64).next_u64();
        if let Some(phantoms) = &config.phantom {
            let class = |index: usize| index.checked_rem(config.classes.len());
            let phantom = |index| Self::Phantom { index, seed: draw(Stream::PhantomSeed, index), class: class(index) };
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
        let file = |(path, labels): (PathBuf, _)| {
            let class = class_of(&path, &config.classes)?;
            Ok(Self::File { path, labels, class })
        };
        paths.into_iter().zip(labels).map(file).collect()
    }

    /// The index of its class in `data.classes`, where that names some.
    pub(crate) fn class(&self) -> Option<usize> {
        match self {
            Self::File { class, .. } | Self::Phantom { class, .. } => *class,
            Self::Radar { .. } => None,
        }
    }

    /// What kind of head a phantom is.
    fn kind(&self, config: &DataConfig) -> PhantomKind {
        let name = self.class().and_then(|class| config.classes.get(class));
        let named = |(kind, _): &&(&str, PhantomKind)| name.is_some_and(|name| name == kind);
        PHANTOM_KINDS.iter().find(named).map_or(PhantomKind::T1, |(_, kind)| *kind)
    }

    pub(crate) fn name(&self) -> String {
        match self {
            Self::File { path, .. } => path.display().to_string(),
            Self::Phantom { index, .. } => format!("phantom {index}"),
            Self::Radar { index, .. } => format!("radar scene {index}"),
        }
    }

    /// Its name, and the files of its labels behind it.
    pub(crate) fn name_with_labels(&self) -> String {
        match self {
            Self::File { path, labels: Some(labels), .. } => {
                format!("{} with labels {}", path.display(), listed(labels.paths()))
            }
            _ => self.name(),
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
                phantom_of(self.kind(config), phantoms.shape, phantoms.noise, *seed)?
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
            Self::File { path, labels: Some(files), .. } => files.load(volume, path, grid.as_ref()).map(Some),
            Self::Phantom { seed, .. } if config.labels.is_some() => {
                let labels = phantom_labels_of(self.kind(config), volume.extent(), *seed)?;
                match grid {
                    Some(grid) => labels.resample(&grid).map(Some),
                    None => Ok(Some(labels)),
                }
            }
            _ => Ok(None),
        }
    }
}

/// The class of a file: the nearest folder above it that has the name of one; none where there are no classes.
fn class_of(path: &Path, classes: &[String]) -> Result<Option<usize>, DataError> {
    if classes.is_empty() {
        return Ok(None);
    }
    let folders = path.ancestors().skip(1).filter_map(Path::file_name);
    let class = folders.filter_map(|folder| classes.iter().position(|class| folder == class.as_str())).next();
    let missing = || DataError::Mismatch {
        path: path.into(),
        expected: format!("a folder of one of the names {}, as `data.classes` says", classes.join(", ")),
        found: "none above it".into(),
        remedy: "Put the volumes of each class into a folder of its name, or correct `data.classes`.",
    };
    class.map(Some).ok_or_else(missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_folder_of_a_name_is_the_class() {
        let classes = ["healthy", "tumour"].map(String::from);
        let of = |path: &str| class_of(Path::new(path), &classes);
        assert_eq!(of("scans/tumour/a.nii").unwrap(), Some(1));
        assert_eq!(of("tumour/healthy/more/a.nii").unwrap(), Some(0));
        let error = of("scans/healthy.nii").unwrap_err().to_string();
        assert!(error.contains("scans/healthy.nii") && error.contains("healthy, tumour"), "{error}");
        assert_eq!(class_of(Path::new("scans/healthy.nii"), &[]).unwrap(), None);
    }
}
