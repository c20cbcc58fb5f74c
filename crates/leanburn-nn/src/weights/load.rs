//! Weights from a file into a model.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use burn::store::ModuleSnapshot;
use burn::store::burn_pack::Tensor as Stored;
use burn::tensor::{DType, TensorData};

use super::prefix::prefixes;
use super::read::read;
use super::{Differences, MonaiWeights, ShapeDifference, WeightsError};

/// Loads weights into `model`, wherever in the file they lie.
///
/// Half and double precision become float32. Names under the model's prefix must be exactly the model's;
/// counters of batch norms and everything outside the prefix (other models, optimizer states) are left out.
///
/// # Errors
///
/// [`WeightsError`], with all differences at once; the model is then as it was.
///
/// # Example
///
/// ```
/// use burn::tensor::Device;
/// use leanburn_nn::{models::AutoencoderKlConfig, weights};
///
/// let config = AutoencoderKlConfig::new(vec![8], vec![1], vec![false]).with_norm_num_groups(4);
/// let (trained, mut other) = (config.init(&Device::flex()), config.init(&Device::flex()));
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("autoencoder.safetensors");
/// weights::save_safetensors(&trained, &path)?;
/// weights::load(&mut other, &path)?;
///
/// let mut wider = config.with_latent_channels(4).init(&Device::flex());
/// let error = weights::load(&mut wider, &path).unwrap_err();
/// assert!(error.to_string().contains("quant_conv_mu.conv.weight is [3, 3, 1, 1, 1], the model has [4, 4, 1, 1, 1]"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn load<M: MonaiWeights>(model: &mut M, path: &Path) -> Result<(), WeightsError> {
    let stored = read(path)?;
    let targets = targets(model);
    let names = targets.iter().flat_map(|target| target.names.clone()).collect::<HashSet<_>>();
    let mut prefixes = prefixes(stored.keys().map(String::as_str), &names);
    if prefixes.len() > 1 {
        return Err(WeightsError::Ambiguous { path: path.to_path_buf(), prefixes });
    }
    let prefix = prefixes.pop().unwrap_or_default();
    apply(model, path, &prefix, stored, targets)
}

/// Loads the weights whose names begin with `prefix`, dot included: `"state_dict.ema_model."`.
///
/// # Errors
///
/// As [`load`].
pub fn load_under<M: MonaiWeights>(model: &mut M, path: &Path, prefix: &str) -> Result<(), WeightsError> {
    let (stored, targets) = (read(path)?, targets(model));
    apply(model, path, prefix, stored, targets)
}

/// A parameter or buffer of the model.
struct Target {
    path: String,
    /// MONAI's name, and the older one if there is another.
    names: Vec<String>,
    shape: Vec<usize>,
}

fn targets<M: MonaiWeights>(model: &M) -> Vec<Target> {
    let tensors = model.collect(None, None, true).into_iter();
    let target = |tensor: Stored| {
        let name = M::monai_name(&tensor.name);
        let legacy = M::legacy_name(&name);
        Target { names: [name].into_iter().chain(legacy).collect(), shape: tensor.shape.to_vec(), path: tensor.name }
    };
    tensors.map(target).collect()
}

/// Matches, reads and only then touches the model.
fn apply<M: MonaiWeights>(
    model: &mut M,
    path: &Path,
    prefix: &str,
    stored: BTreeMap<String, Stored>,
    targets: Vec<Target>,
) -> Result<(), WeightsError> {
    let matched = match_names::<M>(path, prefix, stored, targets)?;
    let failed = |reason| WeightsError::NotAStateDict { path: path.to_path_buf(), reason };
    let tensors: Result<Vec<_>, _> = matched.into_iter().map(|(path, tensor)| in_float32(path, tensor)).collect();
    let result = model.apply(tensors.map_err(failed)?, None, None, true);
    match result.errors.is_empty() && result.missing.is_empty() {
        true => Ok(()),
        false => Err(failed(format!("tensors that do not load: {result}"))),
    }
}

/// Pairs each of the model's paths with the tensor of the file that belongs there.
fn match_names<M: MonaiWeights>(
    path: &Path,
    prefix: &str,
    mut stored: BTreeMap<String, Stored>,
    targets: Vec<Target>,
) -> Result<Vec<(String, Stored)>, WeightsError> {
    let is_spare = |name: &str| name.ends_with(".num_batches_tracked") || M::is_spare(name);
    stored.retain(|key, _| key.strip_prefix(prefix).is_some_and(|name| !is_spare(name)));
    let mut matched = Vec::with_capacity(targets.len());
    let mut differences = Differences::default();
    for Target { path, names, shape } in targets {
        let mut keys = names.iter().map(|name| format!("{prefix}{name}"));
        let found = keys.find_map(|key| stored.remove_entry(&key));
        match found {
            None => differences.missing.push(format!("{prefix}{}", names[0])),
            Some((name, tensor)) if tensor.shape.to_vec() != shape => {
                differences.shapes.push(ShapeDifference { name, expected: shape, found: tensor.shape.to_vec() });
            }
            Some((_, tensor)) => matched.push((path, tensor)),
        }
    }
    differences.unexpected = stored.into_keys().collect();
    match differences.is_empty() {
        true => Ok(matched),
        false => Err(WeightsError::Different { path: path.to_path_buf(), differences: Box::new(differences) }),
    }
}

/// Reads a tensor and gives it its path in the model.
fn in_float32(path: String, tensor: Stored) -> Result<Stored, String> {
    let (name, dtype, shape) = (tensor.name.clone(), tensor.dtype, tensor.shape.clone());
    if !matches!(dtype, DType::F16 | DType::BF16 | DType::F32 | DType::F64) {
        return Err(format!("{name} in {dtype:?}, expected floats"));
    }
    let bytes = tensor.into_bytes().map_err(|error| format!("{name} cannot be read: {error:?}"))?;
    let data = TensorData::try_from_bytes(bytes, shape.clone(), dtype).map_err(|error| format!("{name}: {error}"))?;
    let data = data.convert::<f32>();
    Ok(Stored::new(path, DType::F32, shape, None, data.into_bytes()))
}
