//! Weights from a file into a model.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use burn::store::ModuleSnapshot;
use burn::store::burn_pack::Tensor as Stored;
use burn::tensor::{DType, TensorData};

use super::prefix::prefixes;
use super::read::{is_record, read};
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
    let targets = targets(model, path);
    let prefix = prefix_of(path, &stored, &targets)?;
    load_all(model, path, &prefix, stored, targets)
}

/// Loads the weights whose names begin with `prefix`, dot included: `"state_dict.ema_model."`.
///
/// # Errors
///
/// As [`load`].
pub fn load_under<M: MonaiWeights>(model: &mut M, path: &Path, prefix: &str) -> Result<(), WeightsError> {
    let (stored, targets) = (read(path)?, targets(model, path));
    load_all(model, path, prefix, stored, targets)
}

/// Loads those weights that fit, wherever in the file they lie, as to train on from another model's. The others stay as they are.
///
/// # Errors
///
/// [`WeightsError::NothingMatches`] if no name and shape of the file is the model's, and what [`load`] says of a file. The model is
/// then as it was.
///
/// # Example
///
/// ```
/// use burn::tensor::Device;
/// use leanburn_nn::{models::AutoencoderKlConfig, weights};
///
/// let config = AutoencoderKlConfig::new(vec![8], vec![1], vec![false]).with_norm_num_groups(4);
/// let (trained, mut wider) = (config.init(&Device::flex()), config.with_latent_channels(4).init(&Device::flex()));
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("autoencoder.safetensors");
/// weights::save_safetensors(&trained, &path)?;
/// let matched = weights::load_matching(&mut wider, &path)?;
/// assert!(matched.left.shapes.iter().any(|shape| shape.name == "quant_conv_mu.conv.weight"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn load_matching<M: MonaiWeights>(model: &mut M, path: &Path) -> Result<Matched, WeightsError> {
    let stored = read(path)?;
    let targets = targets(model, path);
    let prefix = prefix_of(path, &stored, &targets)?;
    let nothing = WeightsError::nothing_matches(
        path,
        targets.iter().map(|target| (target.names[0].as_str(), &target.shape[..])),
        stored.iter().map(|(name, tensor)| (name.as_str(), &tensor.shape[..])),
    );
    let (matched, left) = match_names::<M>(&prefix, stored, targets);
    if matched.is_empty() {
        return Err(nothing);
    }
    let loaded = matched.len();
    apply(model, path, matched)?;
    Ok(Matched { loaded, left })
}

/// What of a file has gone into a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Matched {
    /// Tensors of the model that were loaded.
    pub loaded: usize,
    /// What was left: of the model what is `missing` in the file or has another of `shapes`, and of the file what is `unexpected`.
    pub left: Differences,
}

/// The prefix of the model's names in the file; empty where it has none of them.
fn prefix_of(path: &Path, stored: &BTreeMap<String, Stored>, targets: &[Target]) -> Result<String, WeightsError> {
    let names = targets.iter().flat_map(|target| target.names.clone()).collect::<HashSet<_>>();
    let mut prefixes = prefixes(stored.keys().map(String::as_str), &names);
    match prefixes.len() {
        0 | 1 => Ok(prefixes.pop().unwrap_or_default()),
        _ => Err(WeightsError::Ambiguous { path: path.to_path_buf(), prefixes }),
    }
}

/// A parameter or buffer of the model.
struct Target {
    path: String,
    /// Its names in the file: MONAI's, and the older one if there is another; in a record of Burn's its path.
    names: Vec<String>,
    shape: Vec<usize>,
}

fn targets<M: MonaiWeights>(model: &M, file: &Path) -> Vec<Target> {
    let tensors = model.collect(None, None, true).into_iter();
    let target = |tensor: Stored| {
        let name = M::monai_name(&tensor.name);
        let legacy = M::legacy_name(&name);
        Target { names: [name].into_iter().chain(legacy).collect(), shape: tensor.shape.to_vec(), path: tensor.name }
    };
    let mut targets: Vec<Target> = tensors.map(target).collect();
    if is_record(file) {
        // a record's paths have the names of enums' variants
        let recorded = model.collect(None, None, false).into_iter();
        targets.iter_mut().zip(recorded).for_each(|(target, tensor)| target.names = vec![tensor.name]);
    }
    targets
}

/// Matches and reads everything, and only then touches the model.
fn load_all<M: MonaiWeights>(
    model: &mut M,
    path: &Path,
    prefix: &str,
    stored: BTreeMap<String, Stored>,
    targets: Vec<Target>,
) -> Result<(), WeightsError> {
    let (matched, differences) = match_names::<M>(prefix, stored, targets);
    match differences.is_empty() {
        true => apply(model, path, matched),
        false => Err(WeightsError::Different { path: path.to_path_buf(), differences: Box::new(differences) }),
    }
}

/// Puts tensors at their paths in the model.
fn apply<M: MonaiWeights>(model: &mut M, path: &Path, matched: Vec<(String, Stored)>) -> Result<(), WeightsError> {
    let failed = |reason| WeightsError::NotAStateDict { path: path.to_path_buf(), reason };
    let expected = matched.len();
    let (mut tensors, mut not_finite) = (Vec::with_capacity(expected), Vec::new());
    for (at, tensor) in matched {
        let name = tensor.name.clone();
        let (tensor, is_finite) = in_float32(at, tensor).map_err(failed)?;
        tensors.push(tensor);
        if !is_finite {
            not_finite.push(name);
        }
    }
    if !not_finite.is_empty() {
        return Err(WeightsError::NotFinite { path: path.to_path_buf(), tensors: not_finite });
    }
    let result = model.apply(tensors, None, None, true);
    match result.errors.is_empty() && result.applied.len() == expected {
        true => Ok(()),
        false => Err(failed(format!("tensors that do not load: {result}"))),
    }
}

/// Pairs the model's paths with the tensors of the file that belong there, and says what differs.
fn match_names<M: MonaiWeights>(
    prefix: &str,
    mut stored: BTreeMap<String, Stored>,
    targets: Vec<Target>,
) -> (Vec<(String, Stored)>, Differences) {
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
    (matched, differences)
}

/// Reads a tensor and gives it its path in the model; and says whether its values are all finite.
fn in_float32(path: String, tensor: Stored) -> Result<(Stored, bool), String> {
    let (name, dtype, shape) = (tensor.name.clone(), tensor.dtype, tensor.shape.clone());
    if !matches!(dtype, DType::F16 | DType::BF16 | DType::F32 | DType::F64) {
        return Err(format!("{name} in {dtype:?}, expected floats"));
    }
    let bytes = tensor.into_bytes().map_err(|error| format!("{name} cannot be read: {error:?}"))?;
    let data = TensorData::try_from_bytes(bytes, shape.clone(), dtype).map_err(|error| format!("{name}: {error}"))?;
    let data = data.convert::<f32>();
    let is_finite = data.iter::<f32>().all(f32::is_finite);
    Ok((Stored::new(path, DType::F32, shape, None, data.into_bytes()), is_finite))
}
