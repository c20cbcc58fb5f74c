//! The weights of a spectral convolution, dense or as Tucker factors.

use burn::module::{Module, Param};
use burn::tensor::{Device, Tensor};
use leanburn_ops::random::Distribution;
use leanburn_ops::recompute;

use super::config::{FnoConfig, FnoFrequencies};
use crate::blocks::drawn;

/// Complex weights of each pair of channels at each frequency: dense, or a core with a factor for each axis.
///
/// Tucker factors: Kossaifi et al., [Multi-Grid Tensorized Fourier Neural Operator](https://arxiv.org/abs/2310.00120).
///
/// # Memory
///
/// Saved for backward: with factors, the weights that they stand for. What is made on the way to them is made again in backward.
#[derive(Module, Debug)]
pub struct FnoWeights {
    /// `[2, in, out, depth, height, width]` of the frequencies, real parts and imaginary parts; with factors their core.
    values: Param<Tensor<6>>,
    /// `[2, size, rank]` of input, output and the axes that the model has; none where `values` is dense.
    factors: Vec<Param<Tensor<3>>>,
}

impl FnoWeights {
    /// Weights of so many channels at so many frequencies along depth, height and width.
    pub(super) fn new(config: &FnoConfig, channels: [usize; 2], kept: [usize; 3], device: &Device) -> Self {
        let [channels_in, channels_out] = channels;
        let sizes = [channels_in, channels_out, kept[0], kept[1], kept[2]];
        let deviation = (2.0 / (channels_in + channels_out) as f64).sqrt();
        // A complex number has its variance in two parts.
        let normal = |deviation: f64| Distribution::Normal { mean: 0.0, deviation: deviation / 2f64.sqrt() };
        let Some(rank) = config.rank else {
            let high = 1.0 / (channels_in * channels_out) as f64;
            let distribution = match config.frequencies {
                FnoFrequencies::Corners => Distribution::Uniform { low: 0.0, high },
                FnoFrequencies::Centred => normal(deviation),
            };
            return Self { values: drawn(distribution, with_parts(sizes), device), factors: Vec::new() };
        };
        // Input, output, and of depth, height and width those that the model has.
        let axes: Vec<usize> = (0..5).filter(|axis| *axis < 2 || axis + config.axes() >= 5).collect();
        let shape: Vec<usize> = axes.iter().map(|axis| sizes[*axis]).collect();
        let ranks = tucker_ranks(&shape, rank);
        // So that the product of all has the deviation of dense weights.
        let spread = ranks.iter().map(|rank| (*rank as f64).sqrt()).product::<f64>();
        let each = normal((deviation / spread).powf(1.0 / (axes.len() + 1) as f64));
        let mut core = [1; 5];
        axes.iter().zip(&ranks).for_each(|(axis, rank)| core[*axis] = *rank);
        let factor = |(size, rank): (&usize, &usize)| drawn(each, [2, *size, *rank], device);
        Self { values: drawn(each, with_parts(core), device), factors: shape.iter().zip(&ranks).map(factor).collect() }
    }

    /// The dense weights, `[2, in, out, depth, height, width]`.
    pub(super) fn dense(&self) -> Tensor<6> {
        match self.factors.is_empty() {
            true => self.values.val(),
            false => recompute(self, Vec::<Tensor<1>>::new(), |weights: &Self, _| weights.product()),
        }
    }

    /// Core times factors. Channels come last, where the tensors are largest.
    fn product(&self) -> Tensor<6> {
        let axes = self.factors.len();
        let order = (2..axes).chain([0, 1]);
        order.fold(self.values.val(), |values, index| {
            let axis = if index < 2 { index } else { index + 5 - axes };
            times(values, axis, self.factors[index].val())
        })
    }
}

fn with_parts([channels_in, channels_out, depth, height, width]: [usize; 5]) -> [usize; 6] {
    [2, channels_in, channels_out, depth, height, width]
}

/// The complex product of a factor `[2, size, rank]` with an axis of length `rank`, counted behind the parts.
fn times(values: Tensor<6>, axis: usize, factor: Tensor<3>) -> Tensor<6> {
    let (mut dims, [_, size, rank]) = (values.dims(), factor.dims());
    let [before, behind] = [&dims[1..axis + 1], &dims[axis + 2..]].map(|dims| dims.iter().product::<usize>());
    let [real, imaginary] = [0, 1].map(|part| factor.clone().narrow(0, part, 1).reshape([size, rank]));
    // Real rows above imaginary ones: one product of real matrices.
    let above = Tensor::cat(vec![real.clone(), imaginary.clone().neg()], 1);
    let matrix = Tensor::cat(vec![above, Tensor::cat(vec![imaginary, real], 1)], 0);
    let rows: Tensor<4> = values.reshape([2, before, rank, behind]).permute([0, 2, 1, 3]);
    let product: Tensor<4> =
        matrix.matmul(rows.reshape([2 * rank, before * behind])).reshape([2, size, before, behind]);
    dims[axis + 1] = size;
    product.permute([0, 2, 1, 3]).reshape(dims)
}

/// Ranks of the axes of a tensor whose core and factors have a share of its numbers: the same share of each axis, rounded half to even,
/// as tensorly has them.
fn tucker_ranks(shape: &[usize], share: f64) -> Vec<usize> {
    let numbers = shape.iter().map(|size| *size as f64).product::<f64>();
    let squares = shape.iter().map(|size| (*size as f64).powi(2)).sum::<f64>();
    let excess = |part: f64| numbers * part.powi(shape.len() as i32) + squares * part - share * numbers;
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..100 {
        let middle = 0.5 * (low + high);
        if excess(middle) < 0.0 { low = middle } else { high = middle }
    }
    shape.iter().map(|size| ((*size as f64 * high).round_ties_even() as usize).max(1)).collect()
}

#[cfg(test)]
mod tests {
    use burn::tensor::{TensorData, Tolerance};

    use super::*;

    /// `validate_tucker_rank` of tensorly 0.10 gives these.
    #[test]
    fn ranks_are_tensorlys() {
        assert_eq!(tucker_ranks(&[64, 64, 12, 7], 0.1), [35, 35, 7, 4]);
        assert_eq!(tucker_ranks(&[32, 32, 16, 16, 9], 0.1), [20, 20, 10, 10, 6]);
        assert_eq!(tucker_ranks(&[3, 3, 2, 2], 0.05), [1; 4]);
    }

    #[test]
    fn a_product_is_that_of_complex_numbers() {
        let device = Device::flex();
        let tensor =
            |values: Vec<f32>, dims: [usize; 6]| Tensor::<6>::from_data(TensorData::new(values, dims), &device);
        // (1 + 2i, 3 - i) along the last axis but one, times the rows (i, 2) and (1 - i, 0).
        let values = tensor(vec![1.0, 3.0, 2.0, -1.0], [2, 1, 1, 1, 2, 1]);
        let factor = Tensor::<3>::from_data([[[0.0, 2.0], [1.0, 0.0]], [[1.0, 0.0], [-1.0, 0.0]]], &device);
        let expected = tensor(vec![4.0, 3.0, -1.0, 1.0], [2, 1, 1, 1, 2, 1]);
        times(values, 3, factor).into_data().assert_approx_eq::<f32>(&expected.into_data(), Tolerance::relative(1e-6));
    }
}
