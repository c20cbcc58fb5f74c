//! A task of the weight gradient in tiles: a block of the weight, over a part of the positions.
//!
//! For each element of the kernel, sixteen input channels, shifted by its place, times sixteen output channels, over the
//! positions of a few planes of a tile of rows.

use half::bf16;
use pulp::{Arch, Simd, WithSimd};

use crate::amx::{Operand, Pair, Product, ROWS, Steps, TERMS, Tiles};
use crate::conv::matrix::fill::{FillChannels, Plane};
use crate::conv::matrix::tiling::apart;
use crate::conv::operands::Input;
use crate::conv::packing::planes::{Source, Window};
use crate::conv::shape::ConvShape;
use crate::conv::tiles::transpose::transposed;
use crate::conv::weight_gradient::plan::{March, WeightPlan};

/// Positions whose sums are added to the target at once, about: more in float32 would not be as exact.
const MOST_POSITIONS: usize = 8192;

/// Steps that are added up for all elements of the kernel before the next: their operands stay in the first-level cache.
const STEPS: usize = 8;

/// Fewest channels of either volume for which tiles pay.
const LEAST_CHANNELS: usize = 8;

/// Floats of a tile of sums.
const TILE: usize = ROWS * ROWS;

/// Whether tiles are faster than float32. Depends on the shape only.
pub(crate) fn pays(shape: &ConvShape) -> bool {
    let channels = [shape.channels_in, shape.channels_out].map(|all| all / shape.groups);
    channels.into_iter().all(|channels| channels >= LEAST_CHANNELS)
}

/// The working memory of a task, which the next task takes over.
///
/// Between two tasks all sums are zero, and so are the packed values outside of the volume, unless another block or march
/// begins.
#[derive(Debug)]
pub(crate) struct TileScratch {
    /// Ring of packed input planes, `[slot][channel][..]`.
    planes: Vec<bf16>,
    /// The depth that each slot of the ring holds.
    held: Vec<Option<usize>>,
    /// A packed gradient plane, `[channel][pair of positions]`.
    flat: Vec<f32>,
    /// Packed gradient planes, `[plane][pair of positions][channel]`.
    gradient: Vec<Pair>,
    /// `[element][16 input channels][16 output channels]`, each a tile.
    sums: Vec<f32>,
    /// Room for a row of the volume.
    room: Vec<f32>,
    /// What a step of the march adds up.
    steps: Steps,
    /// What is outside of the volume, and the channels of the block.
    layout: Option<([usize; 3], [usize; 2])>,
}

/// Lengths of the memory's parts, for a block of so many input and output channels.
struct Lens {
    channel: usize,
    slot: usize,
    planes: usize,
    column: usize,
    plane: usize,
    sums: usize,
    room: usize,
}

impl Lens {
    fn of(plan: &WeightPlan, channels: [usize; 2]) -> Self {
        let [inputs, outputs] = channels.map(|channels| channels.next_multiple_of(ROWS));
        let channel = 2 * apart(plan.window(0).channel_len().div_ceil(2));
        let pairs = (plan.rows * plan.window(0).size[1]).next_multiple_of(TERMS) / 2;
        let slot = inputs * channel;
        Self {
            channel,
            slot,
            planes: plan.slots() * slot + 2 * TERMS,
            column: apart(pairs),
            plane: pairs * outputs,
            sums: plan.elements() * inputs * outputs,
            room: plan.shape.input[2].max(plan.output[2]),
        }
    }

    /// Steps of a plane.
    fn steps(&self, outputs: usize) -> usize {
        self.plane / (outputs.next_multiple_of(ROWS) * ROWS)
    }
}

impl TileScratch {
    /// Room for any block, and nothing in it.
    pub(crate) fn new(plan: &WeightPlan) -> Self {
        let lens = Lens::of(plan, [plan.block_in, plan.block_out]);
        Self {
            planes: vec![bf16::ZERO; lens.planes],
            held: vec![None; plan.slots()],
            flat: vec![0.0; plan.block_out * lens.column],
            gradient: vec![0; plan.planes * lens.plane],
            sums: vec![0.0; lens.sums],
            room: vec![0.0; lens.room],
            steps: Steps::with_capacity(plan.planes * lens.steps(plan.block_out)),
            layout: None,
        }
    }

    /// Bytes that it takes.
    pub(crate) fn bytes(plan: &WeightPlan) -> usize {
        let lens = Lens::of(plan, [plan.block_in, plan.block_out]);
        let lists = plan.planes * lens.steps(plan.block_out) * size_of::<[usize; 2]>();
        lens.planes * size_of::<bf16>()
            + (plan.block_out * lens.column + lens.sums + lens.room) * size_of::<f32>()
            + plan.planes * lens.plane * size_of::<Pair>()
            + plan.slots() * size_of::<Option<usize>>()
            + lists
    }
}

/// The task and its workspace.
#[derive(Debug)]
pub(crate) struct TileTask<'a> {
    arch: Arch,
    plan: &'a WeightPlan,
    /// First input channel and first output channel, of all groups.
    first: [usize; 2],
    /// Input channels and output channels.
    channels: [usize; 2],
    scratch: TileScratch,
    /// The block of the weight, `[channel out]`, each `[channel in][kernel..]`.
    target: Vec<&'a mut [f32]>,
}

impl<'a> TileTask<'a> {
    /// The task of a block, numbered `[group][block out][block in]`, that overwrites `target`, in the scratch of another.
    pub(crate) fn new(
        arch: Arch,
        plan: &'a WeightPlan,
        block: usize,
        target: Vec<&'a mut [f32]>,
        scratch: TileScratch,
    ) -> Self {
        let (first, channels) = plan.block(block, &target);
        Self { arch, plan, first, channels, scratch, target }
    }

    /// Writes the sums over a part of the positions, of which there is at least one march, to the target; returns the
    /// scratch.
    pub(crate) fn run(mut self, input: Input<'_, bf16>, gradient: Input<'_, bf16>, part: usize) -> TileScratch {
        let (plan, shape) = (self.plan, &self.plan.shape);
        let input = Source { input, channels: shape.channels_in, size: shape.input };
        let gradient = Source { input: gradient, channels: shape.channels_out, size: plan.output };
        let (lens, tiles) = (Lens::of(plan, self.channels), Tiles::new());
        // Positions whose sums are not yet added to the target, which the first overwrite.
        let (mut positions, mut overwrite) = (0, true);
        for march in plan.marches_of(part) {
            let window = plan.window(march.row);
            self.begin_march(plan.rows_outside(march.row, &window));
            for start in march.depths.clone().step_by(plan.planes) {
                let step = March { depths: start..march.depths.end.min(start + plan.planes), ..march };
                self.pack_input(&lens, &input, &window, &step);
                self.pack_gradient(&lens, &gradient, &window, &step);
                for kernel_depth in 0..shape.kernel[0] {
                    self.add(&lens, &tiles, &window, &step, kernel_depth);
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

    /// Forgets the planes, and clears them unless the same rows as before are outside of the volume, in a block of the same size.
    fn begin_march(&mut self, outside: [usize; 3]) {
        let scratch = &mut self.scratch;
        scratch.held.fill(None);
        let layout = (outside, self.channels);
        if scratch.layout.replace(layout).is_some_and(|before| before != layout) {
            scratch.planes.fill(bf16::ZERO);
            scratch.flat.fill(0.0);
            scratch.gradient.fill(0);
        }
    }

    /// Packs the input planes that this step reads and that the ring does not hold yet.
    fn pack_input(&mut self, lens: &Lens, source: &Source<'_, bf16>, window: &Window, step: &March) {
        for kernel_depth in 0..self.plan.shape.kernel[0] {
            for depth in step.depths.clone() {
                let Some(depth) = self.plan.input_depth(depth, kernel_depth) else { continue };
                let slot = depth % self.scratch.held.len();
                if self.scratch.held[slot].replace(depth) != Some(depth) {
                    let plane = Plane {
                        source,
                        window,
                        item: step.item,
                        channels: self.first[0]..self.first[0] + self.channels[0],
                        depth,
                        stride: lens.channel,
                        room: &mut self.scratch.room,
                    };
                    let target = &mut self.scratch.planes[slot * lens.slot..][..lens.slot];
                    self.arch.dispatch(FillChannels { plane, target });
                }
            }
        }
    }

    /// Packs the gradient's planes of this step; what lies between two rows stays zero.
    fn pack_gradient(&mut self, lens: &Lens, source: &Source<'_, bf16>, window: &Window, step: &March) {
        let window = &self.plan.gradient_window(step.row, window);
        let TileScratch { flat, gradient, room, .. } = &mut self.scratch;
        let outputs = self.channels[1];
        for (depth, target) in step.depths.clone().zip(gradient.chunks_exact_mut(lens.plane)) {
            let channels = self.first[1]..self.first[1] + outputs;
            let plane = Plane { source, window, item: step.item, channels, depth, stride: 2 * lens.column, room };
            self.arch.dispatch(FillChannels { plane, target: as_halves(&mut flat[..outputs * lens.column]) });
            self.arch.dispatch(Transpose { flat, stride: lens.column, channels: outputs, target });
        }
    }

    /// Adds the products of this step's planes for one depth of the kernel to the sums.
    fn add(&mut self, lens: &Lens, tiles: &Tiles, window: &Window, step: &March, kernel_depth: usize) {
        let (plan, [inputs, outputs]) = (self.plan, self.channels);
        let [_, height, width] = plan.shape.kernel;
        let columns = outputs.next_multiple_of(ROWS);
        let TileScratch { planes, held, gradient, sums, steps, .. } = &mut self.scratch;
        steps.clear();
        for (index, depth) in step.depths.clone().enumerate() {
            let Some(slot) = plan.input_depth(depth, kernel_depth).map(|depth| depth % held.len()) else { continue };
            for at in 0..lens.steps(outputs) {
                steps.push(slot * lens.slot + at * TERMS, index * lens.plane + at * ROWS * columns);
            }
        }
        let tiles_of = |channels: usize, first: usize| (channels - first).div_ceil(ROWS).min(2);
        let [_, row_step, column_step] = plan.shape.dilation;
        for of in steps.pieces(STEPS) {
            for output in (0..outputs).step_by(2 * ROWS) {
                for input in (0..inputs).step_by(2 * ROWS) {
                    for (row, column) in (0..height).flat_map(|row| (0..width).map(move |column| (row, column))) {
                        let element = (kernel_depth * height + row) * width + column;
                        let tile = element * inputs.div_ceil(ROWS) * (columns / ROWS)
                            + input / ROWS * (columns / ROWS)
                            + output / ROWS;
                        let place = input * lens.channel + window.offset(row * row_step, column * column_step);
                        tiles.multiply(Product {
                            a: Operand {
                                values: &planes[place..],
                                stride: lens.channel,
                                tiles: tiles_of(inputs, input),
                                next: ROWS * lens.channel,
                            },
                            b: Operand {
                                values: &gradient[output..],
                                stride: columns,
                                tiles: tiles_of(outputs, output),
                                next: ROWS,
                            },
                            steps,
                            of: of.clone(),
                            sums: &mut sums[tile * TILE..],
                            stride: ROWS,
                            right: TILE,
                            below: columns / ROWS * TILE,
                            add: true,
                        });
                    }
                }
            }
        }
    }

    /// Adds the sums to the target, or overwrites it; they are zero afterwards.
    fn add_up(&mut self, overwrite: bool) {
        let (elements, inputs, columns) = (self.plan.elements(), self.channels[0], self.channels[1].div_ceil(ROWS));
        let sums = &mut self.scratch.sums[..];
        for (output, target) in self.target.iter_mut().enumerate() {
            for (input, target) in target.chunks_exact_mut(elements).enumerate() {
                let place = input % ROWS * ROWS + output % ROWS;
                let first = (input / ROWS * columns + output / ROWS) * TILE + place;
                let sums = sums[first..].iter().step_by(inputs.div_ceil(ROWS) * columns * TILE);
                for (target, sum) in target.iter_mut().zip(sums) {
                    *target = if overwrite { *sum } else { *target + *sum };
                }
            }
        }
        sums.fill(0.0);
    }
}

/// The same memory as pairs of bfloat16 values.
fn as_halves(values: &mut [f32]) -> &mut [bf16] {
    let len = 2 * values.len();
    // SAFETY: both are plain values of any bit pattern, and the alignment of bfloat16 is smaller.
    unsafe { std::slice::from_raw_parts_mut(values.as_mut_ptr().cast(), len) }
}

/// Writes pairs of positions of each channel, `[channel][pair]`, to `[pair][channel]`.
struct Transpose<'a> {
    flat: &'a [f32],
    /// From one channel to the next.
    stride: usize,
    channels: usize,
    target: &'a mut [Pair],
}

impl WithSimd for Transpose<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let columns = self.channels.next_multiple_of(ROWS);
        for (at, target) in self.target.chunks_exact_mut(ROWS * columns).enumerate() {
            for first in (0..self.channels).step_by(ROWS) {
                let rows = (self.channels - first).min(ROWS);
                let flat = &self.flat[first * self.stride + at * ROWS..];
                let block = transposed(simd, flat, self.stride, [rows, ROWS]);
                for (target, pairs) in target.chunks_exact_mut(columns).zip(&block) {
                    let target = target[first..].iter_mut();
                    target.zip(pairs).for_each(|(target, pair)| *target = pair.to_bits());
                }
            }
        }
    }
}
