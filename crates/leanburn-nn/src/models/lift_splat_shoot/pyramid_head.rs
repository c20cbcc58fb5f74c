//! Classes of the ground from the view from above.

use burn::config::Config;
use burn::module::{Module, Param};
use burn::tensor::{Device, Tensor, assert_shape};
use leanburn_common::{Validation, ValidationError, panic_if_invalid};
use leanburn_ops::{ResidencyPolicy, conv3d};

use super::bottleneck::{BevBlock, EXPANSION};
use crate::blocks::{Conv2d, Conv2dConfig};
use crate::segmented::segmented;
use crate::validation::{MAX_LEVELS, Rules};

/// How often the fourteen classes of the guide to nuScenes occur.
pub const NUSCENES_PRIORS: [f64; 14] = [
    0.44679, 0.02407, 0.14491, 0.02994, 0.02086, 0.00477, 0.00156, 0.00189, 0.00084, 0.00119, 0.00019, 0.00012,
    0.00031, 0.00176,
];

/// Configuration of [`PyramidHead`].
#[derive(Config, Debug, PartialEq)]
pub struct PyramidHeadConfig {
    /// Channels of the view.
    pub in_channels: usize,
    /// How often each class occurs, one number above 0 and below 1 for each: what the head predicts before it has learnt anything.
    pub priors: Vec<f64>,
    /// Channels of the bottlenecks of the first layer; each further layer has half of those before.
    #[config(default = 128)]
    pub channels: usize,
    /// Blocks of each layer.
    #[config(default = "vec![4, 4]")]
    pub layers: Vec<usize>,
    /// By what each layer enlarges height and width.
    #[config(default = "vec![1, 2]")]
    pub strides: Vec<usize>,
    /// Groups of the norms, a divisor of the bottlenecks' channels.
    #[config(default = 16)]
    pub norm_num_groups: usize,
}

impl PyramidHeadConfig {
    /// Everything that is wrong with the configuration.
    #[must_use]
    pub fn validate(&self) -> Vec<ValidationError> {
        let mut validation = Validation::default();
        validation.counts([("in_channels", self.in_channels), ("channels", self.channels)]);
        validation.levels("layers", &self.layers);
        validation.one_per_level("strides", self.strides.len(), "layers", self.layers.len());
        self.strides.iter().for_each(|stride| validation.count("strides", *stride));
        let channels: Vec<usize> = (0..self.layers.len().min(MAX_LEVELS)).map(|layer| self.bottleneck(layer)).collect();
        validation.groups("norm_num_groups", self.norm_num_groups, "channels", &channels);
        let is_prior = |prior: &f64| *prior > 0.0 && *prior < 1.0;
        let are_priors = !self.priors.is_empty() && self.priors.iter().all(is_prior);
        let expected = "a share above 0 and below 1 for each class";
        let help = "write how often each class occurs, such as 0.05 where it is not known";
        validation.check(are_priors, "priors", expected, format!("{:?}", self.priors), help);
        validation.errors()
    }

    /// By how much the head enlarges height and width.
    pub fn upsampling(&self) -> usize {
        self.strides.iter().fold(1, |all, stride| all.saturating_mul(*stride))
    }

    /// Channels of the features that the classes are read from.
    pub fn out_channels(&self) -> usize {
        EXPANSION * self.bottleneck(self.layers.len().saturating_sub(1))
    }

    fn bottleneck(&self, layer: usize) -> usize {
        self.channels >> layer
    }

    /// Makes the head: weights as PyTorch has them, those of the classifier zero, its bias the logits of the priors.
    ///
    /// # Panics
    ///
    /// Panics with the [errors](Self::validate) of the configuration if there are any.
    pub fn init(&self, device: &Device) -> PyramidHead {
        panic_if_invalid("PyramidHead", &self.validate());
        let mut channels_in = self.in_channels;
        let mut layer = |layer: usize| {
            let channels = self.bottleneck(layer);
            let blocks = (0..self.layers[layer]).map(|block| {
                let stride = if block == 0 { self.strides[layer] } else { 1 };
                let block = BevBlock::new([channels_in, channels], stride, self.norm_num_groups, device);
                channels_in = EXPANSION * channels;
                block
            });
            blocks.collect()
        };
        let topdown = (0..self.layers.len()).map(&mut layer).collect();
        let bias: Vec<f32> = self.priors.iter().map(|prior| (prior / (1.0 - prior)).ln() as f32).collect();
        let mut classifier = Conv2dConfig::new([self.out_channels(), self.priors.len()], 1).init(device);
        classifier.set(
            Param::from_tensor(Tensor::zeros([self.priors.len(), self.out_channels(), 1, 1], device)),
            Some(Param::from_tensor(Tensor::from_floats(bias.as_slice(), device))),
        );
        PyramidHead { topdown, classifier, config: self.clone(), residency: ResidencyPolicy::default() }
    }
}

/// Layers of residual blocks, the later ones finer, and logits of each class in every cell.
///
/// The top-down network of [Predicting Semantic Map Representations from Images](https://arxiv.org/abs/2003.13402), with bottlenecks.
///
/// # Memory
///
/// Saved for backward: of each block 2.5 times its output. Recomputed: what each block gives. Segments are `head.layer_0.block_0` and so on.
#[derive(Module, Debug)]
pub struct PyramidHead {
    topdown: Vec<Vec<BevBlock>>,
    classifier: Conv2d,
    #[module(skip)]
    config: PyramidHeadConfig,
    #[module(skip)]
    residency: ResidencyPolicy,
}

segmented!(PyramidHead, PyramidHeadConfig);

impl PyramidHead {
    /// Names of the segments in order of execution.
    pub fn segments(&self) -> Vec<String> {
        let blocks = |(layer, blocks): (usize, &Vec<BevBlock>)| (0..blocks.len()).map(move |block| name(layer, block));
        self.topdown.iter().enumerate().flat_map(blocks).collect()
    }

    /// The logits of each class in each cell, and the features that they are read from.
    ///
    /// # Shapes
    ///
    /// - input: `[batch_size, in_channels, 1, rows, columns]`
    /// - logits: `[batch_size, classes, 1, ..]`, rows and columns times the [enlargement](PyramidHeadConfig::upsampling)
    /// - features: `[batch_size, out_channels, 1, ..]`, the same
    ///
    /// # Panics
    ///
    /// Panics if the input has other than `in_channels` channels.
    pub fn forward(&self, x: Tensor<5>) -> (Tensor<5>, Tensor<5>) {
        self.forward_within(x, &self.residency)
    }

    /// The same as a part of a model with a policy of its own.
    pub(super) fn forward_within(&self, x: Tensor<5>, residency: &ResidencyPolicy) -> (Tensor<5>, Tensor<5>) {
        let in_channels = self.config.in_channels;
        assert_shape!(x, [_, in_channels, ..]);
        let mut h = x;
        for (layer, blocks) in self.topdown.iter().enumerate() {
            for (number, block) in blocks.iter().enumerate() {
                h = residency.run(&name(layer, number), block, h, BevBlock::forward);
            }
        }
        (conv3d(h.clone(), self.classifier.convolution()), h)
    }
}

fn name(layer: usize, block: usize) -> String {
    format!("head.layer_{layer}.block_{block}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::keys;

    #[test]
    fn each_error_is_found() {
        let fields = |config: PyramidHeadConfig| keys(config.validate());
        let valid = || PyramidHeadConfig::new(64, NUSCENES_PRIORS.to_vec());
        assert!(fields(valid()).is_empty());
        assert_eq!(fields(valid().with_layers(vec![4, 0])), ["layers"]);
        assert_eq!(fields(valid().with_strides(vec![1])), ["strides"]);
        assert_eq!(fields(valid().with_channels(24)), ["norm_num_groups"]);
        for priors in [vec![], vec![0.5, 1.0], vec![f64::NAN]] {
            assert_eq!(fields(PyramidHeadConfig::new(64, priors)), ["priors"]);
        }
    }

    /// The guide's repository counts them.
    #[test]
    fn the_guides_head_has_as_many_parameters() {
        let count =
            |channels| PyramidHeadConfig::new(channels, NUSCENES_PRIORS.to_vec()).init(&Device::flex()).num_params();
        assert_eq!([count(64), count(65)], [1_951_758, 1_952_398]);
    }

    #[test]
    fn a_new_head_predicts_the_priors() {
        let config = PyramidHeadConfig::new(4, vec![0.25, 0.5]).with_channels(4).with_layers(vec![1, 1]);
        let head = config.with_norm_num_groups(2).init(&Device::flex());
        assert_eq!(head.segments(), ["head.layer_0.block_0", "head.layer_1.block_0"]);
        let (logits, features) = head.forward(Tensor::ones([1, 4, 1, 3, 5], &Device::flex()));
        assert_eq!((logits.dims(), features.dims()), ([1, 2, 1, 6, 10], [1, 8, 1, 6, 10]));
        let found: Vec<f32> = burn::tensor::activation::sigmoid(logits).into_data().try_to_vec().unwrap();
        assert!(
            found[..60].iter().all(|p| (p - 0.25).abs() < 1e-6) && found[60..].iter().all(|p| (p - 0.5).abs() < 1e-6)
        );
    }
}
