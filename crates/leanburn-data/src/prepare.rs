use crate::config::DataConfig;
use crate::error::DataError;
use crate::intensity::Intensity;
use crate::volume::Volume;

/// A volume as models see it, and the way back.
#[derive(Debug, Clone)]
pub struct Prepared {
    /// Resampled and normalized; [`Volume::to_original_grid`] leads back to the input's grid.
    pub volume: Volume,
    /// What normalizing did; [`Intensity::invert`] leads back to the input's units.
    pub intensity: Intensity,
}

/// Does to a volume what training does: `voxel_size` or `spacing`, then `normalize`.
///
/// # Errors
/// If there is no memory for the grid.
pub fn prepare(volume: Volume, config: &DataConfig) -> Result<Prepared, DataError> {
    let mut volume = match (config.voxel_size, config.spacing) {
        (Some(extent), _) if extent != volume.extent() => volume.resize(extent)?,
        (None, Some(spacing)) => volume.resample(spacing)?,
        _ => volume,
    };
    let intensity = config.normalize.apply(volume.data_mut(), config.percentiles);
    Ok(Prepared { volume, intensity })
}
