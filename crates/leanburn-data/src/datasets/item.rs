//! One volume of a data set: what is remembered of it, and what is read again.

use crate::augmentation::{Warp, nearest, trilinear, warp_into};
use crate::datasets::batch::Sample;
use crate::datasets::config::DataConfig;
use crate::datasets::prepare::Prepared;
use crate::datasets::source::Source;
use crate::error::DataError;
use crate::sampling::foreground::Foreground;
use crate::sampling::patch::{Cut, Region, cut_into};
use crate::sampling::places::{Place, places};
use crate::sampling::split::Role;
use crate::volumes::{Intensity, LabelMap, Volume, zeros};
use std::borrow::Cow;

/// A prepared volume and its labels.
#[derive(Debug, Clone)]
pub(crate) struct Scan {
    pub(crate) volume: Volume,
    pub(crate) labels: Option<LabelMap>,
}

/// One volume of a data set, in memory or not.
#[derive(Debug)]
pub(crate) struct Item {
    pub(crate) source: Source,
    pub(crate) shape: [usize; 4],
    pub(crate) intensity: Intensity,
    /// The part that may be trained on, and what is bright in it.
    pub(crate) training: Option<(Region, Foreground)>,
    /// The part that is validated on.
    pub(crate) held_out: Option<Region>,
    pub(crate) cached: Option<Scan>,
}

/// Reads volumes that are not in memory. It holds the one that it has read last, so that a thread takes as much memory at all times, and does
/// not read again what it has.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    last: Option<(Source, Scan)>,
}

impl Reader {
    /// The volume and its labels, from memory or prepared again.
    ///
    /// # Errors
    /// If they can no longer be read, or have changed.
    pub(crate) fn scan<'a>(&'a mut self, item: &'a Item, config: &DataConfig) -> Result<&'a Scan, DataError> {
        if let Some(scan) = &item.cached {
            return Ok(scan);
        }
        if self.last.as_ref().is_none_or(|(source, _)| *source != item.source) {
            self.last = None; // before the next one is read
            self.last = Some((item.source.clone(), item.read(config)?));
        }
        Ok(&self.last.as_ref().expect("it was read").1)
    }
}

impl Item {
    /// The volume and its labels, from memory or prepared again, once.
    ///
    /// # Errors
    /// As [`Reader::scan`].
    pub(crate) fn scan(&self, config: &DataConfig) -> Result<Cow<'_, Scan>, DataError> {
        self.cached.as_ref().map_or_else(|| self.read(config).map(Cow::Owned), |scan| Ok(Cow::Borrowed(scan)))
    }

    fn read(&self, config: &DataConfig) -> Result<Scan, DataError> {
        let (Prepared { volume, .. }, labels) = self.source.load(config)?;
        if volume.shape() != self.shape {
            return Err(DataError::Mismatch {
                path: self.source.path(),
                expected: format!("shape {:?}, as when the run began", self.shape),
                found: format!("{:?}", volume.shape()),
                remedy: "Leave the files alone during a run.",
            });
        }
        Ok(Scan { volume, labels })
    }

    /// The same patch of the volume and of its labels.
    pub(crate) fn sample(&self, scan: &Scan, patch: Cut) -> Result<Sample, DataError> {
        let Cut { start, size: size @ [x, y, z], .. } = patch;
        let shape = [self.shape[0], x, y, z];
        let mut data = zeros(&shape)?;
        let mut labels = scan.labels.as_ref().map(|_| zeros(&size)).transpose()?;
        scan.write(&patch, None, &mut data, labels.as_deref_mut());
        Ok(Sample {
            data,
            shape,
            labels,
            name: self.source.name(),
            class: self.source.class(),
            start,
            intensity: self.intensity,
        })
    }
}

impl Scan {
    /// The same patch of the volume and of its labels, read where a warp says if there is one, into places of as many voxels.
    pub(crate) fn write(&self, patch: &Cut, warp: Option<&Warp>, data: &mut [f32], labels: Option<&mut [u8]>) {
        let shape @ [_, x, y, z] = self.volume.shape();
        let values = self.volume.data();
        match warp {
            Some(warp) => warp_into(data, (values, shape), patch, warp, trilinear),
            None => cut_into(data, values, shape, patch),
        }
        let Some((place, labels)) = labels.zip(self.labels.as_ref()) else { return };
        let (labels, shape) = (labels.data(), [1, x, y, z]);
        match warp {
            Some(warp) => warp_into(place, (labels, shape), patch, warp, nearest),
            None => cut_into(place, labels, shape, patch),
        }
    }
}

/// Reads and prepares a volume: its item, which keeps it if it is to be cached, and its validation patches.
pub(crate) fn load(
    config: &DataConfig,
    source: &Source,
    index: usize,
    role: Role,
    keep: bool,
    seed: u64,
) -> Result<(Item, Vec<Place>), DataError> {
    let (Prepared { volume, intensity }, labels) = source.load(config)?;
    let [training, held_out] = role.regions(volume.extent(), config.val_fraction);
    let patches = |region| places(&volume, index, region, config.patch_size, config.val_patches, seed);
    let places = held_out.map_or(Vec::new(), patches);
    let item = Item {
        source: source.clone(),
        shape: volume.shape(),
        intensity,
        training: training.map(|region| (region, Foreground::of(&volume, region))),
        held_out,
        cached: keep.then_some(Scan { volume, labels }),
    };
    Ok((item, places))
}

/// Whether a volume goes together with the configuration and with the first volume.
pub(crate) fn check_against(config: &DataConfig, first: Option<&Item>, item: &Item) -> Result<(), DataError> {
    let mismatch = |expected: String, remedy: &'static str| DataError::Mismatch {
        path: item.source.path(),
        expected,
        found: format!("shape {:?}", item.shape),
        remedy,
    };
    if let Some(channels) = config.channels.filter(|channels| *channels != item.shape[0]) {
        let expected = format!("{channels} channels, as `channels` says");
        return Err(mismatch(expected, "Save the volume with all its channels first, or change `channels`."));
    }
    let Some(first) = first else {
        return Ok(());
    };
    if item.shape[0] != first.shape[0] {
        let expected = format!("{} channels, as in {}", first.shape[0], first.source.name());
        return Err(mismatch(expected, "Train on volumes of equal channels."));
    }
    if config.patch_size.is_none() && item.shape != first.shape {
        let expected = format!("shape {:?}, as in {}", first.shape, first.source.name());
        return Err(mismatch(expected, "Set voxel_size to resize them all, or patch_size to cut patches."));
    }
    Ok(())
}
