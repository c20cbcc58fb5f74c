//! Every operation on a GPU, against the CPU.

use burn::prelude::*;
use burn::tensor::DType;
use burn::tensor::ops::{ConvOptions, ConvTransposeOptions};
use leanburn_ops::{
    Activation, AvgPool3d, Convolution, Gpu, Interpolation, MaxPool3d, Norm, StreamKeep, StreamSettings, activate,
    adaptive_avg_pool3d, adaptive_max_pool3d, attention3d, avg_pool3d, conv_transpose3d, conv3d, dropout, dropout3d,
    group_norm_act, interpolate3d, layer_norm3d, max_pool3d, norm_act_conv3d, random, upsample_conv3d,
};

use crate::case::{Case, Inputs, Operation};
use crate::device::{gpu, gpu_runtime};
use crate::junction::Junction;
use crate::level::{Kind, Level, error};
use crate::spectral::Spectral;
use crate::window::Windows;

fn check(case: Case, operation: impl Operation) {
    case.check_on(&gpu(), operation);
}

/// A build with both takes SPIR-V for WebGPU too, unless `scripts/webgpu_layer.c` hides that the driver can.
#[test]
fn kernels_are_in_the_language_of_the_device() {
    assert_eq!(Gpu::of(&gpu()).unwrap().runtime, gpu_runtime());
}

fn of_volume(volume: [usize; 5]) -> Case {
    Case { volumes: vec![volume], ..Case::default() }
}

fn convolution(volume: [usize; 5], kernel: [usize; 5], options: ConvOptions<3>) {
    let case = Case { kernels: vec![kernel], vectors: vec![kernel[0]], ..of_volume(volume) };
    check(case, move |(x, kernels, vectors): Inputs| {
        let (weight, bias) = (kernels[0].clone(), Some(vectors[0].clone()));
        conv3d(x[0].clone(), Convolution { weight, bias, options: options.clone() })
    });
}

#[test]
fn convolutions() {
    let same = || ConvOptions::new([1; 3], [1; 3], [1; 3], 1);
    convolution([1, 8, 6, 7, 9], [12, 8, 3, 3, 3], same());
    convolution([2, 6, 5, 6, 7], [4, 6, 1, 1, 1], ConvOptions::new([1; 3], [0; 3], [1; 3], 1));
    convolution([1, 8, 6, 8, 10], [8, 4, 3, 3, 3], ConvOptions::new([1; 3], [2; 3], [2; 3], 2));
    // As the autoencoder halves a volume: zeros at the end alone.
    let halving = ConvOptions::new_with_padding([2; 3], [(0, 1); 3], [1; 3], 1);
    convolution([1, 8, 8, 8, 10], [8, 8, 3, 3, 3], halving);
    convolution([2, 4, 7, 9, 8], [6, 4, 4, 4, 4], ConvOptions::new([2, 3, 2], [1; 3], [1; 3], 1));
    // More zeros than the kernel reaches.
    convolution([1, 4, 4, 5, 6], [4, 4, 1, 1, 1], ConvOptions::new([1; 3], [1; 3], [1; 3], 1));
}

/// Sums over many positions, which half precision would lose digits of, in as many parts as there are.
#[test]
fn a_weight_gradient_of_many_positions() {
    convolution([1, 8, 12, 56, 56], [4, 8, 3, 3, 3], ConvOptions::new([1; 3], [1; 3], [1; 3], 1));
}

/// What fills tiles: each tile that a convolution or the gradient of its weight may have, with rests on every side.
#[test]
fn convolutions_in_tiles() {
    let same = || ConvOptions::new([1; 3], [1; 3], [1; 3], 1);
    for (volume, channels_out, options) in [
        ([1, 18, 13, 31, 23], 37, same()), // tiles of 64 positions; backward to 18 channels
        ([1, 2, 17, 63, 65], 36, same()),  // 256 positions, 64 channels; backward to 2
        ([1, 7, 17, 63, 65], 11, same()),  // 32 channels; backward to 7
        ([1, 23, 17, 63, 65], 4, same()),  // 8 channels; few rows of the weight
        ([2, 8, 16, 47, 49], 36, ConvOptions::new([2, 1, 1], [1, 2, 1], [1, 2, 1], 2)),
    ] {
        let kernels = vec![[channels_out, volume[1] / options.groups, 3, 3, 3]];
        let case = Case { kernels, vectors: vec![channels_out], ..of_volume(volume) };
        case.check_directly_on(&gpu(), move |(x, kernels, vectors): Inputs| {
            let (weight, bias) = (kernels[0].clone(), Some(vectors[0].clone()));
            conv3d(x[0].clone(), Convolution { weight, bias, options: options.clone() })
        });
    }
}

fn of_block(x: Tensor<5>, kernels: &[Tensor<5>], vectors: &[Tensor<1>], residual: Option<Tensor<5>>) -> Tensor<5> {
    let norm = Norm { num_groups: 4, epsilon: 1e-5, weight: Some(vectors[0].clone()), bias: Some(vectors[1].clone()) };
    let options = ConvOptions::new([1; 3], [1; 3], [1; 3], 1);
    let convolution = Convolution { weight: kernels[0].clone(), bias: Some(vectors[2].clone()), options };
    norm_act_conv3d(x, Some(norm), Activation::Silu, convolution, residual)
}

#[test]
fn norm_act_convolutions() {
    let case = Case { kernels: vec![[8, 8, 3, 3, 3]], vectors: vec![8; 3], ..of_volume([2, 8, 6, 7, 9]) };
    check(case, |(x, kernels, vectors): Inputs| of_block(x[0].clone(), &kernels, &vectors, Some(x[0].clone())));
    // The second reads what the first has written, channels last.
    let case = Case { kernels: vec![[8, 8, 3, 3, 3]], vectors: vec![8; 3], ..of_volume([1, 8, 6, 7, 9]) };
    check(case, |(x, kernels, vectors): Inputs| {
        let y = of_block(x[0].clone(), &kernels, &vectors, None);
        of_block(y, &kernels, &vectors, Some(x[0].clone()))
    });
}

/// Sizes that a kernel takes several values at a time of.
#[test]
fn even_sizes() {
    let same = || ConvOptions::new([1; 3], [1; 3], [1; 3], 1);
    convolution([1, 8, 16, 16, 16], [8, 8, 3, 3, 3], same());
    convolution([1, 1, 16, 16, 16], [8, 1, 3, 3, 3], same());
    convolution([1, 8, 16, 16, 16], [1, 8, 3, 3, 3], same());
    let case = Case { kernels: vec![[8, 8, 3, 3, 3]], vectors: vec![8; 3], ..of_volume([1, 8, 8, 8, 8]) };
    check(case, |(x, kernels, vectors): Inputs| {
        let y = of_block(x[0].clone(), &kernels, &vectors, None);
        of_block(y.clone(), &kernels, &vectors, Some(y))
    });
}

/// What Burn fuses behind a convolution to one channel, and behind the gradients of the weights of one channel.
#[test]
fn one_channel_and_what_is_fused_behind_it() {
    let convolution = |weight: &Tensor<5>| {
        let options = ConvOptions::new([1; 3], [1; 3], [1; 3], 1);
        Convolution { weight: weight.clone(), bias: None, options }
    };
    let case =
        Case { volumes: vec![[1, 4, 8, 8, 8], [1, 1, 8, 8, 8]], kernels: vec![[1, 4, 3, 3, 3]], ..Case::default() };
    check(case, move |(x, kernels, _): Inputs| {
        (conv3d(x[0].clone(), convolution(&kernels[0])) - x[1].clone()).square()
    });
    // As in an optimizer's step: the gradient of a weight meets the weight.
    for kernel in [[4, 1, 4, 4, 4], [1, 8, 4, 4, 4]] {
        let case = Case { kernels: vec![kernel], ..of_volume([1, kernel[1], 8, 8, 8]) };
        check(case, move |(x, kernels, _): Inputs| {
            let y = conv3d(x[0].clone(), convolution(&kernels[0]));
            let squares: Tensor<5> = kernels[0].clone().square().sum().reshape([1; 5]);
            y.clone() + squares.cast(y.dtype())
        });
    }
}

#[test]
fn even_sizes_halved() {
    convolution([1, 8, 16, 16, 16], [16, 8, 3, 3, 3], ConvOptions::new_with_padding([2; 3], [(0, 1); 3], [1; 3], 1));
}

#[test]
fn even_sizes_halved_by_four() {
    convolution([1, 8, 16, 16, 16], [16, 8, 4, 4, 4], ConvOptions::new([2; 3], [1; 3], [1; 3], 1));
}

#[test]
fn even_sizes_doubled() {
    let case = Case { kernels: vec![[8, 16, 3, 3, 3]], vectors: vec![8], ..of_volume([1, 16, 8, 8, 8]) };
    check(case, |(x, kernels, vectors): Inputs| {
        let options = ConvOptions::new([1; 3], [1; 3], [1; 3], 1);
        let convolution = Convolution { weight: kernels[0].clone(), bias: Some(vectors[0].clone()), options };
        upsample_conv3d(x[0].clone(), [2, 2, 2], convolution)
    });
}

#[test]
fn transposed_convolutions() {
    let case = Case { kernels: vec![[6, 4, 4, 4, 4]], vectors: vec![4], ..of_volume([1, 6, 4, 5, 6]) };
    check(case, |(x, kernels, vectors): Inputs| {
        let options = ConvTransposeOptions::new([2; 3], [1; 3], [0; 3], [1; 3], 1);
        conv_transpose3d(x[0].clone(), kernels[0].clone(), Some(vectors[0].clone()), options)
    });
    let case = Case { kernels: vec![[4, 3, 3, 3, 3]], ..of_volume([2, 4, 4, 3, 5]) };
    check(case, |(x, kernels, _): Inputs| {
        let options = ConvTransposeOptions::new([2; 3], [1; 3], [1; 3], [1; 3], 2);
        conv_transpose3d(x[0].clone(), kernels[0].clone(), None, options)
    });
    let case = Case { kernels: vec![[5, 6, 3, 3, 3]], vectors: vec![5], ..of_volume([1, 6, 4, 5, 6]) };
    check(case, |(x, kernels, vectors): Inputs| {
        let options = ConvOptions::new([1; 3], [1; 3], [1; 3], 1);
        let convolution = Convolution { weight: kernels[0].clone(), bias: Some(vectors[0].clone()), options };
        upsample_conv3d(x[0].clone(), [2, 2, 2], convolution)
    });
}

#[test]
fn norms_and_activations() {
    for activation in
        [Activation::None, Activation::Silu, Activation::Gelu, Activation::Relu, Activation::LeakyRelu(0.2)]
    {
        let case = Case { vectors: vec![12; 2], ..of_volume([2, 12, 5, 6, 7]) };
        check(case, move |(x, _, vectors): Inputs| {
            let [weight, bias] = [0, 1].map(|index| Some(vectors[index].clone()));
            group_norm_act(x[0].clone(), Norm { num_groups: 3, epsilon: 1e-5, weight, bias }, activation)
        });
        check(of_volume([1, 3, 4, 5, 6]), move |(x, _, _): Inputs| activate(x[0].clone(), activation));
    }
    // A mean far from zero, more channels than a cube takes, and several runs of positions.
    check(of_volume([1, 70, 9, 24, 24]), |(x, _, _): Inputs| {
        let norm = Norm { num_groups: 35, epsilon: 1e-5, weight: None, bias: None };
        group_norm_act(x[0].clone() + 30.0, norm, Activation::None)
    });
}

#[test]
fn attention() {
    let volume = [1, 16, 4, 5, 6];
    let case = Case { volumes: vec![volume; 3], ..Case::default() };
    check(case, |(x, _, _): Inputs| attention3d(x[0].clone(), x[1].clone(), x[2].clone(), 2, 0.25));
}

#[test]
fn attention_over_more_positions() {
    let case = Case { volumes: vec![[1, 16, 8, 8, 8]; 3], ..Case::default() };
    check(case, |(x, _, _): Inputs| attention3d(x[0].clone(), x[1].clone(), x[2].clone(), 1, 0.25));
}

#[test]
fn attention_in_windows() {
    let dims = [1, 8, 5, 4, 6];
    let windows = Windows { dims, num_heads: 2, window: [4; 3], shift: [2; 3], is_padded: true };
    check(windows.case(), move |inputs| windows.run(inputs));
}

#[test]
fn layer_norm() {
    let case = Case { vectors: vec![6, 6], ..of_volume([2, 6, 3, 4, 5]) };
    check(case, |(x, _, vectors): Inputs| {
        layer_norm3d(x[0].clone(), Some(vectors[0].clone()), Some(vectors[1].clone()), 1e-5)
    });
}

#[test]
fn transposed_convolution_of_even_sizes() {
    let case = Case { kernels: vec![[8, 8, 4, 4, 4]], vectors: vec![8], ..of_volume([1, 8, 4, 4, 4]) };
    check(case, |(x, kernels, vectors): Inputs| {
        let options = ConvTransposeOptions::new([2; 3], [1; 3], [0; 3], [1; 3], 1);
        conv_transpose3d(x[0].clone(), kernels[0].clone(), Some(vectors[0].clone()), options)
    });
}

#[test]
fn interpolation_and_average_pooling() {
    let volume = [2, 3, 5, 6, 7];
    check(of_volume(volume), |(x, _, _): Inputs| interpolate3d(x[0].clone(), [10, 12, 14], Interpolation::Nearest));
    for align_corners in [false, true] {
        check(of_volume(volume), move |(x, _, _): Inputs| {
            interpolate3d(x[0].clone(), [9, 4, 14], Interpolation::Trilinear { align_corners })
        });
    }
    check(of_volume(volume), |(x, _, _): Inputs| {
        let [kernel_size, stride, padding] = [[3; 3], [2; 3], [1; 3]];
        avg_pool3d(x[0].clone(), AvgPool3d { kernel_size, stride, padding, count_include_pad: false, ceil_mode: true })
    });
    check(of_volume(volume), |(x, _, _): Inputs| adaptive_avg_pool3d(x[0].clone(), [2, 3, 4]));
}

#[test]
fn max_pooling() {
    let volume = [2, 3, 6, 7, 8];
    check(of_volume(volume), |(x, _, _): Inputs| max_pool3d(x[0].clone(), MaxPool3d::new([2; 3])));
    check(of_volume(volume), |(x, _, _): Inputs| {
        let windows = MaxPool3d { stride: [2; 3], padding: [1; 3], ..MaxPool3d::new([3; 3]) };
        max_pool3d(x[0].clone(), windows)
    });
    check(of_volume(volume), |(x, _, _): Inputs| adaptive_max_pool3d(x[0].clone(), [2, 3, 5]));
}

/// Noise and weights are those of the CPU.
#[test]
fn random_numbers() {
    let drawn = |device: &Device| {
        random::seed(device, 7);
        let uniform = random::uniform([3, 5], device).into_data();
        (uniform, random::normal([2, 3, 100], device).into_data())
    };
    assert_eq!(drawn(&gpu()), drawn(&Device::flex()));
}

/// The mask is that of the CPU, in every mode.
#[test]
fn dropout_of_values_and_channels() {
    check(of_volume([2, 3, 5, 6, 7]), |(x, _, _): Inputs| {
        random::seed(&x[0].device(), 7);
        dropout3d(dropout(x[0].clone(), 0.3), 0.4)
    });
}

#[test]
fn spectral_convolution() {
    let layer = Spectral {
        dims: [2, 3, 4, 5, 6],
        channels_out: 4,
        size: [4, 5, 6],
        modes: [2, 2, 3],
        activation: Activation::Gelu,
        is_beside_pointwise: true,
    };
    check(layer.case(), move |inputs| layer.run(inputs));
}

/// A level in slabs, beside the same level whole on this GPU: the output, and all gradients.
#[test]
fn streamed_levels() {
    let device = gpu().autodiff();
    random::seed(&device, 3);
    for (kind, keep) in
        [(Kind::Decoder, StreamKeep::Two), (Kind::Encoder, StreamKeep::None), (Kind::Blocks, StreamKeep::One)]
    {
        let level = Level::new(kind, [8, 4], &device);
        let x = (random::normal([1, level.channels_in(), 6, 4, 5], &device) + 0.5).require_grad();
        let settings = StreamSettings::default().with_slab_planes(4).with_keep(keep);
        let (plain, streamed) = (level.outcome(&x, None), level.outcome(&x, Some(settings)));
        for (index, (found, expected)) in streamed.iter().zip(&plain).enumerate() {
            let error = error(found.as_ref().expect("a gradient"), expected.as_ref().expect("a gradient"));
            assert!(error < 1e-5, "{kind:?} {keep:?}: {error:.1e} of number {index}");
        }
    }
}

/// Two inputs, a norm over the batch and learned slopes in slabs, beside the same whole on the CPU.
#[test]
fn streamed_junctions() {
    let outcome = |device: &Device, streamed| {
        random::seed(device, 4);
        Junction::new([2, 4, 3, 5], 4, DType::F32, device).outcome(streamed)
    };
    let plain = outcome(&Device::flex().autodiff(), None);
    for keep in [StreamKeep::Two, StreamKeep::None] {
        let settings = StreamSettings::default().with_slab_planes(3).with_keep(keep);
        let streamed = outcome(&gpu().autodiff(), Some(settings));
        assert_eq!(streamed.len(), plain.len());
        for (index, (found, expected)) in streamed.iter().zip(&plain).enumerate() {
            let error = error(found, expected);
            assert!(error < 1e-5, "{keep:?}: {error:.1e} of number {index}");
        }
    }
}
