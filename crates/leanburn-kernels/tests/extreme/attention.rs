//! Attention and its gradients.

use leanburn_kernels::attention::{self, Attended, AttentionShape, Gradients};

use super::{Draw, MOST, MOST_WORKSPACE, Outcome, expect_finite, unwritten};

pub fn attention(draw: &mut Draw) -> Outcome {
    let mut extents = [draw.usual(3), draw.usual(3), draw.usual(9)];
    let mut positions = [draw.usual(70), draw.usual(70)];
    let mut block = draw.usual(100);
    draw.disturb(&mut extents.iter_mut().chain(&mut positions).chain([&mut block]).collect::<Vec<_>>());
    let Ok(shape) = AttentionShape::new(extents, positions, 0.3) else { return Outcome::Rejected };
    let shape = shape.with_block(draw.yes().then_some(block));
    let workspace = attention::forward_workspace(&shape).max(attention::backward_workspace(&shape));
    if [shape.query_len(), shape.key_len()].iter().any(|len| *len > MOST)
        || workspace > MOST_WORKSPACE
        || shape.flops() > 1 << 24
    {
        return Outcome::Large;
    }
    let [query, gradient] = [0; 2].map(|_| draw.values(shape.query_len()));
    let [key, value] = [0; 2].map(|_| draw.values(shape.key_len()));
    let mut output = unwritten(draw.len(shape.query_len()));
    let log_sum_exp = attention::forward(&shape, &query, &key, &value, &mut output);
    expect_finite(&output, shape.query_len(), "the output of attention");
    expect_finite(&log_sum_exp, shape.log_sum_exp_len(), "the logarithms");
    let mut gradients = [shape.query_len(), shape.key_len(), shape.key_len()].map(|len| unwritten(draw.len(len)));
    let [query_gradient, key_gradient, value_gradient] = &mut gradients;
    attention::backward(
        &shape,
        Attended { query: &query, key: &key, value: &value, output: &output, log_sum_exp: &log_sum_exp },
        &gradient,
        Gradients { query: query_gradient, key: key_gradient, value: value_gradient },
    );
    expect_finite(&gradients[0], shape.query_len(), "the gradient of the queries");
    gradients[1..].iter().for_each(|gradient| expect_finite(gradient, shape.key_len(), "the gradient of the keys"));
    Outcome::Computed
}
