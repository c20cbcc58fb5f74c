//! What is done to a volume before a model sees it.

use crate::datasets::config::DataConfig;
use crate::error::DataError;
use crate::volumes::{Intensity, NewGrid, Normalize, Volume};

/// A volume as models see it, and how to convert results back.
#[derive(Debug, Clone)]
pub struct Prepared {
    /// Resampled and normalized; [`Volume::into_original_grid`] converts back to the input's grid.
    pub volume: Volume,
    /// What normalizing did; [`Intensity::invert`] converts back to the input's units.
    pub intensity: Intensity,
}

/// Does to a volume what training does: `voxel_size` or `spacing`, then `normalize`.
///
/// # Errors
/// If there is no memory for the grid, or all values become 0 that were not equal: where most voxels
/// are empty, both percentiles are 0.
pub fn prepare(volume: Volume, config: &DataConfig) -> Result<Prepared, DataError> {
    let mut volume = match new_grid(&volume, config)? {
        Some(grid) => volume.on_new_grid(&grid)?,
        None => volume,
    };
    let first = volume.data()[0];
    let constant = volume.data().iter().all(|value| *value == first);
    let intensity = config.normalize.apply(volume.data_mut(), config.percentiles);
    if !constant && config.normalize == Normalize::Percentile && volume.data().iter().all(|value| *value == 0.0) {
        let expected = format!("different values at the percentiles {:?}", config.percentiles);
        let remedy = "Set `normalize` to min_max, z_score or none, or move the `percentiles`.";
        return Err(DataError::malformed(expected, format!("{} at both", -intensity.offset), remedy));
    }
    Ok(Prepared { volume, intensity })
}

/// The grid that `voxel_size` or `spacing` asks for; none if the volume stays on its own.
///
/// # Errors
/// If a spacing is not positive.
pub(crate) fn new_grid(volume: &Volume, config: &DataConfig) -> Result<Option<NewGrid>, DataError> {
    Ok(match (config.voxel_size, config.spacing) {
        (Some(extent), _) if extent != volume.extent() => Some(NewGrid::of_extent(volume, extent)),
        (None, Some(spacing)) => Some(NewGrid::of_spacing(volume, spacing)?),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::volumes::affine::IDENTITY;

    #[test]
    fn there_and_back_is_the_input() {
        let data: Vec<f32> = (0..1000).map(|index| 100.0 + (index / 10 % 10) as f32).collect();
        let volume = Volume::new(data, [1, 10, 10, 10], IDENTITY).unwrap();
        let grids = [
            (Some([20, 20, 20]), None, [20, 20, 20]),
            (None, Some([0.5, 1.0, 2.0]), [20, 10, 5]),
            (Some([10, 10, 10]), None, [10, 10, 10]),
            (None, None, [10, 10, 10]),
        ];
        for (voxel_size, spacing, extent) in grids {
            let normalize = Normalize::MinMax;
            let config = DataConfig { voxel_size, spacing, normalize, ..DataConfig::default() };
            let prepared = prepare(volume.clone(), &config).unwrap();
            assert_eq!(prepared.volume.extent(), extent);
            let range = prepared.volume.data().iter();
            assert!(range.clone().any(|value| *value == 0.0) && range.clone().any(|value| *value == 1.0));
            let mut back = prepared.volume.into_original_grid().unwrap();
            prepared.intensity.invert(back.data_mut());
            assert_eq!(back.affine(), volume.affine());
            let pairs = back.data().iter().zip(volume.data());
            let largest = pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(largest < 0.3, "{largest} off for {extent:?}");
        }
    }

    #[test]
    fn a_sparse_volume_is_not_normalized_to_nothing() {
        let mut data = vec![0.0; 1000];
        data[7] = 5.0;
        let sparse = Volume::new(data, [1, 10, 10, 10], IDENTITY).unwrap();
        let error = prepare(sparse.clone(), &DataConfig::default()).unwrap_err().to_string();
        assert!(error.contains("0 at both") && error.contains("normalize"), "{error}");
        let config = DataConfig { normalize: Normalize::MinMax, ..DataConfig::default() };
        assert_eq!(prepare(sparse, &config).unwrap().volume.data()[7], 1.0);
        let constant = Volume::new(vec![3.0; 8], [1, 2, 2, 2], IDENTITY).unwrap();
        assert_eq!(prepare(constant, &DataConfig::default()).unwrap().volume.data(), [0.0; 8]);
    }
}
