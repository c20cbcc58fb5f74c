//! A residual U-Net: keys of the `segmentation` section where its `model` is `unet`.

use leanburn_nn::blocks::ActivationConfig;
use leanburn_nn::models::UNet3dConfig;
use serde::{Deserialize, Serialize};

use super::norm::NormName;
use crate::shared::with_methods;
use crate::yaml::{MANY, PerAxis, Section};

/// The activation behind each convolution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UnetActivation {
    /// A leaky ReLU whose slope is learned.
    Prelu,
    /// `max(x, 0)`.
    Relu,
    /// A leaky ReLU of slope 0.01.
    LeakyRelu,
    /// `x * sigmoid(x)`.
    Silu,
}

/// A residual U-Net: MONAI's `UNet` in three dimensions.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct UnetSection {
    /// Channels of each level, the finest first. Required.
    pub channels: Vec<usize>,
    /// By what each level divides depth, height and width for the next, one entry less than levels. Default: 2.
    pub strides: Vec<[usize; 3]>,
    /// Convolutions of the residual unit of a level; with 0 a level is one plain convolution in encoder and
    /// decoder. Default: 0.
    pub num_res_units: usize,
    /// Size of the kernels, an odd number. Default: 3.
    pub kernel_size: usize,
    /// Size of the kernels of the transposed convolutions, an odd number. Default: 3.
    pub up_kernel_size: usize,
    /// The activation. Default: prelu.
    pub act: UnetActivation,
    /// The norm. Default: instance.
    pub norm: NormName,
    /// Probability with which an element is dropped between norm and activation. Default: 0.
    pub dropout: f64,
}

with_methods! { UnetSection {
    with_strides => strides: Vec<[usize; 3]>,
    with_num_res_units => num_res_units: usize,
    with_kernel_size => kernel_size: usize,
    with_up_kernel_size => up_kernel_size: usize,
    with_act => act: UnetActivation,
    with_norm => norm: NormName,
    with_dropout => dropout: f64,
} }

impl UnetSection {
    /// A U-Net with these channels a level, the finest first, and every default.
    pub fn new(channels: Vec<usize>) -> Self {
        Self {
            strides: vec![[2; 3]; channels.len().saturating_sub(1)],
            channels,
            num_res_units: 0,
            kernel_size: 3,
            up_kernel_size: 3,
            act: UnetActivation::Prelu,
            norm: NormName::Instance,
            dropout: 0.0,
        }
    }

    pub(super) fn read(section: &mut Section<'_>) -> Self {
        let default = Self::new(section.required("channels", 1..=MANY));
        let strides = default.strides.iter().copied().map(PerAxis).collect::<Vec<_>>();
        let strides = section.number("strides", strides, 1..=MANY);
        Self {
            strides: strides.into_iter().map(|PerAxis(stride)| stride).collect(),
            num_res_units: section.number("num_res_units", default.num_res_units, 0..=MANY),
            kernel_size: section.number("kernel_size", default.kernel_size, 1..=MANY),
            up_kernel_size: section.number("up_kernel_size", default.up_kernel_size, 1..=MANY),
            act: section.choice("act", default.act),
            norm: section.choice("norm", default.norm),
            dropout: section.number("dropout", default.dropout, 0..1),
            ..default
        }
    }

    /// The configuration of the model, from so many channels to so many classes.
    pub fn model(&self, in_channels: usize, num_classes: usize) -> UNet3dConfig {
        let activation = match self.act {
            UnetActivation::Prelu => ActivationConfig::Prelu,
            UnetActivation::Relu => ActivationConfig::Relu,
            UnetActivation::LeakyRelu => ActivationConfig::LeakyRelu(0.01),
            UnetActivation::Silu => ActivationConfig::Silu,
        };
        UNet3dConfig::new(in_channels, num_classes, self.channels.clone(), self.strides.clone())
            .with_num_res_units(self.num_res_units)
            .with_kernel_size(self.kernel_size)
            .with_up_kernel_size(self.up_kernel_size)
            .with_activation(activation)
            .with_norm(self.norm.config())
            .with_dropout(self.dropout)
    }
}
