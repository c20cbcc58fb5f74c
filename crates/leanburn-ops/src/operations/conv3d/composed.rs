//! Burn's convolution and its gradients, with padding of its own at each end of an axis.

use burn::backend::Dispatch;
use burn::backend::ops::ModuleOps;
use burn::tensor::{Tensor, module, ops::ConvOptions};

use super::shape::shape;
use crate::cube;
use crate::numerics::cast_to;
use crate::probe;

/// Burn's convolution pads both ends alike. The same sums come from padding both ends with as many zeros as the larger
/// needs, and leaving out the outputs that see too many at the front (and whatever is left over at the back).
struct Symmetric {
    options: ConvOptions<3>,
    /// Outputs to leave out at the front of each axis.
    front: [usize; 3],
}

impl Symmetric {
    fn of(options: &ConvOptions<3>) -> Self {
        let front = std::array::from_fn(|axis| {
            let (before, after) = options.padding[axis];
            after.saturating_sub(before).div_ceil(options.stride[axis])
        });
        let padding = std::array::from_fn(|axis| options.padding[axis].0 + front[axis] * options.stride[axis]);
        let options = ConvOptions::new(options.stride, padding, options.dilation, options.groups);
        Self { options, front }
    }

    /// Outputs that Burn computes.
    fn computed(&self, input: [usize; 5], weight: [usize; 5]) -> [usize; 3] {
        shape(input, weight, &self.options).output()
    }

    /// Leaves out the outputs that are too many.
    fn narrow(&self, y: Tensor<5>, wanted: [usize; 3]) -> Tensor<5> {
        (0..3).fold(y, |y, axis| match (self.front[axis], y.dims()[axis + 2]) {
            (0, computed) if computed == wanted[axis] => y,
            (front, _) => y.narrow(axis + 2, front, wanted[axis]),
        })
    }

    /// The gradient of all computed outputs: zero where they were left out.
    fn widen(&self, gradient: Tensor<5>, computed: [usize; 3]) -> Tensor<5> {
        let dims = gradient.dims();
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
    options: &ConvOptions<3>,
) -> Tensor<5> {
    let (dtype, wanted) = (x.dtype(), shape(x.dims(), weight.dims(), options).output());
    let symmetric = Symmetric::of(options);
    let weight = cast_to(weight.clone(), dtype);
    let bias = bias.map(|bias| cast_to(bias.clone(), dtype));
    let y = cube::with_plain_strides(module::conv3d(x, weight, bias, symmetric.options.clone()));
    probe::sample();
    let y = symmetric.narrow(y, wanted);
    match residual {
        Some(residual) => y + residual,
        None => y,
    }
}

/// The gradient of the input, on any device.
pub(super) fn data_gradient(
    gradient: Tensor<5>,
    weight: &Tensor<5>,
    input: [usize; 5],
    options: &ConvOptions<3>,
) -> Tensor<5> {
    let dtype = gradient.dtype();
    let symmetric = Symmetric::of(options);
    // Only its shape is read.
    let like = Tensor::<5>::zeros([1; 5], (&gradient.device(), dtype)).expand(input);
    let gradient = symmetric.widen(gradient, symmetric.computed(input, weight.dims()));
    let gradient = Tensor::from_dispatch(Dispatch::conv3d_x_backward(
        like.into_dispatch(),
        cast_to(weight.clone(), dtype).into_dispatch(),
        gradient.into_dispatch(),
        symmetric.options,
    ));
    probe::sample();
    cube::with_plain_strides(gradient)
}

/// The gradient of the weight, in the weight's dtype, on any device.
pub(super) fn weight_gradient(
    x: Tensor<5>,
    gradient: Tensor<5>,
    weight: &Tensor<5>,
    options: &ConvOptions<3>,
) -> Tensor<5> {
    let symmetric = Symmetric::of(options);
    let gradient = symmetric.widen(gradient, symmetric.computed(x.dims(), weight.dims()));
    let like = cast_to(weight.clone(), x.dtype());
    let sums = Tensor::from_dispatch(Dispatch::conv3d_weight_backward(
        x.into_dispatch(),
        like.into_dispatch(),
        gradient.into_dispatch(),
        symmetric.options,
    ));
    probe::sample();
    cast_to(cube::with_plain_strides(sums), weight.dtype())
}
