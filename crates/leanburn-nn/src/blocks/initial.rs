//! Initial weights: drawn when they are first used, under a key that each gets when its layer is made. So seed and place
//! decide them, not the order of use.

use burn::module::{Param, ParamId};
use burn::nn::Initializer;
use burn::tensor::{Device, Tensor, TensorData};
use leanburn_ops::random::{self, Distribution};

/// A parameter that takes a gradient.
pub(crate) fn drawn<const D: usize>(distribution: Distribution, dims: [usize; D], device: &Device) -> Param<Tensor<D>> {
    let key = random::next_key(device);
    let init = move |device: &Device, takes_gradient: bool| {
        let values = device.memory_persistent_allocations((), |()| random::drawn(key, distribution, dims, device));
        if takes_gradient { values.require_grad() } else { values }
    };
    Param::uninitialized(ParamId::new(), init, device.clone(), true, dims.into())
}

/// A parameter uniform in `±1/sqrt(fan)`, PyTorch's default.
pub(crate) fn uniform<const D: usize>(fan: usize, dims: [usize; D], device: &Device) -> Param<Tensor<D>> {
    let high = 1.0 / (fan as f64).sqrt();
    drawn(Distribution::Uniform { low: -high, high }, dims, device)
}

/// A bias that starts from these numbers.
pub(crate) fn fixed(values: Vec<f32>, device: &Device) -> Param<Tensor<1>> {
    let dims = [values.len()];
    let init = move |device: &Device, takes_gradient: bool| {
        let values = device
            .memory_persistent_allocations(values, |values| Tensor::from_data(TensorData::new(values, dims), device));
        if takes_gradient { values.require_grad() } else { values }
    };
    Param::uninitialized(ParamId::new(), init, device.clone(), true, dims.into())
}

/// A parameter as Burn's initializer describes it, of a layer with so many inputs and outputs of each unit. An orthogonal one is drawn from
/// Burn's generator.
pub(super) fn described<const D: usize>(
    initializer: &Initializer,
    dims: [usize; D],
    fans: [usize; 2],
    device: &Device,
) -> Param<Tensor<D>> {
    match distribution(initializer, fans) {
        Some(distribution) => drawn(distribution, dims, device),
        None => initializer.init_with(dims, Some(fans[0]), Some(fans[1]), device),
    }
}

/// What the initializer draws from, if it draws each number by itself.
fn distribution(initializer: &Initializer, [fan_in, fan_out]: [usize; 2]) -> Option<Distribution> {
    let kaiming = |gain: f64, fan_out_only: bool| gain / (if fan_out_only { fan_out } else { fan_in } as f64).sqrt();
    let xavier = |gain: f64| gain * (2.0 / (fan_in + fan_out) as f64).sqrt();
    let normal = |deviation| Distribution::Normal { mean: 0.0, deviation };
    let uniform = |deviation: f64| {
        let high = 3f64.sqrt() * deviation;
        Distribution::Uniform { low: -high, high }
    };
    Some(match *initializer {
        Initializer::Uniform { min, max } => Distribution::Uniform { low: min, high: max },
        Initializer::Normal { mean, std } => Distribution::Normal { mean, deviation: std },
        Initializer::KaimingUniform { gain, fan_out_only } => uniform(kaiming(gain, fan_out_only)),
        Initializer::KaimingNormal { gain, fan_out_only } => normal(kaiming(gain, fan_out_only)),
        Initializer::XavierUniform { gain } => uniform(xavier(gain)),
        Initializer::XavierNormal { gain } => normal(xavier(gain)),
        Initializer::Constant { .. } | Initializer::Ones | Initializer::Zeros | Initializer::Orthogonal { .. } => {
            return None;
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(param: &Param<Tensor<2>>) -> Vec<f32> {
        param.val().into_data().try_to_vec().unwrap()
    }

    #[test]
    fn the_order_of_use_does_not_matter() {
        let device = Device::flex().autodiff();
        let pair = || {
            random::seed(&device, 3);
            [(); 2].map(|()| uniform(4, [6, 7], &device))
        };
        let [first, second] = pair();
        let used = [values(&first), values(&second)];
        assert_ne!(used[0], used[1]);
        let [first, second] = pair();
        drop(Tensor::<1>::random([5], burn::tensor::Distribution::Default, &device));
        assert_eq!([values(&second), values(&first)], [used[1].clone(), used[0].clone()]);
        assert!(first.val().is_require_grad() && !uniform(4, [1, 1], &Device::flex()).val().is_require_grad());
    }

    /// Burn's own draws, as many, reach as far and have the same deviation.
    #[test]
    fn every_initializer_is_burns() {
        const SIDE: usize = 200;
        let device = Device::flex();
        let (gain, fan_out_only) = (1.5, true);
        for initializer in [
            Initializer::Ones,
            Initializer::Uniform { min: -1.0, max: 3.0 },
            Initializer::Normal { mean: 2.0, std: 0.5 },
            Initializer::KaimingUniform { gain, fan_out_only },
            Initializer::KaimingNormal { gain, fan_out_only: false },
            Initializer::XavierUniform { gain },
            Initializer::XavierNormal { gain },
            Initializer::Orthogonal { gain },
        ] {
            let moments = |param: Param<Tensor<2>>| {
                let values = values(&param).into_iter().map(f64::from).collect::<Vec<_>>();
                let mean = values.iter().sum::<f64>() / values.len() as f64;
                let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64;
                let kurtosis = values.iter().map(|value| (value - mean).powi(4)).sum::<f64>() / values.len() as f64;
                [mean, variance.sqrt(), kurtosis.powf(0.25)]
            };
            let ours = moments(described(&initializer, [SIDE, SIDE], [10, 40], &device));
            let burns = moments(initializer.init_with([SIDE, SIDE], Some(10), Some(40), &device));
            let error = ours.iter().zip(&burns).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            assert!(error <= 0.05 * burns[1].max(0.1), "{initializer:?}: {ours:?}, Burn's {burns:?}");
        }
    }
}
