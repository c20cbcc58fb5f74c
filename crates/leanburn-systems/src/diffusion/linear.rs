//! The best linear predictor of what a network is to say of noisy latents: what it must beat to have learned more than their mean and
//! covariance.

use std::borrow::Cow;

use burn::tensor::{Device, Tensor, TensorData};

use super::latent::Latent;
use super::noise::Parts;
use crate::volume::values;

/// Mean and covariance of latents.
///
/// The covariance is that of the means, shrunk towards a multiple of one as the oracle approximating shrinkage has it for data that is
/// normal ([Chen, Wiesel, Eldar and Hero](https://arxiv.org/abs/0907.4698)), and the variance that the encoder draws about them.
#[derive(Debug)]
pub(super) struct LinearPredictor {
    /// `[1, places]`.
    mean: Tensor<2>,
    /// The latents about their mean, `[latents, places]`.
    rows: Tensor<2>,
    /// Their products, `[latents, latents]`.
    products: Vec<f64>,
    /// The covariance is `weight` times the sum of the outer products of the rows, and `rest` in every direction.
    weight: f64,
    rest: f64,
}

/// The predictor at one level of noise.
#[derive(Debug)]
pub(super) struct LinearPredictorAt<'a> {
    predictor: &'a LinearPredictor,
    parts: Parts,
    /// `rest` of noisy latents.
    rest: f64,
    /// The factor of the products with `rest` divided by the weight of their rows; none where rows have no weight.
    factor: Option<Cholesky>,
}

impl LinearPredictor {
    /// Fits latents of one shape: none of fewer than two.
    ///
    /// Keeps their means, and as many numbers as the square of their count.
    pub fn fit(latents: &[Cow<'_, Latent>], device: &Device) -> Option<Self> {
        let [first, _, ..] = latents else { return None };
        let (count, places) = (latents.len(), first.mean.len());
        let means: Vec<f32> = latents.iter().flat_map(|latent| latent.mean.iter().copied()).collect();
        let rows = Tensor::<2>::from_data(TensorData::new(means, [count, places]), device);
        let mean = rows.clone().mean_dim(0);
        let rows = rows - mean.clone();
        let products = f64s(rows.clone().matmul(rows.clone().transpose()));

        let freedom = (count - 1) as f64;
        let trace = (0..count).map(|index| products[index * count + index]).sum::<f64>() / freedom;
        let square = products.iter().map(|product| (product / freedom).powi(2)).sum::<f64>();
        let shrinkage = oracle_shrinkage([trace, square], count, places);
        let deviations = latents.iter().flat_map(|latent| &latent.deviation);
        let drawn = deviations.map(|deviation| f64::from(*deviation).powi(2)).sum::<f64>() / (count * places) as f64;
        let (weight, rest) = ((1.0 - shrinkage) / freedom, shrinkage * trace / places as f64 + drawn);
        Some(Self { mean, rows, products, weight, rest })
    }

    /// The predictor where noisy latents and what a network should say have these parts.
    pub fn at(&self, parts: Parts) -> LinearPredictorAt<'_> {
        let [of_latent, of_noise] = parts.input;
        let (weight, rest) = (of_latent.powi(2) * self.weight, of_latent.powi(2) * self.rest + of_noise.powi(2));
        let factor = (weight > 0.0).then(|| Cholesky::of(&self.products, rest / weight, self.rows.dims()[0]));
        LinearPredictorAt { predictor: self, parts, rest, factor }
    }
}

impl LinearPredictorAt<'_> {
    /// What the network should say of a noisy latent, `[1, channels, depth, height, width]`, by its best linear prediction.
    pub fn predict(&self, noisy: Tensor<5>) -> Tensor<5> {
        let Self { predictor: LinearPredictor { mean, rows, .. }, parts, rest, factor } = self;
        let ([latent, noise], [of_latent, of_noise]) = (parts.input, parts.target);
        let (shape, device) = (noisy.dims(), noisy.device());
        let about = noisy.reshape([1, -1]) - mean.clone() * latent;
        // the inverse of the noisy latents' covariance times what they are about the mean, by the rows' products (Woodbury)
        let inside = match factor {
            Some(factor) => {
                let solved = factor.solve(f64s(about.clone().matmul(rows.clone().transpose())));
                let solved: Vec<f32> = solved.into_iter().map(|value| value as f32).collect();
                let count = solved.len();
                about.clone()
                    - Tensor::<2>::from_data(TensorData::new(solved, [1, count]), &device).matmul(rows.clone())
            }
            None => about.clone(),
        };
        let whitened = inside / *rest;
        let denoised = mean.clone() + (about - whitened.clone() * noise.powi(2)) / latent;
        (denoised * of_latent + whitened * (noise * of_noise)).reshape(shape)
    }
}

/// How much of a covariance of normal data is replaced by a multiple of one, of its trace and that of its square, as so many samples of so
/// many places have it.
fn oracle_shrinkage([trace, square]: [f64; 2], samples: usize, places: usize) -> f64 {
    let (samples, places) = (samples as f64, places as f64);
    let part = 1.0 - 2.0 / places;
    let apart = (samples + part) * (square - trace.powi(2) / places);
    if apart > 0.0 { ((part * square + trace.powi(2)) / apart).clamp(0.0, 1.0) } else { 1.0 }
}

/// The lower factor of a symmetric positive definite matrix, row by row.
#[derive(Debug)]
struct Cholesky {
    rows: Vec<Vec<f64>>,
}

impl Cholesky {
    /// That of a matrix of so many rows with a number added along its diagonal.
    fn of(matrix: &[f64], diagonal: f64, count: usize) -> Self {
        let mut rows: Vec<Vec<f64>> = Vec::with_capacity(count);
        for row in matrix.chunks(count) {
            let mut new = Vec::with_capacity(count);
            for (column, earlier) in rows.iter().enumerate() {
                let left = row[column] - dot(&new, earlier);
                new.push(left / earlier[column]);
            }
            let left = row[rows.len()] + diagonal - dot(&new, &new);
            new.push(left.max(f64::MIN_POSITIVE).sqrt());
            rows.push(new);
        }
        Self { rows }
    }

    /// What the matrix takes to a right-hand side.
    fn solve(&self, mut side: Vec<f64>) -> Vec<f64> {
        for (index, row) in self.rows.iter().enumerate() {
            side[index] = (side[index] - dot(&side[..index], row)) / row[index];
        }
        for (index, row) in self.rows.iter().enumerate().rev() {
            side[index] /= row[index];
            let value = side[index];
            side[..index].iter_mut().zip(row).for_each(|(side, factor)| *side -= factor * value);
        }
        side
    }
}

/// The sum of products, as far as the shorter one goes.
fn dot(one: &[f64], other: &[f64]) -> f64 {
    one.iter().zip(other).map(|(one, other)| one * other).sum()
}

fn f64s(tensor: Tensor<2>) -> Vec<f64> {
    values(tensor).into_iter().map(f64::from).collect()
}

#[cfg(test)]
mod tests {
    use leanburn_ops::random::{Distribution, drawn};

    use super::*;
    use crate::diffusion::noise::{Noise, tests::schedulers};

    /// Along eight axes that are none of the places'.
    const VARIANCES: [f64; 8] = [9.0, 4.0, 1.0, 1.0, 0.25, 0.04, 0.01, 0.01];
    const DEVIATION: f64 = 0.2;

    /// Normal latents of those variances about a mean of 1, 2, ..., 8.
    fn latents(count: usize, seed: u64) -> Vec<Latent> {
        let normal = values(drawn(seed, Distribution::STANDARD, [count, 8], &Device::flex()));
        let of = |normal: &[f32]| {
            let place = |place: usize| {
                let terms = (0..8).map(|axis| along(axis, place) * f64::from(normal[axis]));
                (place as f64 + 1.0 + terms.sum::<f64>()) as f32
            };
            Latent {
                name: String::new(),
                shape: [1, 2, 2, 2],
                class: None,
                mean: (0..8).map(place).collect(),
                deviation: vec![DEVIATION as f32; 8],
            }
        };
        normal.chunks(8).map(of).collect()
    }

    /// A deviation along an axis, at a place: by a Hadamard matrix.
    fn along(axis: usize, place: usize) -> f64 {
        let sign = if (place & axis).count_ones().is_multiple_of(2) { 1.0 } else { -1.0 };
        sign * (VARIANCES[axis] / 8.0).sqrt()
    }

    /// The predictor that knows all of them.
    fn knowing() -> LinearPredictor {
        let tensor = |values: Vec<f64>| {
            let values: Vec<f32> = values.into_iter().map(|value| value as f32).collect();
            Tensor::<2>::from_data(TensorData::new(values.clone(), [values.len() / 8, 8]), &Device::flex())
        };
        let rows = tensor((0..64).map(|index| along(index / 8, index % 8)).collect());
        let products = f64s(rows.clone().matmul(rows.clone().transpose()));
        let mean = tensor((1..9).map(f64::from).collect());
        LinearPredictor { mean, rows, products, weight: 1.0, rest: DEVIATION.powi(2) }
    }

    fn fitted(latents: &[Latent]) -> LinearPredictor {
        let latents: Vec<Cow<'_, Latent>> = latents.iter().map(Cow::Borrowed).collect();
        LinearPredictor::fit(&latents, &Device::flex()).unwrap()
    }

    /// The mean squared error on other latents, and what is left of normal data of these variances where all is known.
    fn errors(predictor: &LinearPredictor, noise: &Noise, level: f64) -> [f64; 2] {
        let device = Device::flex();
        let parts = noise.parts(level, &device);
        let at = predictor.at(parts);
        let normal = |key: u64, number: usize| -> Tensor<5> {
            drawn(key + number as u64, Distribution::STANDARD, [1, 1, 2, 2, 2], &device)
        };
        let tested = latents(1000, 2);
        let error = |(number, latent): (usize, &Latent)| {
            let mean = Tensor::from_data(TensorData::new(latent.mean.clone(), [1, 1, 2, 2, 2]), &device);
            let noisy = noise.add(
                mean + normal(5000, number) * DEVIATION,
                normal(9000, number),
                Tensor::full([1], level, &device),
            );
            let error = at.predict(noisy.input) - noisy.target;
            f64::from(error.powi_scalar(2).mean().into_scalar::<f32>())
        };
        let found = tested.iter().enumerate().map(error).sum::<f64>() / tested.len() as f64;
        let ([latent, noise], [of_latent, of_noise]) = (parts.input, parts.target);
        let left = |variance: f64| {
            let variance = variance + DEVIATION.powi(2);
            let known = variance * noise.powi(2) / (latent.powi(2) * variance + noise.powi(2));
            known * (of_latent - of_noise * latent / noise).powi(2)
        };
        [found, VARIANCES.into_iter().map(left).sum::<f64>() / 8.0]
    }

    #[test]
    fn normal_latents_are_predicted_as_well_as_can_be() {
        let (fitted, knowing) = (fitted(&latents(400, 1)), knowing());
        for (kind, scheduler) in schedulers().into_iter().enumerate() {
            let noise = Noise::of(&scheduler, None);
            for share in [0.125, 0.375, 0.625, 0.875] {
                let [found, least] = [&fitted, &knowing].map(|predictor| errors(predictor, &noise, noise.at(share)));
                assert!((least[0] / least[1] - 1.0).abs() < 0.12, "scheduler {kind}, {share}: {least:?}, by chance");
                assert!(found[0] < 1.05 * least[0], "scheduler {kind}, {share}: {} beside {}", found[0], least[0]);
            }
        }
    }

    /// With fewer latents than places the covariance alone would say that most directions have no variance.
    #[test]
    fn few_latents_are_not_trusted() {
        assert!(LinearPredictor::fit(&[Cow::Owned(latents(1, 1).remove(0))], &Device::flex()).is_none());
        let noise = Noise::of(&schedulers()[0], None);
        let (few, many) = (fitted(&latents(4, 1)), fitted(&latents(400, 1)));
        assert!(few.rest > 0.1 && many.rest < 0.1, "{} {}", few.rest, many.rest);
        let trusting = LinearPredictor { weight: 1.0 / 3.0, rest: DEVIATION.powi(2), ..fitted(&latents(4, 1)) };
        let errors = [&many, &few, &trusting].map(|predictor| errors(predictor, &noise, noise.at(0.375))[0]);
        assert!(errors.is_sorted_by(|less, more| 1.05 * less < *more), "{errors:?}");
    }

    #[test]
    fn the_factor_solves() {
        let matrix = [4.0, 2.0, 0.6, 2.0, 5.0, 1.0, 0.6, 1.0, 3.0];
        let solution = Cholesky::of(&matrix, 1.0, 3).solve(vec![5.0, -6.0, 7.0]);
        for (index, side) in [5.0, -6.0, 7.0].into_iter().enumerate() {
            let found = dot(&matrix[3 * index..], &solution) + solution[index];
            assert!((found - side).abs() < 1e-12, "{found} {side}");
        }
    }
}
