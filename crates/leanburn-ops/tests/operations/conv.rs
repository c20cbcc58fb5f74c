//! Convolutions, alone and with norm, activation and skip.

use burn::prelude::*;
use leanburn_ops::{Activation, Convolution, Norm, conv3d, norm_act_conv3d, upsample_conv3d};
use proptest::prelude::*;

use crate::case::{Case, Inputs, Operation, cases};
use crate::geometry::{Axis, Geometry, geometry, keeping_geometry};
use crate::plain;

/// What stands around a convolution.
#[derive(Clone, Debug)]
struct Surroundings {
    /// Picks one of the numbers that divide the channels; none without a norm.
    norm_groups: Option<usize>,
    /// Whether the norm has scale and shift.
    affine: [bool; 2],
    activation: Activation,
    bias: bool,
    residual: Residual,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Residual {
    None,
    /// The input itself.
    Input,
    /// Another input.
    Given,
    /// The result of another operation, which nothing else holds.
    Made,
}

fn activation() -> impl Strategy<Value = Activation> {
    prop_oneof![
        Just(Activation::None),
        Just(Activation::Silu),
        Just(Activation::Gelu),
        Just(Activation::Relu),
        Just(Activation::LeakyRelu(0.2)),
    ]
}

fn surroundings(residual: impl Strategy<Value = Residual>) -> impl Strategy<Value = Surroundings> {
    let norm_groups = proptest::option::weighted(0.75, 0usize..8);
    (norm_groups, any::<[bool; 2]>(), activation(), any::<bool>(), residual).prop_map(
        |(norm_groups, affine, activation, bias, residual)| Surroundings {
            norm_groups,
            affine,
            activation,
            bias,
            residual,
        },
    )
}

impl Surroundings {
    fn alone(bias: bool) -> Self {
        Self { norm_groups: None, affine: [false; 2], activation: Activation::None, bias, residual: Residual::None }
    }

    fn num_groups(&self, channels: usize) -> Option<usize> {
        let divisors: Vec<_> = (1..=channels).filter(|groups| channels.is_multiple_of(*groups)).collect();
        self.norm_groups.map(|pick| divisors[pick % divisors.len()])
    }

    fn has_affine(&self) -> [bool; 2] {
        self.affine.map(|there| there && self.norm_groups.is_some())
    }

    /// Vectors are scale and shift of the norm and bias of the convolution, those that there are.
    fn case(&self, geometry: &Geometry) -> Case {
        let [channels_in, channels_out] = geometry.channels();
        let mut volumes = vec![geometry.input()];
        if matches!(self.residual, Residual::Given | Residual::Made) {
            volumes.push(geometry.output());
        }
        let [scale, shift] = self.has_affine();
        let vectors = [(scale, channels_in), (shift, channels_in), (self.bias, channels_out)];
        let vectors = vectors.into_iter().filter(|(there, _)| *there).map(|(_, length)| length).collect();
        Case { volumes, kernels: vec![geometry.weight()], vectors, ..Case::default() }
    }

    /// The arguments of [`norm_act_conv3d`].
    #[allow(clippy::type_complexity)]
    fn arguments(
        &self,
        geometry: &Geometry,
        (volumes, kernels, vectors): Inputs,
    ) -> (Tensor<5>, Option<Norm>, Activation, Convolution, Option<Tensor<5>>) {
        let mut vectors = vectors.into_iter();
        let mut next = |there: bool| there.then(|| vectors.next().expect("as many as the case has"));
        let [scale, shift] = self.has_affine();
        let (scale, shift, bias) = (next(scale), next(shift), next(self.bias));
        let norm = self.num_groups(geometry.channels()[0]);
        let norm = norm.map(|num_groups| Norm { num_groups, epsilon: 1e-5, weight: scale, bias: shift });
        let convolution = Convolution { weight: kernels[0].clone(), bias, options: geometry.options() };
        let residual = match self.residual {
            Residual::None => None,
            Residual::Input => Some(volumes[0].clone()),
            Residual::Given => Some(volumes[1].clone()),
            Residual::Made => Some(volumes[1].clone() * 2.0),
        };
        (volumes[0].clone(), norm, self.activation, convolution, residual)
    }

    fn check(self, geometry: Geometry) {
        self.case(&geometry).check(self.ours(&geometry), self.plainly(&geometry));
    }

    fn ours(&self, geometry: &Geometry) -> impl Operation {
        let (this, geometry) = (self.clone(), geometry.clone());
        move |inputs| {
            let (x, norm, activation, convolution, residual) = this.arguments(&geometry, inputs);
            norm_act_conv3d(x, norm, activation, convolution, residual)
        }
    }

    fn plainly(&self, geometry: &Geometry) -> impl Operation {
        let (this, geometry) = (self.clone(), geometry.clone());
        move |inputs| {
            let (x, norm, activation, convolution, residual) = this.arguments(&geometry, inputs);
            plain::norm_act_conv3d(x, norm, activation, convolution, residual)
        }
    }
}

fn check_conv3d(geometry: Geometry, bias: bool) {
    let case = Surroundings::alone(bias).case(&geometry);
    let options = geometry.options();
    let convolution = move |(x, kernels, vectors): Inputs| {
        let bias = vectors.first().cloned();
        (x[0].clone(), Convolution { weight: kernels[0].clone(), bias, options: options.clone() })
    };
    let plainly = convolution.clone();
    let ours = move |inputs| {
        let (x, convolution) = convolution(inputs);
        conv3d(x, convolution)
    };
    case.check(ours, move |inputs| {
        let (x, convolution) = plainly(inputs);
        plain::conv3d(x, convolution)
    });
}

proptest! {
    #![proptest_config(cases(48))]

    #[test]
    fn conv3d_of_any_geometry(geometry in geometry(1), bias in any::<bool>()) {
        check_conv3d(geometry, bias);
    }

    #[test]
    fn norm_act_conv3d_of_any_geometry(
        geometry in geometry(2),
        surroundings in surroundings(prop_oneof![Just(Residual::None), Just(Residual::Given), Just(Residual::Made)]),
    ) {
        surroundings.check(geometry);
    }

    #[test]
    fn a_block_adds_to_its_own_input(geometry in keeping_geometry(), surroundings in surroundings(Just(Residual::Input))) {
        surroundings.check(geometry);
    }

    #[test]
    fn upsample_conv3d_by_any_factors(
        geometry in geometry(1),
        factors in [1usize..4, 1usize..4, 1usize..3],
        bias in any::<bool>(),
    ) {
        check_upsample(geometry, factors, bias);
    }
}

/// As the models have it: several tiles of channels and of columns, whole vectors and a rest.
#[test]
fn convolutions_of_many_channels_and_columns() {
    let axis = |size, kernel, stride, padding| Axis { size, kernel, stride, dilation: 1, padding };
    let axes = [axis(4, 3, 1, (1, 1)), axis(5, 3, 1, (1, 1)), axis(70, 3, 1, (1, 1))];
    check_conv3d(Geometry { batch_size: 1, groups: 1, per_group: [19, 35], axes }, true);
    let down = axes.map(|axis| Axis { stride: 2, padding: (0, 1), ..axis });
    check_conv3d(Geometry { batch_size: 2, groups: 1, per_group: [17, 16], axes: down }, true);
    let pointwise = axes.map(|axis| Axis { kernel: 1, padding: (0, 0), ..axis });
    check_conv3d(Geometry { batch_size: 2, groups: 1, per_group: [64, 33], axes: pointwise }, false);
    let depthwise = Geometry { batch_size: 1, groups: 24, per_group: [1, 1], axes };
    check_conv3d(depthwise, true);
}

/// Kernels that see no voxel twice are one product of matrices: with a rest at the end of an axis, and without.
#[test]
fn patches_and_what_is_left_of_an_axis() {
    let axis = |size, kernel| Axis { size, kernel, stride: kernel, dilation: 1, padding: (0, 0) };
    for axes in [[axis(16, 16), axis(35, 16), axis(32, 16)], [axis(9, 4), axis(32, 32), axis(40, 32)]] {
        for residual in [Residual::None, Residual::Given, Residual::Made] {
            let bias = residual != Residual::None;
            let geometry = Geometry { batch_size: 2, groups: 1, per_group: [3, 5], axes };
            Surroundings { residual, ..Surroundings::alone(bias) }.check(geometry.clone());
            let norm = Surroundings { norm_groups: Some(0), residual, ..Surroundings::alone(bias) };
            norm.check(geometry);
        }
    }
}

/// Both half precisions to a few units in the last place, at a size at which sums do not cancel.
#[test]
fn a_block_of_a_model_in_half_precision() {
    let axis = Axis { size: 9, kernel: 3, stride: 1, dilation: 1, padding: (1, 1) };
    let geometry = Geometry { batch_size: 2, groups: 1, per_group: [16, 16], axes: [axis; 3] };
    for activation in [Activation::None, Activation::Silu, Activation::Relu, Activation::LeakyRelu(0.2)] {
        for residual in [Residual::Input, Residual::Made] {
            let block = Surroundings { norm_groups: Some(2), affine: [true; 2], activation, bias: true, residual };
            block.case(&geometry).check_half(&block.ours(&geometry), &block.plainly(&geometry), 1.0);
        }
    }
}

/// Stride and dilation are not for an enlargement; padding may be wider than the kernel.
fn check_upsample(mut geometry: Geometry, factors: [usize; 3], bias: bool) {
    for axis in &mut geometry.axes {
        *axis = Axis { stride: 1, dilation: 1, size: axis.size.min(5).max(axis.kernel), ..*axis };
    }
    let case = Surroundings::alone(bias).case(&geometry);
    let (ours, plainly) = upsample(&geometry, factors);
    case.check(ours, plainly);
}

#[test]
fn an_enlargement_of_a_model_in_half_precision() {
    let axis = Axis { size: 6, kernel: 3, stride: 1, dilation: 1, padding: (1, 1) };
    let geometry = Geometry { batch_size: 1, groups: 1, per_group: [16, 12], axes: [axis; 3] };
    let (ours, plainly) = upsample(&geometry, [2; 3]);
    Surroundings::alone(true).case(&geometry).check_half(&ours, &plainly, 1.0);
}

/// Ours, and the enlarged volume in a convolution.
fn upsample(geometry: &Geometry, factors: [usize; 3]) -> (impl Operation, impl Operation) {
    let options = geometry.options();
    let convolution = move |kernels: Vec<Tensor<5>>, vectors: Vec<Tensor<1>>| Convolution {
        weight: kernels[0].clone(),
        bias: vectors.first().cloned(),
        options: options.clone(),
    };
    let plainly = convolution.clone();
    (
        move |(x, kernels, vectors): Inputs| upsample_conv3d(x[0].clone(), factors, convolution(kernels, vectors)),
        move |(x, kernels, vectors): Inputs| {
            plain::conv3d(plain::repeat(x[0].clone(), factors), plainly(kernels, vectors))
        },
    )
}
