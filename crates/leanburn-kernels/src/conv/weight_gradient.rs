//! Gradient of a convolution's weight.
//!
//! `gw[o][i][k] = sum over positions p of g[o][p] * x[i][p + offset(k)]`: each element of the weight is the dot product of
//! two packed rows, a channel of the output gradient and a channel of the input, shifted (see [`pack`](super::pack)).
//! Nothing is transposed and no channel is padded, so that few channels cost as little as many.

use pulp::Arch;
use rayon::prelude::*;

use super::{
    ConvShape, Input,
    check::{check_input, check_shape},
    weight_plan::WeightPlan,
    weight_task::WeightTask,
};
use crate::{Element, simd};

/// Gradient of the weight of a convolution, `[channels_out, channels_in / groups, kernel..]`, into `target`.
///
/// # Shapes
///
/// `input`: `[batch_size, channels_in, input..]`; `gradient` (of the output): `[batch_size, channels_out, output..]`. Both
/// may have a prologue. Swap them for the transposed convolution.
///
/// # Memory
///
/// About 1 MiB per thread (the rows of a tile of a few planes, packed), and partial results: once the weight, or up to
/// 4 MiB (twice the weight, if that is more) where the positions are cut into parts.
///
/// # Numerics
///
/// About a thousand float32 products are added up in each of the vector's lanes, then all in float64: within 1e-6 of the
/// exact sum, relative, for volumes of any size. The result does not depend on the number of threads.
///
/// # Panics
///
/// If a slice does not have the length that the shape says.
pub fn weight_gradient<E: Element>(shape: &ConvShape, input: Input<E>, gradient: Input<E>, target: &mut [f32]) {
    weight_gradient_on(simd::best(), shape, input, gradient, target);
}

/// [`weight_gradient`] by these instructions.
fn weight_gradient_on<E: Element>(
    arch: Arch,
    shape: &ConvShape,
    input: Input<E>,
    gradient: Input<E>,
    target: &mut [f32],
) {
    check_shape(shape);
    check_input(shape, &input, shape.channels_in, shape.input_len());
    check_input(shape, &gradient, shape.channels_out, shape.output_len());
    assert_eq!(target.len(), shape.weight_len(), "the target is not of the length that the shape says");
    if target.is_empty() || shape.output_len() == 0 {
        return target.fill(0.0);
    }
    let plan = WeightPlan::new(shape);
    let mut partial = vec![0.0; (plan.parts - 1) * target.len()];
    target.fill(0.0);
    let weights = std::iter::once(&mut *target).chain(partial.chunks_exact_mut(shape.weight_len()));
    let tasks: Vec<_> = weights
        .enumerate()
        .flat_map(|(part, weight)| {
            blocks(&plan, weight).into_iter().enumerate().map(move |(block, columns)| (part, block, columns))
        })
        .collect();
    tasks.into_par_iter().for_each(|(part, block, columns)| {
        WeightTask::new(arch, &plan, block, columns).run(input, gradient, part);
    });
    add_parts(target, &partial);
}

/// Cuts a weight into blocks, `[group][block out][block in][channel out]`, each `[channel in][kernel..]`.
fn blocks<'a>(plan: &WeightPlan, weight: &'a mut [f32]) -> Vec<Vec<&'a mut [f32]>> {
    let (channels_in, channels_out) = plan.channels();
    let (blocks_in, blocks_out) = plan.blocks();
    let mut blocks: Vec<_> = (0..plan.shape.groups * blocks_out * blocks_in).map(|_| Vec::new()).collect();
    for (channel, column) in weight.chunks_exact_mut(channels_in * plan.elements()).enumerate() {
        let block_out = channel / channels_out * blocks_out + channel % channels_out / plan.block_out;
        for (block_in, column) in column.chunks_mut(plan.block_in * plan.elements()).enumerate() {
            blocks[block_out * blocks_in + block_in].push(column);
        }
    }
    blocks
}

/// Adds the sums of the other parts to those of the first.
fn add_parts(target: &mut [f32], partial: &[f32]) {
    const PIECE: usize = 4096;
    if partial.is_empty() {
        return;
    }
    let len = target.len();
    target.par_chunks_mut(PIECE).enumerate().for_each(|(piece, target)| {
        for (index, target) in target.iter_mut().enumerate() {
            let parts = partial[piece * PIECE + index..].iter().step_by(len);
            *target = parts.fold(f64::from(*target), |sum, part| sum + f64::from(*part)) as f32;
        }
    });
}

#[cfg(test)]
mod tests {
    use half::{bf16, f16};
    use proptest::prelude::*;
    use rand::{RngExt, SeedableRng, rngs::SmallRng};

    use super::*;
    use crate::{Activation, conv::Prologue};

    /// A volume of any element, with the values that a kernel should see.
    struct Volume<E> {
        values: Vec<E>,
        scale: Vec<f32>,
        shift: Vec<f32>,
        activation: Option<Activation>,
    }

    impl<E: Element> Volume<E> {
        fn new(random: &mut SmallRng, items_and_channels: usize, len: usize, activation: Option<Activation>) -> Self {
            let mut values = |len: usize| -> Vec<f32> { (0..len).map(|_| random.random_range(-1.0..1.0)).collect() };
            let (scale, shift) = (values(items_and_channels), values(items_and_channels));
            Self { values: values(len).into_iter().map(E::from_f32).collect(), scale, shift, activation }
        }

        fn input(&self) -> Input<'_, E> {
            let prologue =
                self.activation.map(|activation| Prologue { scale: &self.scale, shift: &self.shift, activation });
            Input { values: &self.values, prologue }
        }

        /// Every value as the kernel should see it.
        fn exact(&self) -> Vec<f64> {
            let positions = (self.values.len() / self.scale.len()).max(1);
            let seen = |(index, value): (usize, &E)| {
                let (value, channel) = (f64::from(value.to_f32()), index / positions);
                let Some(activation) = self.activation else { return value };
                let value = f64::from(self.scale[channel]) * value + f64::from(self.shift[channel]);
                match activation {
                    Activation::None => value,
                    Activation::Silu => value / (1.0 + (-value).exp()),
                    Activation::Relu => value.max(0.0),
                    Activation::LeakyRelu(slope) => value.max(0.0) + f64::from(slope) * value.min(0.0),
                }
            };
            self.values.iter().enumerate().map(seen).collect()
        }
    }

    /// The definition, in float64.
    fn exact(shape: &ConvShape, input: &[f64], gradient: &[f64]) -> Vec<f64> {
        let (channels_in, channels_out) = (shape.channels_in / shape.groups, shape.channels_out / shape.groups);
        let (size, output, kernel) = (shape.input, shape.output(), shape.kernel);
        let mut weight = vec![0.0; shape.weight_len()];
        for (index, weight) in weight.iter_mut().enumerate() {
            let element = split(index % kernel.iter().product::<usize>(), kernel);
            let pair = index / kernel.iter().product::<usize>();
            let (channel_in, channel_out) = (pair % channels_in, pair / channels_in);
            let channel_in = channel_out / channels_out * channels_in + channel_in;
            for item in 0..shape.batch_size {
                let input = &input[(item * shape.channels_in + channel_in) * size.iter().product::<usize>()..];
                let gradient =
                    &gradient[(item * shape.channels_out + channel_out) * output.iter().product::<usize>()..];
                for position in 0..output.iter().product() {
                    let at = split(position, output);
                    let read: [Option<usize>; 3] = std::array::from_fn(|axis| {
                        let read = at[axis] * shape.stride[axis] + element[axis] * shape.dilation[axis];
                        read.checked_sub(shape.padding[axis][0]).filter(|read| *read < size[axis])
                    });
                    if let [Some(depth), Some(row), Some(column)] = read {
                        *weight += gradient[position] * input[(depth * size[1] + row) * size[2] + column];
                    }
                }
            }
        }
        weight
    }

    /// The coordinates of a flat index.
    fn split(index: usize, size: [usize; 3]) -> [usize; 3] {
        [index / size[2] / size[1], index / size[2] % size[1], index % size[2]]
    }

    /// Compares with the definition for every instruction set.
    fn compare<E: Element>(shape: &ConvShape, activations: [Option<Activation>; 2], seed: u64) {
        let mut random = SmallRng::seed_from_u64(seed);
        let rows = [shape.batch_size * shape.channels_in, shape.batch_size * shape.channels_out];
        let input = Volume::<E>::new(&mut random, rows[0], shape.input_len(), activations[0]);
        let gradient = Volume::<E>::new(&mut random, rows[1], shape.output_len(), activations[1]);
        let exact = exact(shape, &input.exact(), &gradient.exact());
        for arch in simd::available() {
            let mut found = vec![f32::NAN; shape.weight_len()];
            weight_gradient_on(arch, shape, input.input(), gradient.input(), &mut found);
            let error: f64 = found.iter().zip(&exact).map(|(found, exact)| (f64::from(*found) - exact).powi(2)).sum();
            let size: f64 = exact.iter().map(|exact| exact * exact).sum();
            assert!(error.sqrt() <= 1e-5 * size.sqrt() + 1e-30, "{arch:?} {shape:?} {}", (error / size).sqrt());
        }
    }

    /// Compares for every element and with and without a prologue.
    fn compare_all(shape: &ConvShape) {
        compare::<f32>(shape, [None, None], 1);
        compare::<f32>(shape, [Some(Activation::Silu), Some(Activation::LeakyRelu(0.1))], 2);
        compare::<bf16>(shape, [Some(Activation::Relu), None], 3);
        compare::<f16>(shape, [None, Some(Activation::None)], 4);
    }

    /// A shape with the same size, kernel, stride and padding on all axes.
    fn cube(channels: [usize; 2], size: usize, kernel: usize, stride: usize, padding: usize) -> ConvShape {
        ConvShape {
            batch_size: 1,
            channels_in: channels[0],
            channels_out: channels[1],
            groups: 1,
            input: [size; 3],
            kernel: [kernel; 3],
            stride: [stride; 3],
            dilation: [1; 3],
            padding: [[padding; 2]; 3],
        }
    }

    fn shapes() -> impl Strategy<Value = ConvShape> {
        let axis = || (1usize..=12, 1usize..=5, 1usize..=3, 1usize..=2, [0usize..=3, 0usize..=3]);
        (1usize..=2, 1usize..=20, 1usize..=20, 1usize..=3, [axis(), axis(), axis()]).prop_map(
            |(batch_size, channels_in, channels_out, groups, axes)| ConvShape {
                batch_size,
                channels_in: channels_in.div_ceil(groups) * groups,
                channels_out: channels_out.div_ceil(groups) * groups,
                groups,
                input: axes.each_ref().map(|axis| axis.0),
                kernel: axes.each_ref().map(|axis| axis.1),
                stride: axes.each_ref().map(|axis| axis.2),
                dilation: axes.each_ref().map(|axis| axis.3),
                padding: axes.map(|axis| axis.4),
            },
        )
    }

    /// Multiply-adds that the definition takes.
    fn work(shape: &ConvShape) -> usize {
        shape.weight_len() * shape.batch_size * shape.output().iter().product::<usize>()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 40 } else { 2000 }))]

        #[test]
        fn every_shape_agrees_with_the_definition(
            shape in shapes().prop_filter("too much work", |shape| work(shape) < 2_000_000),
            seed in any::<u64>(),
            prologue in any::<bool>(),
            element in 0..3,
        ) {
            let activations = [prologue.then_some(Activation::Silu), None];
            match element {
                0 => compare::<f32>(&shape, activations, seed),
                1 => compare::<bf16>(&shape, activations, seed),
                _ => compare::<f16>(&shape, activations, seed),
            }
        }
    }

    #[test]
    fn usual_layers() {
        for shape in [
            cube([1, 8], 9, 3, 1, 1),
            cube([8, 1], 9, 3, 1, 1),
            cube([6, 5], 7, 1, 1, 0),
            cube([3, 4], 10, 4, 2, 1),
            cube([3, 4], 9, 3, 2, 1),
            cube([4, 3], 8, 2, 2, 0),
            ConvShape { stride: [1, 2, 2], ..cube([3, 4], 9, 3, 2, 1) },
            ConvShape { groups: 3, batch_size: 2, ..cube([6, 9], 6, 3, 1, 1) },
        ] {
            compare_all(&shape);
        }
    }

    #[test]
    fn more_channels_than_a_block() {
        compare_all(&cube([40, 70], 3, 3, 1, 1));
        compare_all(&cube([70, 40], 2, 3, 1, 1));
        compare_all(&ConvShape { input: [2, 3, 4], ..cube([130, 70], 4, 1, 1, 0) });
        compare_all(&ConvShape { groups: 2, ..cube([80, 140], 2, 2, 1, 0) });
    }

    #[test]
    fn more_rows_than_a_tile_and_more_depth_than_a_march() {
        compare_all(&ConvShape { input: [3, 40, 33], ..cube([2, 3], 1, 3, 1, 1) });
        compare_all(&ConvShape { input: [30, 5, 4], batch_size: 2, ..cube([2, 3], 1, 3, 1, 1) });
        compare_all(&ConvShape { input: [2, 3, 1100], ..cube([2, 1], 1, 1, 1, 0) });
        compare_all(&ConvShape { input: [2, 3, 1100], ..cube([1, 2], 1, 3, 2, 1) });
    }

    #[test]
    fn parts_add_up() {
        let shape = ConvShape { input: [20, 40, 40], batch_size: 2, ..cube([6, 5], 1, 3, 1, 1) };
        assert!(WeightPlan::new(&shape).parts > 1);
        compare::<f32>(&shape, [None, None], 5);
    }

    #[test]
    fn the_number_of_threads_does_not_matter() {
        let shape = ConvShape { input: [20, 40, 40], batch_size: 2, ..cube([6, 5], 1, 3, 1, 1) };
        let mut random = SmallRng::seed_from_u64(6);
        let input = Volume::<f32>::new(&mut random, 12, shape.input_len(), None);
        let gradient = Volume::<f32>::new(&mut random, 10, shape.output_len(), None);
        let results = [1, 2, 3, 7].map(|threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let mut target = vec![f32::NAN; shape.weight_len()];
            pool.install(|| weight_gradient(&shape, input.input(), gradient.input(), &mut target));
            target
        });
        results.iter().for_each(|result| assert!(*result == results[0]));
    }

    #[test]
    fn an_empty_output_gives_zeros() {
        for shape in [
            cube([2, 3], 2, 3, 1, 0),
            ConvShape { batch_size: 0, ..cube([2, 3], 4, 3, 1, 1) },
            cube([2, 3], 0, 1, 1, 0),
        ] {
            let (input, mut target) = (vec![1.0; shape.input_len()], vec![f32::NAN; shape.weight_len()]);
            weight_gradient::<f32>(&shape, Input::plain(&input), Input::plain(&[]), &mut target);
            assert_eq!(target, vec![0.0; shape.weight_len()]);
        }
    }

    #[test]
    #[should_panic(expected = "the target is not of the length that the shape says")]
    fn a_target_of_wrong_length_is_refused() {
        let input = Input::plain(&[0.0]);
        weight_gradient(&cube([1, 1], 1, 1, 1, 0), input, input, &mut [0.0; 2]);
    }
}
