//! What the volumes of a configuration take in memory.

use crate::datasets::config::DataConfig;
use crate::datasets::source::Source;
use crate::error::DataError;
use crate::sampling::split::{Role, roles};

/// Bytes that volumes and their labels take in memory: 4 a value, 1 a label.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DataMemory {
    /// Of those that stay, a share of `cache_rate`.
    pub cached: u64,
    /// Of those of the training part that are read again: each thread of the loader holds the one that it has read last, prepared, and while
    /// it reads one also that one as it is in the file, of the same size where the grid stays. Those that are made are prepared in place.
    /// Without threads one is held between steps alone.
    pub read: u64,
}

impl DataMemory {
    /// What the volumes of a configuration will take, without opening them: by `voxel_size` where there is one, else all are taken to
    /// be as large as the first, which is read. `channels` are those that they are expected to have.
    ///
    /// # Errors
    /// If there are no volumes, or the first cannot be read.
    pub fn of(config: &DataConfig, channels: usize, seed: u64) -> Result<Self, DataError> {
        let sources = Source::all(config, seed)?;
        let bytes = bytes_of_one(config, &sources, channels)?;
        let roles = roles(sources.len(), config.val_fraction, seed);
        let stays = stays(config, &roles);
        let is_read = roles.iter().zip(&stays).any(|(role, stays)| *role != Role::Validate && !stays);
        let stay = stays.iter().filter(|stays| **stays).count() as u64;
        Ok(Self { cached: bytes.saturating_mul(stay), read: if is_read { Self::of_readers(config, bytes) } else { 0 } })
    }

    /// What all threads of the loader hold as each reads a volume of so many bytes.
    pub(crate) fn of_readers(config: &DataConfig, bytes: u64) -> u64 {
        let is_made = config.phantom.is_some() || config.radar.is_some();
        let keeps_grid = config.voxel_size.is_none() && config.spacing.is_none();
        let copies = if is_made && keeps_grid { 1 } else { 2 };
        bytes.saturating_mul(copies * config.num_workers.max(1) as u64)
    }
}

/// Which volumes stay in memory: a share of all, those that are trained on first, since every step needs some of them.
pub(crate) fn stays(config: &DataConfig, roles: &[Role]) -> Vec<bool> {
    let mut order: Vec<usize> = (0..roles.len()).collect();
    order.sort_by_key(|index| roles[*index] == Role::Validate);
    let mut stays = vec![false; roles.len()];
    order[..(config.cache_rate * roles.len() as f64).ceil() as usize].iter().for_each(|index| stays[*index] = true);
    stays
}

fn bytes_of_one(config: &DataConfig, sources: &[Source], channels: usize) -> Result<u64, DataError> {
    let Some(extent) = config.voxel_size else {
        let Some(first) = sources.first() else { return Ok(0) };
        let (prepared, labels) = first.load(config)?;
        let labels = labels.map_or(0, |labels| labels.data().len());
        return Ok((size_of_val(prepared.volume.data()) + labels) as u64);
    };
    let voxels = extent.iter().fold(1_u64, |voxels, &length| voxels.saturating_mul(length as u64));
    Ok(voxels.saturating_mul(4 * channels as u64 + u64::from(config.labels.is_some())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datasets::{Dataset, LabelsConfig};
    use crate::synthetic::PhantomConfig;

    #[test]
    fn what_is_expected_is_what_an_opened_data_set_has() {
        let phantom = Some(PhantomConfig { count: 5, shape: [6, 8, 10], noise: 0.1 });
        let plain = DataConfig { phantom, ..DataConfig::default() };
        let resized = DataConfig { voxel_size: Some([4, 4, 6]), ..plain.clone() };
        let labelled = DataConfig { labels: Some(LabelsConfig::default()), cache_rate: 0.5, ..plain.clone() };
        let both = DataConfig { cache_rate: 0.5, ..resized.clone() };
        // of the five one is held out
        let expected =
            [(5 * 4 * 480, 0), (5 * 4 * 96, 0), (3 * 5 * 480, 2 * 5 * 480), (3 * 4 * 96, 4 * 4 * 96), (4 * 4 * 480, 0)];
        let training = DataConfig { cache_rate: 0.8, ..plain.clone() };
        for (config, (cached, read)) in [plain, resized, labelled, both, training].into_iter().zip(expected) {
            let found = DataMemory::of(&config, 1, 3).unwrap();
            assert_eq!(found, DataMemory { cached, read });
            assert_eq!(found, Dataset::open(&config, 3).unwrap().memory());
        }
        for (count, val_fraction, patch_size) in
            [(5, 0.2, None), (5, 0.4, Some([4; 3])), (1, 0.3, Some([4; 3])), (3, 0.0, None)]
        {
            let phantom = Some(PhantomConfig { count, shape: [6, 8, 10], noise: 0.1 });
            let config = DataConfig { phantom, val_fraction, val_patches: 3, patch_size, ..DataConfig::default() };
            let opened = Dataset::open(&config, 3).unwrap();
            assert_eq!(Dataset::expected_len(&config, 3).unwrap(), [opened.len(), opened.val_len()], "{config:?}");
        }
        let nowhere =
            DataConfig { paths: vec!["nowhere.nii".into()], voxel_size: Some([4; 3]), ..DataConfig::default() };
        assert!(DataMemory::of(&nowhere, 1, 3).unwrap_err().is_not_found());
    }
}
