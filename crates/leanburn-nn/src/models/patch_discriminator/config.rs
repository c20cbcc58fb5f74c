//! Configuration of the patch discriminator, and what can be wrong with it.

use burn::config::Config;
use burn::tensor::Device;
use serde::{Deserialize, Serialize};

use super::PatchDiscriminator;
use crate::blocks::Activation;
use crate::models::refuse;

/// The norm between convolutions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NormConfig {
    /// Over the batch, with running estimates.
    #[default]
    Batch,
    /// Of each channel of each item, without parameters.
    Instance,
    /// Of groups of channels of each item; the number of groups.
    Group(usize),
    /// No norm.
    None,
}

/// Configuration of [`PatchDiscriminator`], the options of MONAI's.
///
/// # Example
///
/// ```
/// use burn::tensor::{Device, Distribution, Tensor};
/// use leanburn_nn::models::PatchDiscriminatorConfig;
///
/// let device = Device::flex();
/// let model = PatchDiscriminatorConfig::new(1, 8).with_num_layers_d(2).init(&device);
/// let features = model.forward(Tensor::random([1, 1, 24, 24, 16], Distribution::Default, &device));
/// assert_eq!(features.last().unwrap().dims(), [1, 1, 4, 4, 2]);
/// ```
#[derive(Config, Debug, PartialEq)]
pub struct PatchDiscriminatorConfig {
    /// Channels of the input.
    pub in_channels: usize,
    /// Channels of the first convolution; doubled by each layer.
    pub channels: usize,
    /// Channels of the judgement.
    #[config(default = 1)]
    pub out_channels: usize,
    /// Layers after the first convolution. All halve the volume but the last.
    #[config(default = 3)]
    pub num_layers_d: usize,
    /// Size of the kernels.
    #[config(default = 4)]
    pub kernel_size: usize,
    /// Zeros at both ends of each axis.
    #[config(default = 1)]
    pub padding: usize,
    /// Size of the last kernel; `None` for `kernel_size`.
    #[config(default = "None")]
    pub last_conv_kernel_size: Option<usize>,
    /// The norm of the layers after the first convolution.
    #[config(default = "NormConfig::Batch")]
    pub norm: NormConfig,
    /// The activation after each norm.
    #[config(default = "Activation::LeakyRelu(0.2)")]
    pub activation: Activation,
    /// Whether the layers after the first convolution have a bias.
    #[config(default = false)]
    pub bias: bool,
    /// Probability with which an element is dropped before each activation.
    #[config(default = 0.0)]
    pub dropout: f64,
}

impl PatchDiscriminatorConfig {
    /// Everything that is wrong with the configuration: the field, and what to do about it.
    pub fn mistakes(&self) -> Vec<(&'static str, String)> {
        let mut mistakes = Vec::new();
        let counts = [
            ("in_channels", self.in_channels),
            ("channels", self.channels),
            ("out_channels", self.out_channels),
            ("num_layers_d", self.num_layers_d),
            ("kernel_size", self.kernel_size),
            ("last_conv_kernel_size", self.last_kernel_size()),
        ];
        for (field, _) in counts.into_iter().filter(|(_, count)| *count == 0) {
            mistakes.push((field, "is 0; give at least 1".to_string()));
        }
        if self.num_layers_d > 16 {
            mistakes.push((
                "num_layers_d",
                format!("is {}; each doubles the channels, 16 are the most", self.num_layers_d),
            ));
        }
        if !(0.0..1.0).contains(&self.dropout) {
            mistakes.push(("dropout", format!("is {}; give a probability of at least 0 and below 1", self.dropout)));
        }
        if let NormConfig::Group(groups) = self.norm
            && (groups == 0 || !self.channels.saturating_mul(2).is_multiple_of(groups))
        {
            let first = self.channels.saturating_mul(2);
            mistakes.push(("norm", format!("{groups} groups do not divide {first}, the channels of the first layer")));
        }
        mistakes
    }

    pub(super) fn last_kernel_size(&self) -> usize {
        self.last_conv_kernel_size.unwrap_or(self.kernel_size)
    }

    /// Makes the model: convolutions normal with deviation 0.02 and bias zero, batch norms with scales around one.
    ///
    /// # Panics
    ///
    /// Panics with the [mistakes](Self::mistakes) if there are any.
    pub fn init(&self, device: &Device) -> PatchDiscriminator {
        refuse("PatchDiscriminator", &self.mistakes());
        PatchDiscriminator::new("discriminator", self, device)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mistake_is_found() {
        let valid = || PatchDiscriminatorConfig::new(1, 8);
        let fields = |config: PatchDiscriminatorConfig| -> Vec<_> {
            config.mistakes().into_iter().map(|(field, _)| field).collect()
        };
        assert!(fields(valid()).is_empty());
        assert_eq!(fields(PatchDiscriminatorConfig::new(0, 0)), ["in_channels", "channels"]);
        assert_eq!(fields(valid().with_out_channels(0)), ["out_channels"]);
        assert_eq!(fields(valid().with_num_layers_d(0)), ["num_layers_d"]);
        assert_eq!(fields(valid().with_num_layers_d(17)), ["num_layers_d"]);
        assert_eq!(fields(valid().with_kernel_size(0)), ["kernel_size", "last_conv_kernel_size"]);
        assert_eq!(fields(valid().with_last_conv_kernel_size(Some(0))), ["last_conv_kernel_size"]);
        assert_eq!(fields(valid().with_dropout(1.0)), ["dropout"]);
        assert_eq!(fields(valid().with_norm(NormConfig::Group(3))), ["norm"]);
        assert_eq!(fields(valid().with_norm(NormConfig::Group(0))), ["norm"]);
    }
}
