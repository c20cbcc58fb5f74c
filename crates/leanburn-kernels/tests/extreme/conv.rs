//! Convolutions, against plain loops where they are small.

use leanburn_kernels::conv::{self, ConvSettings, ConvShape, Input, Output, Prologue, Residual};

use super::{Draw, MOST, MOST_WORKSPACE, Outcome, expect_finite, unwritten, volume};

/// Multiplications up to which plain loops are compared with.
const FEW: usize = 4096;

fn settings(draw: &mut Draw) -> ConvSettings {
    let padding = [0; 3].map(|_| [draw.below(3), draw.below(3)]);
    ConvSettings { stride: draw.three(3), dilation: draw.three(2), padding, groups: draw.usual(2) }
}

/// Every size of a convolution, to be made extreme.
fn disturb(draw: &mut Draw, input: &mut [usize; 5], weight: &mut [usize; 5], settings: &mut ConvSettings) {
    let ConvSettings { stride, dilation, padding, groups } = settings;
    let mut sizes: Vec<&mut usize> = input.iter_mut().chain(weight).chain(stride).chain(dilation).collect();
    sizes.extend(padding.iter_mut().flatten());
    sizes.push(groups);
    draw.disturb(&mut sizes);
}

pub fn convolution(draw: &mut Draw) -> Outcome {
    let mut settings = settings(draw);
    let (channels, [depth, height, width]) = ([draw.usual(9), draw.usual(9)], [0; 3].map(|_| 1 + draw.below(8)));
    let mut input = [draw.usual(2), channels[0] * settings.groups, depth, height, width];
    let [depth, height, width] = draw.three(4);
    let mut weight = [channels[1] * settings.groups, channels[0], depth, height, width];
    disturb(draw, &mut input, &mut weight, &mut settings);
    match ConvShape::new(input, weight, settings) {
        Err(_) => Outcome::Rejected,
        Ok(shape) => {
            assert!(shape.input_dims() == input && shape.weight_dims() == weight, "wrong: dimensions of {shape:?}");
            compute(draw, &shape, settings)
        }
    }
}

pub fn transposed(draw: &mut Draw) -> Outcome {
    let mut settings = settings(draw);
    settings.padding = [[0; 2]; 3];
    let (channels, [depth, height, width]) = ([draw.usual(9), draw.usual(9)], draw.three(6));
    let mut input = [draw.usual(2), channels[0] * settings.groups, depth, height, width];
    let [depth, height, width] = draw.three(4);
    let mut weight = [channels[0] * settings.groups, channels[1], depth, height, width];
    let mut output_padding = settings.stride.map(|stride| draw.below(stride));
    disturb(draw, &mut input, &mut weight, &mut settings);
    if draw.below(4) == 0 {
        draw.disturb(&mut output_padding.each_mut());
    }
    match ConvShape::transposed(input, weight, settings, output_padding) {
        Err(_) => Outcome::Rejected,
        Ok(shape) => {
            assert!(shape.output_dims() == input, "wrong: {shape:?} does not lead to {input:?}");
            compute(draw, &shape, settings)
        }
    }
}

pub fn bias(draw: &mut Draw) -> Outcome {
    let (mut batch_size, mut channels) = (draw.usual(3), draw.usual(5));
    let gradient = batch_size * channels * draw.usual(9);
    draw.disturb(&mut [&mut batch_size, &mut channels]);
    if channels > MOST {
        return Outcome::Large;
    }
    let (gradient, mut target) = (draw.values(gradient), unwritten(draw.len(channels)));
    conv::bias_gradient(batch_size, channels, &gradient, &mut target);
    expect_finite(&target, channels, "the bias gradient");
    let rows = volume(&[batch_size, channels]);
    assert!(gradient.is_empty() || gradient.len().is_multiple_of(rows), "wrong: {rows} rows");
    Outcome::Computed
}

/// All passes of a convolution.
fn compute(draw: &mut Draw, shape: &ConvShape, asked: ConvSettings) -> Outcome {
    let [inputs, weights, outputs] = [shape.input_dims(), shape.weight_dims(), shape.output_dims()];
    let lens = [volume(&inputs), volume(&weights), volume(&outputs)];
    assert!(lens == [shape.input_len(), shape.weight_len(), shape.output_len()], "wrong: lengths of {shape:?}");
    // An axis of an empty volume may be long.
    let long = inputs.into_iter().chain(outputs).any(|size| size > MOST);
    if long || lens.into_iter().any(|len| len > MOST) || shape.multiplications() > 1 << 22 {
        return Outcome::Large;
    }
    let workspaces =
        [conv::forward_workspace::<f32>, conv::data_gradient_workspace::<f32>, conv::weight_gradient_workspace::<f32>]
            .map(|of| of(shape));
    if workspaces.into_iter().any(|bytes| bytes > MOST_WORKSPACE) {
        return Outcome::Large;
    }
    let [input, weight, gradient] = lens.map(|len| draw.values(len));
    let planes = inputs[0] * inputs[1];
    let (scale, shift) = (draw.values(planes), draw.values(planes));
    let activation = draw.activation();
    let prologue = draw.yes().then_some(Prologue { scale: &scale, shift: &shift, activation });
    let (bias, residual) = (draw.values(outputs[1]), draw.values(lens[2]));

    let mut values = unwritten(draw.len(lens[2]));
    let residual = match draw.below(3) {
        0 => Residual::None,
        1 => Residual::Of(&residual),
        _ => {
            values.fill(0.5);
            Residual::InPlace
        }
    };
    let output = Output { values: &mut values, bias: draw.yes().then_some(&bias), residual };
    conv::forward(shape, Input { values: &input, prologue }, &weight, output);
    expect_finite(&values, lens[2], "the output");
    let values = conv::forward_allocating(shape, Input::plain(&input), &weight, None, None);
    expect_finite(&values, lens[2], "the new output");
    let sums = conv::data_gradient_allocating(shape, Input::plain(&gradient), &weight, None);
    expect_finite(&sums, lens[0], "the data gradient");
    let mut weight_sums = unwritten(draw.len(lens[1]));
    conv::weight_gradient(shape, Input::plain(&input), Input::plain(&gradient), &mut weight_sums);
    expect_finite(&weight_sums, lens[1], "the weight gradient");
    if shape.multiplications() <= FEW {
        compare(shape, asked, [&input, &weight, &gradient], [&sums, &weight_sums, &values]);
    }
    Outcome::Computed
}

/// Compares with plain loops over what was asked for, which is not always what the shape says.
fn compare(shape: &ConvShape, asked: ConvSettings, operands: [&[f32]; 3], found: [&[f32]; 3]) {
    let ([_, channels_in, input @ ..], [batch_size, channels_out, output @ ..]) =
        (shape.input_dims(), shape.output_dims());
    let [_, per_group, kernel @ ..] = shape.weight_dims();
    let grid = |size: [usize; 3]| {
        (0..volume(&size)).map(move |at| [at / (size[1] * size[2]), at / size[2] % size[1], at % size[2]])
    };
    let flat = |first: usize, size: [usize; 3], at: [usize; 3]| {
        ((first * size[0] + at[0]) * size[1] + at[1]) * size[2] + at[2]
    };
    let mut exact = operands.map(|operand| vec![0.0f64; operand.len()]);
    for (item, channel_out) in (0..batch_size).flat_map(|item| (0..channels_out).map(move |channel| (item, channel))) {
        let group = channel_out / (channels_out / asked.groups);
        for (place, channel) in grid(output).flat_map(|place| (0..per_group).map(move |channel| (place, channel))) {
            let at_output = flat(item * channels_out + channel_out, output, place);
            for element in grid(kernel) {
                let at: [i128; 3] = std::array::from_fn(|axis| {
                    place[axis] as i128 * asked.stride[axis] as i128
                        + element[axis] as i128 * asked.dilation[axis] as i128
                        - asked.padding[axis][0] as i128
                });
                if (0..3).all(|axis| (0..input[axis] as i128).contains(&at[axis])) {
                    let plane = item * channels_in + group * per_group + channel;
                    let at_input = flat(plane, input, at.map(|at| at as usize));
                    let at_weight = flat(channel_out * per_group + channel, kernel, element);
                    let [x, w, g] =
                        [operands[0][at_input], operands[1][at_weight], operands[2][at_output]].map(f64::from);
                    exact[0][at_input] += w * g;
                    exact[1][at_weight] += x * g;
                    exact[2][at_output] += x * w;
                }
            }
        }
    }
    for (found, exact) in found.into_iter().zip(exact) {
        let wrong = found.iter().zip(&exact).position(|(found, exact)| (f64::from(*found) - exact).abs() > 1e-3);
        assert!(wrong.is_none(), "wrong: value {wrong:?} of {shape:?}");
    }
}
