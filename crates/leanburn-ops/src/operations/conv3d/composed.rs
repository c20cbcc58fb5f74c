//! Burn's convolution and its gradients, with padding of its own at each end of an axis.

use burn::backend::Dispatch;
use burn::backend::ops::ModuleOps;
use burn::tensor::{Tensor, module, ops::ConvOptions};
use leanburn_kernels::conv::{ConvSettings, ConvShape};

use super::convolution::options;
use crate::cube;
use crate::numerics::cast_to;
use crate::operations::check::valid;
use crate::probe;

/// Burn's convolution pads both ends alike. The same sums come from padding both ends with as many zeros as the larger
/// needs, and leaving out the outputs that see too many at the front (and whatever is left over at the back).
struct Symmetric {
    shape: ConvShape,
    /// Outputs to leave out at the front of each axis.
    front: [usize; 3],
}

impl Symmetric {
    fn of(shape: &ConvShape) -> Self {
        let ConvSettings { stride, padding, .. } = shape.settings();
        let front = std::array::from_fn(|axis| {
            let [before, after] = padding[axis];
            after.saturating_sub(before).div_ceil(stride[axis])
        });
        let padding = std::array::from_fn(|axis| [padding[axis][0] + front[axis] * stride[axis]; 2]);
        let settings = ConvSettings { padding, ..shape.settings() };
        let shape = valid("conv3d", ConvShape::new(shape.input_dims(), shape.weight_dims(), settings));
        Self { shape, front }
    }

    /// As Burn takes it.
    fn options(&self) -> ConvOptions<3> {
        options(self.shape.settings())
    }

    /// Leaves out the outputs that are too many.
    fn narrow(&self, y: Tensor<5>, wanted: [usize; 3]) -> Tensor<5> {
        (0..3).fold(y, |y, axis| match (self.front[axis], y.dims()[axis + 2]) {
            (0, computed) if computed == wanted[axis] => y,
            (front, _) => y.narrow(axis + 2, front, wanted[axis]),
        })
    }

    /// The gradient of all computed outputs: zero where they were left out.
    fn widen(&self, gradient: Tensor<5>) -> Tensor<5> {
        let (computed, dims) = (self.shape.output(), gradient.dims());
        let after: [usize; 3] = std::array::from_fn(|axis| computed[axis] - self.front[axis] - dims[axis + 2]);
        if self.front == [0; 3] && after == [0; 3] {
            return gradient;
        }
        let pad: Vec<(usize, usize)> = (0..3).map(|axis| (self.front[axis], after[axis])).collect();
        gradient.pad([(0, 0), (0, 0), pad[0], pad[1], pad[2]], 0.0f32)
    }
}

/// `conv3d(x, weight) + bias + residual`, on any device.
pub(super) fn forward(
    x: Tensor<5>,
    weight: &Tensor<5>,
    bias: Option<&Tensor<1>>,
    residual: Option<Tensor<5>>,
    shape: &ConvShape,
) -> Tensor<5> {
    let (dtype, symmetric) = (x.dtype(), Symmetric::of(shape));
    let weight = cast_to(weight.clone(), dtype);
    let bias = bias.map(|bias| cast_to(bias.clone(), dtype));
    let y = cube::with_plain_strides(module::conv3d(x, weight, bias, symmetric.options()));
    probe::sample();
    added(symmetric.narrow(y, shape.output()), residual)
}

/// `y + residual`, where there is one.
pub(super) fn added(y: Tensor<5>, residual: Option<Tensor<5>>) -> Tensor<5> {
    match residual {
        Some(residual) => y + residual,
        None => y,
    }
}

/// The gradient of the input, on any device.
pub(super) fn data_gradient(gradient: Tensor<5>, weight: &Tensor<5>, shape: &ConvShape) -> Tensor<5> {
    let (dtype, symmetric) = (gradient.dtype(), Symmetric::of(shape));
    // Only its shape is read.
    let like = Tensor::<5>::zeros([1; 5], (&gradient.device(), dtype)).expand(shape.input_dims());
    let gradient = symmetric.widen(gradient);
    let gradient = Tensor::from_dispatch(Dispatch::conv3d_x_backward(
        like.into_dispatch(),
        cast_to(weight.clone(), dtype).into_dispatch(),
        gradient.into_dispatch(),
        symmetric.options(),
    ));
    probe::sample();
    cube::with_plain_strides(gradient)
}

/// The gradient of the weight, in the weight's dtype, on any device.
pub(super) fn weight_gradient(x: Tensor<5>, gradient: Tensor<5>, weight: &Tensor<5>, shape: &ConvShape) -> Tensor<5> {
    let symmetric = Symmetric::of(shape);
    let gradient = symmetric.widen(gradient);
    let like = cast_to(weight.clone(), x.dtype());
    let sums = Tensor::from_dispatch(Dispatch::conv3d_weight_backward(
        x.into_dispatch(),
        like.into_dispatch(),
        gradient.into_dispatch(),
        symmetric.options(),
    ));
    probe::sample();
    cast_to(cube::with_plain_strides(sums), weight.dtype())
}
