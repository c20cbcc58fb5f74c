//! One layer of a patch discriminator.

use burn::module::Module;
use burn::nn::Initializer;
use burn::tensor::{Device, Tensor};
use leanburn_ops::{StageEntry, Stages, Unstreamable};

use super::config::PatchDiscriminatorConfig;
use crate::blocks::{Activation, Conv3d, Conv3dConfig, Dropout, DropoutConfig, Norm, NormConfig};

/// Deviation of the initial weights.
const DEVIATION: f64 = 0.02;

/// A convolution with weights as a discriminator starts with them.
pub(super) fn normal_conv(channels: [usize; 2], kernel_size: usize) -> Conv3dConfig {
    let initializer = Initializer::Normal { mean: 0.0, std: DEVIATION };
    Conv3dConfig::new(channels, kernel_size).with_initializer(Some(initializer))
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
            norm: norm.init(conv.channels[1], Initializer::Normal { mean: 1.0, std: DEVIATION }, device),
            conv: conv.with_padding(config.padding).init(device),
            dropout: (config.dropout > 0.0).then(|| DropoutConfig::new(config.dropout).init()),
            activation: config.activation,
        }
    }

    /// What the layer computes, in stages.
    ///
    /// # Errors
    ///
    /// [`Unstreamable`] with dropout.
    pub(super) fn stages(&self) -> Result<Stages, Unstreamable> {
        if self.dropout.is_some() {
            return Err(Unstreamable::new("it has dropout, which is not described in stages"));
        }
        let mut stages = Stages::new();
        let convolution = self.conv.convolution();
        let num_channels = convolution.weight.dims()[0];
        let h = stages.conv3d(stages.input(), convolution);
        let (h, entry) = match &self.norm {
            Some(norm) => norm.in_stages(&mut stages, h, num_channels),
            None => (h, StageEntry::default()),
        };
        stages.entry(h, entry.with_activation(self.activation.into()), None);
        Ok(stages)
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
