//! Whether transformed rows pay, and the run over all tiles.

use pulp::Arch;

use super::pass::{Pass, Scratch, ScratchLens};
use super::plan::Plan;
use super::weights::TransformedWeights;
use super::{COMPONENTS, OUTPUTS};
use crate::Stored;
use crate::conv::gather::axis::Axis;
use crate::conv::gather::problem::Gather;
use crate::conv::operands::Input;
use crate::conv::packing::planes::Source;
use crate::conv::packing::rows::SharedOutput;
use crate::parallel::{busy, for_each_with};

/// Fewest channels, in and out, for which the transforms pay.
const LEAST_CHANNELS: usize = 6;

/// Fewest products, with a transformed value or into one, for which the transforms pay.
const LEAST_PRODUCTS: usize = 48;

/// Fewest positions of the output for which transformed weights pay.
const LEAST_POSITIONS: usize = 256;

/// Most transformed weights for each position of the output: 64 KiB.
const MOST_WEIGHTS: usize = 16 * 1024;

/// Bytes that [`run`] takes at most, in the current pool.
pub(crate) fn workspace(gather: &Gather, arch: Arch) -> usize {
    let plan = Plan::new(gather, arch);
    let [weights, transforming] = TransformedWeights::bytes(gather, &plan.blocks);
    weights + transforming.max(busy(plan.tasks().len()) * ScratchLens::of(&plan).bytes())
}

/// Whether the kernel has three rows, one after the other, that all outputs read.
pub(super) fn fits(gather: &Gather) -> bool {
    let [depth, rows, columns] = &gather.axes;
    let mut reads = rows.reads();
    reads.sort_unstable();
    let simple = |axis: &Axis| axis.phases() == 1 && axis.step == 1;
    depth.phases() == 1 && simple(rows) && simple(columns) && reads == [0, 1, 2]
}

/// Whether that is faster than the direct method, by measurements. Depends on the shape only.
pub(crate) fn pays(gather: &Gather) -> bool {
    if !fits(gather) {
        return false;
    }
    let [depth, rows, columns] = gather.axes.each_ref().map(|axis| axis.output);
    let elements = gather.axes[0].kernel * gather.axes[2].kernel;
    let [least, most] = [gather.channels.iter().min(), gather.channels.iter().max()].map(|channels| *channels.unwrap());
    let weights = gather.groups * least * most * elements * COMPONENTS;
    // Of one item: what is computed of it must not depend on how many others there are.
    let positions = depth * rows * columns;
    // The transforms of the values are shared by enough products, the last group has enough rows, ..
    least >= LEAST_CHANNELS && least * elements >= LEAST_PRODUCTS && 3 * rows * 4 >= COMPONENTS * rows.div_ceil(OUTPUTS) * 5
        // .. and the transformed weights serve enough positions.
        && positions >= LEAST_POSITIONS && weights <= positions * MOST_WEIGHTS
}

/// Computes a gather that [`fits`].
pub(crate) fn run<E: Stored>(
    gather: &Gather,
    arch: Arch,
    input: Input<'_, E>,
    weight: &[f32],
    output: SharedOutput<'_, E>,
) {
    if output.len == 0 {
        return;
    }
    let mut plan = Plan::new(gather, arch);
    let weights = TransformedWeights::new(arch, gather, std::mem::take(&mut plan.blocks), weight);
    let size = gather.axes.each_ref().map(|axis| axis.input);
    let source = Source { input, channels: gather.groups * gather.channels[0], size };
    let tasks = plan.tasks();
    let Plan { lanes, tiling, .. } = plan;
    let lens = ScratchLens::of(&plan);
    let pass = Pass { arch, gather, source, weights, lanes, tiling, output };
    let run = |scratch: &mut Scratch, task: usize| pass.task(scratch, tasks.place(task));
    for_each_with(tasks.len(), usize::MAX, || Scratch::new(&lens), run);
}
