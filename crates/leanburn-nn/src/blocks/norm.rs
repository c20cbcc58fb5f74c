//! The norms that a configuration can name.

use burn::module::Module;
use burn::nn::Initializer;
use burn::tensor::{Device, Tensor};
use leanburn_ops::{StageEntry, Stages, Volume, activate, group_norm_act};
use serde::{Deserialize, Serialize};

use super::activation::Activation;
use super::batch_norm::{BatchNorm, BatchNormConfig};
use super::group_norm::{GroupNorm, GroupNormConfig};
use super::instance_norm::InstanceNorm;

/// The norm behind a convolution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NormConfig {
    /// Over the batch, with running estimates.
    #[default]
    Batch,
    /// Of each channel of each item, without parameters.
    Instance,
    /// Of each channel of each item, then a scale and a shift of each channel that are learned.
    InstanceAffine,
    /// Of groups of channels of each item; the number of groups.
    Group(usize),
    /// No norm.
    None,
}

impl NormConfig {
    /// Number of parameters of the norm of a number of channels.
    pub(crate) fn num_parameters(self, num_channels: usize) -> usize {
        match self {
            Self::Batch | Self::InstanceAffine | Self::Group(_) => 2 * num_channels,
            Self::Instance | Self::None => 0,
        }
    }

    /// Makes the norm of a number of channels; `batch_scale` is the distribution of a batch norm's scale.
    pub(crate) fn init(self, num_channels: usize, batch_scale: Initializer, device: &Device) -> Option<Norm> {
        match self {
            Self::Batch => {
                Some(Norm::Batch(BatchNormConfig::new(num_channels).with_initializer(batch_scale).init(device)))
            }
            Self::Instance => Some(Norm::Instance(InstanceNorm::new(1e-5))),
            Self::InstanceAffine => Self::Group(num_channels).init(num_channels, batch_scale, device),
            Self::Group(groups) => Some(Norm::Group(GroupNormConfig::new(groups, num_channels).init(device))),
            Self::None => None,
        }
    }
}

/// A norm of one of the kinds of [`NormConfig`].
#[derive(Module, Debug)]
pub enum Norm {
    /// Over the batch.
    Batch(BatchNorm),
    /// Of each channel of each item.
    Instance(InstanceNorm),
    /// Of groups of channels of each item.
    Group(GroupNorm),
}

impl Norm {
    /// The norm and the activation behind it, as one operation where they can be.
    ///
    /// # Shapes
    ///
    /// - input and output: `[batch_size, num_channels, depth, height, width]`
    pub fn forward(&self, x: Tensor<5>, activation: Activation) -> Tensor<5> {
        let (x, norm) = Self::fold(Some(self), x);
        match norm {
            Some(norm) => group_norm_act(x, norm, activation.into()),
            None => activate(x, activation.into()),
        }
    }

    /// What is in front of an activation or a convolution in [stages](Stages) of a volume of so many channels, and the volume that it takes.
    pub(crate) fn in_stages(&self, stages: &mut Stages, x: Volume, num_channels: usize) -> (Volume, StageEntry) {
        match self {
            Self::Batch(norm) => norm.in_stages(stages, x),
            Self::Instance(norm) => (x, StageEntry::default().with_norm(norm.norm(num_channels))),
            Self::Group(norm) => (x, StageEntry::default().with_norm(norm.norm())),
        }
    }

    /// [`in_stages`](Self::in_stages), or the volume as it is.
    pub(crate) fn entry(
        norm: Option<&Self>,
        stages: &mut Stages,
        x: Volume,
        num_channels: usize,
    ) -> (Volume, StageEntry) {
        norm.map_or_else(|| (x, StageEntry::default()), |norm| norm.in_stages(stages, x, num_channels))
    }

    /// The volume, and the norm for an operation that it can be folded into; or the normalised volume.
    ///
    /// A norm over the batch is no part of an operation.
    pub(crate) fn fold(norm: Option<&Self>, x: Tensor<5>) -> (Tensor<5>, Option<leanburn_ops::Norm>) {
        match norm {
            None => (x, None),
            Some(Self::Batch(norm)) => (norm.forward(x), None),
            Some(Self::Instance(norm)) => {
                let channels = x.dims()[1];
                (x, Some(norm.norm(channels)))
            }
            Some(Self::Group(norm)) => (x, Some(norm.norm())),
        }
    }

    /// The normalised volume.
    pub(crate) fn normed(norm: Option<&Self>, x: Tensor<5>) -> Tensor<5> {
        match Self::fold(norm, x) {
            (x, Some(norm)) => group_norm_act(x, norm, leanburn_ops::Activation::None),
            (x, None) => x,
        }
    }
}
