//! A task of the weight gradient: a block of the weight, over a part of the positions.

use pulp::Arch;

use super::{
    Input,
    dot_products::{AddUp, DotProducts, PlanePair, SumsLen},
    outer_products::Tiles,
    pack::{Packer, SLACK, Source, Window},
    weight_plan::{Lanes, March, WeightPlan},
};
use crate::Element;

/// Positions whose sums are added to the target at once, about: more in float32 would not be as exact.
const MOST_POSITIONS: usize = 8192;

/// The task and its workspace.
#[derive(Debug)]
pub(crate) struct WeightTask<'a> {
    pub(super) arch: Arch,
    pub(super) plan: &'a WeightPlan,
    /// First input channel and first output channel, of all groups.
    pub(super) first: [usize; 2],
    /// Input channels and output channels.
    pub(super) channels: [usize; 2],
    /// Where each `[channel in][kernel height][kernel width]` begins in a packed plane.
    pub(super) rows: Vec<usize>,
    /// Ring of packed input planes, `[slot][channel][..]`.
    pub(super) planes: Vec<f32>,
    /// The depth that each slot of the ring holds.
    pub(super) held: Vec<Option<usize>>,
    /// Packed gradient, `[plane][channel][..]`, or as [`OuterProducts`](super::outer_products::OuterProducts) says.
    pub(super) gradient: Vec<f32>,
    /// Partial sums for each depth of the kernel, see [`DotProducts`]; or `[channel in][kernel..][column]`.
    pub(super) sums: Vec<f32>,
    /// The block of the weight, `[channel out]`, each `[channel in][kernel..]`.
    pub(super) target: Vec<&'a mut [f32]>,
}

impl<'a> WeightTask<'a> {
    /// The task of a block, numbered `[group][block out][block in]`, that adds to `target`.
    pub(crate) fn new(arch: Arch, plan: &'a WeightPlan, block: usize, target: Vec<&'a mut [f32]>) -> Self {
        let (channels_in, channels_out) = plan.channels();
        let (blocks_in, blocks_out) = plan.blocks();
        let (block_out, block_in) = (block / blocks_in % blocks_out, block % blocks_in);
        let group = block / blocks_in / blocks_out;
        let first = [group * channels_in + block_in * plan.block_in, group * channels_out + block_out * plan.block_out];
        let channels = [target[0].len() / plan.elements(), target.len()];
        let window = plan.window(0);
        let rows = rows(plan, channels[0], &window);
        let sums_len = arch.dispatch(SumsLen { rows: rows.len(), columns: channels[1] });
        let columns = arch.dispatch(Tiles(channels[1])).columns();
        let (gradient_len, sums_len) = match plan.lanes {
            Lanes::Positions => (plan.planes * channels[1] * plan.column_len(), sums_len),
            Lanes::Channels => (plan.positions() * columns, rows.len() * columns),
        };
        let slack = plan.shared_zeros() + SLACK;
        Self {
            arch,
            plan,
            first,
            channels,
            rows,
            planes: vec![0.0; plan.slots() * channels[0] * window.channel_len() + slack],
            held: vec![None; plan.slots()],
            gradient: vec![0.0; gradient_len],
            sums: vec![0.0; plan.shape.kernel[0] * sums_len],
            target,
        }
    }

    /// Adds the sums over a part of the positions to the target.
    pub(crate) fn run<E: Element>(mut self, input: Input<'_, E>, gradient: Input<'_, E>, part: usize) {
        let (plan, shape) = (self.plan, &self.plan.shape);
        let source = Source { input, channels: shape.channels_in, size: shape.input };
        let mut input = Packer::new(self.arch, source);
        let source = Source { input: gradient, channels: shape.channels_out, size: plan.output };
        let mut gradient = Packer::new(self.arch, source);
        // Positions whose sums are not yet added to the target.
        let mut positions = 0;
        for march in plan.marches_of(part) {
            let window = plan.window(march.row);
            self.held.fill(None);
            for start in march.depths.clone().step_by(plan.planes) {
                let step = March { depths: start..march.depths.end.min(start + plan.planes), ..march };
                self.pack_input(&mut input, &window, &step);
                match plan.lanes {
                    Lanes::Positions => {
                        self.pack_gradient(&mut gradient, &window, &step);
                        self.add(&window, &step);
                    }
                    Lanes::Channels => {
                        self.pack_channels(&source, &step);
                        self.add_channels(&window, &step);
                    }
                }
            }
            positions += march.depths.len() * plan.rows * plan.output[2];
            if positions >= MOST_POSITIONS {
                self.add_up();
                positions = 0;
            }
        }
        if positions > 0 {
            self.add_up();
        }
    }

    /// Packs the input planes that this step reads and that the ring does not hold yet.
    fn pack_input<E: Element>(&mut self, packer: &mut Packer<'_, E>, window: &Window, step: &March) {
        let slot_len = self.channels[0] * window.channel_len();
        let channels = self.first[0]..self.first[0] + self.channels[0];
        for kernel_depth in 0..self.plan.shape.kernel[0] {
            for depth in step.depths.clone() {
                let Some(depth) = self.input_depth(depth, kernel_depth) else { continue };
                let slot = depth % self.held.len();
                if self.held[slot] != Some(depth) {
                    let target = &mut self.planes[slot * slot_len..][..slot_len];
                    packer.pack(window, step.item, channels.clone(), depth, target);
                    self.held[slot] = Some(depth);
                }
            }
        }
    }

    /// Packs the gradient's planes of this step; what lies between two channels stays zero.
    fn pack_gradient<E: Element>(&mut self, packer: &mut Packer<'_, E>, window: &Window, step: &March) {
        let window = self.plan.gradient_window(step.row, window);
        let mut columns = self.gradient.chunks_exact_mut(self.plan.column_len());
        for depth in step.depths.clone() {
            for (channel, column) in (self.first[1]..).zip(columns.by_ref().take(self.channels[1])) {
                let target = &mut column[..window.channel_len()];
                packer.pack(&window, step.item, channel..channel + 1, depth, target);
            }
        }
    }

    /// Adds the dot products of this step's planes to the sums.
    fn add(&mut self, window: &Window, step: &March) {
        let column_len = self.plan.column_len();
        let (slot_len, plane_len) = (self.channels[0] * window.channel_len(), self.channels[1] * column_len);
        let sums_len = self.sums.len() / self.plan.shape.kernel[0];
        let mut planes = Vec::with_capacity(self.plan.planes);
        for kernel_depth in 0..self.plan.shape.kernel[0] {
            planes.clear();
            planes.extend(step.depths.clone().enumerate().filter_map(|(index, depth)| {
                let slot = self.input_depth(depth, kernel_depth)? % self.held.len();
                Some(PlanePair { input: slot * slot_len, gradient: index * plane_len })
            }));
            self.arch.dispatch(DotProducts {
                input: &self.planes,
                gradient: &self.gradient,
                rows: &self.rows,
                columns: self.channels[1],
                column_len,
                planes: &planes,
                positions: (self.plan.rows - 1) * window.size[1] + self.plan.output[2],
                sums: &mut self.sums[kernel_depth * sums_len..][..sums_len],
            });
        }
    }

    /// Adds the sums to the target.
    fn add_up(&mut self) {
        if self.plan.lanes == Lanes::Channels {
            return self.add_up_channels();
        }
        let [depth, height, width] = self.plan.shape.kernel;
        let (area, sums_len) = (height * width, self.sums.len() / depth);
        for (kernel_depth, sums) in self.sums.chunks_exact_mut(sums_len).enumerate() {
            let first = |row: usize| (row / area * depth + kernel_depth) * area + row % area;
            let rows: Vec<usize> = (0..self.rows.len()).map(first).collect();
            self.arch.dispatch(AddUp { sums, rows: &rows, columns: &mut self.target });
        }
    }

    /// The input plane that an element of the kernel reads for an output plane.
    pub(super) fn input_depth(&self, depth: usize, kernel_depth: usize) -> Option<usize> {
        let shape = &self.plan.shape;
        let depth = (depth * shape.stride[0] + kernel_depth * shape.dilation[0]).checked_sub(shape.padding[0][0])?;
        (depth < shape.input[0]).then_some(depth)
    }
}

/// Where each `[channel][kernel height][kernel width]` begins in a packed plane.
fn rows(plan: &WeightPlan, channels: usize, window: &Window) -> Vec<usize> {
    let ([_, height, width], [_, row_step, column_step]) = (plan.shape.kernel, plan.shape.dilation);
    let mut rows = Vec::with_capacity(channels * height * width);
    for channel in 0..channels {
        for row in 0..height {
            let offsets = (0..width).map(|column| window.offset(row * row_step, column * column_step));
            rows.extend(offsets.map(|offset| channel * window.channel_len() + offset));
        }
    }
    rows
}
