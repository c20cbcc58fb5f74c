//! What a run is made of, before there are numbers.

use pulp::Arch;

use super::OUTPUTS;
use super::tiling::{Tiling, lanes};
use crate::conv::gather::problem::Gather;
use crate::conv::tasks::Tasks;
use crate::conv::tiles::tap_sums::{Block, Lanes, Registers, blocks};

/// What a run is made of, before there are numbers.
pub(super) struct Plan<'a> {
    pub(super) gather: &'a Gather,
    pub(super) lanes: Lanes,
    pub(super) blocks: Vec<Block>,
    pub(super) widest: usize,
    pub(super) tiling: Tiling,
}

impl<'a> Plan<'a> {
    pub(super) fn new(gather: &'a Gather, arch: Arch) -> Self {
        let lanes = lanes(gather, Registers::of(arch));
        let blocks = blocks(arch, lanes, gather.channels[1]);
        let widest = blocks.iter().map(|block| block.width).max().unwrap_or(1);
        Self { gather, lanes, blocks, widest, tiling: Tiling::new(gather, lanes, widest) }
    }

    pub(super) fn tasks(&self) -> Tasks {
        let [_, rows, columns] = self.gather.axes.each_ref().map(|axis| axis.output);
        let plane = [rows.div_ceil(OUTPUTS), columns];
        Tasks::of(self.gather, self.tiling.counts(self.gather), plane, self.tiling.tile)
    }
}
