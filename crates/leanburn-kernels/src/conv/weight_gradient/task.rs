//! A task of the weight gradient: a block of the weight, over a part of the positions.

use pulp::Arch;

use crate::Stored;
use crate::conv::operands::Input;
use crate::conv::packing::fill::FillPlane;
use crate::conv::packing::planes::{Source, Window};
use crate::conv::weight_gradient::dot_products::{AddUp, DotProducts, Places, PlanePair};
use crate::conv::weight_gradient::lanes::Lanes;
use crate::conv::weight_gradient::plan::{March, WeightPlan};
use crate::conv::weight_gradient::scratch::Scratch;

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
    /// Where the sums of each of them belong among `[channel in][kernel..]`, for the kernel's first depth.
    pub(super) targets: Vec<usize>,
    /// Packed planes and sums.
    pub(super) scratch: Scratch,
    /// The block of the weight, `[channel out]`, each `[channel in][kernel..]`.
    pub(super) target: Vec<&'a mut [f32]>,
}

impl<'a> WeightTask<'a> {
    /// The task of a block, numbered `[group][block out][block in]`, that overwrites `target`, in the scratch of another.
    pub(crate) fn new(
        arch: Arch,
        plan: &'a WeightPlan,
        block: usize,
        target: Vec<&'a mut [f32]>,
        mut scratch: Scratch,
    ) -> Self {
        let (first, channels) = plan.block(block, &target);
        let rows = rows(plan, channels[0], &plan.window(0));
        let targets = targets(plan, rows.len());
        scratch.fit(arch, plan, channels);
        Self { arch, plan, first, channels, rows, targets, scratch, target }
    }

    /// Bytes that the largest task takes at most, without its scratch and its target.
    pub(crate) fn bytes(plan: &WeightPlan) -> usize {
        let rows = plan.block_in * plan.shape.kernel[1] * plan.shape.kernel[2];
        let positions = if plan.lanes == Lanes::Channels { plan.positions() } else { 0 };
        // Rows and targets, and positions.
        (2 * rows + positions) * size_of::<usize>() + plan.planes * size_of::<PlanePair>()
    }

    /// Writes the sums over a part of the positions, of which there is at least one march, to the target; returns the
    /// scratch.
    pub(crate) fn run<E: Stored>(mut self, input: Input<'_, E>, gradient: Input<'_, E>, part: usize) -> Scratch {
        let (plan, shape) = (self.plan, &self.plan.shape);
        let input = Source { input, channels: shape.channels_in, size: shape.input };
        let gradient = Source { input: gradient, channels: shape.channels_out, size: plan.output };
        // Positions whose sums are not yet added to the target, which the first overwrite.
        let (mut positions, mut overwrite) = (0, true);
        for march in plan.marches_of(part) {
            let window = plan.window(march.row);
            self.scratch.begin_march(plan.rows_outside(march.row, &window));
            for start in march.depths.clone().step_by(plan.planes) {
                let step = March { depths: start..march.depths.end.min(start + plan.planes), ..march };
                match (&plan.transform, plan.lanes) {
                    (Some(transform), _) => {
                        self.pack_transformed(transform, [&input, &gradient], &window, &step);
                        let next = March {
                            depths: step.depths.end..march.depths.end.min(step.depths.end + plan.planes),
                            ..march
                        };
                        self.look_ahead(transform, [&input, &gradient], &window, &next);
                        self.add_transformed(transform, &window, &step);
                    }
                    (None, Lanes::Positions | Lanes::Transformed) => {
                        self.pack_input(&input, &window, &step);
                        self.pack_gradient(&gradient, &window, &step);
                        self.add(&window, &step);
                    }
                    (None, Lanes::Channels) => {
                        self.pack_input(&input, &window, &step);
                        self.pack_channels(&gradient, &step);
                        self.add_channels(&window, &step);
                    }
                }
            }
            positions += march.depths.len() * plan.rows * plan.output[2];
            if positions >= MOST_POSITIONS {
                self.add_up(overwrite);
                (positions, overwrite) = (0, false);
            }
        }
        if positions > 0 {
            self.add_up(overwrite);
        }
        self.scratch
    }

    /// Packs the input planes that this step reads and that the ring does not hold yet.
    fn pack_input<E: Stored>(&mut self, source: &Source<'_, E>, window: &Window, step: &March) {
        let slot_len = self.channels[0] * window.channel_len();
        let channels = self.first[0]..self.first[0] + self.channels[0];
        for kernel_depth in 0..self.plan.shape.kernel[0] {
            for depth in step.depths.clone() {
                let Some(depth) = self.plan.input_depth(depth, kernel_depth) else {
                    continue;
                };
                let slot = depth % self.scratch.held.len();
                if self.scratch.held[slot] != Some(depth) {
                    self.arch.dispatch(FillPlane {
                        source,
                        window,
                        item: step.item,
                        channels: channels.clone(),
                        depth,
                        room: &mut self.scratch.room,
                        target: &mut self.scratch.planes[slot * slot_len..][..slot_len],
                    });
                    self.scratch.held[slot] = Some(depth);
                }
            }
        }
    }

    /// Packs the gradient's planes of this step; what lies between two channels stays zero.
    fn pack_gradient<E: Stored>(&mut self, source: &Source<'_, E>, window: &Window, step: &March) {
        let window = &self.plan.gradient_window(step.row, window);
        let (column_len, last) = (self.plan.column_len(), self.first[1] + self.channels[1]);
        // Together, where nothing lies between them: the next channel is asked for while one is packed.
        let together = if window.channel_len() == column_len { self.channels[1] } else { 1 };
        let mut columns = self.scratch.gradient.chunks_exact_mut(together * column_len);
        for depth in step.depths.clone() {
            for (first, target) in (self.first[1]..last).step_by(together).zip(columns.by_ref()) {
                let (item, channels, room) = (step.item, first..first + together, &mut self.scratch.room);
                self.arch.dispatch(FillPlane { source, window, item, channels, depth, room, target });
            }
        }
    }

    /// Adds the dot products of this step's planes to the sums.
    fn add(&mut self, window: &Window, step: &March) {
        let [slot_len, plane_len] = self.plane_lens(window);
        let mut planes = Vec::with_capacity(self.plan.planes);
        for kernel_depth in 0..self.plan.shape.kernel[0] {
            planes.clear();
            planes.extend(step.depths.clone().enumerate().filter_map(|(index, depth)| {
                let slot = self.plan.input_depth(depth, kernel_depth)? % self.scratch.held.len();
                Some(PlanePair { input: slot * slot_len, gradient: index * plane_len })
            }));
            self.add_planes(window, &planes, kernel_depth);
        }
    }

    /// Adds the dot products of these planes to the sums of this number.
    pub(super) fn add_planes(&mut self, window: &Window, planes: &[PlanePair], number: usize) {
        let sums_len = self.scratch.sums.len() / self.plan.sums();
        self.arch.dispatch(DotProducts {
            input: &self.scratch.planes,
            gradient: &self.scratch.gradient,
            rows: &self.rows,
            columns: self.channels[1],
            column_len: self.plan.column_len(),
            planes,
            positions: (self.plan.rows - 1) * window.size[1] + self.plan.output[2],
            sums: &mut self.scratch.sums[number * sums_len..][..sums_len],
            ahead: &mut self.scratch.ahead,
        });
    }

    /// Lengths of a packed plane of the input and of the gradient.
    pub(super) fn plane_lens(&self, window: &Window) -> [usize; 2] {
        [self.channels[0] * window.channel_len(), self.channels[1] * self.plan.column_len()]
    }

    /// Adds the sums to the target, or overwrites it.
    fn add_up(&mut self, overwrite: bool) {
        if self.plan.lanes == Lanes::Channels {
            return self.add_up_channels(overwrite);
        }
        let [depth, height, width] = self.plan.shape.kernel;
        let sums_len = self.scratch.sums.len() / self.plan.sums();
        for (number, sums) in self.scratch.sums.chunks_exact_mut(sums_len).enumerate() {
            let (rows, columns) = (&self.targets[..], &mut self.target[..]);
            let mut add_up = |first: usize, factors: &[f32], overwrite| {
                let places = Places { first, step: height * width, factors };
                self.arch.dispatch(AddUp { sums, rows, places, overwrite, columns });
            };
            match &self.plan.transform {
                None => add_up(number * height * width, &[1.0], overwrite),
                Some(transform) => add_up(0, &transform.elements[number][..depth], overwrite && number == 0),
            }
        }
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

/// Where the sums of so many `[channel][kernel height][kernel width]` belong among `[channel][kernel..]`.
fn targets(plan: &WeightPlan, rows: usize) -> Vec<usize> {
    let [depth, height, width] = plan.shape.kernel;
    let area = height * width;
    (0..rows).map(|row| row / area * depth * area + row % area).collect()
}
