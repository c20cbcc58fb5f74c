//! The models that there are, as one.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use leanburn_common::ValidationError;
use leanburn_nn::models::{Edsr, EdsrConfig, ShapeError, Sr3UNet, Sr3UNetConfig, UNet2d, UNet2dConfig};
use leanburn_nn::weights::MonaiWeights;
use leanburn_ops::ResidencyPolicy;

/// The network of a configuration.
#[derive(Module, Debug)]
#[allow(clippy::large_enum_variant, reason = "a run has one")]
pub enum SuperResolver {
    /// That of a diffusion model.
    Diffusion(Sr3UNet),
    /// Residual blocks on the coarse grid.
    Edsr(Edsr),
    /// A U-Net on the fine grid.
    UNet(UNet2d),
}

impl SuperResolver {
    /// The same with segments that are saved or recomputed as the policy says.
    pub(super) fn with_residency(self, policy: ResidencyPolicy) -> Self {
        match self {
            Self::Diffusion(model) => Self::Diffusion(model.with_residency(policy)),
            Self::Edsr(model) => Self::Edsr(model.with_residency(policy)),
            Self::UNet(model) => Self::UNet(model.with_residency(policy)),
        }
    }

    /// Names of the segments.
    pub(super) fn segments(&self) -> Vec<String> {
        match self {
            Self::Diffusion(model) => model.segments(),
            Self::Edsr(model) => model.segments(),
            Self::UNet(model) => model.segments(),
        }
    }
}

impl MonaiWeights for SuperResolver {
    /// No two networks have a part of the same name, but for the last ones of [`Edsr`] and [`UNet2d`].
    fn monai_name(path: &str) -> String {
        match path.split('.').next() {
            Some("head" | "body" | "tail" | "last") => Edsr::monai_name(path),
            Some("encoders" | "decoders" | "out") => UNet2d::monai_name(path),
            _ => Sr3UNet::monai_name(path),
        }
    }

    fn legacy_name(name: &str) -> Option<String> {
        Sr3UNet::legacy_name(name)
    }
}

/// The configuration of a network.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum SuperResolverConfig {
    /// Of a diffusion model, whose input is the coarse field, enlarged, and a noisy fine one.
    Diffusion(Sr3UNetConfig),
    /// Of residual blocks on the coarse grid.
    Edsr(EdsrConfig),
    /// Of a U-Net on the fine grid.
    UNet(UNet2dConfig),
}

impl SuperResolverConfig {
    /// What is wrong with it.
    pub(super) fn validate(&self) -> Vec<ValidationError> {
        match self {
            Self::Diffusion(config) => config.validate(),
            Self::Edsr(config) => config.validate(),
            Self::UNet(config) => config.validate(),
        }
    }

    /// The model.
    pub(super) fn init(&self, device: &Device) -> SuperResolver {
        match self {
            Self::Diffusion(config) => SuperResolver::Diffusion(config.init(device)),
            Self::Edsr(config) => SuperResolver::Edsr(config.init(device)),
            Self::UNet(config) => SuperResolver::UNet(config.init(device)),
        }
    }

    /// Whether it takes coarse fields `[batch_size, channels, 1, height, width]` that become so many times finer.
    pub(super) fn check_coarse(&self, shape: [usize; 5], factor: usize) -> Result<(), ShapeError> {
        let [batch_size, channels, depth, height, width] = shape;
        let fine = [height, width].map(|length| length.saturating_mul(factor));
        match self {
            Self::Diffusion(config) => config.check_input([batch_size, channels + 1, depth, fine[0], fine[1]]),
            Self::Edsr(config) => config.check_input(shape),
            Self::UNet(config) => config.check_input(shape),
        }
    }

    /// By how much the levels divide depth, height and width of the fine field.
    pub(super) fn downsampling(&self) -> [usize; 3] {
        match self {
            Self::Diffusion(config) => config.downsampling(),
            Self::Edsr(_) => [1; 3],
            Self::UNet(config) => config.downsampling(),
        }
    }

    /// Numbers that are trained.
    pub fn num_parameters(&self) -> usize {
        match self {
            Self::Diffusion(config) => config.num_parameters(),
            Self::Edsr(config) => config.num_parameters(),
            Self::UNet(config) => config.num_parameters(),
        }
    }
}

/// The fine fields of coarse planes `[batch_size, channels, 1, ..]`, of networks that give them at once.
///
/// # Panics
///
/// Panics if the network is that of a diffusion model, which asks for noise.
pub(super) fn refined(model: &SuperResolver, coarse: Tensor<5>) -> Tensor<5> {
    match model {
        SuperResolver::Diffusion(_) => panic!("a diffusion model makes samples"),
        SuperResolver::Edsr(model) => model.forward(coarse),
        SuperResolver::UNet(model) => model.forward(coarse),
    }
}
