//! The working memory of a task of the weight gradient, which the next task takes over.

use pulp::Arch;

use crate::conv::packing::ahead::Ahead;
use crate::conv::packing::planes::SLACK;
use crate::conv::tiles::tap_sums::LANES;
use crate::conv::transforms::depth_transform::PRODUCTS;
use crate::conv::weight_gradient::dot_products::SumsLen;
use crate::conv::weight_gradient::lanes::Lanes;
use crate::conv::weight_gradient::outer_products::Tiles;
use crate::conv::weight_gradient::plan::WeightPlan;

/// The memory. Between two tasks all sums are zero, and so are the packed values outside of the volume, so that it need
/// not be cleared again.
#[derive(Debug)]
pub(crate) struct Scratch {
    /// Ring of packed input planes, `[slot][channel][..]`; or transformed ones, `[group][product][channel][..]`.
    pub planes: Vec<f32>,
    /// The depth that each slot of the ring holds.
    pub held: Vec<Option<usize>>,
    /// The last planes of a group before they are transformed, which the next group begins with, `[channel][plane][..]`.
    pub carried: Vec<f32>,
    /// The first output plane of that group.
    pub carried_to: Option<usize>,
    /// Packed gradient, `[plane][channel][..]`, or as [`OuterProducts`](super::outer_products::OuterProducts) says.
    pub gradient: Vec<f32>,
    /// Partial sums for each depth of the kernel, or each product of transformed planes, see [`DotProducts`](super::dot_products::DotProducts); or
    /// `[channel in][kernel..][column]`.
    pub sums: Vec<f32>,
    /// Room for a row of the volume, of each plane where they are transformed.
    pub room: Vec<f32>,
    /// What the next step packs.
    pub ahead: Ahead,
    /// Rows outside of the volume where zeros were left, see [`WeightPlan::rows_outside`].
    outside: Option<[usize; 3]>,
}

/// Lengths of the memory's parts.
struct Lens {
    planes: usize,
    held: usize,
    carried: usize,
    gradient: usize,
    sums: usize,
    room: usize,
}

impl Lens {
    /// For a block of so many input and output channels.
    fn of(arch: Arch, plan: &WeightPlan, channels: [usize; 2]) -> Self {
        let rows = channels[0] * plan.shape.kernel[1] * plan.shape.kernel[2];
        let (gradient, sums) = match plan.lanes {
            Lanes::Positions | Lanes::Transformed => {
                let sums = arch.dispatch(SumsLen { rows, columns: channels[1] });
                (plan.gradient_planes() * channels[1] * plan.column_len(), sums)
            }
            Lanes::Channels => {
                let columns = arch.dispatch(Tiles(channels[1])).columns();
                (plan.positions() * columns, rows * columns)
            }
        };
        let slack = plan.shared_zeros() + SLACK;
        Self {
            planes: plan.slots() * channels[0] * plan.window(0).channel_len() + slack,
            held: if plan.transform.is_some() { 0 } else { plan.slots() },
            carried: plan.carried() * channels[0] * plan.window(0).channel_len(),
            gradient,
            sums: plan.sums() * sums,
            room: match plan.shape.input[2].max(plan.output[2]) {
                row if plan.transform.is_some() => PRODUCTS * row.next_multiple_of(LANES),
                row => row,
            },
        }
    }

    /// For the largest block.
    fn most(arch: Arch, plan: &WeightPlan) -> Self {
        Self::of(arch, plan, [plan.block_in, plan.block_out])
    }
}

impl Scratch {
    /// Room for any block, and nothing in it.
    pub(crate) fn new(arch: Arch, plan: &WeightPlan) -> Self {
        let Lens { planes, held, carried, gradient, sums, room } = Lens::most(arch, plan);
        Self {
            planes: Vec::with_capacity(planes),
            held: Vec::with_capacity(held),
            carried: Vec::with_capacity(carried),
            carried_to: None,
            gradient: Vec::with_capacity(gradient),
            sums: Vec::with_capacity(sums),
            room: Vec::with_capacity(room),
            ahead: Ahead::default(),
            outside: None,
        }
    }

    /// Bytes that it takes.
    pub(crate) fn bytes(arch: Arch, plan: &WeightPlan) -> usize {
        let Lens { planes, held, carried, gradient, sums, room } = Lens::most(arch, plan);
        (planes + carried + gradient + sums + room) * size_of::<f32>() + held * size_of::<Option<usize>>()
    }

    /// Makes room for a block of so many input and output channels.
    pub(crate) fn fit(&mut self, arch: Arch, plan: &WeightPlan, channels: [usize; 2]) {
        let lens = Lens::of(arch, plan, channels);
        if self.planes.len() != lens.planes {
            self.planes.clear();
            self.planes.resize(lens.planes, 0.0);
        }
        // Columns of the gradient keep their places, and their zeros, when their number changes.
        self.gradient.resize(lens.gradient, 0.0);
        self.sums.resize(lens.sums, 0.0);
        self.held.resize(lens.held, None);
        self.carried.resize(lens.carried, 0.0);
    }

    /// Forgets the planes, and clears them unless the same rows as before are outside of the volume.
    pub(crate) fn begin_march(&mut self, outside: [usize; 3]) {
        self.held.fill(None);
        self.carried_to = None;
        if self.outside.replace(outside).is_some_and(|before| before != outside) {
            self.planes.fill(0.0);
            self.gradient.fill(0.0);
        }
    }
}
