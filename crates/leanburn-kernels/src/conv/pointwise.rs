//! Kernels of one element: products of the weight with the channels of some positions at a time.
//!
//! Nothing lies between positions, so that neither a ring of planes nor a copy of the weight is needed. A task packs the channels of a range
//! of positions as *columns*, `[column][channel][position]`, each as wide as a register tile; the tiles read their weights where the
//! caller has them, and their sums go to the output at once.

use pulp::{Arch, Simd, WithSimd};

use crate::Stored;
use crate::buffer::Lines;
use crate::cache::cached_floats;
use crate::conv::gather::problem::Gather;
use crate::conv::operands::Input;
use crate::conv::packing::planes::{Source, prepared};
use crate::conv::packing::rows::SharedOutput;
use crate::conv::tiles::tap_sums::LANES;
use crate::parallel::{for_each_with, threads};
use crate::simd::{apart, few_registers, load};
use crate::size::{product, reach, sum};

/// Positions of a column, at most: three vectors of a register tile.
const WIDEST: usize = 3 * LANES;
/// Fewest positions of an item for which whole columns pay.
const LEAST_POSITIONS: usize = 2 * WIDEST;
/// Packed values of a task, about (256 KiB), or half of the second-level cache where that is less.
const PACKED: usize = 64 * 1024;
/// Positions of a task, at most: rows of the output are written in pieces of this length.
const MOST_POSITIONS: usize = 16 * WIDEST;
/// Tasks for each thread, where there are positions for them.
const TASKS: usize = 4;

/// Whether each output reads the input at its own position alone, of which there are enough.
pub(crate) fn pays(gather: &Gather) -> bool {
    gather.axes.iter().all(|axis| axis.is_pointwise()) && positions(gather) >= LEAST_POSITIONS
}

/// Computes the whole output of a gather that [pays].
pub(crate) fn run<E: Stored>(
    gather: &Gather,
    arch: Arch,
    input: Input<'_, E>,
    weight: &[f32],
    output: &SharedOutput<'_, E>,
) {
    let [channels_in, channels_out] = gather.channels;
    let (each, positions) = (task_positions(gather), positions(gather));
    let source = Source { input, channels: gather.groups * channels_in, size: [1, 1, positions] };
    let run = |columns: &mut Lines<f32>, task: usize| {
        let (part, piece) = (task % positions.div_ceil(each), task / positions.div_ceil(each));
        let (item, group) = (piece / gather.groups, piece % gather.groups);
        let weight = &weight[group * channels_in * channels_out..][..channels_in * channels_out];
        let (first, len) = (part * each, each.min(positions - part * each));
        arch.dispatch(Part { gather, source: &source, item, group, first, len, weight, columns, output });
    };
    for_each_with(tasks(gather), multiplications(gather), || Lines::new(columns_len(gather)), run);
}

/// Bytes that [`run`] takes at most, in the current pool.
pub(crate) fn workspace(gather: &Gather) -> usize {
    let threads = threads(rayon::current_num_threads().min(tasks(gather)), multiplications(gather));
    product(&[threads, Lines::<f32>::bytes(columns_len(gather))])
}

fn positions(gather: &Gather) -> usize {
    gather.axes.iter().map(|axis| axis.output).product()
}

fn multiplications(gather: &Gather) -> usize {
    product(&[gather.batch_size, positions(gather), gather.weight_len()])
}

/// Positions of a task, in whole columns of any instruction set. Results do not depend on it.
fn task_positions(gather: &Gather) -> usize {
    let positions = positions(gather);
    let most = (PACKED.min(cached_floats() / 2) / gather.channels[0].max(1)).clamp(WIDEST, MOST_POSITIONS);
    let wanted = (TASKS * rayon::current_num_threads()).div_ceil((gather.batch_size * gather.groups).max(1));
    positions.div_ceil(positions.div_ceil(most).max(wanted)).next_multiple_of(WIDEST)
}

fn tasks(gather: &Gather) -> usize {
    product(&[gather.batch_size, gather.groups, positions(gather).div_ceil(task_positions(gather))])
}

/// Packed values of a task.
fn columns_len(gather: &Gather) -> usize {
    product(&[gather.channels[0], task_positions(gather)])
}

/// A range of positions of one item and group.
struct Part<'a, 'b, E> {
    gather: &'a Gather,
    source: &'a Source<'b, E>,
    item: usize,
    group: usize,
    first: usize,
    len: usize,
    /// Of the group.
    weight: &'a [f32],
    /// `[column][channel][position]`.
    columns: &'a mut [f32],
    output: &'a SharedOutput<'b, E>,
}

impl<E: Stored> WithSimd for Part<'_, '_, E> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        if few_registers::<S>() { self.all::<S, 2>(simd, 6) } else { self.all::<S, 3>(simd, 8) }
    }
}

impl<E: Stored> Part<'_, '_, E> {
    /// Computes all output channels, up to `most` at a time and nearly the same number each time, in columns of `VECTORS` vectors.
    #[inline(always)]
    fn all<S: Simd, const VECTORS: usize>(mut self, simd: S, most: usize) {
        self.pack::<S, VECTORS>(simd);
        let channels = self.gather.channels[1];
        let tiles = channels.div_ceil(most);
        for number in 0..tiles {
            let channel = number * channels / tiles;
            for column in 0..self.len.div_ceil(VECTORS * S::F32_LANES) {
                match (number + 1) * channels / tiles - channel {
                    8 => self.tile::<S, 8, VECTORS>(simd, column, channel),
                    7 => self.tile::<S, 7, VECTORS>(simd, column, channel),
                    6 => self.tile::<S, 6, VECTORS>(simd, column, channel),
                    5 => self.tile::<S, 5, VECTORS>(simd, column, channel),
                    4 => self.tile::<S, 4, VECTORS>(simd, column, channel),
                    3 => self.tile::<S, 3, VECTORS>(simd, column, channel),
                    2 => self.tile::<S, 2, VECTORS>(simd, column, channel),
                    _ => self.tile::<S, 1, VECTORS>(simd, column, channel),
                }
            }
        }
    }

    /// Packs the channels; zeros follow the last position.
    #[inline(always)]
    fn pack<S: Simd, const VECTORS: usize>(&mut self, simd: S) {
        let (channels, width) = (self.gather.channels[0], VECTORS * S::F32_LANES);
        for channel in 0..channels {
            let number = self.group * channels + channel;
            let place = [self.item, number, 0, 0];
            if channel + 1 < channels {
                self.source.prefetch([self.item, number + 1, 0, 0], &(self.first..self.first + self.len));
            }
            let values = E::as_f32(self.source.plain(place, &(self.first..self.first + self.len)));
            let prologue = self.source.affine(simd, place);
            for start in (0..self.len).step_by(width) {
                let target = &mut self.columns[start * channels + channel * width..][..width];
                match values {
                    Some(values) if width <= self.len - start => {
                        let (from, to) = (S::as_simd_f32s(&values[start..][..width]).0, S::as_mut_simd_f32s(target).0);
                        for (to, from) in to.iter_mut().zip(from) {
                            *to = prepared(simd, &prologue, *from);
                        }
                    }
                    _ => {
                        let (values, rest) = target.split_at_mut(width.min(self.len - start));
                        let first = self.first + start;
                        self.source.read(simd, place, first..first + values.len(), values);
                        rest.fill(0.0);
                    }
                }
            }
        }
    }

    /// Computes `ROWS` output channels at a column.
    #[inline(always)]
    fn tile<S: Simd, const ROWS: usize, const VECTORS: usize>(&self, simd: S, column: usize, channel: usize) {
        apart(
            simd,
            #[inline(always)]
            || {
                self.prefetch_output::<S, ROWS, VECTORS>(column + 1, channel);
                let sums = self.sums::<S, ROWS, VECTORS>(simd, column, channel);
                self.write(simd, &sums, column, channel);
            },
        );
    }

    /// Number of an output channel among all groups, and the element of the output at which a column begins.
    #[inline(always)]
    fn place<S: Simd, const VECTORS: usize>(&self, column: usize, channel: usize) -> (usize, usize) {
        let number = self.group * self.gather.channels[1] + channel;
        let plane = self.item * self.gather.groups * self.gather.channels[1] + number;
        (number, plane * self.source.size[2] + self.first + column * VECTORS * S::F32_LANES)
    }

    /// Asks for the output that is written after this one: stores wait for their lines, and a column has few products to hide that.
    #[inline(always)]
    fn prefetch_output<S: Simd, const ROWS: usize, const VECTORS: usize>(&self, column: usize, channel: usize) {
        if column * VECTORS * S::F32_LANES < self.len {
            for row in 0..ROWS {
                self.output.prefetch(self.place::<S, VECTORS>(column, channel + row).1, VECTORS * S::F32_LANES);
            }
        }
    }

    /// The sums of `ROWS` output channels at a column.
    #[inline(always)]
    fn sums<S: Simd, const ROWS: usize, const VECTORS: usize>(
        &self,
        simd: S,
        column: usize,
        channel: usize,
    ) -> [[S::f32s; VECTORS]; ROWS] {
        let (channels, strides) = (self.gather.channels[0], self.gather.strides);
        let len = channels * VECTORS * S::F32_LANES;
        let values = &self.columns[column * len..][..len];
        let first = channel * strides.output;
        let last = sum(&[first, reach(ROWS, strides.output, 1), reach(channels, strides.input, 0)]);
        assert!(channels == 0 || last <= self.weight.len(), "too few weights");
        let mut sums = [[simd.splat_f32s(0.0); VECTORS]; ROWS];
        for channel in 0..channels {
            let weights = self.weight.as_ptr().wrapping_add(first + channel * strides.input);
            let mut vectors = [simd.splat_f32s(0.0); VECTORS];
            for (index, vector) in vectors.iter_mut().enumerate() {
                // SAFETY: the column holds `VECTORS` vectors of each channel.
                *vector = unsafe { load::<S>(values.as_ptr().add((channel * VECTORS + index) * S::F32_LANES)) };
            }
            for (row, sums) in sums.iter_mut().enumerate() {
                // SAFETY: checked above for the last channel of the last row.
                let weight = simd.splat_f32s(unsafe { *weights.add(row * strides.output) });
                for (sum, vector) in sums.iter_mut().zip(vectors) {
                    *sum = simd.mul_add_e_f32s(vector, weight, *sum);
                }
            }
        }
        sums
    }

    /// Writes the sums of a column.
    #[inline(always)]
    fn write<S: Simd, const ROWS: usize, const VECTORS: usize>(
        &self,
        simd: S,
        sums: &[[S::f32s; VECTORS]; ROWS],
        column: usize,
        channel: usize,
    ) {
        let (width, positions) = (VECTORS * S::F32_LANES, self.source.size[2]);
        let len = width.min(self.len - column * width);
        let (number, first) = self.place::<S, VECTORS>(column, channel);
        // SAFETY: items, groups and ranges of positions are each one task's, so these elements are this task's.
        unsafe {
            if len == width && E::as_f32(&[]).is_some() {
                return self.output.finish_rows(simd, number, first, positions, sums);
            }
            for (row, sums) in sums.iter().enumerate() {
                let mut values = [0.0; WIDEST];
                for (target, sum) in values.chunks_exact_mut(S::F32_LANES).zip(sums) {
                    S::as_mut_simd_f32s(target).0[0] = *sum;
                }
                self.output.finish(simd, number + row, first + row * positions, &values[..len]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use half::{bf16, f16};

    use super::*;
    use crate::conv::operands::Output;
    use crate::conv::reference::{Case, ResidualKind, Run, compare, cube, exact_and_found, gather};
    use crate::conv::shape::ConvShape;
    use crate::{Activation, simd};

    fn shapes() -> Vec<ConvShape> {
        // One part of a column beyond two; whole columns of one instruction set, not of another; each number of rows that may be left.
        let row = |channels, width| ConvShape { input: [1, 1, width], ..cube(channels, 1, 1, 1, 0) };
        let mut shapes = vec![
            row([3, 3], 96),
            row([33, 20], 97),
            row([17, 8], 168),
            row([1, 40], 500),
            ConvShape { batch_size: 3, groups: 2, ..cube([10, 6], 6, 1, 1, 0) },
            ConvShape { batch_size: 2, ..cube([700, 2], 5, 1, 1, 0) },
        ];
        shapes.extend((1..=8).map(|left| row([5, 8 + left], 96 + left)));
        shapes
    }

    /// By positions.
    fn of<E: Stored>(arch: Arch, forward: bool) -> impl Fn(&ConvShape, Input<'_, E>, &[f32], Output<'_, E>) {
        move |shape, input, weight, output| {
            let gather = gather(shape, forward);
            assert!(pays(&gather));
            run(&gather, arch, input, weight, &output.into());
        }
    }

    fn check<E: Stored>(case: &Case, tolerance: f64) {
        for arch in simd::available() {
            for forward in [true, false] {
                compare::<E>(case, forward, tolerance, &of(arch, forward));
            }
        }
    }

    #[test]
    fn each_shape_agrees_with_plain_loops() {
        for shape in shapes() {
            let case =
                Case { shape, prologue: Some(Activation::Silu), bias: true, residual: ResidualKind::Of, seed: 2 };
            for case in [Case::plain(shape), case, Case { residual: ResidualKind::InPlace, ..case }] {
                check::<f32>(&case, 2e-7);
            }
            check::<bf16>(&case, 0.00391);
            check::<f16>(&case, 0.0005);
        }
    }

    /// Sums are added up in the same order by both engines.
    #[test]
    fn the_direct_engine_finds_the_same_bits() {
        for shape in shapes() {
            let case =
                Case { shape, prologue: Some(Activation::Relu), bias: true, residual: ResidualKind::None, seed: 5 };
            for (arch, forward) in simd::available().into_iter().flat_map(|arch| [(arch, true), (arch, false)]) {
                let direct = |shape: &ConvShape, input: Input<'_, f32>, weight: &[f32], output: Output<'_, f32>| {
                    gather(shape, forward).run(arch, None, input, weight, &output.into());
                };
                let found = |run: Run<'_, f32>| exact_and_found(&case, forward, run).1;
                assert_eq!(found(&of(arch, forward)), found(&direct), "{arch:?} {forward} {shape:?}");
            }
        }
    }

    #[test]
    fn the_number_of_threads_does_not_matter() {
        let shape = ConvShape { batch_size: 2, ..cube([40, 30], 9, 1, 1, 0) };
        let on = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| exact_and_found::<f32>(&Case::plain(shape), true, &of(simd::best(), true)).1)
        };
        let one = on(1);
        assert!([2, 3, 16].into_iter().all(|threads| on(threads) == one));
    }

    #[test]
    fn few_positions_and_larger_kernels_are_left_to_others() {
        for (shape, expected) in [
            (cube([4, 4], 5, 1, 1, 0), true),
            (cube([4, 4], 4, 1, 1, 0), false),
            (cube([4, 4], 9, 1, 2, 0), false),
            (cube([4, 4], 9, 1, 1, 1), false),
            (cube([4, 4], 9, 3, 1, 1), false),
        ] {
            assert_eq!([true, false].map(|forward| pays(&gather(&shape, forward))), [expected; 2], "{shape:?}");
        }
    }
}
