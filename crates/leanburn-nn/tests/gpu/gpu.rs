//! The fixtures on the GPUs of this build.

use crate::common::{
    Fixture, Outcome, Rounded, adversarial_scores, check_half, codebook_moved, lpips, relative_error, remove_cancelled,
    run_fixture, run_fixture_on, worst,
};
use crate::device::gpu;
use burn::tensor::DType;
use leanburn_nn::losses::LpipsNetwork;
use leanburn_ops::ResidencyPolicy;

const FIXTURES: [&str; 12] = [
    "autoencoder_kl_attention",
    "autoencoder_kl_high_res",
    "autoencoder_kl_convtranspose",
    "autoencoder_kl_combined",
    "patch_discriminator",
    "vae3d_ultra_lightweight",
    "vq_vae",
    "conv_lstm",
    "cnn3d_lstm",
    "cnn3d_lstm_lite",
    "cnn3d_lstm_micro",
    "dyn_unet",
];

fn check(name: &str, mut found: Outcome, mut expected: Outcome, tolerance: f64) {
    let loss = relative_error(&[found.loss], &[expected.loss]);
    assert!(loss < tolerance, "{name}: loss off by {loss:e}");
    let (error, output) = worst(&found.outputs, &expected.outputs);
    assert!(error < tolerance, "{name}: {output} off by {error:e}");
    remove_cancelled(&mut found.gradients, &mut expected.gradients, tolerance);
    let (error, gradient) = worst(&found.gradients, &expected.gradients);
    assert!(error < tolerance, "{name}: gradient of {gradient} off by {error:e}");
}

#[test]
fn fixtures_as_on_the_cpu() {
    for name in FIXTURES {
        let found = run_fixture_on(gpu(), name, ResidencyPolicy::keep(), DType::F32);
        check(name, found, run_fixture(name, ResidencyPolicy::keep()), 1e-4);
    }
}

/// And as MONAI, which made that one.
#[test]
fn an_autoencoder_as_monai() {
    let fixture = Fixture::read("autoencoder_kl_high_res");
    let found = run_fixture_on(gpu(), "autoencoder_kl_high_res", ResidencyPolicy::keep(), DType::F32);
    let mut outputs = fixture.values("output.");
    outputs.remove("loss");
    let (error, output) = worst(&found.outputs, &outputs);
    assert!(error < 1e-4, "{output}: {error:e}");
}

#[test]
fn a_codebook_learns_as_monai_s() {
    let (_, after, expected) = codebook_moved(&gpu(), ResidencyPolicy::keep());
    for (name, (_, expected)) in &expected {
        let error = relative_error(&after[name], expected);
        assert!(error < 1e-4, "{name}: {error:e}");
    }
}

#[test]
fn adversarial_losses_as_monai_s() {
    for (name, score, expected) in adversarial_scores(&gpu()) {
        assert!((score - expected).abs() < 1e-4 * expected.abs().max(1.0), "{name}: {score} {expected}");
    }
}

#[test]
fn perceptual_losses_as_those_of_lpips() {
    for network in [LpipsNetwork::Squeeze, LpipsNetwork::Alex, LpipsNetwork::Vgg] {
        let (distances, gradients) = lpips::errors(network, &gpu());
        assert!(distances < 1e-4 && gradients < 1e-4, "{}: {distances:e}, gradients {gradients:e}", network.name());
    }
}

#[test]
fn recomputed_as_kept() {
    let name = "autoencoder_kl_attention";
    let kept = run_fixture_on(gpu(), name, ResidencyPolicy::keep(), DType::F32);
    check(name, run_fixture_on(gpu(), name, ResidencyPolicy::recompute_all(), DType::F32), kept, 1e-5);
}

/// A GPU stores more than the CPU: norms, activations and convolutions each have a result of their own.
#[test]
fn half_precision_where_the_device_computes_in_it() {
    let device = gpu();
    for dtype in [DType::F16, DType::BF16] {
        if device.supports_dtype(dtype) {
            check_half(device.clone(), "autoencoder_kl_high_res", dtype, Rounded::smooth(63));
        }
    }
}
