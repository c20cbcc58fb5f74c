//! What an attention in windows is computed from, and the gradients of it.

use burn::tensor::Tensor;
use leanburn_kernels::attention::window::{WindowOperands, WindowShape};

use super::geometry::Geometry;
use crate::engine::{CpuTensor, Stored, float32_bytes, to_f32};
use crate::recording::Call;

/// What an attention in windows is computed from.
#[derive(Clone, Debug)]
pub(super) struct Inputs {
    /// Queries, keys and values.
    pub(super) volumes: [Tensor<5>; 3],
    pub(super) table: Tensor<2>,
    /// The key and the value of positions outside.
    pub(super) padding: [Option<Tensor<1>>; 2],
    pub(super) geometry: Geometry,
}

impl Inputs {
    /// Bytes of table and padding in float32.
    pub(super) fn parameter_bytes(&self) -> usize {
        float32_bytes(&self.table) + 2 * self.geometry.dims[1] * size_of::<f32>()
    }

    pub(super) fn taken_by(self, call: Call) -> Call {
        let call = self.volumes.into_iter().fold(call, Call::takes).takes(self.table);
        self.padding.into_iter().flatten().fold(call, Call::takes)
    }

    /// Calls `compute` with what the kernels take.
    pub(super) fn on_slices<E: Stored, T>(self, compute: impl FnOnce(&WindowShape, WindowOperands<'_, E>) -> T) -> T {
        let (shape, channels) = (self.geometry.shape(), self.geometry.dims[1]);
        let table = to_f32(&self.table);
        let padding =
            self.padding.map(|vector| vector.map_or_else(|| vec![0.0; channels], |vector| to_f32(&vector).to_vec()));
        let volumes = self.volumes.map(CpuTensor::of);
        let [query, key, value] = volumes.each_ref().map(|volume| volume.values::<E>());
        let padding = padding.each_ref().map(|values| &values[..]);
        compute(&shape, WindowOperands { query, key, value, table: &table, padding })
    }
}

/// Gradients of the inputs.
pub(super) struct InputGradients {
    pub(super) volumes: [Tensor<5>; 3],
    pub(super) table: Tensor<2>,
    pub(super) padding: [Option<Tensor<1>>; 2],
}
