//! Equal to MONAI 1.6.1 on fixtures made by `tests/fixtures/make_fixtures.py`, in float32 on the CPU.

mod common;

use common::{Fixture, Outcome, relative_error, run_fixture, worst};
use leanburn_ops::ResidencyPolicy;

fn check(name: &str) -> (Fixture, Outcome) {
    let fixture = Fixture::read(name);
    let outcome = run_fixture(name, ResidencyPolicy::keep());
    let mut outputs = fixture.values("output.");
    let loss = outputs.remove("loss").unwrap();
    let (error, output) = worst(&outcome.outputs, &outputs);
    assert!(error < 1e-5, "{output}: {error:e}");
    let error = relative_error(&[outcome.loss], &loss);
    assert!(error < 1e-5, "loss: {error:e}");
    let (error, gradient) = worst(&outcome.gradients, &fixture.values("grad."));
    assert!(error < 1e-4, "gradient of {gradient}: {error:e}");
    (fixture, outcome)
}

#[test]
fn autoencoder_kl_attention() {
    check("autoencoder_kl_attention");
}

#[test]
fn autoencoder_kl_high_res() {
    check("autoencoder_kl_high_res");
}

#[test]
fn autoencoder_kl_convtranspose() {
    check("autoencoder_kl_convtranspose");
}

/// The fixture's weights hold the running estimates after the step; the forward pass in training mode does not use
/// those before it. So they must come out as `0.9 * fixture + 0.1 * batch`, and the batch's share must be that of the
/// fixture's own step.
#[test]
fn patch_discriminator() {
    check("patch_discriminator");
}
