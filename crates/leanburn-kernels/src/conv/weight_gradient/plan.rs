//! How the weight gradient is cut into tasks; from the shape alone, so that the result does not depend on the machine.

use std::ops::Range;

use crate::conv::packing::planes::Window;
use crate::conv::shape::ConvShape;
use crate::conv::transforms::depth_transform::{KernelTransform, PRODUCTS};
use crate::conv::weight_gradient::lanes::Lanes;
use crate::size::product;
use crate::tile_products::ROWS;

/// Positions of a dot product, about: as many as keep a tile's rows and columns in the first-level cache.
const POSITIONS: usize = 1024;
/// The same where each value is used by few elements of the kernel, and more channels are packed instead.
const FEW_POSITIONS: usize = 512;
/// Packed values of a task, about (768 KiB).
const PACKED: usize = 192 * 1024;
/// Packed values of a task whose planes are transformed, about: a product uses a sixth of them at a time.
const TRANSFORMED: usize = 2 * PACKED;
/// Output channels of a block there, at most.
const TRANSFORMED_OUT: usize = 32;
/// Elements of the weight of a task, about (512 KiB of partial sums).
const BLOCK: usize = 32 * 1024;
/// Multiply-adds of a task, at least, before the positions are cut into more parts.
const TASK_WORK: usize = 4 << 20;
/// Tasks that are enough.
const TASKS: usize = 64;
/// Partial results, about (4 MiB), where they are more than twice the weight.
const PARTIAL: usize = 1 << 20;
/// Columns of the packed gradient begin at multiples of this.
const COLUMN_ALIGNMENT: usize = 16;
/// Positions that are added up in registers, at least, where the lanes are channels.
const CHANNEL_LANES_POSITIONS: usize = 128;
/// Positions of a plane of a tile there, about.
const CHANNEL_LANES_TILE: usize = 512;
/// Output channels of a block there, at most.
const CHANNEL_LANES_OUT: usize = 128;
/// Elements of the weight of a task there, about (384 KiB of sums).
const CHANNEL_LANES_BLOCK: usize = 96 * 1024;
/// Positions of a part there, at least: fewer would cost less than adding up their sums.
const CHANNEL_LANES_PART: usize = 2048;
/// Tasks that are enough there, where positions are few.
const CHANNEL_LANES_TASKS: usize = 4;
/// Channels of a block, of the input and of the output, where positions are the terms of [products of tiles](crate::tile_products).
const TILES_BLOCK: usize = 64;
/// Packed values of the input of a task there, each of which may be packed twice, about (1 MiB).
const TILES_PACKED: usize = 512 * 1024;
/// Sums of a task there, about (512 KiB).
const TILES_SUMS: usize = 128 * 1024;

/// The positions that one task marches through: a tile of rows, over a range of the depth, of one item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct March {
    /// Item of the batch.
    pub item: usize,
    /// First output row.
    pub row: usize,
    /// Output planes.
    pub depths: Range<usize>,
}

/// The cut: blocks of channels, times parts of the positions.
#[derive(Clone, Debug)]
pub(crate) struct WeightPlan {
    /// The convolution; one of kernel 1 is flattened to few, long rows.
    pub shape: ConvShape,
    /// Its output size.
    pub output: [usize; 3],
    /// What the lanes hold.
    pub lanes: Lanes,
    /// How planes are transformed, if they are.
    pub transform: Option<KernelTransform>,
    /// Output rows of a tile.
    pub rows: usize,
    /// Output planes that are packed, and added up in registers, at a time.
    pub planes: usize,
    /// Ranges of the depth, each of them the depth of a march.
    ranges: usize,
    /// Input channels of a block.
    pub block_in: usize,
    /// Output channels of a block.
    pub block_out: usize,
    /// Parts of the marches.
    pub parts: usize,
}

impl WeightPlan {
    /// The cut of this convolution, whose output is not empty.
    pub(crate) fn new(shape: &ConvShape, lanes: Lanes) -> Self {
        Self::cut(shape, lanes, |plan| match lanes {
            Lanes::Positions => plan.cut_for_positions(),
            Lanes::Transformed => plan.cut_for_transforms(),
            Lanes::Channels => plan.cut_for_channels(),
        })
    }

    /// The cut of this convolution, whose output is not empty, where positions are the terms of [products of tiles](crate::tile_products).
    pub(crate) fn of_tiles(shape: &ConvShape) -> Self {
        Self::cut(shape, Lanes::Positions, Self::cut_for_tiles)
    }

    fn cut(shape: &ConvShape, lanes: Lanes, cut: impl FnOnce(&mut Self)) -> Self {
        let shape = flattened(shape);
        let output = shape.output();
        let transform = if lanes == Lanes::Transformed { KernelTransform::of(&shape) } else { None };
        let mut plan = Self {
            shape,
            output,
            lanes,
            transform,
            rows: 1,
            planes: 1,
            ranges: 1,
            block_in: 1,
            block_out: 1,
            parts: 1,
        };
        cut(&mut plan);
        let most = plan.most_parts();
        plan.ranges = plan.ranges_of_depth(most);
        plan.parts = most.min(plan.marches());
        plan
    }

    /// Tiles and blocks where the lanes are positions.
    fn cut_for_positions(&mut self) {
        let uses = self.uses();
        let positions = if uses < 2 { FEW_POSITIONS } else { POSITIONS };
        let width = self.window(0).size[1];
        self.rows = balanced(self.output[1], positions.div_ceil(width));
        self.planes = balanced(self.output[0], positions.div_ceil(self.rows * width));
        let (channels_in, channels_out) = self.channels();
        let most_out = match uses {
            0..2 => 128,
            2..8 => 64,
            _ => 32,
        };
        self.block_out = balanced(channels_out, most_out);
        self.block_in = balanced(channels_in, self.most_in(PACKED));
    }

    /// Tiles and blocks where the lanes are positions of transformed planes.
    fn cut_for_transforms(&mut self) {
        let group = self.transform.as_ref().map_or(1, |transform| transform.group);
        let width = self.window(0).size[1];
        self.rows = balanced(self.output[1], POSITIONS.div_ceil(width));
        let groups = (POSITIONS / (self.rows * width)).max(1);
        self.planes = group * balanced(self.output[0].div_ceil(group), groups);
        let (channels_in, channels_out) = self.channels();
        self.block_out = balanced(channels_out, TRANSFORMED_OUT);
        self.block_in = balanced(channels_in, self.most_in(TRANSFORMED));
    }

    /// Tiles and blocks where the lanes are output channels: the input is packed once for all of a block, the gradient
    /// once for all of a block of the input.
    fn cut_for_channels(&mut self) {
        self.rows = balanced(self.output[1], CHANNEL_LANES_TILE.div_ceil(self.output[2]));
        self.planes = balanced(self.output[0], CHANNEL_LANES_POSITIONS.div_ceil(self.rows * self.output[2]));
        let (channels_in, channels_out) = self.channels();
        let blocks_out = channels_out.div_ceil(CHANNEL_LANES_OUT);
        self.block_out = channels_out.div_ceil(blocks_out).next_multiple_of(COLUMN_ALIGNMENT).min(channels_out);
        let left = PACKED.saturating_sub(self.block_out * self.positions());
        let packed = left / (self.slots() * self.window(0).channel_len());
        let most = packed.min(CHANNEL_LANES_BLOCK / (self.block_out * self.elements())).max(1);
        // Where positions are few, parts of them cost more than packing them once more for another block.
        let tasks = if self.all_positions() < 2 * CHANNEL_LANES_PART { CHANNEL_LANES_TASKS } else { 1 };
        let wanted = (self.work(channels_in, channels_out) / TASK_WORK).min(tasks) / (blocks_out * self.shape.groups);
        // Blocks of which there are as many as a power of two keep two, four, .. threads busy alike.
        let blocks_in = channels_in.div_ceil(most).max(wanted).next_power_of_two();
        self.block_in = channels_in.div_ceil(blocks_in);
    }

    /// Tiles and blocks where positions are the terms of [products of tiles](crate::tile_products): the input and the gradient are packed once for a block of both.
    fn cut_for_tiles(&mut self) {
        let width = self.window(0).size[1];
        self.rows = balanced(self.output[1], POSITIONS.div_ceil(width));
        self.planes = balanced(self.output[0], FEW_POSITIONS.div_ceil(self.rows * width));
        let (channels_in, channels_out) = self.channels();
        let even = |channels: usize, most: usize| balanced(channels, most).next_multiple_of(ROWS).min(channels);
        self.block_out = even(channels_out, TILES_BLOCK);
        let sums = TILES_SUMS / (self.block_out.next_multiple_of(ROWS) * self.elements());
        let packed = TILES_PACKED / (2 * self.slots() * self.window(0).channel_len());
        self.block_in = even(channels_in, TILES_BLOCK.min(sums).min(packed).max(ROWS) / ROWS * ROWS);
    }

    /// Output positions of a step, at most.
    pub(crate) fn positions(&self) -> usize {
        self.planes * self.rows * self.output[2]
    }

    /// How often each value of the input is used for one output channel: what pays for packing it.
    fn uses(&self) -> usize {
        self.elements() / self.shape.stride.iter().product::<usize>()
    }

    /// As many input channels in a block as the packed values and the partial sums may take.
    fn most_in(&self, most_packed: usize) -> usize {
        let left = most_packed.saturating_sub(self.block_out * self.gradient_planes() * self.column_len());
        let packed = left / ((self.slots() + self.carried()) * self.window(0).channel_len());
        packed.min(BLOCK / (self.block_out * self.elements())).clamp(1, 64)
    }

    /// Channels of the input and of the output in each group.
    pub(crate) fn channels(&self) -> (usize, usize) {
        (self.shape.channels_in / self.shape.groups, self.shape.channels_out / self.shape.groups)
    }

    /// Elements of the kernel.
    pub(crate) fn elements(&self) -> usize {
        self.shape.kernel.iter().product()
    }

    /// What a tile at this output row reads of an input plane.
    ///
    /// Phases are not parted where the lanes are channels. Otherwise, where a row's zeros at its end and those at the
    /// next row's begin are neighbours, as many as both have are kept once.
    pub(crate) fn window(&self, row: usize) -> Window {
        let shape = &self.shape;
        let reads = |axis: usize| -> Vec<usize> { (0..shape.kernel[axis]).map(|k| k * shape.dilation[axis]).collect() };
        let first = [(row * shape.stride[1]) as isize - shape.padding[1][0] as isize, -(shape.padding[2][0] as isize)];
        let (tile, stride) = ([self.rows, self.output[2]], [shape.stride[1], shape.stride[2]]);
        if self.lanes == Lanes::Channels {
            let tile = [0, 1].map(|axis| (tile[axis] - 1) * stride[axis] + 1);
            return Window::new(first, [1, 1], tile, [&reads(1), &reads(2)]);
        }
        let mut window = Window::new(first, stride, tile, [&reads(1), &reads(2)]);
        window.size[1] -= self.shared_zeros();
        window
    }

    /// Zeros between two rows that belong to the padding of both.
    pub(crate) fn shared_zeros(&self) -> usize {
        let shape = &self.shape;
        if shape.stride[2] > 1 || self.lanes == Lanes::Channels {
            return 0;
        }
        let reach = (shape.kernel[2] - 1) * shape.dilation[2];
        let after = (self.output[2] + reach).saturating_sub(shape.padding[2][0] + shape.input[2]);
        after.min(shape.padding[2][0]).min(reach)
    }

    /// The window of the gradient whose positions are those of `input`, with zeros at the end of each row.
    pub(crate) fn gradient_window(&self, row: usize, input: &Window) -> Window {
        Window { first: [row as isize, 0], step: [1, 1], phases: [1, 1], size: [self.rows, input.size[1]] }
    }

    /// Rows of the window at this output row that lie before and after the input, and those of the tile after the output.
    pub(crate) fn rows_outside(&self, row: usize, window: &Window) -> [usize; 3] {
        let (first, rows) = (window.first[0], (window.size[0] * window.step[0]) as isize);
        let after = first + rows - self.shape.input[1] as isize;
        [-first, after, (row + self.rows) as isize - self.output[1] as isize].map(|outside| outside.max(0) as usize)
    }

    /// Packed planes of the input of a step: those that it reads, from the first to the last, or transformed ones.
    pub(crate) fn slots(&self) -> usize {
        if self.transform.is_some() {
            return self.gradient_planes();
        }
        (self.planes - 1) * self.shape.stride[0] + (self.shape.kernel[0] - 1) * self.shape.dilation[0] + 1
    }

    /// Packed planes of the gradient of a step.
    pub(crate) fn gradient_planes(&self) -> usize {
        self.transform.as_ref().map_or(self.planes, |transform| self.planes / transform.group * PRODUCTS)
    }

    /// Planes of the input that a group of transformed planes has in common with the next one.
    pub(crate) fn carried(&self) -> usize {
        self.transform.as_ref().map_or(0, |transform| PRODUCTS - transform.group)
    }

    /// Sums of each element of a kernel's plane: one for each of its planes, or for each product.
    pub(crate) fn sums(&self) -> usize {
        if self.transform.is_some() { PRODUCTS } else { self.shape.kernel[0] }
    }

    /// Distance of the channels of a packed gradient plane.
    pub(crate) fn column_len(&self) -> usize {
        (self.rows * self.window(0).size[1]).next_multiple_of(COLUMN_ALIGNMENT)
    }

    /// The input plane that an element of the kernel reads for an output plane.
    pub(crate) fn input_depth(&self, depth: usize, kernel_depth: usize) -> Option<usize> {
        let shape = &self.shape;
        let depth = (depth * shape.stride[0] + kernel_depth * shape.dilation[0]).checked_sub(shape.padding[0][0])?;
        (depth < shape.input[0]).then_some(depth)
    }

    /// First input and first output channel, of all groups, and the channels of a block, numbered `[group][block out][block in]`,
    /// whose weight is `target`.
    pub(crate) fn block(&self, block: usize, target: &[&mut [f32]]) -> ([usize; 2], [usize; 2]) {
        let ((channels_in, channels_out), (blocks_in, blocks_out)) = (self.channels(), self.blocks());
        let (block_out, block_in) = (block / blocks_in % blocks_out, block % blocks_in);
        let group = block / blocks_in / blocks_out;
        let first = [group * channels_in + block_in * self.block_in, group * channels_out + block_out * self.block_out];
        (first, [target[0].len() / self.elements(), target.len()])
    }

    /// Blocks of the input channels and of the output channels of each group.
    pub(crate) fn blocks(&self) -> (usize, usize) {
        let (channels_in, channels_out) = self.channels();
        (channels_in.div_ceil(self.block_in), channels_out.div_ceil(self.block_out))
    }

    /// Number of marches.
    fn marches(&self) -> usize {
        self.tiles() * self.ranges
    }

    /// Number of tiles of rows, over the batch.
    fn tiles(&self) -> usize {
        self.shape.batch_size * self.output[1].div_ceil(self.rows)
    }

    /// The marches of a part, in order.
    pub(crate) fn marches_of(&self, part: usize) -> impl Iterator<Item = March> {
        let tiles = self.output[1].div_ceil(self.rows);
        let steps = self.output[0].div_ceil(self.planes);
        let depth = move |range: usize| (steps * range / self.ranges * self.planes).min(self.output[0]);
        let (first, last) = (self.marches() * part / self.parts, self.marches() * (part + 1) / self.parts);
        (first..last).map(move |march| {
            let range = march % self.ranges;
            March {
                item: march / self.ranges / tiles,
                row: march / self.ranges % tiles * self.rows,
                depths: depth(range)..depth(range + 1),
            }
        })
    }

    /// Marches are long enough that packing the planes between two of them twice does not matter. Where they are few, a
    /// few more keep two or four threads busy alike.
    fn ranges_of_depth(&self, most_parts: usize) -> usize {
        let fewest = self.output[0].div_ceil((4 * self.slots()).max(8));
        // Between two marches of transformed planes no more is packed twice than what a group carries to the next.
        let least = if self.transform.is_some() { self.planes } else { self.slots() };
        let most = (most_parts / self.tiles()).min(self.output[0] / least);
        let tasks = self.tiles() * self.tasks_of_part();
        let even = |ranges: &usize| (tasks * ranges).is_multiple_of(4) || tasks * ranges > 16;
        let pairs = |ranges: &usize| (tasks * ranges).is_multiple_of(2);
        let mut all = fewest..=most.max(fewest);
        all.clone().find(even).or_else(|| all.find(pairs)).unwrap_or(fewest)
    }

    /// As many parts as there is work for, and as the partial results may take.
    fn most_parts(&self) -> usize {
        let work = self.work(self.block_in, self.block_out);
        let weight = self.shape.weight_len();
        let most = (PARTIAL.max(2 * weight) / weight).min(TASKS.div_ceil(self.tasks_of_part()));
        let most = match self.lanes {
            Lanes::Positions | Lanes::Transformed => most,
            Lanes::Channels => most.min(self.all_positions() / CHANNEL_LANES_PART),
        };
        (work / TASK_WORK).clamp(1, most.max(1))
    }

    /// Blocks of all groups: tasks for each part of the positions.
    fn tasks_of_part(&self) -> usize {
        let (blocks_in, blocks_out) = self.blocks();
        blocks_in * blocks_out * self.shape.groups
    }

    /// Tasks: blocks times parts.
    pub(crate) fn tasks(&self) -> usize {
        self.parts * self.tasks_of_part()
    }

    /// Output positions of the whole batch.
    fn all_positions(&self) -> usize {
        self.shape.batch_size * self.output.iter().product::<usize>()
    }

    /// Multiply-adds of a block, over all positions.
    fn work(&self, block_in: usize, block_out: usize) -> usize {
        product(&[self.all_positions(), block_in, block_out, self.elements()])
    }
}

/// A convolution of kernel 1 without stride or padding sees a volume as rows of any length.
fn flattened(shape: &ConvShape) -> ConvShape {
    let pointwise = shape.kernel == [1; 3] && shape.stride == [1; 3] && shape.padding == [[0; 2]; 3];
    let [depth, height, width] = shape.input;
    let input = match pointwise {
        false => shape.input,
        true if height * width <= 2 * POSITIONS => [1, depth, height * width],
        true => [1, depth * height, width],
    };
    ConvShape { input, ..*shape }
}

/// The size of equal pieces of `len`, at most `most` each.
fn balanced(len: usize, most: usize) -> usize {
    len.div_ceil(len.div_ceil(most))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conv::reference::cube;

    #[test]
    fn each_plane_of_each_tile_is_in_one_march() {
        for (size, stride) in [([33, 47, 21], 1), ([16, 16, 16], 1), ([17, 90, 40], 2), ([5, 3, 2], 1)] {
            let shape = ConvShape { input: size, batch_size: 2, ..cube([16, 16], 1, 3, stride, 1) };
            for lanes in Lanes::all_of(&shape) {
                let plan = WeightPlan::new(&shape, lanes);
                let mut times = vec![0; 2 * plan.output[0] * plan.output[1]];
                for march in (0..plan.parts).flat_map(|part| plan.marches_of(part)) {
                    for depth in march.depths {
                        times[(march.item * plan.output[1] + march.row) * plan.output[0] + depth] += 1;
                    }
                }
                let once = |(at, times): (usize, &usize)| {
                    *times == usize::from((at / plan.output[0] % plan.output[1]).is_multiple_of(plan.rows))
                };
                assert!(times.iter().enumerate().all(once), "{plan:?}");
            }
        }
    }

    #[test]
    fn few_marches_are_as_many_as_keep_two_or_four_threads_busy_alike() {
        let shape = ConvShape { input: [33, 47, 21], ..cube([16, 16], 1, 3, 1, 1) };
        let plan = WeightPlan::new(&shape, Lanes::Positions);
        let depths: Vec<usize> =
            (0..plan.parts).map(|part| plan.marches_of(part).map(|march| march.depths.len()).sum()).collect();
        assert_eq!(depths, [8, 8, 8, 9]);
        for shape in [cube([32, 32], 16, 3, 1, 1), ConvShape { input: [8, 32, 32], ..cube([16, 16], 1, 3, 1, 1) }] {
            assert_eq!(WeightPlan::new(&shape, Lanes::Transformed).tasks(), 2, "{shape:?}");
        }
    }
}
