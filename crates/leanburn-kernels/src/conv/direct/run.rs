//! The direct engine of the forward pass and of the data gradient: sums over channels and kernel elements, without im2col.
//!
//! A task computes a few planes of one tile of rows and columns of one item and group; tasks that follow each other march along the depth with a
//! ring of packed input planes (`packing::planes`). For each output plane, each phase of the output and each block of output
//! channels, register tiles (`tiles`) sum over the input channels and the elements of the kernel, and the rows are
//! written out (`packing::rows`).

use pulp::Arch;

use crate::Stored;
use crate::conv::direct::pass::{Pass, Scratch, ScratchLens};
use crate::conv::direct::tiling::{Tiling, Work, lanes};
use crate::conv::gather::axis::{Axis, AxisTap};
use crate::conv::gather::problem::Gather;
use crate::conv::operands::Input;
use crate::conv::packing::planes::Source;
use crate::conv::packing::rows::SharedOutput;
use crate::conv::packing::weights::{PackedWeights, WeightOrder};
use crate::conv::tasks::Tasks;
use crate::conv::tiles::tap_sums::{Block, Lanes, Registers, blocks};
use crate::conv::transforms::depth_transform::DepthTransform;
use crate::parallel::{for_each_with, threads};
use crate::size::{product, sum};

impl Gather {
    /// Computes the whole output, or by a transform along the depth the planes that it is for.
    pub(crate) fn run<E: Stored>(
        &self,
        arch: Arch,
        transform: Option<DepthTransform>,
        input: Input<'_, E>,
        weight: &[f32],
        output: &SharedOutput<'_, E>,
    ) {
        if output.len == 0 {
            return;
        }
        let plan = Plan::new(self, arch, transform);
        let apart = plan.elements.is_some().then(|| self.weight_of_elements(weight));
        let weights = PackedWeights::new(arch, plan.blocks(), apart.as_deref().unwrap_or(weight), &plan.order());
        let size = self.axes.each_ref().map(|axis| axis.input);
        let source = Source { input, channels: self.groups * self.channels[0], size };
        let tasks = plan.tasks();
        let pass = plan.pass(weights, output);
        let run = |scratch: &mut Scratch<'_, E>, task: usize| {
            pass.task(scratch, tasks.place(task));
        };
        for_each_with(tasks.len(), self.multiplications(), || Scratch::new(&pass, source), run);
    }

    /// Bytes that [`Self::run`] takes at most.
    pub(crate) fn workspace(&self, arch: Arch, transform: Option<DepthTransform>) -> usize {
        let plan = Plan::new(self, arch, transform);
        let copy = plan.elements.as_ref().map_or(0, |_| self.weight_len() * size_of::<f32>());
        let weights = PackedWeights::unfilled(plan.blocks(), &plan.order());
        let [packed, packing] = weights.bytes(&plan.order());
        let threads = threads(plan.tasks().len(), self.multiplications());
        let output = SharedOutput::<f32>::uninit(&mut [], None, None);
        let pass = plan.pass(weights, &output);
        sum(&[copy, packed, packing.max(product(&[threads, ScratchLens::of(&pass).bytes()]))])
    }

    fn multiplications(&self) -> usize {
        let positions = self.axes.iter().map(|axis| axis.output).product::<usize>();
        product(&[self.batch_size, positions, self.weight_len()])
    }
}

/// What a run of a gather is made of, before there are numbers.
struct Plan<'a> {
    arch: Arch,
    gather: &'a Gather,
    transform: Option<DepthTransform>,
    /// The gather of the elements of the kernel, where they are summed apart.
    elements: Option<Gather>,
    lanes: Lanes,
    /// The axes that are computed.
    axes: [Axis; 3],
    /// The axes that the weights are for.
    weight_axes: [Axis; 3],
    widest: usize,
    tiling: Tiling,
}

impl<'a> Plan<'a> {
    fn new(gather: &'a Gather, arch: Arch, transform: Option<DepthTransform>) -> Self {
        let elements = (transform.is_none() && gather.elements_apart()).then(|| gather.of_elements());
        let lanes = match elements {
            Some(_) => Lanes::Positions,
            None => lanes(&gather.axes, gather.channels, Registers::of(arch)),
        };
        let inner = elements.as_ref().unwrap_or(gather);
        let mut axes = inner.axes.clone();
        if let Some(transform) = &transform {
            axes[0] = transform.axis.clone();
        }
        let widest = blocks(arch, lanes, inner.channels[1]).iter().map(|block| block.width).max().unwrap_or(1);
        let kept = if elements.is_some() { inner.channels[1] } else { widest };
        let keep = transform.is_some() || lanes == Lanes::Channels;
        let pieces = gather.batch_size * gather.groups;
        let tiling = Tiling::new(&Work { axes: &axes, channels: inner.channels, lanes, widest: kept, keep, pieces });
        let weight_axes = if elements.is_some() { depth_alone(&axes) } else { axes.clone() };
        let widest = if elements.is_some() { 1 } else { widest };
        Self { arch, gather, transform, elements, lanes, axes, weight_axes, widest, tiling }
    }

    /// What the weights are of.
    fn inner(&self) -> &Gather {
        self.elements.as_ref().unwrap_or(self.gather)
    }

    /// Blocks of output channels.
    fn blocks(&self) -> Vec<Block> {
        blocks(self.arch, self.lanes, self.inner().channels[1])
    }

    /// How the weights are packed.
    fn order(&self) -> WeightOrder<'_> {
        WeightOrder {
            groups: self.gather.groups,
            channels_in: self.gather.channels[0],
            axes: &self.weight_axes,
            strides: self.inner().strides,
            transform: self.transform.as_ref().map(DepthTransform::depth_sums),
        }
    }

    fn tasks(&self) -> Tasks {
        let [_, rows, columns] = self.axes.each_ref().map(Axis::indices);
        Tasks::of(self.gather, self.tiling.counts(&self.axes), [rows, columns], self.tiling.tile)
    }

    /// The run.
    fn pass<'b, E: Stored>(self, weights: PackedWeights, output: &'b SharedOutput<'b, E>) -> Pass<'a, 'b, E> {
        let apart = self.elements.is_some();
        let Self { arch, gather, transform, lanes, axes: [depth, ..], widest, tiling, .. } = self;
        Pass { arch, gather, depth, transform, weights, lanes, apart, widest, tiling, output }
    }
}

/// The axes of a kernel of one row and column.
fn depth_alone(axes: &[Axis; 3]) -> [Axis; 3] {
    let mut axes = axes.clone();
    axes[1..].iter_mut().for_each(|axis| axis.taps = vec![vec![AxisTap { element: 0, read: 0 }]]);
    axes
}
