//! Volumes to spectra and back, on every engine.

use burn::tensor::{DType, Tensor, TensorData};
use leanburn_kernels::Activation;
use leanburn_kernels::fourier::Transform;

use super::spectra::turned;
use crate::engine::{Computation, CpuTensor, Engine, Stored};
use crate::numerics::{cast_to, widen};
use crate::operations::norm_act::norm_act;
use crate::recording::{Call, Recorder};

/// The spectra of an activated volume, `[2, batch_size, channels, modes]`, at least in float32.
pub(super) struct ToSpectra<'a> {
    pub(super) x: &'a Tensor<5>,
    pub(super) activation: Activation,
    pub(super) transform: &'a Transform,
}

impl ToSpectra<'_> {
    fn items(&self) -> usize {
        self.x.dims()[0] * self.x.dims()[1]
    }

    fn output_dims(&self) -> [usize; 4] {
        let [batch_size, channels, ..] = self.x.dims();
        [2, batch_size, channels, self.transform.modes().iter().product()]
    }
}

impl Computation for ToSpectra<'_> {
    type Output = Tensor<4>;

    fn engine(&self) -> Engine {
        Engine::of(self.x)
    }

    fn recorded(self, recorder: Recorder) -> Tensor<4> {
        let flops = self.transform.flops().saturating_mul(self.items() as u64);
        let workspace = self.transform.to_spectra_workspace(self.items());
        let call = Call::new(recorder, "fourier_transform").reads(self.x).costs(flops, workspace);
        call.record_one(self.output_dims(), DType::F32)
    }

    fn on_cpu<E: Stored>(self) -> Tensor<4> {
        let mut spectra = CpuTensor::zeros::<f32, 4>(self.output_dims());
        let x = CpuTensor::of(self.x.clone());
        self.transform.to_spectra(x.values::<E>(), self.activation, spectra.values_mut::<f32>());
        spectra.into_tensor()
    }

    fn composed(self) -> Tensor<4> {
        let (dims, items) = (self.output_dims(), self.items());
        let ([depth, height, width], [modes_d, modes_h, modes_w]) = (self.transform.size(), self.transform.modes());
        let x = widen(norm_act(self.x.clone(), None, self.activation));
        let matrices = Matrices { transform: self.transform, like: &x };
        // One axis after the other, complex numbers as rows of real parts and imaginary parts.
        let rows = x.clone().reshape([items * depth * height, width]).matmul(matrices.width());
        let rows = matrices.forwards(1, rows.reshape([items * depth, height, 2 * modes_w]));
        let rows: Tensor<3> = rows.reshape([items, depth, modes_h * 2 * modes_w]);
        let rows = matrices.forwards(0, rows);
        let rows: Tensor<4> = rows.reshape([items, modes_d * modes_h, 2, modes_w]);
        rows.permute([2, 0, 1, 3]).reshape(dims)
    }
}

/// The volume of spectra by the transpose of a transform, added to another one if there is one, over it if nothing else holds it.
pub(super) struct AddVolume<'a> {
    pub(super) spectra: Tensor<4>,
    pub(super) transform: &'a Transform,
    pub(super) to: Option<Tensor<5>>,
    /// Of the volume.
    pub(super) dims: [usize; 5],
    pub(super) dtype: DType,
}

impl Computation for AddVolume<'_> {
    type Output = Tensor<5>;

    fn engine(&self) -> Engine {
        match Engine::of(&self.spectra) {
            Engine::Cpu(_) => Engine::Cpu(self.dtype),
            engine => engine,
        }
    }

    fn recorded(self, recorder: Recorder) -> Tensor<5> {
        let items = self.dims[0] * self.dims[1];
        let flops = self.transform.flops().saturating_mul(items as u64);
        let workspace = self.transform.add_volumes_workspace(items);
        let call = Call::new(recorder, "fourier_transpose").takes(self.spectra).costs(flops, workspace);
        self.to.into_iter().fold(call, Call::writes_over).record_one(self.dims, self.dtype)
    }

    fn on_cpu<E: Stored>(self) -> Tensor<5> {
        let mut y = self.to.map_or_else(|| CpuTensor::zeros::<E, 5>(self.dims), CpuTensor::of);
        let spectra = CpuTensor::of(self.spectra);
        self.transform.add_volumes(spectra.values::<f32>(), y.values_mut::<E>());
        y.into_tensor()
    }

    fn composed(self) -> Tensor<5> {
        let Self { spectra, transform, to, dims, dtype } = self;
        let items = dims[0] * dims[1];
        let ([depth, height, _], [modes_d, modes_h, modes_w]) = (transform.size(), transform.modes());
        let matrices = Matrices { transform, like: &spectra.clone() };
        let rows: Tensor<4> = spectra.reshape([2, items, modes_d * modes_h, modes_w]);
        let rows = matrices.backwards(0, rows.permute([1, 2, 0, 3]).reshape([items, modes_d, modes_h * 2 * modes_w]));
        let rows = matrices.backwards(1, rows.reshape([items * depth, modes_h, 2 * modes_w]));
        let rows = rows.reshape([items * depth * height, 2 * modes_w]);
        let y = cast_to(rows.matmul(matrices.width().transpose()).reshape(dims), dtype);
        match to {
            Some(to) => to + y,
            None => y,
        }
    }
}

/// The matrices of a transform as tensors of the device and dtype of another one.
struct Matrices<'a, const D: usize> {
    transform: &'a Transform,
    like: &'a Tensor<D>,
}

impl<const D: usize> Matrices<'_, D> {
    /// Of the width: real values to complex ones, `[width, 2 modes]`.
    fn width(&self) -> Tensor<2> {
        let [cos, sin] = self.waves(2);
        Tensor::cat(vec![cos, sin.neg()], 0).transpose()
    }

    /// Cosines and sines of an axis, `[modes, length]`.
    fn waves(&self, axis: usize) -> [Tensor<2>; 2] {
        let dims = [self.transform.modes()[axis], self.transform.size()[axis]];
        let options = (&self.like.device(), self.like.dtype());
        self.transform.matrices(axis).map(|values| Tensor::from_data(TensorData::new(values, dims), options))
    }

    /// Complex rows along an axis, `[items, length, ..]`, to those of its frequencies.
    fn forwards(&self, axis: usize, rows: Tensor<3>) -> Tensor<3> {
        let [cos, sin] = self.waves(axis);
        self.apply(cos, sin, rows)
    }

    /// The transpose.
    fn backwards(&self, axis: usize, rows: Tensor<3>) -> Tensor<3> {
        let [cos, sin] = self.waves(axis).map(Tensor::transpose);
        self.apply(cos, sin.neg(), rows)
    }

    /// `cos rows + sin (-i rows)`.
    fn apply(&self, cos: Tensor<2>, sin: Tensor<2>, rows: Tensor<3>) -> Tensor<3> {
        let [items, inner, columns] = rows.dims();
        let outer = cos.dims()[0];
        // The complex rows of the height lie side by side in those of the depth.
        let modes = 2 * self.transform.modes()[2];
        let turned =
            turned(rows.clone().reshape([items, inner, columns / modes, modes])).reshape([items, inner, columns]);
        let times = |matrix: Tensor<2>, rows: Tensor<3>| {
            matrix.reshape([1, outer, inner]).expand([items, outer, inner]).matmul(rows)
        };
        times(cos, rows) + times(sin, turned)
    }
}
