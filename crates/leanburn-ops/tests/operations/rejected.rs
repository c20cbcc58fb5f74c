//! Arguments that do not go together are rejected, by name.

use std::panic::{AssertUnwindSafe, catch_unwind};

use burn::prelude::*;
use burn::tensor::DType;
use burn::tensor::ops::{ConvOptions, ConvTransposeOptions};
use leanburn_ops::{
    Activation, AvgPool3d, Convolution, Interpolation, MaxPool3d, Norm, Pointwise, SpectralWeights, WindowAttention,
    activate, adaptive_avg_pool3d, adaptive_max_pool3d, attention3d, avg_pool3d, conv_transpose3d, conv3d, dropout,
    dropout3d, geglu, group_norm_act, interpolate3d, layer_norm3d, max_pool3d, norm_act_conv3d, norm_prelu,
    norm_prelu_conv3d, spectral_conv, upsample_conv3d, window_attention3d,
};

/// The message of an operation that panics.
#[track_caller]
fn expect(message: &str, operation: impl FnOnce() -> Tensor<5>) {
    let panic = catch_unwind(AssertUnwindSafe(|| operation().dims())).expect_err("it is rejected");
    let found = panic.downcast_ref::<String>().cloned();
    let found = found.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default();
    assert_eq!(found, message);
}

fn zeros<const D: usize>(dims: [usize; D]) -> Tensor<D> {
    Tensor::zeros(dims, &Device::flex())
}

fn same(weight: [usize; 5]) -> Convolution {
    Convolution { weight: zeros(weight), bias: None, options: ConvOptions::new([1; 3], [1; 3], [1; 3], 1) }
}

fn with_options(change: impl FnOnce(&mut ConvOptions<3>)) -> Convolution {
    let mut convolution = same([8, 8, 3, 3, 3]);
    change(&mut convolution.options);
    convolution
}

fn norm(num_groups: usize) -> Norm {
    Norm { num_groups, epsilon: 1e-5, weight: None, bias: None }
}

const INPUT: [usize; 5] = [1, 8, 4, 6, 9];

#[test]
fn a_residual_of_another_shape_or_dtype() {
    let of = |residual: Tensor<5>| {
        norm_act_conv3d(zeros(INPUT), None, Activation::None, same([8, 8, 3, 3, 3]), Some(residual))
    };
    assert_eq!(of(zeros(INPUT)).dims(), INPUT);
    let expected = "expected [batch_size 1, channels 8, depth 4, height 6, width 9]";
    expect(&format!("norm_act_conv3d: the residual is [1, 8, 6, 4, 9], {expected}"), || of(zeros([1, 8, 6, 4, 9])));
    expect(&format!("norm_act_conv3d: the residual is [1, 8, 1, 1, 1], {expected}"), || of(zeros([1, 8, 1, 1, 1])));
    let half = || zeros(INPUT).cast(DType::F16);
    expect("norm_act_conv3d: the residual is F16, expected F32 as the input is", || of(half()));
    let prelu = || {
        let convolution = same([8, 8, 3, 3, 3]);
        norm_prelu_conv3d(zeros(INPUT), None, zeros([1]), convolution, Some(zeros([1, 8, 6, 4, 9])))
    };
    expect(&format!("norm_prelu_conv3d: the residual is [1, 8, 6, 4, 9], {expected}"), prelu);
}

#[test]
fn a_convolution_that_moves_by_nothing() {
    let zero = |name: &str| format!("conv3d: {name}, found 0");
    let of = |convolution| move || conv3d(zeros(INPUT), convolution);
    expect(&zero("height: expected a length of at least 1 for the stride"), of(with_options(|o| o.stride[1] = 0)));
    expect(&zero("width: expected a length of at least 1 for the dilation"), of(with_options(|o| o.dilation[2] = 0)));
    expect(&zero("expected a length of at least 1 for the groups"), of(with_options(|o| o.groups = 0)));
    expect(&zero("depth: expected a length of at least 1 for the kernel"), of(same([8, 8, 0, 3, 3])));
    let message = "conv3d: expected a weight for 8 input channels, found one for 1 groups of 4";
    expect(message, of(same([8, 4, 3, 3, 3])));
    let message = "conv3d: expected groups that divide the 3 channels of the output, found 2";
    expect(message, || {
        let mut convolution = same([3, 4, 3, 3, 3]);
        convolution.options.groups = 2;
        conv3d(zeros(INPUT), convolution)
    });
    let message = "conv3d: depth: expected a kernel that spans at most the padded input of 6, found one that spans 7: take a \
                   smaller kernel or pad more";
    expect(message, of(same([8, 8, 7, 3, 3])));
}

#[test]
fn parameters_of_another_length_or_dtype() {
    let wide = || Convolution { weight: zeros([8, 8, 3, 3, 3]).cast(DType::F64), ..same([8, 8, 3, 3, 3]) };
    let message = "the weight is F64, expected F32, F16 or BF16 for an input of F32";
    expect(&format!("conv3d: {message}"), || conv3d(zeros(INPUT), wide()));
    expect(&format!("upsample_conv3d: {message}"), || upsample_conv3d(zeros(INPUT), [2; 3], wide()));
    let bias = || Convolution { bias: Some(zeros([5])), ..same([8, 8, 3, 3, 3]) };
    expect("conv3d: the bias is [5], expected [channels 8]", || conv3d(zeros(INPUT), bias()));
    let short = || Norm { weight: Some(zeros([7])), ..norm(2) };
    let message = "the weight of the norm is [7], expected [channels 8]";
    expect(&format!("group_norm_act: {message}"), || group_norm_act(zeros(INPUT), short(), Activation::Silu));
    expect(&format!("norm_act_conv3d: {message}"), || {
        norm_act_conv3d(zeros(INPUT), Some(short()), Activation::Silu, same([8, 8, 3, 3, 3]), None)
    });
    let wide = || Norm { bias: Some(zeros([8]).cast(DType::F64)), ..norm(2) };
    let message = "group_norm_act: the bias of the norm is F64, expected F32, F16 or BF16 for an input of F32";
    expect(message, || group_norm_act(zeros(INPUT), wide(), Activation::Silu));
    let message = "group_norm_act: expected groups that divide the 8 channels of the input, found 3";
    expect(message, || group_norm_act(zeros(INPUT), norm(3), Activation::Silu));
    let message = "group_norm_act: expected a length of at least 1 for the groups, found 0";
    expect(message, || group_norm_act(zeros(INPUT), norm(0), Activation::Silu));
    expect("norm_prelu: the slope is [8], expected [slopes 1]", || norm_prelu(zeros(INPUT), None, zeros([8])));
}

#[test]
fn an_empty_batch_and_an_empty_axis() {
    let batch = "is [0, 8, 4, 6, 9], expected batch_size of at least 1";
    let empty = || zeros([0, 8, 4, 6, 9]);
    let conv = || same([8, 8, 3, 3, 3]);
    let options = || ConvTransposeOptions::new([2; 3], [0; 3], [0; 3], [1; 3], 1);
    expect(&format!("conv3d: the input {batch}"), || conv3d(empty(), conv()));
    expect(&format!("norm_act_conv3d: the input {batch}"), || {
        norm_act_conv3d(empty(), Some(norm(2)), Activation::Silu, conv(), None)
    });
    expect(&format!("upsample_conv3d: the input {batch}"), || upsample_conv3d(empty(), [2; 3], conv()));
    expect(&format!("group_norm_act: the input {batch}"), || group_norm_act(empty(), norm(2), Activation::Silu));
    expect(&format!("norm_prelu: the input {batch}"), || norm_prelu(empty(), None, zeros([1])));
    expect(&format!("activate: the input {batch}"), || activate(empty(), Activation::Silu));
    expect(&format!("attention3d: the query {batch}"), || attention3d(empty(), empty(), empty(), 2, 0.5));
    expect(&format!("max_pool3d: the input {batch}"), || max_pool3d(empty(), MaxPool3d::new([2; 3])));
    expect(&format!("adaptive_max_pool3d: the input {batch}"), || adaptive_max_pool3d(empty(), [2; 3]));
    expect(&format!("avg_pool3d: the input {batch}"), || avg_pool3d(empty(), AvgPool3d::new([2; 3])));
    expect(&format!("adaptive_avg_pool3d: the input {batch}"), || adaptive_avg_pool3d(empty(), [2; 3]));
    expect(&format!("interpolate3d: the input {batch}"), || interpolate3d(empty(), [2; 3], Interpolation::Nearest));
    expect("conv_transpose3d: the input is [1, 8, 0, 6, 9], expected depth of at least 1", || {
        conv_transpose3d(zeros([1, 8, 0, 6, 9]), zeros([8, 8, 2, 2, 2]), None, options())
    });
    let message = "interpolate3d: height: expected a length of at least 1 for the output, found 0";
    expect(message, || interpolate3d(zeros(INPUT), [2, 0, 2], Interpolation::Nearest));
}

#[test]
fn attention_between_volumes_that_do_not_go_together() {
    let of =
        |key: [usize; 5], value: [usize; 5], heads| attention3d(zeros(INPUT), zeros(key), zeros(value), heads, 0.5);
    let message = "attention3d: num_heads is 3, expected a number that divides 8 channels";
    expect(message, || of(INPUT, INPUT, 3));
    expect("attention3d: num_heads is 0, expected a number that divides 8 channels", || of(INPUT, INPUT, 0));
    let message =
        "attention3d: the key is [2, 8, 4, 6, 9], expected [batch_size 1, channels 8, depth 4, height 6, width 9]";
    expect(message, || of([2, 8, 4, 6, 9], [2, 8, 4, 6, 9], 2));
    let message =
        "attention3d: the value is [1, 8, 6, 4, 9], expected [batch_size 1, channels 8, depth 4, height 6, width 9]";
    expect(message, || of(INPUT, [1, 8, 6, 4, 9], 2));
    expect("attention3d: the value is BF16, expected F32 as the input is", || {
        attention3d(zeros(INPUT), zeros(INPUT), zeros(INPUT).cast(DType::BF16), 2, 0.5)
    });
}

#[test]
fn windows_that_do_not_go_together() {
    let of = |num_heads: usize, shift: [usize; 3], rows: usize, padding: [Option<Tensor<1>>; 2]| {
        let table = zeros([rows, num_heads]);
        let attention = WindowAttention { num_heads, window: [2; 3], shift, scale: 0.5, table, padding };
        window_attention3d(zeros(INPUT), zeros(INPUT), zeros(INPUT), attention)
    };
    let message = "window_attention3d: num_heads is 3, expected a number that divides 8 channels";
    expect(message, || of(3, [0; 3], 27, [None, None]));
    let message = "window_attention3d: height: expected a shift that is shorter than the window of 2, found 2";
    expect(message, || of(2, [0, 2, 0], 27, [None, None]));
    let message = "window_attention3d: the table is [26, 2], expected [relative positions 27, num_heads 2]";
    expect(message, || of(2, [0; 3], 26, [None, None]));
    let message = "window_attention3d: the padding of the value is [7], expected [channels 8]";
    expect(message, || of(2, [0; 3], 27, [None, Some(zeros([7]))]));
    expect("layer_norm3d: the weight is [7], expected [channels 8]", || {
        layer_norm3d(zeros(INPUT), Some(zeros([7])), None, 1e-5)
    });
    expect("layer_norm3d: the input is [1, 8, 0, 4, 4], expected depth of at least 1", || {
        layer_norm3d(zeros([1, 8, 0, 4, 4]), None, None, 1e-5)
    });
}

/// Once a read and a write out of bounds.
#[test]
fn sums_of_sizes_do_not_wrap_around() {
    let far = 1usize << 63;
    let most = "expected at most 140737488355328 bytes of float32 for";
    expect(&format!("upsample_conv3d: height: {most} the padded axis, found 36893488147419103300"), || {
        let mut convolution = same([8, 16, 3, 3, 3]);
        convolution.options.padding = [(1, 1), (0, far), (0, 1)];
        upsample_conv3d(zeros([1, 16, 17, 17, 17]), [2, 1, 2], convolution)
    });
    expect(
        &format!("conv_transpose3d: height: {most} the kernel with its dilation, found 73786976294838206456"),
        || {
            let options = ConvTransposeOptions::new([2, 3, 1], [0; 3], [0; 3], [1, far - 1, 1], 1);
            conv_transpose3d(zeros([1, 16, 8, 8, 8]), zeros([16, 8, 3, 3, 3]), None, options)
        },
    );
    expect(&format!("conv3d: {most} the padded input, found 6192449487645696"), || {
        conv3d(zeros(INPUT), with_options(|options| options.padding[0] = (1 << 40, 1 << 40)))
    });
    let message = "upsample_conv3d: factors are [2, 0, 2], expected at least 1";
    expect(message, || upsample_conv3d(zeros(INPUT), [2, 0, 2], same([8, 8, 3, 3, 3])));
    expect(&format!("upsample_conv3d: width: {most} the padded axis, found 73786976294838206460"), || {
        upsample_conv3d(zeros(INPUT), [1, 1, far], same([8, 8, 3, 3, 3]))
    });
    let options = |padding: usize, padding_out: usize| {
        ConvTransposeOptions::new([2; 3], [0, 0, padding], [0, 0, padding_out], [1; 3], 1)
    };
    let transposed = |options| conv_transpose3d(zeros(INPUT), zeros([8, 8, 3, 3, 3]), None, options);
    let message = "conv_transpose3d: width: expected padding that leaves something of an output of 19, found 18446744073709551616 \
                   at both ends together";
    expect(message, || transposed(options(far, 0)));
    let message = "conv_transpose3d: width: expected an output padding that is smaller than the stride of 2, found 2";
    expect(message, || transposed(options(0, 2)));
    expect(&format!("interpolate3d: {most} the output, found 324518553658426726783156020576256"), || {
        interpolate3d(zeros([1, 1, 2, 2, 2]), [1 << 30, 1 << 36, 1 << 40], Interpolation::Nearest)
    });
    let large = MaxPool3d { dilation: [1, far, 1], ..MaxPool3d::new([2; 3]) };
    let message = "max_pool3d: height: expected a kernel that spans at most the padded input of 6, found one that spans \
                   9223372036854775809: take a smaller kernel or pad more";
    expect(message, || max_pool3d(zeros(INPUT), large));
}

/// A stride that is longer than the volume takes one window, and its gradient no longer than that of a short one.
#[test]
fn a_stride_over_the_whole_volume() {
    let device = Device::flex().autodiff();
    let gradient = |stride: usize| {
        let x = Tensor::<5>::ones([1, 2, 5, 5, 5], &device).require_grad();
        let weight = Tensor::<5>::ones([3, 2, 3, 3, 3], &device);
        let options = ConvOptions::new([stride; 3], [1; 3], [1; 3], 1);
        let y = conv3d(x.clone(), Convolution { weight, bias: None, options });
        assert_eq!(y.dims(), [1, 3, 1, 1, 1]);
        x.grad(&y.sum().backward()).unwrap().into_data()
    };
    assert_eq!(gradient(usize::MAX), gradient(5));
}

#[test]
fn backward_of_several_values() {
    let x = Tensor::<1>::ones([2], &Device::flex().autodiff()).require_grad();
    expect("backward: expected a loss of 1 value, found 2; take `.sum()` or `.mean()` of it", || {
        let _ = leanburn_ops::backward(x * 2.0);
        zeros(INPUT)
    });
}

#[test]
fn a_probability_to_drop_everything() {
    let message = "expected a number of at least 0 and below 1";
    expect(&format!("dropout: the probability is 1, {message}"), || dropout(zeros(INPUT), 1.0));
    expect(&format!("dropout3d: the probability is NaN, {message}"), || dropout3d(zeros(INPUT), f64::NAN));
    let message = "dropout: the input is [1, 0, 4, 6, 9], expected at least 1 along each axis";
    expect(message, || dropout(zeros([1, 0, 4, 6, 9]), 0.5));
}

#[test]
fn transformers() {
    expect("geglu: the input has 3 channels, expected an even number", || geglu(zeros([1, 3, 2, 2, 2])));
    expect("geglu: the input is [0, 2, 2, 2, 2], expected batch_size of at least 1", || geglu(zeros([0, 2, 2, 2, 2])));
}

#[test]
fn spectra() {
    let run = |input: [usize; 5],
               values: [usize; 6],
               frequencies: [&[i32]; 3],
               size: [usize; 3],
               weight: Option<[usize; 5]>| {
        let frequencies = frequencies.map(<[i32]>::to_vec);
        let pointwise = weight.map(|weight| Pointwise { weight: zeros(weight), bias: None });
        spectral_conv(
            zeros(input),
            Activation::None,
            SpectralWeights { values: zeros(values), frequencies, size },
            pointwise,
        )
    };
    let (input, kept): (_, [&[i32]; 3]) = ([1, 2, 1, 4, 6], [&[0], &[0, -1], &[0, 1, 2]]);
    expect("spectral_conv: the input is [1, 2, 0, 4, 6], expected depth of at least 1", || {
        run([1, 2, 0, 4, 6], [2, 2, 3, 1, 2, 3], kept, [1, 4, 6], None)
    });
    let message = "spectral_conv: the weight of the spectrum is [2, 2, 3, 1, 2, 4], expected [parts 2, channels_in 2, channels_out 3, \
                   frequencies of the depth 1, frequencies of the height 2, frequencies of the width 3]";
    expect(message, || run(input, [2, 2, 3, 1, 2, 4], kept, [1, 4, 6], None));
    let message =
        "spectral_conv: width: expected frequencies of 0 and above, since the others are their conjugates, found -1";
    expect(message, || run(input, [2, 2, 3, 1, 2, 2], [&[0], &[0, -1], &[0, -1]], [1, 4, 6], None));
    let message = "spectral_conv: height: expected a length of at least 1 for the volume, found 0";
    expect(message, || run(input, [2, 2, 3, 1, 2, 3], kept, [1, 0, 6], None));
    let message = "spectral_conv: the output is [1, 4, 8], expected the size of the input, [1, 4, 6], beside a pointwise convolution";
    expect(message, || run(input, [2, 2, 3, 1, 2, 3], kept, [1, 4, 8], Some([3, 2, 1, 1, 1])));
    let message = "spectral_conv: the pointwise weight is [3, 1, 1, 1, 1], expected [channels_out 3, channels_in 2, depth 1, height 1, width 1]";
    expect(message, || run(input, [2, 2, 3, 1, 2, 3], kept, [1, 4, 6], Some([3, 1, 1, 1, 1])));
}
