//! Which two noise levels an item is seen at.

use burn::tensor::{DType, Device, Tensor, activation::sigmoid};
use leanburn_ops::random;

use crate::diffusion::karras_sigmas;

/// Noise levels between two, denser where they are small; see [`karras_sigmas`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NoiseLevels {
    /// The smallest, where the model is the identity.
    pub sigma_min: f64,
    /// The largest.
    pub sigma_max: f64,
    /// How much denser.
    pub rho: f64,
}

impl Default for NoiseLevels {
    /// 0.002 to 80 with an exponent of 7.
    fn default() -> Self {
        Self { sigma_min: 0.002, sigma_max: 80.0, rho: 7.0 }
    }
}

/// How often each pair of neighbouring noise levels is drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LevelWeights {
    /// All alike.
    Uniform,
    /// By the share of a log-normal distribution between them.
    LogNormal {
        /// Mean of the logarithm.
        mean: f64,
        /// Its deviation.
        deviation: f64,
    },
}

impl LevelWeights {
    /// Those of improved consistency training.
    pub const IMPROVED: Self = Self::LogNormal { mean: -1.1, deviation: 2.0 };

    /// The share of each pair of neighbours of falling noise levels; they add up to one.
    pub fn shares(&self, sigmas: &[f64]) -> Vec<f64> {
        let shares: Vec<f64> = match *self {
            Self::Uniform => vec![1.0; sigmas.len() - 1],
            Self::LogNormal { mean, deviation } => {
                let at = sigmas.iter().map(|sigma| (sigma.ln() - mean) / (2f64.sqrt() * deviation)).collect::<Vec<_>>();
                let heights = error_function(at);
                heights.windows(2).map(|pair| pair[0] - pair[1]).collect()
            }
        };
        let sum: f64 = shares.iter().sum();
        shares.into_iter().map(|share| share / sum).collect()
    }
}

impl NoiseLevels {
    /// So many noise levels, the largest first. The last is `sigma_min`, unrounded.
    ///
    /// # Panics
    ///
    /// Panics if there are fewer than two.
    pub fn discretised(&self, levels: usize) -> Vec<f64> {
        assert!(levels >= 2, "NoiseLevels: {levels} levels, expected at least 2");
        let mut sigmas = karras_sigmas(levels, self.sigma_min, self.sigma_max, self.rho);
        sigmas[levels - 1] = self.sigma_min;
        sigmas
    }

    /// The noise level of which a share, from 0 to 1, of all are lower.
    pub fn at(&self, share: f64) -> f64 {
        let [low, high] = [self.sigma_min, self.sigma_max].map(|sigma| sigma.powf(1.0 / self.rho));
        (low + share * (high - low)).powf(self.rho)
    }

    /// A pair of neighbours for each of so many items, the larger one first: two tensors `[batch_size]`.
    ///
    /// # Panics
    ///
    /// Panics if there are fewer than two levels.
    pub fn pairs(&self, levels: usize, weights: LevelWeights, batch_size: usize, device: &Device) -> [Tensor<1>; 2] {
        let sigmas = self.discretised(levels);
        let ends: Vec<f32> = cumulative(&weights.shares(&sigmas)).into_iter().map(|share| share as f32).collect();
        // a pair's index is how many pairs in front of it end below the drawn number
        let index = match &ends[..levels - 2] {
            [] => Tensor::<1>::zeros([batch_size], device).int(),
            ends => {
                let ends = Tensor::<1>::from_floats(ends, device).unsqueeze_dim::<2>(0);
                let drawn = random::uniform([batch_size], device).unsqueeze_dim::<2>(1);
                drawn.greater_equal(ends).int().sum_dim(1).squeeze_dim::<1>(1)
            }
        };
        let table = |sigmas: &[f64]| {
            let values: Vec<f32> = sigmas.iter().map(|sigma| *sigma as f32).collect();
            Tensor::<1>::from_floats(values.as_slice(), device).select(0, index.clone())
        };
        [table(&sigmas[..levels - 1]), table(&sigmas[1..])]
    }
}

/// The error function in float64, which the standard library does not have and the CPU's tensors do.
fn error_function(values: Vec<f64>) -> Vec<f64> {
    let values = Tensor::<1>::from_data(values.as_slice(), (&Device::flex(), DType::F64));
    values.erf().into_data().try_to_vec().expect("they are float64")
}

fn cumulative(shares: &[f64]) -> Vec<f64> {
    let mut sum = 0.0;
    shares
        .iter()
        .map(|share| {
            sum += share;
            sum
        })
        .collect()
}

/// Noise levels of easy consistency tuning: any, and one that is below it by a share that falls with each stage. Geng et al.,
/// [Consistency Models Made Easy](https://arxiv.org/abs/2406.14548).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EasyTuning {
    /// Mean of the larger level's logarithm.
    pub mean: f64,
    /// Its deviation.
    pub deviation: f64,
    /// By what the gap is divided with each stage.
    pub q: f64,
}

impl Default for EasyTuning {
    fn default() -> Self {
        Self { mean: -1.1, deviation: 2.0, q: 4.0 }
    }
}

impl EasyTuning {
    /// A pair for each of so many items, the larger one first: two tensors `[batch_size]`. At an early stage many of the lower ones are 0:
    /// that is training of a diffusion model.
    pub fn pairs(&self, stage: u32, batch_size: usize, device: &Device) -> [Tensor<1>; 2] {
        let high = (random::normal([batch_size], device) * self.deviation + self.mean).exp();
        let low = self.below(high.clone(), stage);
        [high, low]
    }

    /// The lower neighbours: `t (1 - (1 + 8 sigmoid(-t)) / q^(stage + 1))`, at least 0.
    pub fn below(&self, high: Tensor<1>, stage: u32) -> Tensor<1> {
        let share = sigmoid(high.clone().neg()) * 8.0 + 1.0;
        (high * (share * -self.q.powi(-(stage as i32 + 1)) + 1.0)).clamp_min(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(values: Tensor<1>) -> Vec<f32> {
        values.into_data().try_to_vec().unwrap()
    }

    #[test]
    fn levels_are_those_of_the_formula() {
        let sigmas = NoiseLevels::default().discretised(18);
        // computed in Python
        for (index, expected) in [(0, 80.0), (1, 57.585_984_7), (9, 1.923_339_8), (17, 0.002)] {
            assert!((sigmas[index] / expected - 1.0).abs() < 1e-6, "{index}: {}", sigmas[index]);
        }
    }

    #[test]
    fn pairs_are_neighbours_as_often_as_their_weights() {
        let (device, levels) = (Device::flex(), NoiseLevels::default());
        random::seed(&device, 3);
        let sigmas = levels.discretised(6);
        for weights in [LevelWeights::Uniform, LevelWeights::IMPROVED] {
            const ITEMS: usize = 20_000;
            let [high, low] = levels.pairs(6, weights, ITEMS, &device).map(numbers);
            let expected = weights.shares(&sigmas);
            assert!((expected.iter().sum::<f64>() - 1.0).abs() < 1e-12);
            for (pair, expected) in expected.iter().enumerate() {
                let is_pair =
                    |index: &usize| high[*index] == sigmas[pair] as f32 && low[*index] == sigmas[pair + 1] as f32;
                let share = (0..ITEMS).filter(is_pair).count() as f64 / ITEMS as f64;
                assert!((share - expected).abs() < 0.012, "{weights:?} {pair}: {share} {expected}");
            }
        }
        assert_eq!(numbers(levels.pairs(2, LevelWeights::Uniform, 1, &device)[1].clone()), [0.002]);
    }

    #[test]
    fn easy_tuning_closes_the_gap() {
        let tuning = EasyTuning::default();
        let high = Tensor::<1>::from_floats([0.1, 1.0, 10.0], &Device::flex());
        for (stage, expected) in [(0, [0.0, 0.212_117_16, 7.499_092]), (3, [0.098_124_9, 0.987_689_3, 9.960_923])] {
            for (found, expected) in numbers(tuning.below(high.clone(), stage)).iter().zip(expected) {
                assert!((found - expected).abs() < 2e-5, "{stage}: {found} {expected}");
            }
        }
    }
}
