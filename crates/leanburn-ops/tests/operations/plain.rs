//! The operations composed from Burn's own tensor operations.

use burn::prelude::*;
use burn::tensor::{activation::softmax, module, ops::ConvOptions};
use leanburn_ops::{Activation, Convolution, Norm, WindowAttention};

/// Zeros first, then a convolution without padding.
pub fn conv3d(x: Tensor<5>, convolution: Convolution) -> Tensor<5> {
    let Convolution { weight, bias, options } = convolution;
    let [depth, height, width] = options.padding;
    let padded = x.pad([(0, 0), (0, 0), depth, height, width], 0.0f32);
    module::conv3d(padded, weight, bias, ConvOptions::new(options.stride, [0; 3], options.dilation, options.groups))
}

pub fn group_norm(x: Tensor<5>, norm: Norm) -> Tensor<5> {
    let dims @ [batch_size, channels, ..] = x.dims();
    let rows: Tensor<3> = x.reshape([batch_size as i64, norm.num_groups as i64, -1]);
    let centred = rows.clone() - rows.mean_dim(2);
    let variance = (centred.clone() * centred.clone()).mean_dim(2);
    let normal: Tensor<5> = (centred / (variance + norm.epsilon).sqrt()).reshape(dims);
    let scaled = match norm.weight {
        Some(weight) => normal * weight.reshape([1, channels, 1, 1, 1]),
        None => normal,
    };
    match norm.bias {
        Some(bias) => scaled + bias.reshape([1, channels, 1, 1, 1]),
        None => scaled,
    }
}

pub fn activate(x: Tensor<5>, activation: Activation) -> Tensor<5> {
    match activation {
        Activation::None => x,
        Activation::Silu => x.clone() / (x.neg().exp() + 1.0),
        Activation::Gelu => x.clone() * ((x * 0.5f64.sqrt()).erf() + 1.0) * 0.5,
        Activation::Relu => x.clamp_min(0.0),
        Activation::LeakyRelu(slope) => x.clone().clamp_min(0.0) + x.clamp_max(0.0) * slope,
    }
}

pub fn norm_act_conv3d(
    x: Tensor<5>,
    norm: Option<Norm>,
    activation: Activation,
    convolution: Convolution,
    residual: Option<Tensor<5>>,
) -> Tensor<5> {
    let normal = match norm {
        Some(norm) => group_norm(x, norm),
        None => x,
    };
    let y = conv3d(activate(normal, activation), convolution);
    match residual {
        Some(residual) => y + residual,
        None => y,
    }
}

/// Every voxel `factors` times along each axis.
pub fn repeat(x: Tensor<5>, [d, h, w]: [usize; 3]) -> Tensor<5> {
    let [batch_size, channels, depth, height, width] = x.dims();
    let apart: Tensor<7> = x.reshape([batch_size * channels, depth, 1, height, 1, width, 1]);
    apart.expand([batch_size * channels, depth, d, height, h, width, w]).reshape([
        batch_size,
        channels,
        depth * d,
        height * h,
        width * w,
    ])
}

pub fn attention3d(query: Tensor<5>, key: Tensor<5>, value: Tensor<5>, num_heads: usize, scale: f64) -> Tensor<5> {
    let dims @ [batch_size, channels, ..] = query.dims();
    let heads = [query, key, value].map(|volume| -> Tensor<4> {
        volume.reshape([batch_size as i64, num_heads as i64, (channels / num_heads) as i64, -1]).swap_dims(2, 3)
    });
    let [query, key, value] = heads;
    let weights = softmax(query.matmul(key.swap_dims(2, 3)) * scale, 3);
    weights.matmul(value).swap_dims(2, 3).reshape(dims)
}

pub fn layer_norm3d(x: Tensor<5>, weight: Option<Tensor<1>>, bias: Option<Tensor<1>>, epsilon: f64) -> Tensor<5> {
    let channels = x.dims()[1];
    let centred = x.clone() - x.mean_dim(1);
    let variance = (centred.clone() * centred.clone()).mean_dim(1);
    let normal = centred / (variance + epsilon).sqrt();
    let scaled = match weight {
        Some(weight) => normal * weight.reshape([1, channels, 1, 1, 1]),
        None => normal,
    };
    match bias {
        Some(bias) => scaled + bias.reshape([1, channels, 1, 1, 1]),
        None => scaled,
    }
}

/// The volume moved by `shift` towards the first voxel, what falls out of it put behind.
fn roll(x: Tensor<5>, shift: [usize; 3]) -> Tensor<5> {
    (0..3).fold(x, |x, axis| {
        let length = x.dims()[axis + 2];
        let first = shift[axis] % length;
        if first == 0 {
            return x;
        }
        let behind = x.clone().narrow(axis + 2, 0, first);
        Tensor::cat(vec![x.narrow(axis + 2, first, length - first), behind], axis + 2)
    })
}

/// `[batch_size, channels, volume]` as `[batch_size, num_heads, windows, head_channels, tokens]`.
fn partition(x: Tensor<5>, window: [usize; 3], num_heads: usize) -> Tensor<5> {
    let [batch_size, channels, depth, height, width] = x.dims();
    let grid = [depth / window[0], height / window[1], width / window[2]];
    let [d, h, w] = window;
    let apart = x.reshape([batch_size, num_heads, channels / num_heads, grid[0], d, grid[1], h, grid[2], w]);
    let ordered = apart.permute([0, 1, 3, 5, 7, 2, 4, 6, 8]);
    ordered.reshape([batch_size, num_heads, grid.iter().product(), channels / num_heads, d * h * w])
}

/// The steps of MONAI's block: pad, roll, cut into windows, attend with the cut index and the mask, and all of it back.
pub fn window_attention3d([query, key, value]: [Tensor<5>; 3], attention: WindowAttention) -> Tensor<5> {
    let WindowAttention { num_heads, window: full, shift, scale, table, padding } = attention;
    let [batch_size, channels, volume @ ..] = query.dims();
    let window: [usize; 3] = std::array::from_fn(|axis| full[axis].min(volume[axis]));
    let shift: [usize; 3] = std::array::from_fn(|axis| if volume[axis] <= full[axis] { 0 } else { shift[axis] });
    let padded: [usize; 3] = std::array::from_fn(|axis| volume[axis].div_ceil(window[axis]) * window[axis]);
    let pad = |x: Tensor<5>, outside: Option<Tensor<1>>| {
        let ends: [(usize, usize); 5] =
            std::array::from_fn(|axis: usize| (0, if axis < 2 { 0 } else { padded[axis - 2] - volume[axis - 2] }));
        let inside: Tensor<5> = x.ones_like().detach().pad(ends, 0.0f32);
        let x: Tensor<5> = x.pad(ends, 0.0f32);
        match outside {
            Some(outside) => x + outside.reshape([1, channels, 1, 1, 1]) * (inside.neg() + 1.0),
            None => x,
        }
    };
    let [of_key, of_value] = padding;
    let [query, key, value] = [(query, None), (key, of_key), (value, of_value)]
        .map(|(volume, outside)| partition(roll(pad(volume, outside), shift), window, num_heads));
    let tokens: usize = window.iter().product();
    let coordinates = |index: usize| [index / (full[1] * full[2]), index / full[2] % full[1], index % full[2]];
    let index: Vec<i64> = (0..tokens * tokens)
        .map(|pair| {
            let [q, k] = [coordinates(pair / tokens), coordinates(pair % tokens)];
            let difference: [usize; 3] = std::array::from_fn(|axis| q[axis] + full[axis] - 1 - k[axis]);
            ((difference[0] * (2 * full[1] - 1) + difference[1]) * (2 * full[2] - 1) + difference[2]) as i64
        })
        .collect();
    let device = query.device();
    let bias = table.select(0, Tensor::<1, Int>::from_data(index.as_slice(), &device));
    let bias = bias.swap_dims(0, 1).reshape([1, num_heads, 1, tokens, tokens]);
    let regions: Vec<f64> = (0..padded.iter().product::<usize>())
        .map(|index| {
            let place = [index / (padded[1] * padded[2]), index / padded[2] % padded[1], index % padded[2]];
            (0..3).fold(0.0, |region, axis| {
                let beyond = |length: usize| f64::from(u8::from(place[axis] + length >= padded[axis]));
                3.0 * region + if shift[axis] > 0 { beyond(window[axis]) + beyond(shift[axis]) } else { 0.0 }
            })
        })
        .collect();
    let regions = TensorData::new(regions, [1, 1, padded[0], padded[1], padded[2]]);
    let regions = partition(Tensor::from_data(regions, (&device, query.dtype())), window, 1);
    let differences = (regions.clone().swap_dims(3, 4) - regions).abs().clamp_max(1.0);
    let scores = query.swap_dims(3, 4).matmul(key) * scale + bias - differences * 100.0;
    let attended = value.matmul(softmax(scores, 4).swap_dims(3, 4));
    let grid: [usize; 3] = std::array::from_fn(|axis| padded[axis] / window[axis]);
    let apart = attended.reshape([
        batch_size,
        num_heads,
        grid[0],
        grid[1],
        grid[2],
        channels / num_heads,
        window[0],
        window[1],
        window[2],
    ]);
    let whole =
        apart.permute([0, 1, 5, 2, 6, 3, 7, 4, 8]).reshape([batch_size, channels, padded[0], padded[1], padded[2]]);
    let back = roll(whole, std::array::from_fn(|axis| padded[axis] - shift[axis]));
    (0..3).fold(back, |back, axis| back.narrow(axis + 2, 0, volume[axis]))
}

/// The inputs of one axis at these places.
pub fn gather(x: Tensor<5>, axis: usize, places: Vec<usize>) -> Tensor<5> {
    let places: Vec<i64> = places.into_iter().map(|place| place as i64).collect();
    let device = x.device();
    x.select(axis + 2, Tensor::<1, Int>::from_data(places.as_slice(), &device))
}

/// A factor for each place of one axis.
fn along(factors: Vec<f64>, axis: usize, like: &Tensor<5>) -> Tensor<5> {
    let mut dims = [1; 5];
    dims[axis + 2] = factors.len();
    Tensor::from_data(TensorData::new(factors, dims), (&like.device(), like.dtype()))
}

pub fn nearest(x: Tensor<5>, size: [usize; 3]) -> Tensor<5> {
    (0..3).fold(x, |x, axis| {
        let (from, to) = (x.dims()[axis + 2], size[axis]);
        gather(x, axis, (0..to).map(|output| output * from / to).collect())
    })
}

pub fn trilinear(x: Tensor<5>, size: [usize; 3], align_corners: bool) -> Tensor<5> {
    (0..3).fold(x, |x, axis| {
        let (from, to) = (x.dims()[axis + 2], size[axis]);
        let place = |output: usize| match align_corners {
            true => output as f64 * (from - 1) as f64 / (to - 1).max(1) as f64,
            false => ((output as f64 + 0.5) * from as f64 / to as f64 - 0.5).clamp(0.0, (from - 1) as f64),
        };
        let places: Vec<f64> = (0..to).map(place).collect();
        let below: Vec<usize> = places.iter().map(|place| *place as usize).collect();
        let above = below.iter().map(|below| (below + 1).min(from - 1)).collect();
        let fractions: Vec<f64> = places.iter().zip(&below).map(|(place, below)| place - *below as f64).collect();
        let rest = fractions.iter().map(|fraction| 1.0 - fraction).collect();
        let (rest, fractions) = (along(rest, axis, &x), along(fractions, axis, &x));
        gather(x.clone(), axis, below) * rest + gather(x, axis, above) * fractions
    })
}

/// The sum over each window, divided by how many of `counted` are in it.
pub fn avg_pool3d(x: Tensor<5>, windows: leanburn_ops::AvgPool3d) -> Tensor<5> {
    (0..3).fold(x, |x, axis| {
        let size = x.dims()[axis + 2];
        let (kernel, stride, padding) = (windows.kernel_size[axis], windows.stride[axis], windows.padding[axis]);
        let reach = size + 2 * padding - kernel;
        let count = match windows.ceil_mode {
            false => reach / stride + 1,
            true => {
                let count = reach.div_ceil(stride) + 1;
                if (count - 1) * stride >= size + padding { count - 1 } else { count }
            }
        };
        // Zeros behind the padding where a window reaches over it.
        let mut pad = [(0, 0); 5];
        pad[axis + 2] = (padding, padding + kernel + stride);
        let padded = x.pad(pad, 0.0f32);
        let counts = |place: usize| match windows.count_include_pad {
            true => place < size + 2 * padding,
            false => (padding..size + padding).contains(&place),
        };
        let starts = || (0..count).map(|window| window * stride);
        let divisors = starts().map(|start| (start..start + kernel).filter(|place| counts(*place)).count() as f64);
        let divisors = along(divisors.collect(), axis, &padded);
        let taps = (0..kernel).map(|tap| gather(padded.clone(), axis, starts().map(|start| start + tap).collect()));
        taps.reduce(|sum, tap| sum + tap).expect("a window has an element") / divisors
    })
}

pub fn adaptive_avg_pool3d(x: Tensor<5>, size: [usize; 3]) -> Tensor<5> {
    (0..3).fold(x, |x, axis| {
        let (from, to) = (x.dims()[axis + 2], size[axis]);
        let window = |output: usize| {
            let (start, end) = (output * from / to, ((output + 1) * from).div_ceil(to));
            x.clone().narrow(axis + 2, start, end - start).mean_dim(axis + 2)
        };
        Tensor::cat((0..to).map(window).collect(), axis + 2)
    })
}

/// The largest value of each window, given by the inputs of each window of each axis; of equal ones the first.
pub fn max_pool3d(x: Tensor<5>, windows: &[Vec<Vec<usize>>; 3]) -> Tensor<5> {
    // A window that is shorter than others has its last input again, which never replaces itself.
    let tap = |axis: usize, tap: usize| -> Vec<usize> {
        windows[axis].iter().map(|window| window[tap.min(window.len() - 1)]).collect()
    };
    let longest = windows.each_ref().map(|axis| axis.iter().map(Vec::len).max().expect("an output"));
    let mut largest: Option<Tensor<5>> = None;
    for d in 0..longest[0] {
        for h in 0..longest[1] {
            for w in 0..longest[2] {
                let value = [(0, tap(0, d)), (1, tap(1, h)), (2, tap(2, w))]
                    .into_iter()
                    .fold(x.clone(), |x, (axis, places)| gather(x, axis, places));
                largest = Some(match largest {
                    None => value,
                    Some(largest) => {
                        let larger = value.clone().greater(largest.clone());
                        largest.mask_where(larger, value)
                    }
                });
            }
        }
    }
    largest.expect("a window has an input")
}
