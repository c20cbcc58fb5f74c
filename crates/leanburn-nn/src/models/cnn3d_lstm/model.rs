//! The 3D-convolutional LSTM itself.

use burn::module::Module;
use burn::tensor::{Device, Tensor, assert_shape};
use leanburn_common::panic_if_invalid;
use leanburn_ops::{Activation, ResidencyPolicy, activate, adaptive_avg_pool3d, norm_act_conv3d};

use super::config::Cnn3dLstmConfig;
use crate::blocks::{BatchNorm, BatchNormConfig, Conv2d, Conv2dConfig, Conv3d, Conv3dConfig, Lstm, LstmConfig};
use crate::segmented::segmented;
use crate::weights::MonaiWeights;

/// 3D convolutions, an LSTM and a head; see [`Cnn3dLstmConfig`] for an example.
///
/// # Memory
///
/// Saved for backward: two volumes of channels for each convolution, which the residency policy can reduce to one. The
/// segments are `features.layer_0`, .., `lstm` and `head`.
#[derive(Module, Debug)]
pub struct Cnn3dLstm {
    features: Vec<FeatureLayer>,
    lstm: Lstm,
    head: ForecastHead,
    #[module(skip)]
    config: Cnn3dLstmConfig,
    #[module(skip)]
    residency: ResidencyPolicy,
}

/// Convolution and batch norm of a volume that is activated as it is read, so that only the input is saved.
#[derive(Module, Debug)]
pub struct FeatureLayer {
    conv: Conv3d,
    norm: BatchNorm,
}

impl FeatureLayer {
    fn forward(&self, x: Tensor<5>, entry: Activation) -> Tensor<5> {
        self.norm.forward(norm_act_conv3d(x, None, entry, self.conv.convolution(), None))
    }
}

/// The prediction from the LSTM's state: one or two 2D convolutions, a batch norm between them, the last of them 1x1.
#[derive(Module, Debug)]
pub struct ForecastHead {
    convs: Vec<Conv2d>,
    norm: Option<BatchNorm>,
}

impl ForecastHead {
    fn new(channels: usize, hidden: Option<usize>, device: &Device) -> Self {
        let first = hidden.map(|hidden| Conv2dConfig::new([channels, hidden], 3).with_padding(1));
        let last = Conv2dConfig::new([hidden.unwrap_or(channels), 1], 1);
        Self {
            convs: first.into_iter().chain([last]).map(|conv| conv.init(device)).collect(),
            norm: hidden.map(|hidden| BatchNormConfig::new(hidden).init(device)),
        }
    }

    fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        let (x, entry) = match &self.norm {
            Some(norm) => (norm.forward(self.convs[0].forward(x)), Activation::Relu),
            None => (x, Activation::None),
        };
        let last = &self.convs[self.convs.len() - 1];
        norm_act_conv3d(x, None, entry, last.convolution(), None)
    }
}

impl Cnn3dLstmConfig {
    /// Makes the model, weights distributed as PyTorch's defaults.
    ///
    /// # Panics
    ///
    /// Panics with the [errors](Self::validate) of the configuration if there are any.
    pub fn init(&self, device: &Device) -> Cnn3dLstm {
        panic_if_invalid("Cnn3dLstm", &self.validate());
        let mut width = self.in_channels;
        let layer = |channels: &usize| {
            let conv = Conv3dConfig::new([std::mem::replace(&mut width, *channels), *channels], 3).with_padding(1);
            FeatureLayer { conv: conv.init(device), norm: BatchNormConfig::new(*channels).init(device) }
        };
        let features = self.channels.iter().map(layer).collect();
        let directions = if self.bidirectional { 2 } else { 1 };
        Cnn3dLstm {
            features,
            lstm: LstmConfig::new(width, self.hidden_channels).with_bidirectional(self.bidirectional).init(device),
            head: ForecastHead::new(directions * self.hidden_channels, self.head_channels, device),
            config: self.clone(),
            residency: ResidencyPolicy::default(),
        }
    }
}

segmented!(Cnn3dLstm, Cnn3dLstmConfig);

impl Cnn3dLstm {
    /// Names of the segments in order of execution.
    pub fn segments(&self) -> Vec<String> {
        let features = (0..self.features.len()).map(layer_name);
        features.chain(["lstm", "head"].map(String::from)).collect()
    }

    /// The forecast.
    ///
    /// # Shapes
    ///
    /// - input: `[batch_size, time, in_channels, height, width]`
    /// - output: `[batch_size, predict_days, height, width]`, the same on each day
    ///
    /// # Panics
    ///
    /// Panics if the input has other than `in_channels` channels or no time.
    pub fn forward(&self, x: Tensor<5>) -> Tensor<4> {
        let Cnn3dLstmConfig { in_channels, pooled_time, predict_days, .. } = self.config;
        assert_shape!(x, [_, _, in_channels, ..]);
        let [batch_size, _, _, height, width] = x.dims();
        let layers = self.features.iter().enumerate();
        let features = layers.fold(x.swap_dims(1, 2), |x, (index, layer)| {
            let entry = if index == 0 { Activation::None } else { Activation::Relu };
            self.residency.run(&layer_name(index), layer, x, move |layer, x| layer.forward(x, entry))
        });
        let state = self.residency.run("lstm", &self.lstm, features, move |lstm, x| {
            lstm.last(adaptive_avg_pool3d(activate(x, Activation::Relu), [pooled_time, height, width]))
        });
        let prediction = self.residency.run("head", &self.head, state, ForecastHead::forward);
        let prediction: Tensor<4> = prediction.reshape([batch_size, 1, height, width]);
        prediction.expand([batch_size, predict_days, height, width])
    }
}

fn layer_name(index: usize) -> String {
    format!("features.layer_{index}")
}

impl MonaiWeights for Cnn3dLstm {
    /// The PyTorch module of the tests is a chain of layers that are counted with their activations.
    fn monai_name(path: &str) -> String {
        let parts: Vec<_> = path.split('.').collect();
        let position = |index: &str| 3 * index.parse::<usize>().unwrap_or_default();
        match parts[..] {
            ["features", index, "conv", "conv", name] => format!("features.{}.{name}", position(index)),
            ["features", index, "norm", name] => format!("features.{}.{name}", position(index) + 1),
            ["lstm", "ahead", name] => format!("lstm.{name}_l0"),
            ["lstm", "back", name] => format!("lstm.{name}_l0_reverse"),
            ["head", "convs", index, name] => format!("head.{}.{name}", position(index)),
            ["head", "norm", name] => format!("head.1.{name}"),
            _ => path.to_string(),
        }
    }
}
