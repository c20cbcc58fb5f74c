//! Attention in windows, layer norm, and their gradients.

use leanburn_kernels::attention::window::{self, WindowGradients, WindowOperands, WindowShape};
use leanburn_kernels::layer_norm::{LayerNorm, LayerShape, layer_norm_backward_workspace, layer_norm_workspace};

use super::{Draw, MOST, MOST_WORKSPACE, Outcome, expect_finite, unwritten};

pub fn attention(draw: &mut Draw) -> Outcome {
    let mut heads = [draw.usual(3), draw.usual(3), draw.usual(9)];
    let (mut volume, mut window) = (draw.three(9), draw.three(5));
    let mut shift: [usize; 3] = std::array::from_fn(|axis| draw.below(window[axis]));
    let sizes = heads.iter_mut().chain(&mut volume).chain(&mut window).chain(&mut shift);
    draw.disturb(&mut sizes.collect::<Vec<_>>());
    let Ok(shape) = WindowShape::new(heads, volume, [window, shift], 0.3) else { return Outcome::Rejected };
    let workspace = window::forward_workspace(&shape).max(window::backward_workspace(&shape));
    let lens = [shape.volume_len(), shape.table_len()];
    if lens.iter().any(|len| *len > MOST) || workspace > MOST_WORKSPACE || shape.flops() > 1 << 24 {
        return Outcome::Large;
    }
    let [query, key, value, gradient] = [0; 4].map(|_| draw.values(shape.volume_len()));
    let (table, padding) = (draw.values(shape.table_len()), [0; 2].map(|_| draw.values(shape.channels())));
    let padding = padding.each_ref().map(|values| &values[..]);
    let operands = WindowOperands { query: &query, key: &key, value: &value, table: &table, padding };
    let mut output = unwritten(draw.len(shape.volume_len()));
    let log_sum_exp = window::forward(&shape, operands, &mut output);
    expect_finite(&output, shape.volume_len(), "the output of attention in windows");
    expect_finite(&log_sum_exp, shape.log_sum_exp_len(), "the logarithms");
    let mut gradients = [0; 3].map(|_| unwritten(draw.len(shape.volume_len())));
    let [query, key, value] = &mut gradients;
    let of_inputs = WindowGradients { query, key, value };
    let parameters = window::backward(&shape, operands, (&output, &log_sum_exp), &gradient, of_inputs);
    gradients.iter().for_each(|gradient| expect_finite(gradient, shape.volume_len(), "a gradient"));
    expect_finite(&parameters.table, shape.table_len(), "the gradient of the table");
    parameters.padding.iter().for_each(|values| expect_finite(values, shape.channels(), "a gradient of the padding"));
    Outcome::Computed
}

pub fn layer_norm(draw: &mut Draw) -> Outcome {
    let mut dims = [draw.usual(3), draw.usual(40), draw.usual(300)];
    draw.disturb(&mut dims.iter_mut().collect::<Vec<_>>());
    let Ok(shape) = LayerShape::new(dims) else { return Outcome::Rejected };
    let workspace = layer_norm_workspace(&shape).max(layer_norm_backward_workspace(&shape));
    if shape.volume_len() > MOST || workspace > MOST_WORKSPACE {
        return Outcome::Large;
    }
    let vectors = draw.yes().then(|| [0; 2].map(|_| draw.values(shape.channels())));
    let [weight, bias] = [0, 1].map(|index| vectors.as_ref().map(|vectors| &vectors[index][..]));
    let norm = LayerNorm { shape, epsilon: 1e-5, weight, bias };
    let x = draw.values(shape.volume_len());
    let mut y = unwritten(draw.len(shape.volume_len()));
    norm.forward(&x, &mut y);
    expect_finite(&y, shape.volume_len(), "the output of a layer norm");
    let mut gradient = draw.values(shape.volume_len());
    let parameters = norm.backward(&x, &mut gradient);
    expect_finite(&gradient, shape.volume_len(), "the gradient of a layer norm");
    parameters.iter().for_each(|values| expect_finite(values, shape.channels(), "the gradient of weight or bias"));
    Outcome::Computed
}
