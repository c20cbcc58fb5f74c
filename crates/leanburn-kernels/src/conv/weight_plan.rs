//! How the weight gradient is cut into tasks; from the shape alone, so that the result does not depend on the machine.

use std::ops::Range;

use super::{ConvShape, pack::Window};

/// Positions of a dot product, about: as many as keep a tile's rows and columns in the first-level cache.
const POSITIONS: usize = 1024;
/// The same where each value is used by few elements of the kernel, and more channels are packed instead.
const FEW_POSITIONS: usize = 512;
/// Packed values of a task, about (768 KiB).
const PACKED: usize = 192 * 1024;
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
/// Positions without strides from which on dot products are as fast, or faster.
const MANY_POSITIONS: usize = 16 * 1024;
/// Input channels, without a kernel that uses each more than once, from which on transposing the gradient pays.
const MANY_CHANNELS: usize = 96;

/// What the lanes of a vector hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lanes {
    /// Positions: a sum is a dot product, of [`DotProducts`](super::dot_products::DotProducts).
    Positions,
    /// Output channels: sums are those of [`OuterProducts`](super::outer_products::OuterProducts).
    Channels,
}

impl Lanes {
    /// Channels, where they fill vectors, and where dot products would be short or of strided rows.
    pub(crate) fn of(shape: &ConvShape) -> Self {
        let [channels_in, channels_out] = [shape.channels_in, shape.channels_out].map(|all| all / shape.groups);
        let vectors = channels_out.div_ceil(COLUMN_ALIGNMENT);
        let empty = vectors * COLUMN_ALIGNMENT - channels_out;
        let positions = shape.batch_size * shape.output().iter().product::<usize>();
        let channels = if shape.stride.iter().product::<usize>() > 1 {
            empty <= vectors * COLUMN_ALIGNMENT / 4
        } else {
            let reused = shape.kernel != [1; 3] || channels_in >= MANY_CHANNELS;
            reused && positions < MANY_POSITIONS && vectors > 1 && empty <= vectors * COLUMN_ALIGNMENT / 8
        };
        if channels { Self::Channels } else { Self::Positions }
    }
}

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
    /// Output rows of a tile.
    pub rows: usize,
    /// Output planes that are packed, and added up in registers, at a time.
    pub planes: usize,
    /// Output planes of a march.
    depths: usize,
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
        let shape = flattened(shape);
        let output = shape.output();
        let mut plan =
            Self { shape, output, lanes, rows: 1, planes: 1, depths: output[0], block_in: 1, block_out: 1, parts: 1 };
        match lanes {
            Lanes::Positions => plan.cut_for_positions(),
            Lanes::Channels => plan.cut_for_channels(),
        }
        // Marches are long enough that packing the planes between two of them twice does not matter.
        plan.depths = balanced(output[0], (4 * plan.slots()).max(8)).next_multiple_of(plan.planes);
        plan.parts = plan.parts_of_positions();
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
        self.block_in = balanced(channels_in, self.most_in());
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

    /// Output positions of a step, at most.
    pub(crate) fn positions(&self) -> usize {
        self.planes * self.rows * self.output[2]
    }

    /// How often each value of the input is used for one output channel: what pays for packing it.
    fn uses(&self) -> usize {
        self.elements() / self.shape.stride.iter().product::<usize>()
    }

    /// As many input channels in a block as the packed values and the partial sums may take.
    fn most_in(&self) -> usize {
        let left = PACKED.saturating_sub(self.block_out * self.planes * self.column_len());
        let packed = left / (self.slots() * self.window(0).channel_len());
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

    /// Input planes that a step reads, from the first to the last.
    pub(crate) fn slots(&self) -> usize {
        (self.planes - 1) * self.shape.stride[0] + (self.shape.kernel[0] - 1) * self.shape.dilation[0] + 1
    }

    /// Distance of the channels of a packed gradient plane.
    pub(crate) fn column_len(&self) -> usize {
        (self.rows * self.window(0).size[1]).next_multiple_of(COLUMN_ALIGNMENT)
    }

    /// Blocks of the input channels and of the output channels of each group.
    pub(crate) fn blocks(&self) -> (usize, usize) {
        let (channels_in, channels_out) = self.channels();
        (channels_in.div_ceil(self.block_in), channels_out.div_ceil(self.block_out))
    }

    /// Number of marches.
    fn marches(&self) -> usize {
        self.shape.batch_size * self.output[1].div_ceil(self.rows) * self.output[0].div_ceil(self.depths)
    }

    /// The marches of a part, in order.
    pub(crate) fn marches_of(&self, part: usize) -> impl Iterator<Item = March> {
        let tiles = self.output[1].div_ceil(self.rows);
        let ranges = self.output[0].div_ceil(self.depths);
        let (first, last) = (self.marches() * part / self.parts, self.marches() * (part + 1) / self.parts);
        (first..last).map(move |march| {
            let depth = march % ranges * self.depths;
            March {
                item: march / ranges / tiles,
                row: march / ranges % tiles * self.rows,
                depths: depth..(depth + self.depths).min(self.output[0]),
            }
        })
    }

    /// As many parts as there is work for, as the partial results may take, and as there are marches.
    fn parts_of_positions(&self) -> usize {
        let (blocks_in, blocks_out) = self.blocks();
        let work = self.work(self.block_in, self.block_out);
        let weight = self.shape.weight_len();
        let most = (PARTIAL.max(2 * weight) / weight).min(TASKS.div_ceil(blocks_in * blocks_out * self.shape.groups));
        let most = match self.lanes {
            Lanes::Positions => most,
            Lanes::Channels => most.min(self.all_positions() / CHANNEL_LANES_PART),
        };
        (work / TASK_WORK).clamp(1, most.max(1)).min(self.marches())
    }

    /// Output positions of the whole batch.
    fn all_positions(&self) -> usize {
        self.shape.batch_size * self.output.iter().product::<usize>()
    }

    /// Multiply-adds of a block, over all positions.
    fn work(&self, block_in: usize, block_out: usize) -> usize {
        self.all_positions() * block_in * block_out * self.elements()
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
