//! What the models are made of: layers over `[batch_size, channels, depth, height, width]`.
//!
//! Parameters are named and laid out as PyTorch has them, so that weight files need no transposition.

mod activation;
mod attention;
mod batch_norm;
mod conv;
mod conv2d;
mod conv_nd;
mod conv_transpose;
mod conv_transpose2d;
mod conversion;
mod downsample;
mod dropout;
mod group_norm;
mod in_stages;
mod initial;
mod instance_norm;
mod layer_norm;
mod linear;
mod lstm;
mod norm;
mod norm_act;
mod parts;
mod patch_merging;
mod prelu;
mod res_block;
mod swin_block;
mod unet_block;
mod upsample;
mod vector_quantizer;
mod window_attention;

pub use activation::Activation;
pub use attention::{AttentionBlock, AttentionBlockConfig, SelfAttention};
pub use batch_norm::{BatchNorm, BatchNormConfig};
pub use conv::{Conv3d, Conv3dConfig};
pub use conv_nd::ConvNd;
pub use conv_transpose::{ConvTranspose3d, ConvTranspose3dConfig};
pub use conv_transpose2d::{ConvTranspose2d, ConvTranspose2dConfig};
pub use conv2d::{Conv2d, Conv2dConfig};
pub use conversion::ConversionError;
pub use downsample::Downsample;
pub(crate) use dropout::norm_silu_dropout_conv;
pub use dropout::{Dropout, Dropout3d, DropoutConfig};
pub use group_norm::{GroupNorm, GroupNormConfig};
pub use instance_norm::InstanceNorm;
pub use layer_norm::{LayerNorm, LayerNormConfig};
pub use linear::{Linear, LinearConfig};
pub(crate) use lstm::quarters;
pub use lstm::{Lstm, LstmConfig, LstmGates, LstmReader, LstmState};
pub use norm::{Norm, NormConfig};
pub use norm_act::{ActivationConfig, NormAct, NormActConfig};
pub use patch_merging::{PatchMerging, Reduction};
pub use prelu::Prelu;
pub use res_block::{ResBlock, ResBlockConfig};
pub use swin_block::{Mlp, SwinBlock, SwinBlockConfig};
pub use unet_block::{UnetBlock, UnetBlockConfig, UnetUpBlock, UnetUpBlockConfig};
pub use upsample::{NearestUpsample, TransposedUpsample, TrilinearUpsample, Upsample};
pub use vector_quantizer::{VectorQuantizer, VectorQuantizerConfig};
pub use window_attention::{WindowAttention, WindowAttentionConfig};

pub(crate) use attention::attend;
pub(crate) use conv_nd::parts_of;
pub(crate) use in_stages::{InStages, stages_of};
pub(crate) use initial::{drawn, uniform};
pub(crate) use parts::{as_one, convolve, joined, with_shift};
