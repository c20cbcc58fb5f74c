//! The models of a segmentation as one.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use leanburn_common::ValidationError;
use leanburn_nn::models::{
    DecoderLevel, DynUnet, DynUnetConfig, ShapeError, SwinUnetr, SwinUnetrConfig, UNet3d, UNet3dConfig,
};
use leanburn_nn::weights::{IntegerBuffer, MonaiWeights};
use leanburn_ops::{ResidencyPolicy, Unstreamable};

/// The configuration of one of the models.
#[derive(Debug, Clone, PartialEq)]
pub enum NetworkConfig {
    /// Of a U-Net.
    Unet(UNet3dConfig),
    /// Of nnU-Net's U-Net.
    DynUnet(DynUnetConfig),
    /// Of a Swin UNETR.
    SwinUnetr(SwinUnetrConfig),
}

/// One of the models.
#[derive(Module, Debug)]
#[expect(clippy::large_enum_variant, reason = "handles to parameters, small next to the parameters")]
pub enum Network {
    /// A U-Net.
    Unet(UNet3d),
    /// nnU-Net's U-Net.
    DynUnet(DynUnet),
    /// A Swin UNETR.
    SwinUnetr(SwinUnetr),
}

impl NetworkConfig {
    /// Everything that is wrong with the configuration.
    #[must_use]
    pub fn validate(&self) -> Vec<ValidationError> {
        match self {
            Self::Unet(config) => config.validate(),
            Self::DynUnet(config) => config.validate(),
            Self::SwinUnetr(config) => config.validate(),
        }
    }

    /// Makes the model.
    ///
    /// # Panics
    ///
    /// Panics with the [errors](Self::validate) of the configuration if there are any.
    pub fn init(&self, device: &Device) -> Network {
        match self {
            Self::Unet(config) => Network::Unet(config.init(device)),
            Self::DynUnet(config) => Network::DynUnet(config.init(device)),
            Self::SwinUnetr(config) => Network::SwinUnetr(config.init(device)),
        }
    }

    /// By how much depth, height and width of the coarsest level are smaller than those of the volume; `None` if that is no
    /// number.
    pub fn downsampling(&self) -> Option<[usize; 3]> {
        match self {
            Self::Unet(config) => config.downsampling(),
            Self::DynUnet(config) => config.downsampling(),
            Self::SwinUnetr(config) => Some(config.downsampling()),
        }
    }

    /// The levels of the decoder below the one that gives the logits, the finest first.
    pub fn decoder_levels(&self) -> Vec<DecoderLevel> {
        match self {
            Self::Unet(config) => config.decoder_levels(),
            Self::DynUnet(config) => config.decoder_levels(),
            Self::SwinUnetr(config) => config.decoder_levels(),
        }
    }

    /// Whether the levels of an input `[batch_size, channels, depth, height, width]` fit together.
    ///
    /// # Errors
    ///
    /// [`ShapeError`] says what is wrong and which volumes fit.
    pub fn check_input(&self, shape: [usize; 5]) -> Result<(), ShapeError> {
        match self {
            Self::Unet(config) => config.check_input(shape),
            Self::DynUnet(config) => config.check_input(shape),
            Self::SwinUnetr(config) => config.check_input(shape),
        }
    }
}

impl Network {
    /// Names of the segments in order of execution.
    pub fn segments(&self) -> Vec<String> {
        match self {
            Self::Unet(model) => model.segments(),
            Self::DynUnet(model) => model.segments(),
            Self::SwinUnetr(model) => model.segments(),
        }
    }

    /// What stands against streaming each segment, if anything does; segments of a Swin UNETR are not described in stages.
    pub fn unstreamable(&self) -> Vec<(String, Option<Unstreamable>)> {
        match self {
            Self::Unet(model) => model.unstreamable(),
            Self::DynUnet(model) => model.unstreamable(),
            Self::SwinUnetr(_) => Vec::new(),
        }
    }

    /// Sets which segments keep their saved activations; results and gradients do not depend on it.
    #[must_use]
    pub fn with_residency(self, residency: ResidencyPolicy) -> Self {
        match self {
            Self::Unet(model) => Self::Unet(model.with_residency(residency)),
            Self::DynUnet(model) => Self::DynUnet(model.with_residency(residency)),
            Self::SwinUnetr(model) => Self::SwinUnetr(model.with_residency(residency)),
        }
    }

    /// The logits of each class at each voxel.
    ///
    /// # Shapes
    ///
    /// - input: `[batch_size, in_channels, depth, height, width]`
    /// - output: `[batch_size, num_classes, depth, height, width]`
    ///
    /// # Panics
    ///
    /// Panics if [`check_input`](NetworkConfig::check_input) rejects the input.
    pub fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        match self {
            Self::Unet(model) => model.forward(x),
            Self::DynUnet(model) => model.forward(x),
            Self::SwinUnetr(model) => model.forward(x),
        }
    }

    /// The logits, and what the decoder gives at the `coarser` [levels](NetworkConfig::decoder_levels) below them.
    ///
    /// # Panics
    ///
    /// As [`forward`](Self::forward).
    pub fn forward_levels(&self, x: Tensor<5>, coarser: usize) -> Vec<Tensor<5>> {
        match self {
            Self::Unet(model) => model.forward_levels(x, coarser),
            Self::DynUnet(model) => model.forward_levels(x, coarser),
            Self::SwinUnetr(model) => model.forward_levels(x, coarser),
        }
    }
}

impl MonaiWeights for Network {
    /// The first part of a path tells the models apart.
    fn monai_name(path: &str) -> String {
        match path.split('.').next() {
            Some("levels") => UNet3d::monai_name(path),
            Some("input_block" | "downsamples" | "bottleneck" | "upsamples" | "output_block") => {
                DynUnet::monai_name(path)
            }
            _ => SwinUnetr::monai_name(path),
        }
    }

    fn is_spare(name: &str) -> bool {
        UNet3d::is_spare(name) || DynUnet::is_spare(name) || SwinUnetr::is_spare(name)
    }

    fn integer_buffers(&self) -> Vec<IntegerBuffer> {
        match self {
            Self::Unet(model) => model.integer_buffers(),
            Self::DynUnet(model) => model.integer_buffers(),
            Self::SwinUnetr(model) => model.integer_buffers(),
        }
    }
}
