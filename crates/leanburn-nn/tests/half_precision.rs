//! A model runs in half precision when its input is cast, and comes out close to float32.

mod common;

use burn::tensor::DType;
use common::{Values, run_fixture, run_fixture_in};
use leanburn_ops::ResidencyPolicy;

/// Relative error of all values taken together.
fn error(found: &Values, expected: &Values) -> f64 {
    let all = |values: &Values| values.values().flatten().copied().collect::<Vec<_>>();
    common::relative_error(&all(found), &all(expected))
}

fn check(name: &str, dtype: DType, of_outputs: f64, of_gradients: f64) {
    let expected = run_fixture(name, ResidencyPolicy::keep());
    let found = run_fixture_in(name, ResidencyPolicy::keep(), dtype);
    let finite = |values: &Values| values.values().flatten().all(|value| value.is_finite());
    assert!(found.loss.is_finite() && finite(&found.outputs) && finite(&found.gradients));
    let (outputs, gradients) = (error(&found.outputs, &expected.outputs), error(&found.gradients, &expected.gradients));
    assert!(outputs < of_outputs && gradients < of_gradients, "{name} {dtype:?}: {outputs:e} {gradients:e}");
    assert!(outputs > 1e-6, "{name} was computed in float32");
}

#[test]
fn bfloat16_is_close() {
    check("autoencoder_kl_attention", DType::BF16, 2e-2, 1e-1);
    check("autoencoder_kl_convtranspose", DType::BF16, 2e-2, 1e-1);
    check("patch_discriminator", DType::BF16, 2e-2, 1e-1);
    check("vae3d_ultra_lightweight", DType::BF16, 2e-2, 1e-1);
    check("vq_vae", DType::BF16, 2e-2, 1e-1);
    check("conv_lstm", DType::BF16, 2e-2, 1e-1);
    check("cnn3d_lstm", DType::BF16, 2e-2, 1e-1);
}

#[test]
fn float16_is_close() {
    check("autoencoder_kl_attention", DType::F16, 2e-3, 5e-2);
    check("autoencoder_kl_convtranspose", DType::F16, 2e-3, 5e-2);
    check("patch_discriminator", DType::F16, 2e-3, 5e-2);
    check("vae3d_ultra_lightweight", DType::F16, 2e-3, 5e-2);
    check("conv_lstm", DType::F16, 2e-3, 5e-2);
    check("cnn3d_lstm", DType::F16, 2e-3, 5e-2);
}
