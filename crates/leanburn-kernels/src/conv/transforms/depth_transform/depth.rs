//! Output planes of transformed input planes.

use super::mix::Mix;
use super::polynomials::{LEAST_CHANNELS, LEAST_PRODUCTS, Matrix, PRODUCTS, element, plane, products, result, saves};
use crate::conv::gather::axis::{Axis, AxisTap};
use crate::conv::gather::problem::Gather;
use crate::conv::packing::weights::DepthSums;

/// [`LEAST_PRODUCTS`] where each output reads two neighbours, of which the transforms save less.
const LEAST_PRODUCTS_OF_TWO: usize = 64;

/// Fewest positions of the output for which transformed weights pay.
const LEAST_POSITIONS: usize = 256;

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

    /// How the planes that are read for a group are made ready for the products.
    pub(crate) fn of_inputs(&self) -> Mix<'_> {
        if self.products == PRODUCTS { Mix::Inputs } else { Mix::Fewer(&self.planes[..self.products]) }
    }

    /// How the output planes of a group come of its products.
    pub(crate) fn of_products(&self) -> Mix<'_> {
        if self.products == PRODUCTS { Mix::Outputs(self.results.len()) } else { Mix::Fewer(&self.results) }
    }

    /// The planes of the volume that a group has in common with the next one.
    pub(crate) fn shared(&self) -> usize {
        self.products - self.outputs[1]
    }

    /// The output planes of a group.
    pub(crate) fn outputs(&self, group: usize) -> impl Iterator<Item = usize> {
        let ([all, each], [phase, phases]) = (self.outputs, self.phase);
        (group * each..((group + 1) * each).min(all)).map(move |index| index * phases + phase)
    }
}
