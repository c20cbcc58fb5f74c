//! Weights from a model into a file.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::Write;
use std::path::Path;

use burn::store::ModuleSnapshot;
use burn::tensor::{Shape, TensorData};
use leanburn_common::atomic::replace;
use safetensors::{Dtype, View, serialize};

use super::{IntegerBuffer, MonaiWeights, WeightsError};

/// Saves the weights under MONAI's names, in float32.
///
/// MONAI loads the file with `model.load_state_dict(safetensors.torch.load_file(path))`. A reader finds
/// the old file or the new one, never a part.
///
/// # Memory
///
/// Two copies of the weights.
///
/// # Errors
///
/// [`WeightsError::NotWritten`]; a file that was there before is then as it was.
pub fn save_safetensors<M: MonaiWeights>(model: &M, path: &Path) -> Result<(), WeightsError> {
    let failed = |reason: String| WeightsError::NotWritten { path: path.to_path_buf(), reason };
    let entries = entries(model).map_err(failed)?;
    let metadata = HashMap::from([("format".to_string(), "pt".to_string())]);
    // not `serialize_to_file`, which puts a file of its own, private to the user, in the temporary one's place
    let bytes = serialize(entries, Some(metadata)).map_err(|error| failed(error.to_string()))?;
    replace(path, ".safetensors", |file, _| file.write_all(&bytes)).map_err(|error| failed(error.to_string()))
}

/// Names and tensors of the file.
fn entries<M: MonaiWeights>(model: &M) -> Result<Vec<(String, Entry)>, String> {
    let mut entries = Vec::new();
    for tensor in model.collect(None, None, true) {
        let (path, dtype, shape, _, bytes) = tensor.into_parts().map_err(|error| format!("{error:?}"))?;
        let name = M::monai_name(&path);
        if let Some(norm) = name.strip_suffix("running_var") {
            // MONAI's strict loading asks for the counter; with a fixed momentum it has no effect.
            let counter = Entry { dtype: Dtype::I64, shape: Vec::new(), bytes: vec![0; 8] };
            entries.push((format!("{norm}num_batches_tracked"), counter));
        }
        let data = TensorData::try_from_bytes(bytes, shape.clone(), dtype).map_err(|error| error.to_string())?;
        entries.push((name, Entry::float32(data, shape)));
    }
    for IntegerBuffer { name, shape, values } in model.integer_buffers() {
        let bytes = values.into_iter().flat_map(i64::to_le_bytes).collect();
        entries.push((name, Entry { dtype: Dtype::I64, shape, bytes }));
    }
    Ok(entries)
}

/// One tensor of the file.
struct Entry {
    dtype: Dtype,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

impl Entry {
    fn float32(data: TensorData, shape: Shape) -> Self {
        Self { dtype: Dtype::F32, shape: shape.to_vec(), bytes: data.convert::<f32>().as_bytes().to_vec() }
    }
}

impl View for Entry {
    fn dtype(&self) -> Dtype {
        self.dtype
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(&self.bytes)
    }

    fn data_len(&self) -> usize {
        self.bytes.len()
    }
}
