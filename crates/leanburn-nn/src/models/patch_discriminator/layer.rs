//! One layer of a patch discriminator.

use burn::module::Module;
use burn::nn::{Dropout, DropoutConfig, Initializer};
use burn::tensor::{Device, Tensor};
use leanburn_ops::group_norm_act;

use super::{NormConfig, PatchDiscriminatorConfig};
use crate::blocks::{
    Activation, BatchNorm3d, BatchNorm3dConfig, Conv3d, Conv3dConfig, GroupNorm, GroupNormConfig, InstanceNorm,
};

/// Deviation of the initial weights.
const DEVIATION: f64 = 0.02;

/// A convolution with weights as a discriminator starts with them.
pub(super) fn normal_conv(channels: [usize; 2], kernel_size: usize) -> Conv3dConfig {
    let initializer = Initializer::Normal { mean: 0.0, std: DEVIATION };
    Conv3dConfig::new(channels, kernel_size).with_initializer(Some(initializer))
}

/// The norm of a layer.
#[derive(Module, Debug)]
pub enum Norm {
    /// Over the batch.
    Batch(BatchNorm3d),
    /// Of each channel of each item.
    Instance(InstanceNorm),
    /// Of groups of channels of each item.
    Group(GroupNorm),
}

impl Norm {
    fn new(config: NormConfig, channels: usize, device: &Device) -> Option<Self> {
        let around_one = Initializer::Normal { mean: 1.0, std: DEVIATION };
        match config {
            NormConfig::Batch => {
                Some(Self::Batch(BatchNorm3dConfig::new(channels).with_initializer(around_one).init(device)))
            }
            NormConfig::Instance => Some(Self::Instance(InstanceNorm::new(1e-5))),
            NormConfig::Group(groups) => Some(Self::Group(GroupNormConfig::new(groups, channels).init(device))),
            NormConfig::None => None,
        }
    }

    /// The norm and the activation behind it, as one operation where they can be.
    fn forward(&self, x: Tensor<5>, activation: Activation) -> Tensor<5> {
        match self {
            Self::Batch(norm) => activation.forward(norm.forward(x)),
            Self::Instance(norm) => {
                let norm = norm.norm(x.dims()[1]);
                group_norm_act(x, norm, activation.into())
            }
            Self::Group(norm) => group_norm_act(x, norm.norm(), activation.into()),
        }
    }
}

/// Convolution, norm, dropout, activation.
#[derive(Module, Debug)]
pub struct PatchLayer {
    conv: Conv3d,
    norm: Option<Norm>,
    dropout: Option<Dropout>,
    #[module(skip)]
    activation: Activation,
}

impl PatchLayer {
    pub(super) fn new(
        conv: Conv3dConfig,
        norm: NormConfig,
        config: &PatchDiscriminatorConfig,
        device: &Device,
    ) -> Self {
        Self {
            norm: Norm::new(norm, conv.channels[1], device),
            conv: conv.with_padding(config.padding).init(device),
            dropout: (config.dropout > 0.0).then(|| DropoutConfig::new(config.dropout).init()),
            activation: config.activation,
        }
    }

    /// Applies the layer to `[batch_size, channels, depth, height, width]`.
    pub fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        let x = self.conv.forward(x);
        let before_dropout = if self.dropout.is_some() { Activation::None } else { self.activation };
        let x = match &self.norm {
            Some(norm) => norm.forward(x, before_dropout),
            None => before_dropout.forward(x),
        };
        match &self.dropout {
            Some(dropout) => self.activation.forward(dropout.forward(x)),
            None => x,
        }
    }
}
