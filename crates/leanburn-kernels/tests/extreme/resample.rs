//! Maps of axes, and volumes through them.

use leanburn_kernels::axis_map::AxisMap;
use leanburn_kernels::{ShapeError, resample};

use super::{Draw, MOST, Outcome, expect_finite, unwritten, volume};

/// Lengths that are neither small enough for a test nor so large that they are certain to be rejected.
fn is_long(len: usize) -> bool {
    (MOST + 1..1 << 47).contains(&len)
}

/// A map of each kind; `None` where it may be too long for a test.
fn map(draw: &mut Draw) -> Option<Result<AxisMap, ShapeError>> {
    let (mut from, mut to) = (draw.usual(12), draw.usual(12));
    if draw.below(4) == 0 {
        draw.disturb(&mut [&mut from, &mut to]);
    }
    if is_long(from) || is_long(to) {
        return None;
    }
    Some(match draw.below(7) {
        0 => Ok(AxisMap::identity(from)),
        1 => Ok(AxisMap::every(from, to)),
        2 if is_long(from.saturating_mul(to)) => return None,
        2 => Ok(AxisMap::repeat(from, to)),
        3 => AxisMap::nearest(from, to),
        4 => AxisMap::linear(from, to, draw.yes()),
        5 => AxisMap::adaptive_average(from, to),
        _ => return average(draw, from),
    })
}

fn average(draw: &mut Draw, from: usize) -> Option<Result<AxisMap, ShapeError>> {
    let (mut kernel, mut stride) = (draw.usual(5), draw.usual(4));
    let mut padding = draw.below(kernel / 2 + 1);
    if draw.below(4) == 0 {
        draw.disturb(&mut [&mut kernel, &mut stride, &mut padding]);
    }
    let (padding, ceil_mode) = ([padding; 2], draw.yes());
    let to = AxisMap::average_len(from, kernel, stride, padding, ceil_mode).unwrap_or(0);
    let weights = volume(&[to, kernel.min(from)]);
    if weights > MOST {
        return None;
    }
    let map = AxisMap::average(from, kernel, stride, padding, draw.yes(), ceil_mode);
    let found = map.as_ref().map_or(0, AxisMap::output_len);
    assert!(found == to, "wrong: {found} windows of {from} by {kernel}, stride {stride}, padding {padding:?}");
    Some(map)
}

pub fn resample(draw: &mut Draw) -> Outcome {
    let mut items = draw.usual(4);
    if draw.below(4) == 0 {
        draw.disturb(&mut [&mut items]);
    }
    let Some(maps) = [0; 3].map(|_| map(draw)).into_iter().collect::<Option<Vec<_>>>() else { return Outcome::Large };
    let Ok(maps) = maps.into_iter().collect::<Result<Vec<_>, _>>() else { return Outcome::Rejected };
    let maps = [&maps[0], &maps[1], &maps[2]];
    let [inputs, outputs] = [AxisMap::input_len, AxisMap::output_len].map(|len| maps.map(len));
    let [input_len, output_len] =
        [inputs, outputs].map(|[depth, height, width]| volume(&[items, depth, height, width]));
    let long = inputs.into_iter().chain(outputs).any(|len| len > MOST);
    if long || input_len > MOST || output_len > MOST || volume(&[output_len, maps[0].longest_run()]) > 1 << 20 {
        return Outcome::Large;
    }
    let input = draw.values(input_len);
    let mut output = unwritten(draw.len(output_len));
    resample::resample(items, maps, &input, &mut output);
    expect_finite(&output, output_len, "the resampled volume");
    let transposed = maps.map(AxisMap::transpose);
    let mut gradient = unwritten(draw.len(input_len));
    resample::resample(items, transposed.each_ref(), &output, &mut gradient);
    expect_finite(&gradient, input_len, "the gradient of resampling");
    if volume(&[outputs[2], inputs[2]]) <= MOST {
        expect_finite(&maps[2].dense(), outputs[2] * inputs[2], "the matrix of a map");
    }
    Outcome::Computed
}
