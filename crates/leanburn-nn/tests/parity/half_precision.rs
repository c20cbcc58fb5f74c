//! A model runs in half precision when its input is cast, and is as far from float32 as rounding to the format makes it.

use burn::tensor::{DType, Device};

use crate::common::{Rounded, check_half};

fn check(name: &str, model: Rounded) {
    for dtype in [DType::BF16, DType::F16] {
        check_half(Device::flex(), name, dtype, model);
    }
}

#[test]
fn autoencoders_are_close() {
    check("autoencoder_kl_attention", Rounded::smooth(40));
    check("autoencoder_kl_high_res", Rounded::smooth(30));
    check("autoencoder_kl_convtranspose", Rounded::smooth(25));
    check("vae3d_ultra_lightweight", Rounded::smooth(34));
}

#[test]
fn a_codebook_model_is_close() {
    // 22 of the layers; the straight-through estimator stores a difference and a sum.
    check("vq_vae", Rounded::smooth(24));
}

#[test]
fn forecasters_are_close() {
    check("conv_lstm", Rounded::smooth(30));
    check("cnn3d_lstm", Rounded::smooth(30));
}

#[test]
fn a_discriminator_is_close() {
    check("patch_discriminator", Rounded::with_kinks(9));
}

#[test]
fn neural_operators_are_close() {
    // The input with its positions, two a layer, both results of the network behind them; with networks four a layer and two in front.
    check("fno_3d", Rounded::smooth(7));
    check("fno_neuraloperator", Rounded::smooth(13));
}

#[test]
fn diffusion_models_are_close() {
    check("diffusion_unet", Rounded::smooth(40));
    check("diffusion_unet_conditioned", Rounded::smooth(40));
    check("diffusion_unet_updown", Rounded::smooth(40));
    check("sr3_3d", Rounded::smooth(40));
}
