//! The tensors of a weight file, by name, not yet read from disk where the format allows that.

use std::collections::BTreeMap;
use std::panic::catch_unwind;
use std::path::Path;

use burn::store::burn_pack::Tensor as Stored;
use burn::store::{BurnpackStore, ModuleStore, PytorchStore, SafetensorsStore};

use super::WeightsError;

/// Opens a file by the ending of its name.
pub(super) fn read(path: &Path) -> Result<BTreeMap<String, Stored>, WeightsError> {
    if !path.is_file() {
        return Err(WeightsError::NotFound { path: path.to_path_buf() });
    }
    let extension = path.extension().unwrap_or_default().to_string_lossy().to_lowercase();
    let tensors = match extension.as_str() {
        "safetensors" => all(&mut SafetensorsStore::from_file(path)),
        "pt" | "pth" | "ckpt" | "bin" => all(&mut PytorchStore::from_file(path).map_indices_contiguous(false)),
        _ if is_record(path) => record(path),
        _ => return Err(WeightsError::UnknownFormat { path: path.to_path_buf(), found: extension }),
    };
    let failed = |reason| WeightsError::NotAStateDict { path: path.to_path_buf(), reason };
    match tensors {
        Ok(tensors) if tensors.is_empty() => Err(failed("no tensors at all".to_string())),
        Ok(tensors) => Ok(tensors),
        Err(reason) => Err(failed(reason)),
    }
}

/// Whether the file is a record of Burn's, as checkpoints have them, whose names are paths in the model.
pub(super) fn is_record(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "bpk")
}

/// Burn panics on files that are no records.
fn record(path: &Path) -> Result<BTreeMap<String, Stored>, String> {
    catch_unwind(|| all(&mut BurnpackStore::from_file(path))).unwrap_or_else(|_| Err("no record of a module".into()))
}

fn all<S: ModuleStore>(store: &mut S) -> Result<BTreeMap<String, Stored>, String> {
    store.get_all_tensors().cloned().map_err(|error| error.to_string())
}
