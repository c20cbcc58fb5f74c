//! The working memory of a task of the weight gradient, which the next task takes over.

use pulp::Arch;

use super::{dot_products::SumsLen, outer_products::Tiles, pack::SLACK, weight_lanes::Lanes, weight_plan::WeightPlan};

/// The memory. Between two tasks all sums are zero, and so are the packed values outside of the volume, so that it need
/// not be cleared again.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    /// Ring of packed input planes, `[slot][channel][..]`.
    pub planes: Vec<f32>,
    /// The depth that each slot of the ring holds.
    pub held: Vec<Option<usize>>,
    /// Packed gradient, `[plane][channel][..]`, or as [`OuterProducts`](super::outer_products::OuterProducts) says.
    pub gradient: Vec<f32>,
    /// Partial sums for each depth of the kernel, see [`DotProducts`](super::dot_products::DotProducts); or
    /// `[channel in][kernel..][column]`.
    pub sums: Vec<f32>,
    /// Room for a row of the volume.
    pub room: Vec<f32>,
    /// Rows outside of the volume where zeros were left, see [`WeightPlan::rows_outside`].
    outside: Option<[usize; 3]>,
}

impl Scratch {
    /// Makes room for a block of so many input and output channels.
    pub(crate) fn fit(&mut self, arch: Arch, plan: &WeightPlan, channels: [usize; 2]) {
        let rows = channels[0] * plan.shape.kernel[1] * plan.shape.kernel[2];
        let (gradient_len, sums_len) = match plan.lanes {
            Lanes::Positions => {
                let sums_len = arch.dispatch(SumsLen { rows, columns: channels[1] });
                (plan.planes * channels[1] * plan.column_len(), sums_len)
            }
            Lanes::Channels => {
                let columns = arch.dispatch(Tiles(channels[1])).columns();
                (plan.positions() * columns, rows * columns)
            }
        };
        let slack = plan.shared_zeros() + SLACK;
        let planes_len = plan.slots() * channels[0] * plan.window(0).channel_len() + slack;
        if self.planes.len() != planes_len {
            self.planes.clear();
            self.planes.resize(planes_len, 0.0);
        }
        // Columns of the gradient keep their places, and their zeros, when their number changes.
        self.gradient.resize(gradient_len, 0.0);
        self.sums.resize(plan.shape.kernel[0] * sums_len, 0.0);
        self.held.resize(plan.slots(), None);
    }

    /// Forgets the planes, and clears them unless the same rows as before are outside of the volume.
    pub(crate) fn begin_march(&mut self, outside: [usize; 3]) {
        self.held.fill(None);
        if self.outside.replace(outside).is_some_and(|before| before != outside) {
            self.planes.fill(0.0);
            self.gradient.fill(0.0);
        }
    }
}
