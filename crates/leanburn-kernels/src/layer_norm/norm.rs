//! The norm and its gradients, tile by tile.

use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

use super::shape::LayerShape;
use crate::Stored;
use crate::parallel::busy;
use crate::shared::Shared;
use crate::size::{product, sum};

/// Lanes that sums over positions are added up in.
const LANES: usize = 16;

/// Bytes for what rayon keeps, and other small things.
const LISTS: usize = 4096;

/// `(x - mean) / sqrt(variance + epsilon) * weight + bias`, with mean and variance over the channels of each position.
#[derive(Clone, Copy, Debug)]
pub struct LayerNorm<'a> {
    /// Of the volume.
    pub shape: LayerShape,
    /// Added to the variance.
    pub epsilon: f32,
    /// The factor of each channel, one if there is none.
    pub weight: Option<&'a [f32]>,
    /// What is added to each channel, nothing if there is none.
    pub bias: Option<&'a [f32]>,
}

/// Bytes that forward takes at most, without its input and output, in the current pool.
pub fn layer_norm_workspace(shape: &LayerShape) -> usize {
    sum(&[LISTS, product(&[busy(shape.tasks()), Tile::bytes(shape, 1)])])
}

/// Bytes that backward takes at most, without its inputs and outputs, in the current pool.
pub fn layer_norm_backward_workspace(shape: &LayerShape) -> usize {
    let sums = product(&[shape.tasks(), 2 * shape.channels, size_of::<f64>()]);
    sum(&[LISTS, sums, product(&[busy(shape.tasks()), Tile::bytes(shape, 2)])])
}

impl LayerNorm<'_> {
    pub(crate) fn forward_on<E: Stored>(&self, arch: Arch, x: &[E], y: &mut [E]) {
        self.check(x.len(), y.len());
        let y = Shared::new(y);
        (0..self.shape.tasks()).into_par_iter().for_each_init(
            || Tile::new(&self.shape, 1),
            |tile, task| arch.dispatch(Forward { norm: self, task, x, y: &y, tile }),
        );
    }

    /// Replaces the gradient of the output by that of the input; returns those of weight and bias.
    pub(crate) fn backward_on<E: Stored>(&self, arch: Arch, x: &[E], gradient: &mut [E]) -> [Vec<f32>; 2] {
        self.check(x.len(), gradient.len());
        let channels = self.shape.channels;
        let gradient = Shared::new(gradient);
        let mut sums = vec![0.0; self.shape.tasks() * 2 * channels];
        sums.par_chunks_mut(2 * channels).enumerate().for_each_init(
            || Tile::new(&self.shape, 2),
            |tile, (task, sums)| arch.dispatch(Backward { norm: self, task, x, gradient: &gradient, sums, tile }),
        );
        let total = |index: usize| sums.chunks_exact(2 * channels).map(|sums| sums[index]).sum::<f64>() as f32;
        [0, channels].map(|first| (first..first + channels).map(total).collect())
    }

    fn check(&self, x: usize, y: usize) {
        let (len, channels) = (self.shape.volume_len(), self.shape.channels);
        assert!(x == len && y == len, "{:?} has volumes of {x} and {y} elements", self.shape);
        for vector in [self.weight, self.bias].into_iter().flatten() {
            assert_eq!(vector.len(), channels, "weight and bias of {:?}", self.shape);
        }
    }
}

/// Positions of an item with all their channels, in float32.
struct Tile {
    /// `[channels, positions]`: normalised values, and gradients where there are any.
    volumes: Vec<Vec<f32>>,
    /// Mean, then reciprocal deviation of each position; two sums of gradients.
    statistics: [Vec<f32>; 4],
    positions: usize,
}

impl Tile {
    fn new(shape: &LayerShape, volumes: usize) -> Self {
        let positions = shape.tile();
        let volumes = (0..volumes).map(|_| vec![0.0; shape.channels * positions]).collect();
        Self { volumes, statistics: [0; 4].map(|_| vec![0.0; positions]), positions }
    }

    fn bytes(shape: &LayerShape, volumes: usize) -> usize {
        let values = sum(&[product(&[volumes, shape.channels]), 4]);
        sum(&[product(&[shape.tile(), values, size_of::<f32>()]), volumes * size_of::<Vec<f32>>()])
    }

    /// Takes `len` positions from `first` on of an item, `[channels, positions]`, and normalises them.
    #[inline(always)]
    fn normalize<E: Stored>(&mut self, norm: &LayerNorm<'_>, item: &[E], first: usize, len: usize) {
        let LayerShape { channels, positions, .. } = norm.shape;
        let [mean, reciprocal, difference, ..] = &mut self.statistics;
        let (mean, reciprocal, difference) = (&mut mean[..len], &mut reciprocal[..len], &mut difference[..len]);
        mean.fill(0.0);
        reciprocal.fill(0.0);
        let count = channels as f32;
        for (row, channel) in self.volumes[0].chunks_exact_mut(self.positions).zip(item.chunks_exact(positions)) {
            E::widen(&channel[first..first + len], &mut row[..len]);
            mean.iter_mut().zip(&*row).for_each(|(mean, value)| *mean += value);
        }
        mean.iter_mut().for_each(|mean| *mean /= count);
        for row in self.volumes[0].chunks_exact_mut(self.positions) {
            let row = &mut row[..len];
            row.iter_mut().zip(&*mean).for_each(|(value, mean)| *value -= mean);
            reciprocal.iter_mut().zip(&*row).for_each(|(sum, value)| *sum += value * value);
        }
        difference.copy_from_slice(reciprocal);
        reciprocal.iter_mut().zip(&*difference).for_each(|(reciprocal, sum)| {
            *reciprocal = 1.0 / (sum / count + norm.epsilon).sqrt();
        });
        for row in self.volumes[0].chunks_exact_mut(self.positions) {
            row[..len].iter_mut().zip(&*reciprocal).for_each(|(value, reciprocal)| *value *= reciprocal);
        }
    }
}

/// Where each tile of a task begins, and its length.
fn tiles(shape: &LayerShape, task: usize) -> (usize, impl Iterator<Item = (usize, usize)> + use<>) {
    let (item, positions) = shape.part(task);
    let (end, tile) = (positions.end, shape.tile());
    (item, positions.step_by(tile).map(move |first| (first, tile.min(end - first))))
}

struct Forward<'a, E> {
    norm: &'a LayerNorm<'a>,
    task: usize,
    x: &'a [E],
    y: &'a Shared<'a, E>,
    tile: &'a mut Tile,
}

impl<E: Stored> WithSimd for Forward<'_, E> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { norm, task, x, y, tile } = self;
        let LayerShape { channels, positions, .. } = norm.shape;
        let (item, tiles) = tiles(&norm.shape, task);
        let begin = item * channels * positions;
        for (first, len) in tiles {
            tile.normalize(norm, &x[begin..][..channels * positions], first, len);
            for (channel, row) in tile.volumes[0].chunks_exact_mut(tile.positions).enumerate() {
                let row = &mut row[..len];
                let [weight, bias] = [(norm.weight, 1.0), (norm.bias, 0.0)]
                    .map(|(vector, default)| vector.map_or(default, |vector| vector[channel]));
                row.iter_mut().for_each(|value| *value = *value * weight + bias);
                // SAFETY: each position of each item is in one tile of one task.
                E::narrow(row, unsafe { y.piece(begin + channel * positions + first, len) });
            }
        }
    }
}

struct Backward<'a, E> {
    norm: &'a LayerNorm<'a>,
    task: usize,
    x: &'a [E],
    gradient: &'a Shared<'a, E>,
    /// Of the weight, then of the bias.
    sums: &'a mut [f64],
    tile: &'a mut Tile,
}

impl<E: Stored> WithSimd for Backward<'_, E> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { norm, task, x, gradient, sums, tile } = self;
        let LayerShape { channels, positions, .. } = norm.shape;
        let (item, tiles) = tiles(&norm.shape, task);
        let begin = item * channels * positions;
        let (weight_sums, bias_sums) = sums.split_at_mut(channels);
        for (first, len) in tiles {
            tile.normalize(norm, &x[begin..][..channels * positions], first, len);
            let [normalized, gradients] = &mut tile.volumes[..] else { unreachable!("made with two volumes") };
            let [_, reciprocal, mean, product] = &mut tile.statistics;
            let (reciprocal, mean, product) = (&reciprocal[..len], &mut mean[..len], &mut product[..len]);
            mean.fill(0.0);
            product.fill(0.0);
            let rows = gradients.chunks_exact_mut(tile.positions).zip(normalized.chunks_exact(tile.positions));
            for (channel, (row, normalized)) in rows.enumerate() {
                let (row, normalized) = (&mut row[..len], &normalized[..len]);
                // SAFETY: each position of each item is in one tile of one task.
                E::widen(unsafe { gradient.piece(begin + channel * positions + first, len) }, row);
                weight_sums[channel] += f64::from(dot(row, normalized));
                bias_sums[channel] += f64::from(total(row));
                let weight = norm.weight.map_or(1.0, |weight| weight[channel]);
                row.iter_mut().for_each(|value| *value *= weight);
                mean.iter_mut().zip(&*row).for_each(|(mean, value)| *mean += value);
                let values = row.iter().zip(normalized);
                product.iter_mut().zip(values).for_each(|(product, (value, x))| *product += value * x);
            }
            let count = channels as f32;
            mean.iter_mut().chain(product.iter_mut()).for_each(|sum| *sum /= count);
            let rows = gradients.chunks_exact_mut(tile.positions).zip(normalized.chunks_exact(tile.positions));
            for (channel, (row, normalized)) in rows.enumerate() {
                let row = &mut row[..len];
                let sums = mean.iter().zip(&*product).zip(reciprocal);
                for ((value, x), ((mean, product), reciprocal)) in row.iter_mut().zip(normalized).zip(sums) {
                    *value = reciprocal * (*value - mean - x * product);
                }
                // SAFETY: as above.
                E::narrow(row, unsafe { gradient.piece(begin + channel * positions + first, len) });
            }
        }
    }
}

/// The sum, in lanes.
#[inline(always)]
fn total(values: &[f32]) -> f32 {
    let mut sums = [0.0; LANES];
    let chunks = values.chunks_exact(LANES);
    let rest: f32 = chunks.remainder().iter().sum();
    chunks.for_each(|values| sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += value));
    sums.iter().sum::<f32>() + rest
}

/// The sum of products, in lanes.
#[inline(always)]
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0.0; LANES];
    let (a, b) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let rest: f32 = a.remainder().iter().zip(b.remainder()).map(|(a, b)| a * b).sum();
    for (a, b) in a.zip(b) {
        sums.iter_mut().zip(a.iter().zip(b)).for_each(|(sum, (a, b))| *sum += a * b);
    }
    sums.iter().sum::<f32>() + rest
}
