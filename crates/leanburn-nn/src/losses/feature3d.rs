//! Perceptual loss of whole volumes: features of a fixed 3D network at several scales, and edges.

use burn::config::Config;
use burn::module::{Module, Param};
use burn::tensor::{Device, Tensor, TensorData, activation, ops::ConvOptions};
use leanburn_common::{Validation, ValidationError, panic_if_invalid};
use leanburn_ops::numerics::widen;
use leanburn_ops::{Activation, Convolution, ResidencyPolicy, norm_act_conv3d, random};

use super::l1::l1_loss;
use super::shapes::assert_same_shape;
use crate::segmented::segmented;
use crate::validation::Rules;

/// Configuration of [`FeatureLoss3d`].
///
/// # Example
///
/// ```
/// use burn::tensor::{Device, Distribution, Tensor};
/// use leanburn_nn::losses::FeatureLoss3dConfig;
///
/// let device = Device::flex();
/// let loss = FeatureLoss3dConfig::new().init(&device);
/// let x = Tensor::random([1, 1, 8, 8, 8], Distribution::Default, &device);
/// assert_eq!(loss.forward(x.clone(), x).into_scalar::<f32>(), 0.0);
/// ```
#[derive(Config, Debug, PartialEq)]
pub struct FeatureLoss3dConfig {
    /// Features of each scale; each scale is half the size of the one before.
    #[config(default = "vec![8, 16, 32]")]
    pub channels: Vec<usize>,
    /// What the weights are made of.
    #[config(default = 0)]
    pub seed: u64,
    /// Weight of the difference of gradients.
    #[config(default = 1.0)]
    pub gradient_weight: f64,
}

impl FeatureLoss3dConfig {
    /// Everything that is wrong with the configuration.
    #[must_use]
    pub fn validate(&self) -> Vec<ValidationError> {
        let mut validation = Validation::default();
        validation.levels("channels", &self.channels);
        validation.weight("gradient_weight", self.gradient_weight);
        validation.errors()
    }

    /// Makes the loss; its weights depend on the seed alone, on every device.
    ///
    /// # Panics
    ///
    /// Panics with the [errors](Self::validate) of the configuration if there are any.
    pub fn init(&self, device: &Device) -> FeatureLoss3d {
        panic_if_invalid("FeatureLoss3d", &self.validate());
        let mut channels_in = 1;
        let scale = |(index, channels): (usize, &usize)| {
            let channels_in = std::mem::replace(&mut channels_in, *channels);
            Scale { weight: fixed([*channels, channels_in, 3, 3, 3], self.seed, index as u64, device) }
        };
        FeatureLoss3d {
            scales: self.channels.iter().enumerate().map(scale).collect::<Vec<_>>().no_grad(),
            gradient_weight: self.gradient_weight,
            residency: ResidencyPolicy::recompute_all(),
        }
    }
}

/// Weights of a seed: uniform with variance `2 / fan_in`, as a ReLU network keeps its scale with.
///
/// Source of the variance: [Delving Deep into Rectifiers](https://arxiv.org/abs/1502.01852).
fn fixed(shape: [usize; 5], seed: u64, index: u64, device: &Device) -> Param<Tensor<5>> {
    let bound = (6.0 / shape[1..].iter().product::<usize>() as f64).sqrt();
    let uniform = |position| (random::derive(seed, &[index, position]) >> 11) as f64 / (1u64 << 53) as f64;
    let values: Vec<f32> = (0..shape.iter().product::<usize>() as u64)
        .map(|position| ((2.0 * uniform(position) - 1.0) * bound) as f32)
        .collect();
    Param::from_tensor(Tensor::from_data(TensorData::new(values, shape), device))
}

/// The difference of two volumes in the features of a fixed network of random weights, and of their edges.
///
/// The mean absolute difference of the features of each scale, averaged over scales; plus `gradient_weight` times the mean
/// absolute difference of the sizes of the steps between neighbouring voxels. Random features compare textures as trained
/// ones do, if less sharply ([Ulyanov et al.](https://arxiv.org/abs/1711.10925), [He et al.](https://arxiv.org/abs/1606.04801)),
/// and need no download. The edges: [Mathieu et al.](https://arxiv.org/abs/1511.05440). Each channel is a volume of its own.
///
/// # Memory
///
/// Saved for backward: the volumes, and one volume of features for each scale; all that a scale computes is recomputed
/// unless the policy says otherwise. The segments are `features3d.scale_0`, .. and `features3d.gradients`.
///
/// # Numerics
///
/// The network runs in the dtype of the prediction, differences are float32.
#[derive(Module, Debug)]
pub struct FeatureLoss3d {
    scales: Vec<Scale>,
    gradient_weight: f64,
    #[module(skip)]
    residency: ResidencyPolicy,
}

/// A convolution of the fixed network, and the activation before it.
#[derive(Module, Debug)]
pub struct Scale {
    weight: Param<Tensor<5>>,
}

impl Scale {
    /// Features before their activation, of features before theirs or, first, of a volume.
    ///
    /// What is given on is what the activation's backward keeps anyway; activated features would be one volume more.
    fn forward(&self, x: Tensor<5>, is_first: bool) -> Tensor<5> {
        let (stride, activation) = if is_first { (1, Activation::None) } else { (2, Activation::Relu) };
        let options = ConvOptions::new([stride; 3], [1; 3], [1; 3], 1);
        norm_act_conv3d(x, None, activation, Convolution { weight: self.weight.val(), bias: None, options }, None)
    }
}

segmented!(FeatureLoss3d);

impl FeatureLoss3d {
    /// Names of the segments in order of execution.
    pub fn segments(&self) -> Vec<String> {
        let scales = (0..self.scales.len()).map(scale_name);
        [GRADIENTS.to_string()].into_iter().chain(scales).collect()
    }

    /// The loss.
    ///
    /// # Shapes
    ///
    /// - `prediction`, `target`: `[batch_size, channels, depth, height, width]`
    /// - output: `[1]`
    ///
    /// # Panics
    ///
    /// Panics if the shapes differ.
    pub fn forward(&self, prediction: Tensor<5>, target: Tensor<5>) -> Tensor<1> {
        assert_same_shape(&prediction, &target);
        let [mut x, mut y] = [prediction, target.detach()].map(single_channels);
        let mut loss = self.gradients(x.clone(), y.clone());
        for (index, scale) in self.scales.iter().enumerate() {
            let is_first = index == 0;
            // The target takes no gradient: its features are made once, and are no part of what runs again. They are
            // activated in place, and a second activation would change nothing.
            y = activation::relu(scale.forward(y, is_first));
            let inputs = (x, y.clone());
            let outputs = self.residency.run(&scale_name(index), scale, inputs, move |scale: &Scale, (x, y)| {
                let x = scale.forward(x, is_first);
                (l1_loss(activation::relu(x.clone()), y), x)
            });
            loss = loss + outputs.0 / self.scales.len() as f64;
            x = outputs.1;
        }
        loss
    }

    /// The difference of the steps along each axis that has any.
    fn gradients(&self, x: Tensor<5>, y: Tensor<5>) -> Tensor<1> {
        let no_module = 0usize;
        let loss = self.residency.run(GRADIENTS, &no_module, (x, y), |_, (x, y): (Tensor<5>, Tensor<5>)| {
            let steps = |volume: &Tensor<5>, axis: usize| {
                let last = volume.dims()[axis] - 1;
                let volume = widen(volume.clone());
                (volume.clone().narrow(axis, 1, last) - volume.narrow(axis, 0, last)).abs()
            };
            let axes = (2..5).filter(|axis| x.dims()[*axis] > 1).map(|axis| l1_loss(steps(&x, axis), steps(&y, axis)));
            axes.reduce(|sum, axis| sum + axis).unwrap_or_else(|| widen(x - y).mean() * 0.0)
        });
        loss * self.gradient_weight
    }
}

const GRADIENTS: &str = "features3d.gradients";

fn scale_name(index: usize) -> String {
    format!("features3d.scale_{index}")
}

/// Each channel as an item of the batch.
fn single_channels(x: Tensor<5>) -> Tensor<5> {
    let [batch_size, channels, depth, height, width] = x.dims();
    x.reshape([batch_size * channels, 1, depth, height, width])
}

#[cfg(test)]
mod tests {
    use burn::tensor::{DType, Distribution};

    use super::*;
    use crate::validation::keys;

    fn value(loss: Tensor<1>) -> f32 {
        loss.into_scalar()
    }

    fn ramp(slope: f32) -> Tensor<5> {
        let values: Vec<f32> = (0..4).map(|position| slope * position as f32).collect();
        Tensor::<1>::from_floats(values.as_slice(), &Device::flex()).reshape([1, 1, 1, 1, 4])
    }

    #[test]
    fn the_difference_of_gradients_is_that_of_the_formula() {
        let loss = FeatureLoss3dConfig::new().init(&Device::flex());
        assert_eq!(value(loss.gradients(ramp(3.0), ramp(1.0))), 2.0);
        assert_eq!(value(loss.gradients(ramp(3.0), ramp(-3.0))), 0.0, "sizes are compared, not directions");
        assert_eq!(value(loss.gradients(ramp(3.0) + 7.0, ramp(3.0))), 0.0);
        let point = Tensor::ones([1; 5], &Device::flex());
        assert_eq!(value(loss.gradients(point.clone(), point * 2.0)), 0.0);
    }

    #[test]
    fn more_noise_is_more_loss_and_the_seed_decides() {
        let device = Device::flex();
        let x = Tensor::<5>::random([1, 2, 8, 8, 8], Distribution::Default, &device);
        let noise = Tensor::random([1, 2, 8, 8, 8], Distribution::Normal(0.0, 1.0), &device);
        let features = |seed| FeatureLoss3dConfig::new().with_seed(seed).with_gradient_weight(0.0).init(&device);
        let at = |seed, level: f64| value(features(seed).forward(x.clone() + noise.clone() * level, x.clone()));
        assert_eq!(at(0, 0.0), 0.0);
        assert!(at(0, 0.1) > 0.0 && at(0, 0.2) > 1.5 * at(0, 0.1));
        assert_eq!(at(0, 0.1), at(0, 0.1));
        assert_ne!(at(0, 0.1), at(1, 0.1));
        let half = features(0).forward(x.clone().cast(DType::BF16), (x * 0.5).cast(DType::BF16));
        assert_eq!(half.dtype(), DType::F32);
    }

    #[test]
    fn each_error_is_found() {
        let fields = |config: FeatureLoss3dConfig| keys(config.validate());
        let valid = FeatureLoss3dConfig::new;
        assert!(fields(valid()).is_empty());
        assert_eq!(fields(valid().with_channels(vec![])), ["channels"]);
        assert_eq!(fields(valid().with_channels(vec![8, 0])), ["channels"]);
        assert_eq!(fields(valid().with_channels(vec![1; 17])), ["channels"]);
        assert_eq!(fields(valid().with_gradient_weight(-1.0)), ["gradient_weight"]);
    }
}
