//! Norms, activations and their gradients.

use leanburn_kernels::conv::Prologue;
use leanburn_kernels::norm::{self, NormShape};

use super::{Draw, MOST, Outcome, expect_finite, unwritten, volume};

pub fn norm(draw: &mut Draw) -> Outcome {
    let mut groups = draw.usual(3);
    let [depth, height, width] = draw.three(9);
    let mut dims = [draw.usual(3), groups * draw.usual(4), depth, height, width];
    draw.disturb(&mut dims.iter_mut().chain([&mut groups]).collect::<Vec<_>>());
    let Ok(shape) = NormShape::new(dims, groups) else { return Outcome::Rejected };
    let [batch_size, channels, ..] = dims;
    let len = shape.elements();
    assert!(len == volume(&dims), "wrong: {len} elements of {dims:?}");
    // An empty volume may have many channels.
    if len > MOST || dims.iter().any(|size| *size > MOST) || volume(&[batch_size, channels]) > MOST {
        return Outcome::Large;
    }
    let x = draw.values(len);
    let statistics = norm::group_statistics(&shape, &x, 1e-5);
    expect_finite(&statistics.mean, batch_size * groups, "the mean");
    expect_finite(&statistics.deviation_reciprocal, batch_size * groups, "the deviation");
    let (weight, bias) = (draw.values(channels), draw.values(channels));
    let (scale, shift) = statistics.scale_and_shift(&shape, Some(&weight), draw.yes().then_some(&bias));
    let prologue = Prologue { scale: &scale, shift: &shift, activation: draw.activation() };
    let mut output = unwritten(draw.len(len));
    norm::apply(&shape, &x, prologue, &mut output);
    expect_finite(&output, len, "the norm");
    norm::apply_in_place(&shape, &mut output, prologue);
    expect_finite(&output, len, "the norm in place");
    let mut gradient = draw.values(len);
    let (weight_gradient, bias_gradient) = norm::group_norm_act_backward(
        &shape,
        &x,
        &statistics,
        Some(&weight),
        Some(&bias),
        prologue.activation,
        &mut gradient,
    );
    expect_finite(&gradient, len, "the gradient of a norm");
    expect_finite(&weight_gradient, channels, "the gradient of a scale");
    expect_finite(&bias_gradient, channels, "the gradient of a shift");
    norm::act_backward(&x, prologue.activation, &mut gradient);
    expect_finite(&gradient, len, "the gradient of an activation");
    Outcome::Computed
}
