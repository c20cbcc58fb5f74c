//! The models. Those that MONAI 1.6.1 has are equal to its own for three spatial dimensions, `SwinTransformer2d` to torchvision's;
//! `Vae3d`, `ConvLstm` and `Cnn3dLstm`, which no package has, to modules that our tests write down in PyTorch
//! (`tests/fixtures/make_fixtures.py`), as are most networks that `Fno` can be (`make_fno_fixtures.py`) and `LiftSplatShoot` behind its
//! backbone (`make_bev_fixtures.py`), and `Sr3UNet`, `Edsr`
//! and `UNet2d` (`make_sr_fixtures.py`).
//!
//! A model is a chain of named segments. Its residency policy says which of them keep their intermediate
//! results and which run again in backward; results and gradients are the same either way.

pub use crate::blocks::{Norm, NormConfig};

mod autoencoder_kl;
mod chain;
mod cnn3d_lstm;
mod conv_lstm;
mod conv_net;
mod decoder_level;
mod diffusion_unet3d;
mod dyn_unet;
mod edsr;
mod fno;
mod level_names;
mod lift_splat_shoot;
mod patch_discriminator;
mod shape_error;
mod sr3_unet;
mod swin_transformer2d;
mod swin_unetr;
mod unet2d;
mod unet3d;
mod vae3d;
mod vq_vae3d;

pub use autoencoder_kl::{AutoencoderKl, AutoencoderKlConfig, Block, Out};
pub use chain::Chain;
pub use cnn3d_lstm::{Cnn3dLstm, Cnn3dLstmConfig, FeatureLayer, ForecastHead};
pub use conv_lstm::{ConvLstm, ConvLstmConfig};
pub use conv_net::{ConvNet, ConvNetBlock, ConvNetConfig, ConvNetHalf};
pub use decoder_level::DecoderLevel;
pub use diffusion_unet3d::{
    ClassEmbedding, CrossAttention, DiffusionAttention, DiffusionConditions, DiffusionDownBlock, DiffusionDownsampler,
    DiffusionMiddleBlock, DiffusionResBlock, DiffusionUNet3d, DiffusionUNet3dConfig, DiffusionUpBlock,
    DiffusionUpsampler, GatedFeedForward, SpatialTransformer, TimeEmbedding, TransformerBlock,
};
pub use dyn_unet::{DynUnet, DynUnetConfig};
pub use edsr::{Edsr, EdsrBlock, EdsrConfig, EdsrLayer, EdsrTail};
pub use fno::{
    Fno, FnoBlock, FnoConfig, FnoDoubling, FnoFrequencies, FnoLayer, FnoLayerMlp, FnoMlp, FnoPositions, FnoUpsample,
    FnoUpsampling, FnoWeights,
};
pub use lift_splat_shoot::{
    BevBlock, BevConv, BevDiffusionHead, BevEncoder, BevFusion, BevGridConfig, BevView, Lift, LiftSplatShoot,
    LiftSplatShootConfig, NUSCENES_PRIORS, PyramidHead, PyramidHeadConfig,
};
pub use patch_discriminator::{
    MultiScaleFeatures, MultiScalePatchDiscriminator, MultiScalePatchDiscriminatorConfig, PatchDiscriminator,
    PatchDiscriminatorConfig, PatchLayer,
};
pub use shape_error::ShapeError;
pub use sr3_unet::{
    Sr3Attention, Sr3Block, Sr3Condition, Sr3Embedding, Sr3Layer, Sr3NormConv, Sr3ResBlock, Sr3Resample, Sr3UNet,
    Sr3UNetConfig,
};
pub use swin_transformer2d::{SwinStage2d, SwinTransformer2d, SwinTransformer2dConfig};
pub use swin_unetr::{Merging, SwinEncoder, SwinEncoderStage, SwinUnetr, SwinUnetrConfig};
pub use unet2d::{UNet2d, UNet2dBlock, UNet2dConfig, UNet2dUp};
pub use unet3d::{
    UNet3d, UNet3dConfig, UNetBottom, UNetDecoder, UNetLayer, UNetLevel, UNetResidual, UNetResidualDecoder, UNetSides,
    UNetUnit, UNetUpsample,
};
pub use vae3d::{Vae3d, Vae3dConfig};
pub use vq_vae3d::{VqBlock, VqConv, VqResidual, VqTransposed, VqVae3d, VqVae3dConfig};
