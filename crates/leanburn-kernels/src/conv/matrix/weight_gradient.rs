//! A task of the weight gradient in tiles: a block of the weight, over a part of the positions.
//!
//! For each element of the kernel, sixteen output channels times sixteen input channels, shifted by its place, over the
//! positions of a few planes of a tile of rows. The input is packed in pairs of positions that begin at an even one and, where an element
//! reads them, in those that begin at an odd one, so that what an element reads begins at a cache line.

use half::bf16;
use pulp::{Arch, Simd, WithSimd};

use crate::buffer::Lines;
use crate::conv::matrix::fill::{FillChannels, Plane, RowRoom};
use crate::conv::matrix::tiling::apart;
use crate::conv::operands::Input;
use crate::conv::packing::planes::{Source, Window};
use crate::conv::shape::ConvShape;
use crate::conv::tiles::transpose::transposed;
use crate::conv::weight_gradient::plan::{March, WeightPlan};
use crate::simd::{load_part, store_part};
use crate::size::product;
use crate::tile_products::{Operand, Pair, Product, ROWS, Steps, TERMS, Tiles, Unit};

/// Positions whose sums are added to the target at once, about: more in float32 would not be as exact.
const MOST_POSITIONS: usize = 8192;

/// Steps that are added up for all elements of the kernel before the next: their operands stay in the first-level cache.
const STEPS: usize = 8;

/// Fewest channels of either volume for which AMX pays.
const LEAST_CHANNELS: usize = 8;

/// Fewest input channels for which dot products pay.
const LEAST_INPUTS: usize = 32;

/// Fewest positions for which dot products pay, or pairs of channels where more than one element of the kernel has them, and columns of the output where rows
/// are strided: below, packing takes longer.
const LEAST_POSITIONS: usize = 1024;
const LEAST_PAIRS: usize = 128 * 128;
const LEAST_COLUMNS: usize = 9;

/// Floats of a tile of sums.
const TILE: usize = ROWS * ROWS;

/// Whether tiles are faster than float32. Depends on the shape only.
pub(crate) fn pays(unit: Unit, shape: &ConvShape) -> bool {
    let [inputs, outputs] = [shape.channels_in, shape.channels_out].map(|all| all / shape.groups);
    if unit == Unit::Amx {
        return inputs.min(outputs) >= LEAST_CHANNELS;
    }
    let (pairs, output) = (inputs * outputs, shape.output());
    let is_strided = shape.stride.iter().any(|stride| *stride > 1);
    let is_large = match is_strided {
        true => output[2] >= LEAST_COLUMNS,
        false => {
            (pairs >= LEAST_PAIRS && shape.kernel != [1; 3]) || output.iter().product::<usize>() >= LEAST_POSITIONS
        }
    };
    // Nine of ten products are wanted, or more.
    let computed = inputs.next_multiple_of(ROWS) * outputs.next_multiple_of(ROWS / 2);
    is_large && inputs >= LEAST_INPUTS && 10 * pairs >= 9 * computed
}

/// The working memory of a task, which the next task takes over.
///
/// Between two tasks all sums are zero, and so are the packed values outside of the volume, unless another block or march
/// begins.
#[derive(Debug)]
pub(crate) struct TileScratch {
    /// A packed input plane, `[channel][pair of positions]`.
    flat: Lines<f32>,
    /// Ring of packed input planes, `[slot][begin][pair of positions][channel]`: pairs that begin at even and at odd positions.
    planes: Lines<Pair>,
    /// The depth that each slot of the ring holds.
    held: Vec<Option<usize>>,
    /// Packed gradient planes, `[plane][channel][position]`.
    gradient: Lines<bf16>,
    /// `[element][16 output channels][16 input channels]`, each a tile.
    sums: Lines<f32>,
    /// Room for a row of the volume.
    room: RowRoom,
    /// What a step of the march adds up.
    steps: Steps,
    /// What is outside of the volume, and the channels of the block.
    layout: Option<([usize; 3], [usize; 2])>,
}

/// Lengths of the memory's parts, for a block of so many input and output channels.
struct Lens {
    /// Input channels, rounded up to tiles.
    inputs: usize,
    /// From one channel of the flat plane to the next.
    flat: usize,
    /// Pairs of a packed input plane that begin at even positions, and, if there are any, of those that begin at odd ones.
    pairs: usize,
    /// A slot of the ring.
    slot: usize,
    planes: usize,
    /// From one channel of the packed gradient to the next.
    column: usize,
    /// A packed gradient plane.
    plane: usize,
    /// Steps of a plane.
    steps: usize,
    sums: usize,
    room: usize,
}

impl Lens {
    fn of(plan: &WeightPlan, channels: [usize; 2]) -> Self {
        let [inputs, outputs] = channels.map(|channels| channels.next_multiple_of(ROWS));
        let window = plan.window(0);
        let positions = (plan.rows * window.size[1]).next_multiple_of(TERMS);
        let [_, height, width] = plan.shape.kernel;
        let [_, row_step, column_step] = plan.shape.dilation;
        let offsets = (0..height)
            .flat_map(|row| (0..width).map(move |column| (row, column)))
            .map(|(row, column)| window.offset(row * row_step, column * column_step));
        let furthest = offsets.clone().max().unwrap_or(0);
        let begins = if offsets.clone().any(|offset| offset % 2 == 1) { 2 } else { 1 };
        let pairs = (furthest + positions).max(window.channel_len()).div_ceil(2).next_multiple_of(ROWS);
        let slot = product(&[begins, pairs, inputs]);
        let column = 2 * apart(positions / 2);
        Self {
            inputs,
            flat: apart(pairs),
            pairs,
            slot,
            planes: product(&[plan.slots(), slot]),
            column,
            plane: outputs * column,
            steps: positions / TERMS,
            sums: product(&[plan.elements(), inputs, outputs]),
            room: plan.shape.input[2].max(plan.output[2]),
        }
    }
}

impl TileScratch {
    /// Room for any block, and nothing in it.
    pub(crate) fn new(plan: &WeightPlan) -> Self {
        let lens = Lens::of(plan, [plan.block_in, plan.block_out]);
        Self {
            flat: Lines::new(plan.block_in * lens.flat),
            planes: Lines::new(lens.planes),
            held: vec![None; plan.slots()],
            gradient: Lines::new(plan.planes * lens.plane),
            sums: Lines::new(lens.sums),
            room: RowRoom::new(lens.room),
            steps: Steps::with_capacity(plan.planes * lens.steps),
            layout: None,
        }
    }

    /// Bytes that it takes.
    pub(crate) fn bytes(plan: &WeightPlan) -> usize {
        let lens = Lens::of(plan, [plan.block_in, plan.block_out]);
        Lines::<f32>::bytes(plan.block_in * lens.flat)
            + Lines::<Pair>::bytes(lens.planes)
            + Lines::<bf16>::bytes(plan.planes * lens.plane)
            + Lines::<f32>::bytes(lens.sums)
            + plan.slots() * size_of::<Option<usize>>()
            + RowRoom::bytes(lens.room)
            + plan.planes * lens.steps * size_of::<[usize; 2]>()
    }
}

/// The task and its workspace.
#[derive(Debug)]
pub(crate) struct TileTask<'a> {
    unit: Unit,
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
        (unit, arch): (Unit, Arch),
        plan: &'a WeightPlan,
        block: usize,
        target: Vec<&'a mut [f32]>,
        scratch: TileScratch,
    ) -> Self {
        let (first, channels) = plan.block(block, &target);
        Self { unit, arch, plan, first, channels, scratch, target }
    }

    /// Writes the sums over a part of the positions, of which there is at least one march, to the target; returns the
    /// scratch.
    pub(crate) fn run(mut self, input: Input<'_, bf16>, gradient: Input<'_, bf16>, part: usize) -> TileScratch {
        let (plan, shape) = (self.plan, &self.plan.shape);
        let input = Source { input, channels: shape.channels_in, size: shape.input };
        let gradient = Source { input: gradient, channels: shape.channels_out, size: plan.output };
        let (lens, tiles) = (Lens::of(plan, self.channels), Tiles::new(self.unit));
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
            scratch.flat.fill(0.0);
            scratch.gradient.fill(bf16::ZERO);
        }
    }

    /// Packs the input planes that this step reads and that the ring does not hold yet.
    fn pack_input(&mut self, lens: &Lens, source: &Source<'_, bf16>, window: &Window, step: &March) {
        let ([first, _], [inputs, _]) = (self.first, self.channels);
        let TileScratch { flat, planes, held, room, .. } = &mut self.scratch;
        let flat = &mut flat[..inputs * lens.flat];
        for kernel_depth in 0..self.plan.shape.kernel[0] {
            for depth in step.depths.clone() {
                let Some(depth) = self.plan.input_depth(depth, kernel_depth) else { continue };
                let slot = depth % held.len();
                if held[slot].replace(depth) != Some(depth) {
                    let channels = first..first + inputs;
                    let plane = Plane { source, window, item: step.item, channels, depth, stride: 2 * lens.flat, room };
                    self.arch.dispatch(FillChannels { plane, target: as_halves(flat) });
                    let target = planes[slot * lens.slot..][..lens.slot].split_at_mut(lens.pairs * lens.inputs);
                    self.arch.dispatch(Transpose { flat, stride: lens.flat, channels: inputs, target });
                }
            }
        }
    }

    /// Packs the gradient's planes of this step; what lies between two rows stays zero.
    fn pack_gradient(&mut self, lens: &Lens, source: &Source<'_, bf16>, window: &Window, step: &March) {
        let window = &self.plan.gradient_window(step.row, window);
        let TileScratch { gradient, room, .. } = &mut self.scratch;
        for (depth, target) in step.depths.clone().zip(gradient.chunks_exact_mut(lens.plane)) {
            let channels = self.first[1]..self.first[1] + self.channels[1];
            let plane = Plane { source, window, item: step.item, channels, depth, stride: lens.column, room };
            self.arch.dispatch(FillChannels { plane, target });
        }
    }

    /// Adds the products of this step's planes for one depth of the kernel to the sums.
    fn add(&mut self, lens: &Lens, tiles: &Tiles, window: &Window, step: &March, kernel_depth: usize) {
        let (plan, [inputs, outputs]) = (self.plan, self.channels);
        let [_, height, width] = plan.shape.kernel;
        let TileScratch { planes, held, gradient, sums, steps, .. } = &mut self.scratch;
        steps.clear();
        for (index, depth) in step.depths.clone().enumerate() {
            let Some(slot) = plan.input_depth(depth, kernel_depth).map(|depth| depth % held.len()) else { continue };
            for at in 0..lens.steps {
                steps.push(index * lens.plane + at * TERMS, slot * lens.slot + at * ROWS * lens.inputs);
            }
        }
        let count = |channels: usize, first: usize| (channels - first).min(2 * ROWS);
        let [_, row_step, column_step] = plan.shape.dilation;
        let tiles_in = lens.inputs / ROWS;
        for of in steps.pieces(STEPS) {
            for input in (0..inputs).step_by(2 * ROWS) {
                for output in (0..outputs).step_by(2 * ROWS) {
                    for (row, column) in (0..height).flat_map(|row| (0..width).map(move |column| (row, column))) {
                        let element = (kernel_depth * height + row) * width + column;
                        let tile = (element * outputs.div_ceil(ROWS) + output / ROWS) * tiles_in + input / ROWS;
                        let offset = window.offset(row * row_step, column * column_step);
                        let place = (offset % 2 * lens.pairs + offset / 2) * lens.inputs + input;
                        tiles.multiply(Product {
                            a: Operand {
                                values: &gradient[output * lens.column..],
                                stride: lens.column,
                                count: count(outputs, output),
                                next: ROWS * lens.column,
                            },
                            b: Operand {
                                values: &planes[place..],
                                stride: lens.inputs,
                                count: count(inputs, input),
                                next: ROWS,
                            },
                            steps,
                            of: of.clone(),
                            terms: TERMS,
                            sums: &mut sums[tile * TILE..],
                            stride: ROWS,
                            right: TILE,
                            below: tiles_in * TILE,
                            add: true,
                        });
                    }
                }
            }
        }
    }

    /// Adds the sums to the target, or overwrites it; they are zero afterwards.
    fn add_up(&mut self, overwrite: bool) {
        let [inputs, outputs] = self.channels;
        let (elements, tiles_in) = (self.plan.elements(), inputs.div_ceil(ROWS));
        let sums = &mut self.scratch.sums[..];
        for (output, target) in self.target.iter_mut().enumerate() {
            for input in (0..inputs).step_by(ROWS) {
                let tile = output / ROWS * tiles_in + input / ROWS;
                self.arch.dispatch(AddUp {
                    sums: &sums[tile * TILE + output % ROWS * ROWS..],
                    stride: outputs.div_ceil(ROWS) * tiles_in * TILE,
                    elements,
                    target: &mut target[input * elements..(input + ROWS).min(inputs) * elements],
                    overwrite,
                });
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

/// Writes pairs of positions of each channel, `[channel][pair]`, to `[pair][channel]`: those that begin at even positions, as they are read,
/// and those that begin at odd ones, unless there is no room for them.
struct Transpose<'a> {
    flat: &'a [f32],
    /// From one channel to the next.
    stride: usize,
    channels: usize,
    target: (&'a mut [Pair], &'a mut [Pair]),
}

impl WithSimd for Transpose<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let columns = self.channels.next_multiple_of(ROWS);
        let (even, odd) = self.target;
        let blocks = even.len() / (ROWS * columns);
        for at in 0..blocks {
            for first in (0..self.channels).step_by(ROWS) {
                let rows = (self.channels - first).min(ROWS);
                let flat = &self.flat[first * self.stride + at * ROWS..];
                let block = transposed(simd, flat, self.stride, [rows, ROWS]);
                for (target, pairs) in even[at * ROWS * columns..].chunks_exact_mut(columns).zip(&block) {
                    // As many as a row of a block has, so that it is one vector.
                    target[first..][..ROWS].iter_mut().zip(pairs).for_each(|(target, pair)| *target = pair.to_bits());
                }
            }
            if odd.is_empty() {
                continue;
            }
            // Those whose second position is in this block.
            let (start, end) = ((at * ROWS).saturating_sub(1) * columns, (at * ROWS + ROWS - 1) * columns);
            let pairs = even[start..end].iter().zip(&even[start + columns..end + columns]);
            odd[start..end].iter_mut().zip(pairs).for_each(|(odd, (pair, next))| *odd = pair >> 16 | next << 16);
        }
        let last = even.len() - columns;
        odd.iter_mut().skip(last).zip(&even[last..]).for_each(|(odd, pair)| *odd = pair >> 16);
    }
}

/// Adds the sums of some input channels, up to sixteen, to what one output channel has of the weight, or overwrites that.
struct AddUp<'a> {
    /// `[element][input channel]`.
    sums: &'a [f32],
    /// From one element to the next.
    stride: usize,
    elements: usize,
    /// `[input channel][element]`.
    target: &'a mut [f32],
    overwrite: bool,
}

impl WithSimd for AddUp<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { sums, stride, elements, target, overwrite } = self;
        for first in (0..elements).step_by(ROWS) {
            let (rows, channels) = (ROWS.min(elements - first), target.len() / elements);
            let block = transposed(simd, &sums[first * stride..], stride, [rows, channels]);
            for (target, sums) in target.chunks_exact_mut(elements).zip(&block) {
                let target = target[first..][..rows].chunks_mut(S::F32_LANES);
                for (target, sums) in target.zip(sums[..rows].chunks(S::F32_LANES)) {
                    let sum = load_part(simd, sums);
                    let sum = if overwrite { sum } else { simd.add_f32s(load_part(simd, target), sum) };
                    store_part(simd, target, sum);
                }
            }
        }
    }
}
