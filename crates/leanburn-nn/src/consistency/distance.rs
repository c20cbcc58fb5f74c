//! How far two samples are apart, and how much that counts.

use burn::tensor::Tensor;

/// A distance of two samples, one number for each item.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Distance {
    /// The mean of absolute differences.
    L1,
    /// The mean of squares.
    L2,
    /// `sqrt(|d|^2 + c^2) - c`, with `c` the given number times the root of the values of an item: quadratic for small differences, linear
    /// for large ones. With 0 it is the length of the difference.
    PseudoHuber(f64),
    /// `ln(1 + |d|^2 / (2 c^2))`, `c` as of the pseudo-Huber distance: outliers, which latents have, hardly count. Source:
    /// [Improved Training Technique for Latent Consistency Models](https://arxiv.org/abs/2502.01441).
    Cauchy(f64),
}

impl Distance {
    /// That of improved consistency training.
    pub const PSEUDO_HUBER: Self = Self::PseudoHuber(0.00054);

    /// The distances of items `[batch_size, ..]`: `[batch_size]`, in float32 or wider.
    pub fn of(&self, one: Tensor<5>, other: Tensor<5>) -> Tensor<1> {
        let [batch_size, channels, depth, height, width] = one.dims();
        let values = channels * depth * height * width;
        let difference = (one - other).reshape([batch_size, values]);
        let sum = |values: Tensor<2>| values.sum_dim(1).squeeze_dim::<1>(1);
        let constant = |factor: f64| factor * (values as f64).sqrt();
        match *self {
            Self::L1 => sum(difference.abs()) / values as f64,
            Self::L2 => sum(difference.square()) / values as f64,
            Self::PseudoHuber(factor) => {
                let c = constant(factor);
                // where both are 0 the root has no derivative
                (sum(difference.square()) + (c * c).max(f64::from(f32::MIN_POSITIVE))).sqrt() - c
            }
            Self::Cauchy(factor) => {
                let c = constant(factor);
                (sum(difference.square()) / (2.0 * c * c)).log1p()
            }
        }
    }
}

/// How much an item counts, by its noise levels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Weighting {
    /// All alike.
    Uniform,
    /// `1 / sigma^2`.
    Snr,
    /// `1 / sigma^2 + 1`.
    SnrPlusOne,
    /// `1 / sigma^2 + 1 / sigma_data^2`, with the given deviation of the data: as much as the network's own output.
    Karras(f64),
    /// `1 / sigma^2`, at least 1.
    TruncatedSnr,
    /// One divided by the gap to the lower level.
    InverseGap,
}

impl Weighting {
    /// The weights of pairs of noise levels, the larger ones first; all are `[batch_size]`.
    pub fn of(&self, high: Tensor<1>, low: Tensor<1>) -> Tensor<1> {
        let snr = || (high.clone() * high.clone()).recip();
        match *self {
            Self::Uniform => Tensor::ones_like(&high),
            Self::Snr => snr(),
            Self::SnrPlusOne => snr() + 1.0,
            Self::Karras(sigma_data) => snr() + 1.0 / (sigma_data * sigma_data),
            Self::TruncatedSnr => snr().clamp_min(1.0),
            Self::InverseGap => (high - low).recip(),
        }
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;

    use super::*;

    fn numbers(values: Tensor<1>) -> Vec<f32> {
        values.into_data().try_to_vec().unwrap()
    }

    #[test]
    fn distances_are_those_of_the_formulas() {
        let device = Device::flex();
        let one = Tensor::<1>::from_floats([3.0, 0.0, 4.0, 0.0, 0.0, 0.0, 0.0, 0.0], &device).reshape([2, 1, 1, 2, 2]);
        let distances = |distance: Distance| numbers(distance.of(one.clone(), Tensor::zeros_like(&one)));
        for (distance, expected) in [
            (Distance::L1, 1.75),
            (Distance::L2, 6.25),
            (Distance::PseudoHuber(6.0), 13.0 - 12.0),
            (Distance::PseudoHuber(0.0), 5.0),
            (Distance::Cauchy(0.5), 13.5f32.ln()),
        ] {
            let found = distances(distance);
            assert!((found[0] - expected).abs() < 1e-5 && found[1].abs() < 1e-6, "{distance:?}: {found:?}");
        }
    }

    #[test]
    fn weights_are_those_of_the_formulas() {
        let device = Device::flex();
        let [high, low] = [[0.5, 2.0], [0.25, 1.5]].map(|values| Tensor::<1>::from_floats(values, &device));
        for (weighting, expected) in [
            (Weighting::Uniform, [1.0, 1.0]),
            (Weighting::Snr, [4.0, 0.25]),
            (Weighting::SnrPlusOne, [5.0, 1.25]),
            (Weighting::Karras(0.5), [8.0, 4.25]),
            (Weighting::TruncatedSnr, [4.0, 1.0]),
            (Weighting::InverseGap, [4.0, 2.0]),
        ] {
            assert_eq!(numbers(weighting.of(high.clone(), low.clone())), expected, "{weighting:?}");
        }
    }
}
