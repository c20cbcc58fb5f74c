//! The passes as plain loops in float64, and cases to compare with; for tests.

use proptest::prelude::*;

use crate::buffer::is_under_valgrind;
use crate::conv::gather::problem::Gather;
use crate::conv::operands::{Input, Output, Prologue, Residual};
use crate::conv::shape::ConvShape;
use crate::norm::reference::activate;
use crate::{Activation, Stored};

/// Most multiply-adds of a case.
const MOST_WORK: usize = 400_000;

/// What a result is added to, without the volume.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum ResidualKind {
    None,
    InPlace,
    Of,
}

/// A shape and everything else that a pass can be asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    pub shape: ConvShape,
    pub prologue: Option<Activation>,
    pub bias: bool,
    pub residual: ResidualKind,
    pub seed: u64,
}

impl Case {
    /// A pass without prologue, bias or residual.
    pub(crate) fn plain(shape: ConvShape) -> Self {
        Self { shape, prologue: None, bias: false, residual: ResidualKind::None, seed: 1 }
    }
}

/// A shape with three equal axes, and padding before only.
pub(crate) fn cube(channels: [usize; 2], size: usize, kernel: usize, stride: usize, padding: usize) -> ConvShape {
    ConvShape {
        batch_size: 1,
        channels_in: channels[0],
        channels_out: channels[1],
        groups: 1,
        input: [size; 3],
        kernel: [kernel; 3],
        stride: [stride; 3],
        dilation: [1; 3],
        padding: [[padding; 2]; 3],
    }
}

/// Small shapes of every kind.
pub(crate) fn shapes() -> impl Strategy<Value = ConvShape> {
    let axes = |range: std::ops::RangeInclusive<usize>| prop::array::uniform3(range);
    let padding = prop::array::uniform3(prop::array::uniform2(0usize..=3));
    let channels = (1usize..=3).prop_flat_map(|groups| (Just(groups), prop::array::uniform2(1..=20 / groups)));
    (1usize..=2, channels, axes(1..=12), axes(1..=5), axes(1..=3), axes(1..=2), padding).prop_map(
        |(batch_size, (groups, channels), input, kernel, stride, dilation, padding)| {
            let [channels_in, channels_out] = channels.map(|channels| channels * groups);
            let mut shape =
                ConvShape { batch_size, channels_in, channels_out, groups, input, kernel, stride, dilation, padding };
            let work =
                |shape: &ConvShape| shape.weight_len() * shape.batch_size * shape.output().iter().product::<usize>();
            while work(&shape) > MOST_WORK {
                match shape.input.iter_mut().max().filter(|size| **size > 3) {
                    Some(size) => *size -= 1,
                    None if shape.kernel != [1, 2, 3] => shape.kernel = [1, 2, 3],
                    None => shape.padding = [[0; 2]; 3],
                }
            }
            shape
        },
    )
}

/// Small cases of every kind.
pub(crate) fn cases() -> impl Strategy<Value = Case> {
    let prologue = prop_oneof![
        Just(None),
        Just(Some(Activation::None)),
        Just(Some(Activation::Silu)),
        Just(Some(Activation::Relu)),
        Just(Some(Activation::LeakyRelu(0.1))),
    ];
    let residual = prop_oneof![Just(ResidualKind::None), Just(ResidualKind::InPlace), Just(ResidualKind::Of)];
    (shapes(), prologue, any::<bool>(), residual, any::<u64>())
        .prop_map(|(shape, prologue, bias, residual, seed)| Case { shape, prologue, bias, residual, seed })
}

/// Numbers from -1 to 1.
pub(crate) fn random(len: usize, seed: u64) -> Vec<f32> {
    let mut state = seed ^ 0x9e37_79b9_7f4a_7c15;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    };
    (0..len).map(|_| next()).collect()
}

/// Random elements.
pub(crate) fn random_elements<E: Stored>(len: usize, seed: u64) -> Vec<E> {
    random(len, seed).into_iter().map(E::from_f32).collect()
}

/// An exact value, and the sum of the magnitudes of what was added up.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Exact {
    pub value: f64,
    pub magnitude: f64,
}

impl Exact {
    fn add(&mut self, weight: f32, other: Exact) {
        self.value += f64::from(weight) * other.value;
        self.magnitude += f64::from(weight.abs()) * other.magnitude;
    }
}

/// What a prologue makes of a volume of so many elements per channel of an item.
pub(crate) fn exact_input<E: Stored>(input: &Input<'_, E>, plane: usize) -> Vec<Exact> {
    let of = |(index, value): (usize, &E)| {
        let x = f64::from(value.to_f32());
        let Some(prologue) = &input.prologue else { return Exact { value: x, magnitude: x.abs() } };
        let (scale, shift) = (f64::from(prologue.scale[index / plane]), f64::from(prologue.shift[index / plane]));
        let y = scale * x + shift;
        let value = activate(prologue.activation, y);
        Exact { value, magnitude: (scale * x).abs() + shift.abs() }
    };
    input.values.iter().enumerate().map(of).collect()
}

/// Calls `visit(output element, weight element, input element)` for each product of a convolution; for none
/// [under valgrind](is_under_valgrind).
pub(crate) fn for_each_product(shape: &ConvShape, mut visit: impl FnMut(usize, usize, usize)) {
    if is_under_valgrind() {
        return;
    }
    let ConvShape { input, kernel, .. } = shape;
    let output = shape.output();
    let flat = |first: usize, size: &[usize; 3], at: [usize; 3]| {
        ((first * size[0] + at[0]) * size[1] + at[1]) * size[2] + at[2]
    };
    let grid = |size: [usize; 3]| {
        (0..size.iter().product())
            .map(move |at: usize| [at / (size[1] * size[2]), at / size[2] % size[1], at % size[2]])
    };
    let (group_in, group_out) = (shape.channels_in / shape.groups, shape.channels_out / shape.groups);
    for item in 0..shape.batch_size {
        for channel_out in 0..shape.channels_out {
            for place in grid(output) {
                let out = flat(item * shape.channels_out + channel_out, &output, place);
                for channel in 0..group_in {
                    let channel_in = item * shape.channels_in + channel_out / group_out * group_in + channel;
                    for element in grid(*kernel) {
                        let at: [isize; 3] = std::array::from_fn(|axis| {
                            (place[axis] * shape.stride[axis] + element[axis] * shape.dilation[axis]) as isize
                                - shape.padding[axis][0] as isize
                        });
                        if (0..3).all(|axis| (0..input[axis] as isize).contains(&at[axis])) {
                            let weight = flat(channel_out * group_in + channel, kernel, element);
                            visit(out, weight, flat(channel_in, input, at.map(|at| at as usize)));
                        }
                    }
                }
            }
        }
    }
}

/// The gather of the forward pass, or of the data gradient.
pub(crate) fn gather(shape: &ConvShape, forward: bool) -> Gather {
    if forward { Gather::forward(shape) } else { Gather::data_gradient(shape) }
}

/// A pass on given slices.
pub(crate) type Run<'r, E> = &'r dyn Fn(&ConvShape, Input<'_, E>, &[f32], Output<'_, E>);

/// Compares a pass with plain loops, element by element: the forward pass, or the data gradient.
pub(crate) fn compare<E: Stored>(case: &Case, forward: bool, tolerance: f64, run: Run<'_, E>) {
    // Where terms are nothing at all, transformed rows leave what rounding their neighbours left.
    let allowed = |exact: &Exact, _| tolerance * exact.value.abs() + 2e-6 * exact.magnitude + 5e-7;
    compare_within(case, forward, &allowed, run);
}

/// The same with errors relative to the largest sum, as what is transformed together shares its errors.
pub(crate) fn compare_with_largest<E: Stored>(case: &Case, forward: bool, tolerance: f64, run: Run<'_, E>) {
    let allowed = |exact: &Exact, most| tolerance * exact.value.abs() + 2e-6 * most + 1e-7;
    compare_within(case, forward, &allowed, run);
}

/// Compares a pass that rounds weights, and what a prologue makes, to the element.
pub(crate) fn compare_rounded<E: Stored>(case: &Case, forward: bool, tolerance: f64, run: Run<'_, E>) {
    let of_terms = if case.prologue.is_some() { tolerance } else { 2e-6 };
    let allowed = |exact: &Exact, _| tolerance * exact.value.abs() + of_terms * exact.magnitude + 5e-7;
    compare_within(case, forward, &allowed, run);
}

/// The error that an element may have, by the largest sum of magnitudes.
type Allowed<'a> = &'a dyn Fn(&Exact, f64) -> f64;

fn compare_within<E: Stored>(case: &Case, forward: bool, allowed: Allowed<'_>, run: Run<'_, E>) {
    let (exact, found) = exact_and_found(case, forward, run);
    if is_under_valgrind() {
        assert!(found.iter().all(|found| found.to_f32().is_finite()), "{case:?}"); // reads all that is written
        return;
    }
    let most = exact.iter().map(|exact| exact.magnitude).fold(0.0, f64::max);
    for (index, (exact, found)) in exact.iter().zip(&found).enumerate() {
        let error = (f64::from(found.to_f32()) - exact.value).abs();
        assert!(error <= allowed(exact, most), "{case:?} element {index}: {found:?}, exactly {}", exact.value);
    }
}

/// What plain loops and a pass make of a case: the forward pass, or the data gradient.
pub(crate) fn exact_and_found<E: Stored>(case: &Case, forward: bool, run: Run<'_, E>) -> (Vec<Exact>, Vec<E>) {
    let shape = &case.shape;
    let (ends, lens) = ([shape.channels_in, shape.channels_out], [shape.input_len(), shape.output_len()]);
    let [channels_in, channels_out] = if forward { ends } else { [ends[1], ends[0]] };
    let [input_len, output_len] = if forward { lens } else { [lens[1], lens[0]] };
    let values = random_elements::<E>(input_len, case.seed);
    let weight: Vec<f32> = random_elements::<E>(shape.weight_len(), case.seed ^ 1).into_iter().map(E::to_f32).collect();
    let scale = random(shape.batch_size * channels_in, case.seed ^ 2);
    let shift = random(shape.batch_size * channels_in, case.seed ^ 3);
    let bias = random(channels_out, case.seed ^ 4);
    let residual = random_elements::<E>(output_len, case.seed ^ 5);
    let prologue = case.prologue.map(|activation| Prologue { scale: &scale, shift: &shift, activation });
    let input = Input { values: &values, prologue };

    let mut exact = vec![Exact::default(); output_len];
    let plane = input_len / (shape.batch_size * channels_in).max(1);
    let read = exact_input(&input, plane.max(1));
    if !is_under_valgrind() {
        for_each_product(shape, |out, element, at| {
            let (to, from) = if forward { (out, at) } else { (at, out) };
            exact[to].add(weight[element], read[from]);
        });
    }
    let plane = output_len / (shape.batch_size * channels_out).max(1);
    for (index, exact) in exact.iter_mut().enumerate() {
        let one = |value: f32| Exact { value: f64::from(value), magnitude: f64::from(value.abs()) };
        if case.bias {
            exact.add(1.0, one(bias[index / plane % channels_out]));
        }
        if case.residual != ResidualKind::None {
            exact.add(1.0, one(residual[index].to_f32()));
        }
    }

    // What is not written stays no number.
    let mut target = vec![E::from_f32(f32::NAN); output_len];
    if case.residual == ResidualKind::InPlace {
        target.copy_from_slice(&residual);
    }
    let kind = match case.residual {
        ResidualKind::None => Residual::None,
        ResidualKind::InPlace => Residual::InPlace,
        ResidualKind::Of => Residual::Of(&residual),
    };
    let output = Output { values: &mut target, bias: case.bias.then_some(&bias[..]), residual: kind };
    run(shape, input, &weight, output);
    (exact, target)
}
