//! Convolutions, and the gradients of their weights, where outputs read a few neighbours along the depth, by about half the products.
//!
//! A few output planes that read neighbouring input planes are coefficients of a product of polynomials, which takes one
//! product for each coefficient instead of one for each output and element: `Aᵀ (G g ⊙ Bᵀ d)`, the minimal filtering of
//! Toom, Cook and Winograd ([Fast Algorithms for Convolutional Neural Networks](https://arxiv.org/abs/1509.09308)), here
//! along the depth only. So rows and columns may have any stride: the products are summed over channels, rows and columns
//! as in the direct method. They are a gather of their own, whose depth is [`DepthTransform::axis`]. Where the outputs have phases along
//! the depth, as behind an enlargement, each phase has its own.
//!
//! # Numerics
//!
//! Errors are relative to the largest of the planes that are read: about 1e-6 (in the L2 norm) with 64 channels,
//! 1.2e-6 with four elements, less with two. What is
//! not finite spreads to all planes of its group, and of a weight's gradient to all elements along the depth.

use pulp::{Simd, WithSimd};

use crate::conv::gather::axis::{Axis, AxisTap};
use crate::conv::gather::problem::Gather;
use crate::conv::packing::weights::DepthSums;
use crate::conv::shape::ConvShape;
use crate::simd::{load, store};
use crate::size::reach;

/// Most planes that are read for a group of output planes, and the products that they take.
pub(crate) const PRODUCTS: usize = 6;

/// A matrix that [`MixPlanes`] multiplies planes by.
pub(crate) type Matrix = [[f32; PRODUCTS]; PRODUCTS];

/// The finite points at which the polynomials are evaluated, one less than products; the last point is infinity. They are exact in float32,
/// and their powers stay nearer to one than those of the simple points 0, ±1, ±2.
const POINTS: [f64; PRODUCTS - 1] = [0.0, 0.625, -0.625, 1.5, -1.5];

/// Fewest channels, in and out, for which the transforms pay.
const LEAST_CHANNELS: usize = 6;

/// Fewest products, with a transformed value or into one, for which the transforms pay.
const LEAST_PRODUCTS: usize = 48;

/// The same where each output reads two neighbours, of which the transforms save less.
const LEAST_PRODUCTS_OF_TWO: usize = 64;

/// Fewest positions of the output for which transformed weights pay.
const LEAST_POSITIONS: usize = 256;

/// Fewest positions whose sums pay for the transforms of a weight gradient.
const LEAST_SUMMED: usize = 1024;

/// Most transformed weights for each position of the output: 64 KiB.
const MOST_WEIGHTS: usize = 16 * 1024;

/// Transformed weights that are close (1 MiB).
const FEW_WEIGHTS: usize = 256 * 1024;

/// How output planes, those of one phase, come of transformed input planes.
#[derive(Debug)]
pub(crate) struct DepthTransform {
    /// The depth of the products: for each product of a group a phase that reads its own transformed plane.
    pub(crate) axis: Axis,
    /// `G`: each transformed element of the kernel, as elements of the kernel and their factors.
    elements: Vec<Vec<(usize, f64)>>,
    /// Elements of the kernel along the depth.
    kernel: usize,
    /// Planes that are read for a group, and the products that they take.
    products: usize,
    /// The first plane that is read, of the first group.
    first: isize,
    /// Output planes of the phase, in all and of a group.
    outputs: [usize; 2],
    /// The phase of the output's depth, and how many there are.
    phase: [usize; 2],
    /// `Bᵀ`, how planes are transformed.
    planes: Matrix,
    /// `Aᵀ`, how output planes come of the products.
    results: Vec<[f32; PRODUCTS]>,
}

impl DepthTransform {
    /// The transforms of a gather's depth, one for each phase, where that is faster, by measurements; else none. Depends on the shape of an
    /// item only.
    pub(crate) fn of(gather: &Gather) -> Vec<Self> {
        let Gather { groups, channels, axes, .. } = gather;
        let [least, most] = [channels.iter().min(), channels.iter().max()].map(|channels| *channels.unwrap_or(&0));
        let elements = axes[1].kernel * axes[2].kernel;
        let of_an_output = axes[1].phase_taps() * axes[2].phase_taps();
        let positions: usize = axes.iter().map(|axis| axis.output).product();
        let transforms = Self::phases(&axes[0]);
        let is_worth = |transform: &Self| {
            let [planes, group] = transform.outputs;
            let taps = transform.products + 1 - group;
            let least_products = if taps == 2 { LEAST_PRODUCTS_OF_TWO } else { LEAST_PRODUCTS };
            saves(planes, taps)
                && least * of_an_output >= least_products
                && groups * least * most * elements * transform.products <= positions * MOST_WEIGHTS
        };
        let pays = least >= LEAST_CHANNELS && positions >= LEAST_POSITIONS && transforms.iter().all(is_worth);
        if pays { transforms } else { Vec::new() }
    }

    /// Whether its weights are close enough to be read for each group of planes; transformed rows read them less often.
    pub(crate) fn reads_few_weights(&self, gather: &Gather) -> bool {
        let [_, rows, columns] = gather.axes.each_ref().map(|axis| axis.kernel);
        gather.channels[0] * gather.channels[1] * rows * columns * self.products <= FEW_WEIGHTS
    }

    /// The transforms of the phases of a depth, if each has one: where each output of it reads two to four neighbours.
    pub(crate) fn phases(axis: &Axis) -> Vec<Self> {
        let transforms: Option<Vec<Self>> = (0..axis.phases()).map(|phase| Self::of_phase(axis, phase)).collect();
        transforms.unwrap_or_default()
    }

    fn of_phase(axis: &Axis, phase: usize) -> Option<Self> {
        let mut taps = axis.taps[phase].clone();
        taps.sort_unstable_by_key(|tap| tap.read);
        let nearest = taps.first()?.read;
        let neighbours = taps.iter().enumerate().all(|(index, tap)| tap.read == nearest + index);
        let products = products(taps.len())?;
        if axis.step != 1 || !neighbours {
            return None;
        }
        let group = products + 1 - taps.len();
        let outputs = axis.output.saturating_sub(phase).div_ceil(axis.phases());
        let planes = outputs.div_ceil(group) * products;
        let own = |product| vec![AxisTap { element: product, read: product }];
        let of_taps = |product| -> Vec<(usize, f64)> {
            let factors = taps.iter().map(|tap| tap.element).zip(element(product, taps.len(), products));
            factors.filter(|(_, factor)| *factor != 0.0).collect()
        };
        Some(Self {
            axis: Axis {
                input: planes,
                output: planes,
                kernel: products,
                step: products,
                first: 0,
                taps: (0..products).map(own).collect(),
            },
            elements: (0..products).map(of_taps).collect(),
            kernel: axis.kernel,
            products,
            first: axis.first + nearest as isize,
            outputs: [outputs, group],
            phase: [phase, axis.phases()],
            planes: std::array::from_fn(|product| plane(product, products)),
            results: (0..group).map(|output| result(output, group, products)).collect(),
        })
    }

    /// `G`, for the packing of weights.
    pub(crate) fn depth_sums(&self) -> DepthSums<'_> {
        DepthSums { elements: &self.elements, kernel: self.kernel }
    }

    /// The planes of the volume that are transformed for a group; some are outside of it.
    pub(crate) fn inputs(&self, group: usize) -> impl Iterator<Item = isize> {
        let first = self.first + (group * self.outputs[1]) as isize;
        first..first + self.products as isize
    }

    /// The output planes of a group.
    pub(crate) fn outputs(&self, group: usize) -> impl Iterator<Item = usize> {
        let ([all, each], [phase, phases]) = (self.outputs, self.phase);
        (group * each..((group + 1) * each).min(all)).map(move |index| index * phases + phase)
    }
}

/// How a kernel's elements along the depth come of transformed planes of the input and of the output's gradient: the
/// transpose of [`DepthTransform`], `Gᵀ (A g ⊙ Bᵀ d)`.
///
/// The products of all groups of planes are added up before they make elements.
#[derive(Clone, Debug)]
pub(crate) struct KernelTransform {
    /// Planes of the gradient in a group, which read [`PRODUCTS`] planes of the input.
    pub(crate) group: usize,
    /// `Bᵀ`, how planes of the input are transformed.
    pub(crate) inputs: Matrix,
    /// `A`, how planes of the gradient are, of which those behind a group are zero.
    pub(crate) gradients: Matrix,
    /// `G`: what each product adds to the elements; zeros behind the last one.
    pub(crate) elements: Matrix,
}

impl KernelTransform {
    /// Of a kernel with three or four neighbours along the depth.
    pub(crate) fn of(shape: &ConvShape) -> Option<Self> {
        let kernel = shape.kernel[0];
        let group = group(kernel).filter(|_| products(kernel) == Some(PRODUCTS))?;
        if shape.stride[0] > 1 || shape.dilation[0] > 1 {
            return None;
        }
        let results: Vec<_> = (0..group).map(|output| result(output, group, PRODUCTS)).collect();
        Some(Self {
            group,
            inputs: std::array::from_fn(|product| plane(product, PRODUCTS)),
            gradients: std::array::from_fn(|product| {
                std::array::from_fn(|plane| results.get(plane).map_or(0.0, |result| result[product]))
            }),
            elements: std::array::from_fn(|product| {
                let factors = element(product, kernel, PRODUCTS);
                std::array::from_fn(|element| factors.get(element).map_or(0.0, |factor| *factor as f32))
            }),
        })
    }

    /// Whether the weight gradient of a shape is faster with it, by measurements.
    pub(crate) fn pays(shape: &ConvShape) -> bool {
        let least = shape.channels_in.min(shape.channels_out) / shape.groups;
        let [kernel, height, width] = shape.kernel;
        let [depth, rows, columns] = shape.output();
        Self::of(shape).is_some()
            && saves(depth, kernel)
            && least >= LEAST_CHANNELS
            && least * height * width >= LEAST_PRODUCTS
            && shape.batch_size * depth * rows * columns >= LEAST_SUMMED
    }
}

/// The products of a group of output planes, for so many neighbours along the depth.
fn products(kernel: usize) -> Option<usize> {
    match kernel {
        2 => Some(PRODUCTS - 1),
        3 | 4 => Some(PRODUCTS),
        _ => None,
    }
}

/// Output planes that share their products.
fn group(kernel: usize) -> Option<usize> {
    products(kernel).map(|products| products + 1 - kernel)
}

/// Whether a quarter of the products is saved (of two neighbours a sixth), where the last group of planes is not a whole one.
fn saves(planes: usize, kernel: usize) -> bool {
    let most = if kernel == 2 { [5, 6] } else { [3, 4] };
    let transformed = products(kernel).zip(group(kernel)).map(|(products, group)| planes.div_ceil(group) * products);
    transformed.is_some_and(|transformed| most[1] * transformed <= most[0] * planes * kernel)
}

/// The finite points of so many products but one.
fn others(but: usize, products: usize) -> impl Iterator<Item = f64> {
    let points = POINTS.into_iter().take(products - 1).enumerate();
    points.filter(move |(index, _)| *index != but).map(|(_, point)| point)
}

/// A row of `Bᵀ`: the coefficients, the lowest first, of the product of `x - point` over the other points; zeros behind the last product.
fn plane(product: usize, products: usize) -> [f32; PRODUCTS] {
    let mut factors = [0.0; PRODUCTS];
    if product >= products {
        return [0.0; PRODUCTS];
    }
    factors[0] = 1.0;
    for point in others(product, products) {
        for power in (0..PRODUCTS).rev() {
            let lower = if power > 0 { factors[power - 1] } else { 0.0 };
            factors[power] = lower - point * factors[power];
        }
    }
    factors.map(|factor| factor as f32)
}

/// A row of `G`: the factors of a kernel's elements in its polynomial at a point.
fn element(product: usize, kernel: usize, products: usize) -> Vec<f64> {
    let Some(point) = POINTS[..products - 1].get(product) else {
        return (1..=kernel).map(|power| if power == kernel { 1.0 } else { 0.0 }).collect();
    };
    let scale: f64 = others(product, products).map(|other| point - other).product();
    (0..kernel).map(|power| point.powi(power as i32) / scale).collect()
}

/// A row of `Aᵀ`; zeros behind the last product.
fn result(output: usize, outputs: usize, products: usize) -> [f32; PRODUCTS] {
    std::array::from_fn(|product| match POINTS[..products - 1].get(product) {
        Some(point) => point.powi(output as i32) as f32,
        None => {
            if product + 1 == products && output + 1 == outputs {
                1.0
            } else {
                0.0
            }
        }
    })
}

/// Multiplies planes by one of a transform's matrices, in place.
pub(crate) struct MixPlanes<'a> {
    /// As many of its columns count as there are planes.
    matrix: &'a [[f32; PRODUCTS]],
    planes: usize,
    values: &'a mut [f32],
    /// From one of the planes to the next.
    stride: usize,
    /// Runs within a plane, their length, and the distance from one to the next.
    runs: [usize; 3],
}

impl<'a> MixPlanes<'a> {
    /// By this matrix: `len` values of each plane, `stride` from one to the next.
    pub(crate) fn by(matrix: &'a Matrix, values: &'a mut [f32], stride: usize, len: usize) -> Self {
        Self { matrix, planes: PRODUCTS, values, stride, runs: [1, len, 0] }
    }

    /// Makes the planes of a group, one after the other in `values`, ready for the products.
    pub(crate) fn inputs(transform: &'a DepthTransform, values: &'a mut [f32]) -> Self {
        let (matrix, planes) = (&transform.planes[..transform.products], transform.products);
        let stride = values.len() / planes;
        Self { matrix, planes, values, stride, runs: [1, stride, 0] }
    }

    /// Makes the sums of a group's products, `stride` from one to the next, its output planes.
    pub(crate) fn outputs(
        transform: &'a DepthTransform,
        values: &'a mut [f32],
        stride: usize,
        runs: [usize; 3],
    ) -> Self {
        Self { matrix: &transform.results, planes: transform.products, values, stride, runs }
    }
}

impl WithSimd for MixPlanes<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        match self.planes {
            PRODUCTS => self.mix::<S, PRODUCTS>(simd),
            FEWER => self.mix::<S, FEWER>(simd),
            planes => panic!("{planes} planes are mixed nowhere"),
        }
    }
}

/// Planes that are read for a group where each output reads two.
const FEWER: usize = PRODUCTS - 1;

impl MixPlanes<'_> {
    #[inline(always)]
    fn mix<S: Simd, const PLANES: usize>(self, simd: S) {
        let Self { matrix, values, stride, runs: [runs, len, run_stride], .. } = self;
        let end = reach(runs, run_stride, len);
        assert!(end <= stride && reach(PLANES, stride, end) <= values.len() && matrix.len() <= PLANES);
        let whole = len - len % S::F32_LANES;
        for first in (0..runs).map(|run| run * run_stride) {
            let start = values.as_mut_ptr();
            for place in (first..first + whole).step_by(S::F32_LANES) {
                let mut planes = [simd.splat_f32s(0.0); PLANES];
                for (plane, value) in planes.iter_mut().enumerate() {
                    // SAFETY: the run has a whole vector from here on, and each of the planes has the run.
                    *value = unsafe { load::<S>(start.add(plane * stride + place)) };
                }
                for (plane, factors) in matrix.iter().enumerate() {
                    let mut sum = simd.mul_f32s(simd.splat_f32s(factors[0]), planes[0]);
                    for (factor, value) in factors[1..PLANES].iter().zip(&planes[1..]) {
                        sum = simd.mul_add_e_f32s(simd.splat_f32s(*factor), *value, sum);
                    }
                    // SAFETY: as above; the matrix has no more rows than there are planes.
                    unsafe { store::<S>(start.add(plane * stride + place), sum) };
                }
            }
            for place in first + whole..first + len {
                let planes: [f32; PLANES] = std::array::from_fn(|plane| values[plane * stride + place]);
                for (plane, factors) in matrix.iter().enumerate() {
                    let more = factors[1..PLANES].iter().zip(&planes[1..]);
                    let sum = more.fold(factors[0] * planes[0], |sum, (factor, value)| factor.mul_add(*value, sum));
                    values[plane * stride + place] = sum;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use half::{bf16, f16};
    use proptest::prelude::*;
    use pulp::Arch;

    use super::*;
    use crate::conv::operands::{Input, Output};
    use crate::conv::reference::{Case, ResidualKind, cases, compare_with_largest, cube, exact_and_found, random};
    use crate::{Activation, Stored, simd};

    fn gather(shape: &ConvShape, forward: bool) -> Gather {
        if forward { Gather::forward(shape) } else { Gather::data_gradient(shape) }
    }

    /// By transformed planes, whether that pays or not.
    fn transformed<E: Stored>(
        arch: Arch,
        forward: bool,
        shape: &ConvShape,
        input: Input<'_, E>,
        weight: &[f32],
        output: Output<'_, E>,
    ) {
        let gather = gather(shape, forward);
        let transforms = DepthTransform::phases(&gather.axes[0]);
        assert!(!transforms.is_empty(), "{shape:?}");
        let output = output.into();
        transforms.into_iter().for_each(|transform| gather.run(arch, Some(transform), input, weight, &output));
    }

    /// Compares with plain loops. What is transformed is a group of planes.
    fn compare<E: Stored>(case: &Case, forward: bool, tolerance: f64, arch: Arch) {
        compare_with_largest::<E>(case, forward, tolerance, &|s, i, w, o| transformed(arch, forward, s, i, w, o));
    }

    fn check_case(case: &Case) {
        for forward in [true, false] {
            for arch in simd::available() {
                compare::<f32>(case, forward, 2e-7, arch);
            }
            compare::<bf16>(case, forward, 0.00391, simd::best());
            compare::<f16>(case, forward, 0.0005, simd::best());
        }
    }

    /// The case with another kernel along the depth, of stride one, and the rest as it is.
    fn of_depth(mut case: Case, depth: usize, kernel: usize) -> Case {
        let shape = &mut case.shape;
        (shape.input[0], shape.kernel[0], shape.stride[0], shape.dilation[0]) = (depth, kernel, 1, 1);
        case
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(150))]

        #[test]
        fn every_shape_agrees_with_plain_loops(case in cases(), depth in 1usize..=13, kernel in 2usize..=4) {
            check_case(&of_depth(case, depth, kernel));
        }
    }

    #[test]
    fn every_depth() {
        for (depth, kernel) in (1..=13).flat_map(|depth| [(depth, 2), (depth, 3), (depth, 4)]) {
            for padding in [[0, 0], [1, 1], [0, 2], [3, 1], [4, 0]] {
                if depth + padding[0] + padding[1] >= kernel {
                    let mut shape = ConvShape { kernel: [kernel, 3, 2], stride: [1, 2, 1], ..cube([3, 5], 5, 3, 1, 1) };
                    (shape.input[0], shape.padding[0]) = (depth, padding);
                    let (prologue, residual) = (Some(Activation::Silu), ResidualKind::InPlace);
                    check_case(&Case { shape, prologue, bias: true, residual, seed: 3 });
                }
            }
        }
    }

    /// The data gradient of a convolution with a stride of two, which is what an enlargement is folded to.
    #[test]
    fn every_depth_of_two_phases() {
        for depth in (3..=14).chain([26]) {
            for (kernel, padding) in [(4, [1, 1]), (4, [2, 2]), (4, [0, 1]), (4, [3, 0]), (6, [2, 2]), (8, [3, 3])] {
                if depth + padding[0] + padding[1] >= kernel {
                    let mut shape = ConvShape { kernel: [kernel, 4, 2], stride: [2; 3], ..cube([3, 5], 5, 3, 1, 1) };
                    (shape.input[0], shape.padding[0]) = (depth, padding);
                    let case = Case {
                        shape,
                        prologue: Some(Activation::Silu),
                        bias: true,
                        residual: ResidualKind::InPlace,
                        seed: 3,
                    };
                    for arch in simd::available() {
                        compare::<f32>(&case, false, 2e-7, arch);
                    }
                }
            }
        }
    }

    #[test]
    fn shapes_of_models() {
        let shapes = [
            ConvShape { stride: [1, 2, 2], ..cube([16, 24], 9, 3, 1, 1) },
            cube([16, 16], 9, 4, 1, 1),
            // Output channels in the lanes, and weights in parts.
            ConvShape { stride: [1, 2, 2], input: [9, 8, 7], ..cube([70, 33], 1, 3, 1, 1) },
            ConvShape { input: [5, 5, 4], ..cube([260, 32], 1, 3, 1, 1) },
            // Tiles of columns, and of rows.
            ConvShape { input: [5, 1, 140], kernel: [3, 1, 3], ..cube([300, 2], 1, 3, 1, 1) },
            ConvShape { input: [5, 41, 20], ..cube([24, 2], 1, 3, 1, 1) },
            ConvShape { groups: 3, kernel: [3, 1, 1], ..cube([24, 12], 8, 3, 1, 1) },
        ];
        for shape in shapes {
            let residual = ResidualKind::Of;
            let case = Case { shape, prologue: Some(Activation::Silu), bias: true, residual, seed: 2 };
            for (forward, arch) in
                [true, false].into_iter().flat_map(|way| simd::available().into_iter().map(move |arch| (way, arch)))
            {
                compare::<f32>(&case, forward, 2e-7, arch);
            }
        }
    }

    #[test]
    fn where_it_pays() {
        let pays =
            |shape: &ConvShape| [true, false].map(|forward| !DepthTransform::of(&gather(shape, forward)).is_empty());
        let plain = cube([16, 16], 16, 3, 1, 1);
        for shape in [plain, ConvShape { stride: [1, 2, 2], ..plain }, cube([16, 16], 12, 4, 1, 1)] {
            assert_eq!(pays(&shape), [true, true], "{shape:?}");
        }
        let direct = [
            ConvShape { stride: [2, 1, 1], ..plain },
            ConvShape { dilation: [2, 1, 1], ..plain },
            ConvShape { kernel: [2, 3, 3], ..cube([7, 7], 16, 3, 1, 1) },
            ConvShape { kernel: [5, 3, 3], ..plain },
            ConvShape { kernel: [3, 1, 1], padding: [[1, 1], [0, 0], [0, 0]], ..plain },
            ConvShape { input: [2, 32, 32], ..plain },
            cube([1, 32], 16, 3, 1, 1),
            cube([32, 1], 16, 3, 1, 1),
            cube([512, 512], 4, 3, 1, 1),
        ];
        for shape in direct {
            assert_eq!(pays(&shape), [false, false], "{shape:?}");
        }
        let folded = |depth| {
            let shape = ConvShape { kernel: [4; 3], stride: [2; 3], ..cube([32, 32], 16, 4, 1, 1) };
            pays(&ConvShape { input: [depth, 16, 16], ..shape })
        };
        assert_eq!([4, 8, 10, 16].map(folded), [false, true, false, true].map(|pays| [false, pays]));
    }

    #[test]
    fn the_sums_stay_exact() {
        for (kernel, most) in [(2, 1e-6), (3, 1e-6), (4, 1.4e-6)] {
            let case = Case::plain(cube([64, 8], 12, kernel, 1, 1));
            let run = |s: &_, i: Input<'_, f32>, w: &_, o: Output<'_, f32>| transformed(simd::best(), true, s, i, w, o);
            let (exact, found) = exact_and_found::<f32>(&case, true, &run);
            let square = |value: f64| value * value;
            let wrong: f64 =
                exact.iter().zip(&found).map(|(exact, found)| square(f64::from(*found) - exact.value)).sum();
            let error = (wrong / exact.iter().map(|exact| square(exact.value)).sum::<f64>()).sqrt();
            assert!(error < most, "{kernel} {error}");
        }
    }

    #[test]
    fn the_number_of_threads_does_not_matter() {
        for channels in [[9, 7], [50, 40]] {
            let shape =
                ConvShape { batch_size: 2, input: [19, 13, 11], stride: [1, 2, 2], ..cube(channels, 1, 3, 1, 1) };
            let (input, weight) = (random(shape.input_len(), 1), random(shape.weight_len(), 2));
            let on = |threads| {
                let mut output = vec![0.0; shape.output_len()];
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                let output_of = Output::plain(&mut output);
                pool.install(|| transformed(simd::best(), true, &shape, Input::plain(&input), &weight, output_of));
                output
            };
            let one = on(1);
            assert!([2, 3, 16].into_iter().all(|threads| on(threads) == one));
        }
    }
}
