//! Max pooling and its gradient.

use leanburn_kernels::ShapeError;
use leanburn_kernels::max_pool::{self, MaxPoolShape, PoolWindows, max_pool_backward, max_pool_backward_workspace};

use super::{Draw, MOST, MOST_WORKSPACE, Outcome, expect_finite, unwritten, volume};

pub fn max_pool(draw: &mut Draw) -> Outcome {
    let kernel = draw.three(4);
    let mut shape = MaxPoolShape {
        items: draw.usual(3),
        input: [0; 3].map(|_| 3 + draw.usual(8)),
        kernel,
        stride: draw.three(3),
        padding: kernel.map(|kernel| draw.below(kernel / 2 + 1)),
        dilation: draw.three(2),
        ceil_mode: draw.yes(),
    };
    let MaxPoolShape { items, input, kernel, stride, padding, dilation, .. } = &mut shape;
    let axes = [input, kernel, stride, padding, dilation].into_iter().flatten();
    draw.disturb(&mut axes.chain([items]).collect::<Vec<_>>());
    let output = shape.output();
    if shape.input.into_iter().chain(output).any(|len| (MOST + 1..1 << 47).contains(&len)) {
        return Outcome::Large;
    }
    let windows = shape.windows();
    if let Ok(windows) = &windows {
        assert!(windows.output() == output, "wrong: the output of {shape:?}");
    }
    pooled(draw, windows)
}

pub fn adaptive(draw: &mut Draw) -> Outcome {
    let (mut items, mut input, mut output) = (draw.usual(3), draw.three(9), draw.three(9));
    draw.disturb(&mut input.iter_mut().chain(&mut output).chain([&mut items]).collect::<Vec<_>>());
    if input.into_iter().chain(output).any(|len| (MOST + 1..1 << 47).contains(&len)) {
        return Outcome::Large;
    }
    pooled(draw, PoolWindows::adaptive(items, input, output))
}

fn pooled(draw: &mut Draw, windows: Result<PoolWindows, ShapeError>) -> Outcome {
    let Ok(windows) = windows else { return Outcome::Rejected };
    let [input_len, output_len] = [windows.input(), windows.output()]
        .map(|[depth, height, width]| volume(&[windows.items(), depth, height, width]));
    let window = (0..3).map(|axis| windows.window(axis, windows.output()[axis] / 2).count());
    let work = volume(&[output_len, volume(&window.collect::<Vec<_>>())]);
    if input_len > MOST || output_len > MOST || work > 1 << 20 || max_pool_backward_workspace(&windows) > MOST_WORKSPACE
    {
        return Outcome::Large;
    }
    let input = draw.values(input_len);
    let mut output = unwritten(draw.len(output_len));
    max_pool::max_pool(&windows, &input, &mut output);
    expect_finite(&output, output_len, "the pooled volume");
    let mut gradient = unwritten(draw.len(input_len));
    max_pool_backward(&windows, &input, &output, &mut gradient);
    expect_finite(&gradient, input_len, "the gradient of pooling");
    Outcome::Computed
}
