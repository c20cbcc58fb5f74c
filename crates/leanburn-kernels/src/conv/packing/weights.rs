//! Weights in the order in which the register tiles read them.

use std::ops::Range;

use pulp::{Arch, Simd, WithSimd};

use crate::buffer::Lines;
use crate::conv::gather::axis::Axis;
use crate::conv::gather::problem::WeightStrides;
use crate::conv::tiles::tap_sums::{Block, LANES};
use crate::conv::tiles::transpose::transposed;
use crate::parallel::{for_each, threads};
use crate::simd::{load_part, store_part_to};

/// Weights that lie together and are packed by one job, about.
const RUN: usize = 2048;

/// What the weights are packed for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WeightOrder<'a> {
    /// Groups.
    pub groups: usize,
    /// Input channels of each.
    pub channels_in: usize,
    /// Axes of the gather that the weights are for.
    pub axes: &'a [Axis; 3],
    /// Where the weights are.
    pub strides: WeightStrides,
    /// How elements along the depth are made, if they are not those of the kernel.
    pub transform: Option<DepthSums<'a>>,
}

/// Elements along the depth that are sums of a kernel's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DepthSums<'a> {
    /// Each as elements of the kernel and their factors.
    pub elements: &'a [Vec<(usize, f64)>],
    /// Elements of the kernel along the depth.
    pub kernel: usize,
}

impl<'a> WeightOrder<'a> {
    /// How elements along the depth are made.
    fn transform(&self) -> Option<Transform<'a>> {
        let len = self.axes[1].kernel * self.axes[2].kernel;
        self.transform.map(|depth| Transform { depth, len })
    }

    /// Elements of the kernel, before they are transformed.
    fn kernel(&self) -> usize {
        let computed = || self.axes.iter().map(|axis| axis.kernel).product();
        self.transform().map_or_else(computed, |transform| transform.kernel())
    }

    /// Input channels that are packed by one job.
    fn together(&self) -> usize {
        let kernel = self.kernel();
        // Weights that lie together: of one input channel, or of all. Of a kernel of one they are copied as they lie.
        let run = if self.strides.input == kernel || kernel == 1 { self.channels_in } else { 1 };
        if run > 1 { (RUN / kernel).clamp(1, run) } else { 1 }
    }
}

/// Weights of a gather, `[phase of the output][group][block][input channel][element][channel of the block]`.
///
/// # Memory
///
/// One copy of the weight, plus the channels that blocks are wider than the channels they hold.
#[derive(Debug)]
pub(crate) struct PackedWeights {
    values: Lines<f32>,
    /// Length of the values.
    len: usize,
    /// Start of each phase, and the elements of the kernel that it has.
    phases: Vec<(usize, usize)>,
    blocks: Vec<Block>,
    channels_in: usize,
    /// Output channels of a group, with those that blocks are wider than the channels they hold.
    channels_computed: usize,
}

impl PackedWeights {
    /// Packs `weight` for `groups` of `channels_in` channels each to `blocks` of output channels.
    pub(crate) fn new(arch: Arch, blocks: Vec<Block>, weight: &[f32], order: &WeightOrder<'_>) -> Self {
        let mut packed = Self::unfilled(blocks, order);
        let Self { phases, blocks, channels_computed, len, .. } = &packed;
        let WeightOrder { groups, channels_in, axes, strides, .. } = *order;
        let mut places = vec![Place::default(); axes.iter().map(|axis| axis.kernel).product()];
        for (elements, (start, _)) in elements(axes).iter().zip(phases) {
            for (index, element) in elements.iter().enumerate() {
                places[*element] = Place { start: *start, elements: elements.len(), index };
            }
        }
        let (kernel, together, transform) = (order.kernel(), order.together(), order.transform());
        let parts = channels_in.div_ceil(together);
        let group_len = weight.len() / groups;
        let pack = |target: Target, job: usize| {
            let (part, job) = (job % parts, job / parts);
            let (block, group) = (&blocks[job % blocks.len()], job / blocks.len());
            let inputs = part * together..((part + 1) * together).min(channels_in);
            let weight = &weight[group * group_len..][..group_len];
            let first = group * channels_computed + block.first;
            let places = &places[..];
            let block =
                PackBlock { weight, kernel, strides, places, block, first, channels_in, inputs, transform, target };
            arch.dispatch(block);
        };
        let (jobs, each) = packed.jobs(order);
        let runs = (0..jobs).step_by(each).map(|first| first..(first + each).min(jobs)).collect();
        // SAFETY: a phase has room for the elements that belong to it, which the jobs write.
        let values = unsafe {
            Lines::filled(*len, |room| {
                let target = Target { values: room.as_mut_ptr().cast(), len: room.len() };
                for_each(runs, *len, |run: Range<usize>| run.for_each(|job| pack(target, job)));
            })
        };
        packed.values = values;
        packed
    }

    /// How [`Self::new`] lays the weights out, without them.
    pub(crate) fn unfilled(blocks: Vec<Block>, order: &WeightOrder<'_>) -> Self {
        let channels_computed: usize = blocks.iter().map(|block| block.width).sum();
        let elements = elements(order.axes);
        let (mut phases, mut len) = (Vec::with_capacity(elements.len()), 0);
        for elements in &elements {
            phases.push((len, elements.len()));
            len += order.groups * channels_computed * order.channels_in * elements.len();
        }
        Self { values: Lines::new(0), len, phases, blocks, channels_in: order.channels_in, channels_computed }
    }

    /// Bytes of the weights, and of the temporaries of packing them.
    pub(crate) fn bytes(&self, order: &WeightOrder<'_>) -> [usize; 2] {
        let (jobs, each) = self.jobs(order);
        let room = order.transform().map_or(0, |_| order.together() * order.kernel() * size_of::<[f32; LANES]>());
        [Lines::<f32>::bytes(self.len), threads(jobs.div_ceil(each), self.len) * room]
    }

    /// Jobs of packing, and how many of them are a task.
    fn jobs(&self, order: &WeightOrder<'_>) -> (usize, usize) {
        let parts = order.channels_in.div_ceil(order.together());
        let empty = order.strides.output == 0 || self.len == 0;
        let jobs = if empty { 0 } else { order.groups * self.blocks.len() * parts };
        (jobs, jobs.div_ceil(4 * rayon::current_num_threads()).max(1))
    }

    /// Output channels of a group that are computed.
    pub(crate) fn channels(&self) -> usize {
        self.channels_computed
    }

    /// Blocks of output channels, of each group.
    pub(crate) fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// Weights of a block, `[input channel][element][channel of the block]`, and the number of elements.
    pub(crate) fn block(&self, phase: usize, group: usize, block: &Block) -> (&[f32], usize) {
        let (start, elements) = self.phases[phase];
        let start = start + (group * self.channels_computed + block.first) * self.channels_in * elements;
        (&self.values[start..][..block.width * self.channels_in * elements], elements)
    }
}

/// The elements of the kernel (numbered over all axes) of each phase of the output, rows and columns varying fastest.
fn elements(axes: &[Axis; 3]) -> Vec<Vec<usize>> {
    let mut all = Vec::with_capacity(axes.iter().map(Axis::phases).product());
    for depth in &axes[0].taps {
        for row in &axes[1].taps {
            for column in &axes[2].taps {
                let mut elements = Vec::new();
                for depth in depth {
                    for row in row {
                        let first = (depth.element * axes[1].kernel + row.element) * axes[2].kernel;
                        elements.extend(column.iter().map(|column| first + column.element));
                    }
                }
                all.push(elements);
            }
        }
    }
    all
}

/// Where the weights of an element of the kernel go.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    /// Start of the phase.
    start: usize,
    /// Elements of the phase; none if the element is in no phase.
    elements: usize,
    /// Number of the element in its phase.
    index: usize,
}

/// Packed weights that several threads write, each its own.
#[derive(Clone, Copy)]
struct Target {
    values: *mut f32,
    len: usize,
}

// SAFETY: the pointer stands for an exclusive borrow, of which each job writes its own part.
unsafe impl Send for Target {}
// SAFETY: as above.
unsafe impl Sync for Target {}

impl Target {
    /// Writes some values, and zeros behind them, `width` in all.
    ///
    /// # Safety
    ///
    /// No other thread writes here.
    #[inline(always)]
    unsafe fn write<S: Simd>(&self, simd: S, start: usize, width: usize, values: &[f32]) {
        assert!(start <= self.len && width <= self.len - start, "weights leave the packed weights");
        for first in (0..width).step_by(S::F32_LANES) {
            let values = &values[first.min(values.len())..];
            let vector = load_part(simd, &values[..S::F32_LANES.min(values.len())]);
            // SAFETY: the place is inside, and nobody else has it.
            unsafe { store_part_to(simd, self.values.add(start + first), S::F32_LANES.min(width - first), vector) };
        }
    }
}

/// How elements along the depth are made.
#[derive(Clone, Copy)]
struct Transform<'a> {
    depth: DepthSums<'a>,
    /// Rows times columns of the kernel.
    len: usize,
}

impl Transform<'_> {
    /// Elements of the kernel before.
    fn kernel(&self) -> usize {
        self.len * self.depth.kernel
    }
}

/// Packs some input channels of one block.
struct PackBlock<'a> {
    /// Of the group.
    weight: &'a [f32],
    /// Elements of the kernel, before they are transformed.
    kernel: usize,
    strides: WeightStrides,
    /// Of each element of the kernel.
    places: &'a [Place],
    block: &'a Block,
    /// Channels computed before the block's.
    first: usize,
    channels_in: usize,
    /// Weights of these lie together, if they are more than one.
    inputs: Range<usize>,
    transform: Option<Transform<'a>>,
    target: Target,
}

impl PackBlock<'_> {
    /// Of a kernel of one element whose output channels lie together.
    #[inline(always)]
    fn copy<S: Simd>(&self, simd: S) {
        let start = self.places[0].start + self.first * self.channels_in;
        for input in self.inputs.clone() {
            let values = &self.weight[input * self.strides.input + self.block.first..][..self.block.channels];
            // SAFETY: the block's part of the phase is this job's for this input channel.
            unsafe { self.target.write(simd, start + input * self.block.width, self.block.width, values) };
        }
    }

    /// Writes the weights of an element, for the channels of the block from `channel` on, of which `outputs` exist.
    #[inline(always)]
    fn write<S: Simd>(
        &self,
        simd: S,
        [input, element]: [usize; 2],
        channel: usize,
        outputs: usize,
        values: &[f32; LANES],
    ) {
        let (place, block) = (&self.places[element], self.block);
        if place.elements == 0 {
            return; // no output is of the phase that reads this element
        }
        let start = place.start
            + self.first * self.channels_in * place.elements
            + (input * place.elements + place.index) * block.width
            + channel;
        // SAFETY: the block's part of the phase is this job's for these input channels.
        unsafe { self.target.write(simd, start, LANES.min(block.width - channel), &values[..outputs]) };
    }

    /// Writes the elements along the depth that are sums of a kernel's, at each row and column.
    #[inline(always)]
    fn write_sums<S: Simd>(
        &self,
        simd: S,
        transform: &Transform<'_>,
        kernels: &[[f32; LANES]],
        channel: usize,
        outputs: usize,
    ) {
        let Transform { depth: DepthSums { elements, .. }, len } = transform;
        for (input, kernel) in self.inputs.clone().zip(kernels.chunks_exact(self.kernel)) {
            for (depth, factors) in elements.iter().enumerate() {
                for element in 0..*len {
                    let (mut sum, mut values) = ([0.0f64; LANES], [0.0f32; LANES]);
                    for (from, factor) in factors {
                        let kernel = &kernel[from * len + element];
                        for lane in 0..LANES {
                            sum[lane] += factor * f64::from(kernel[lane]);
                        }
                    }
                    for lane in 0..LANES {
                        values[lane] = sum[lane] as f32;
                    }
                    self.write(simd, [input, depth * len + element], channel, outputs, &values);
                }
            }
        }
    }
}

impl WithSimd for PackBlock<'_> {
    type Output = ();

    /// By blocks of sixteen output channels and sixteen weights that lie together.
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { weight, kernel, strides, places, block, inputs, transform, .. } = &self;
        if strides.output == 1 && places.len() == 1 {
            return self.copy(simd);
        }
        let len = inputs.len() * kernel;
        let mut kernels = vec![[0.0; LANES]; if transform.is_some() { len } else { 0 }];
        for first in (0..block.width).step_by(LANES) {
            let outputs = LANES.min(block.width - first).min(block.channels.saturating_sub(first));
            let source = inputs.start * strides.input + (block.first + first) * strides.output;
            let (mut input, mut element) = (inputs.start, 0);
            for column in (0..len).step_by(LANES) {
                let columns = LANES.min(len - column);
                let values = if outputs > 0 {
                    transposed(simd, &weight[source + column..], strides.output, [outputs, columns])
                } else {
                    [[0.0; LANES]; LANES]
                };
                if transform.is_some() {
                    kernels[column..][..columns].copy_from_slice(&values[..columns]);
                    continue;
                }
                for values in &values[..columns] {
                    self.write(simd, [input, element], first, outputs, values);
                    element += 1;
                    if element == *kernel {
                        (input, element) = (input + 1, 0);
                    }
                }
            }
            if let Some(transform) = transform {
                self.write_sums(simd, transform, &kernels, first, outputs);
            }
        }
    }
}
