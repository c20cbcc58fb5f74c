//! The loss: the same sample at neighbouring noise levels.

use burn::tensor::Tensor;
use leanburn_ops::random;

use super::distance::{Distance, Weighting};
use crate::diffusion::{EdmPreconditioning, per_item};

/// One item at two noise levels of one way from noise to sample.
#[derive(Clone, Debug)]
pub struct NoiseLevelPair {
    /// The volume at the larger level, `[batch_size, channels, depth, height, width]`.
    pub high: Tensor<5>,
    /// The larger level of each item, `[batch_size]`.
    pub high_sigma: Tensor<1>,
    /// The volume at the lower level, in the shape of the other.
    pub low: Tensor<5>,
    /// The lower level of each item.
    pub low_sigma: Tensor<1>,
}

/// Samples and noise at two noise levels: `sample + sigma noise`. The slope of the way is that of the sample itself, without a teacher.
pub fn on_a_line(sample: Tensor<5>, noise: Tensor<5>, [high_sigma, low_sigma]: [Tensor<1>; 2]) -> NoiseLevelPair {
    let at = |sigma: &Tensor<1>| sample.clone() + noise.clone() * per_item(sigma.clone());
    NoiseLevelPair { high: at(&high_sigma), low: at(&low_sigma), high_sigma, low_sigma }
}

/// Samples and noise at the larger noise level, and what one of Heun's steps of a teacher makes of them at the lower one.
///
/// `teacher` is given volumes and their noise levels `[batch_size]`, and gives denoised volumes. It should have no gradient: a module without
/// autodiff, or one whose parameters ask for none.
///
/// # Memory
///
/// Two evaluations of the teacher, one after the other.
pub fn heun_step(
    sample: Tensor<5>,
    noise: Tensor<5>,
    [high_sigma, low_sigma]: [Tensor<1>; 2],
    mut teacher: impl FnMut(Tensor<5>, Tensor<1>) -> Tensor<5>,
) -> NoiseLevelPair {
    let high = sample + noise * per_item(high_sigma.clone());
    let step = per_item(low_sigma.clone() - high_sigma.clone());
    let mut slope =
        |x: &Tensor<5>, sigma: &Tensor<1>| (x.clone() - teacher(x.clone(), sigma.clone())) / per_item(sigma.clone());
    let first = slope(&high, &high_sigma);
    let there = high.clone() + first.clone() * step.clone();
    let second = slope(&there, &low_sigma);
    let low = high.clone() + (first + second) * step / 2.0;
    NoiseLevelPair { low: low.detach(), high, high_sigma, low_sigma }
}

/// The weighted distance of what a model gives at the larger noise level to what its target gives at the lower one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ConsistencyLoss {
    /// How networks become denoisers.
    pub preconditioning: EdmPreconditioning,
    /// The distance.
    pub distance: Distance,
    /// How much each item counts.
    pub weighting: Weighting,
}

impl ConsistencyLoss {
    /// The loss of a batch, `[1]`. Both networks are given volumes and times `[batch_size]`, and draw the same random numbers: dropout drops
    /// the same in both. No gradient goes to the target.
    ///
    /// # Memory
    ///
    /// That of the model's forward pass. A target without parameters that ask for a gradient saves nothing, and runs first.
    pub fn forward(
        &self,
        pair: NoiseLevelPair,
        model: impl FnOnce(Tensor<5>, Tensor<1>) -> Tensor<5>,
        target: impl FnOnce(Tensor<5>, Tensor<1>) -> Tensor<5>,
    ) -> Tensor<1> {
        let NoiseLevelPair { high, high_sigma, low, low_sigma } = pair;
        let device = high.device();
        let key = random::next_key(&device);
        let target = random::scoped(|| {
            random::seed(&device, key);
            self.preconditioning.denoise(low, low_sigma.clone(), target).detach()
        });
        let given = random::scoped(|| {
            random::seed(&device, key);
            self.preconditioning.denoise(high, high_sigma.clone(), model)
        });
        (self.distance.of(given, target) * self.weighting.of(high_sigma, low_sigma)).mean()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use burn::tensor::Device;
    use leanburn_ops::dropout;

    use super::*;

    fn number(value: &Tensor<5>) -> f32 {
        value.clone().mean().into_scalar::<f32>()
    }

    fn sigmas(values: [f32; 2], device: &Device) -> [Tensor<1>; 2] {
        values.map(|sigma| Tensor::from_floats([sigma], device))
    }

    /// At the smallest noise level the denoiser is the identity, bit for bit, whatever the network.
    #[test]
    fn the_boundary_is_exact() {
        let device = Device::flex();
        let preconditioning = EdmPreconditioning::consistency(0.5, 0.002);
        let x = random::normal([2, 1, 3, 3, 3], &device);
        let sigma = Tensor::from_floats([0.002, 0.002], &device);
        let denoised = preconditioning.denoise(x.clone(), sigma, |x, time| x.sin() * 7.0 + per_item(time));
        assert_eq!(denoised.into_data(), x.into_data());
    }

    /// The formulas of Karras et al. and of consistency models, in float64.
    #[test]
    fn coefficients_are_those_of_the_formulas() {
        let device = Device::flex();
        for (boundary, sigma) in [(0.0, 1.3f64), (0.002, 0.7), (0.002, 80.0)] {
            let data = 0.5f64;
            let preconditioning = EdmPreconditioning { sigma_data: data, boundary };
            let found = preconditioning
                .coefficients(Tensor::<1>::from_floats([sigma as f32], &device))
                .map(|value| f64::from(value.into_scalar::<f32>()));
            let root = (sigma * sigma + data * data).sqrt();
            let skip = data * data / ((sigma - boundary).powi(2) + data * data);
            for (found, expected) in found.iter().zip([skip, (sigma - boundary) * data / root, 1.0 / root]) {
                assert!((found / expected - 1.0).abs() < 1e-5, "{found} {expected}");
            }
        }
    }

    /// With the exact denoiser of normal data, Heun's step stays on the exact way to the third order.
    #[test]
    fn a_teacher_s_step_stays_on_the_way() {
        let (device, data) = (Device::flex(), 0.5);
        let error = |low: f32| {
            let ones = || Tensor::<5>::ones([1, 1, 1, 1, 1], &device);
            let pair = heun_step(ones() * 0.3, ones(), sigmas([1.0, low], &device), |x, sigma| {
                x * per_item((sigma.clone() * sigma + data * data).recip() * data * data)
            });
            let exact = number(&pair.high) * ((data as f32).powi(2) + low * low).sqrt() / (data as f32).hypot(1.0);
            (number(&pair.low) - exact).abs()
        };
        let (coarse, fine) = (error(0.6), error(0.8));
        assert!(coarse < 2e-2 && coarse / fine > 6.0, "{coarse} {fine}");
    }

    #[test]
    fn both_networks_drop_the_same() {
        let device = Device::flex().autodiff();
        random::seed(&device, 5);
        let masks = RefCell::new(Vec::new());
        let network = |x: Tensor<5>, _| {
            masks.borrow_mut().push(dropout(Tensor::<5>::ones(x.dims(), &device), 0.5).into_data());
            x
        };
        let ones = || Tensor::<5>::ones([1, 1, 4, 4, 4], &device);
        let loss = ConsistencyLoss {
            preconditioning: EdmPreconditioning::consistency(0.5, 0.002),
            distance: Distance::L2,
            weighting: Weighting::Uniform,
        };
        for _ in 0..2 {
            loss.forward(on_a_line(ones(), ones(), sigmas([1.0, 0.5], &device)), network, network);
        }
        let masks = masks.into_inner();
        assert_eq!(masks[0], masks[1]);
        assert_ne!(masks[0], masks[2], "the next step drops others");
    }

    /// The target has no gradient, and at equal levels the loss is zero.
    #[test]
    fn only_the_model_has_a_gradient() {
        let device = Device::flex().autodiff();
        let loss = ConsistencyLoss {
            preconditioning: EdmPreconditioning::consistency(0.5, 0.002),
            distance: Distance::L2,
            weighting: Weighting::Karras(0.5),
        };
        let [model, target] = [0.3, 0.2].map(|value| Tensor::<1>::from_floats([value], &device).require_grad());
        let times = |weight: &Tensor<1>| {
            let weight = weight.clone().reshape([1, 1, 1, 1, 1]);
            move |x: Tensor<5>, _: Tensor<1>| x * weight
        };
        let ones = || Tensor::<5>::ones([1, 1, 2, 2, 2], &device);
        let pair = |levels| on_a_line(ones(), ones(), sigmas(levels, &device));
        let value = loss.forward(pair([1.0, 0.5]), times(&model), times(&target));
        // D(x, 1) = x (c_skip + 0.3 c_out c_in) and D(x, 0.5) with 0.2, for x = 2 and x = 1.5
        let denoised = |x: f64, sigma: f64, weight: f64| {
            let (above, data) = (sigma - 0.002, 0.25);
            x * (data / (above * above + data) + weight * above * 0.5 / (sigma * sigma + data))
        };
        let expected = (denoised(2.0, 1.0, 0.3) - denoised(1.5, 0.5, 0.2)).powi(2) * 5.0;
        let gradients = value.backward();
        assert!((f64::from(value.into_scalar::<f32>()) / expected - 1.0).abs() < 1e-4);
        assert!(model.grad(&gradients).is_some() && target.grad(&gradients).is_none());
        let same = loss.forward(pair([0.5, 0.5]), times(&model), times(&model)).into_scalar::<f32>();
        assert_eq!(same, 0.0);
    }
}
