//! A streamed segment gives the results of the plain path: bit for bit in one slab, up to rounding in several.

use burn::prelude::*;
use burn::tensor::ops::{ConvOptions, ConvTransposeOptions};
use burn::tensor::{DType, Distribution, TensorData};
use leanburn_ops::{Activation, Convolution, Interpolation, Stages, StreamKeep, StreamSettings, random, stream};

use crate::junction::Junction;
use crate::level::{Kind, Level, error, without_gradient};

const KEEPS: [StreamKeep; 3] = [StreamKeep::Two, StreamKeep::One, StreamKeep::None];

/// A device, and the seed of what this thread draws: other tests draw beside it.
fn device() -> Device {
    let device = Device::flex().autodiff();
    random::seed(&device, 1);
    device
}

/// A level, and an input with a gradient, of so many planes at the full size.
fn case(kind: Kind, batch_size: usize, planes: usize, device: &Device) -> (Level, Tensor<5>) {
    let level = Level::new(kind, [8, 4], device);
    let (planes, [height, width]) = if kind == Kind::Decoder { (planes / 2, [3, 4]) } else { (planes, [6, 7]) };
    let dims = [batch_size, level.channels_in(), planes, height, width];
    let x = (random::normal(dims, device) + 0.5).require_grad();
    (level, x)
}

/// Settings for so many slabs of the deepest volume.
fn settings(planes: usize, slabs: usize, keep: StreamKeep) -> StreamSettings {
    StreamSettings::default().with_slab_planes(planes.div_ceil(slabs)).with_keep(keep)
}

#[test]
fn one_slab_is_the_plain_path_bit_for_bit() {
    let device = device();
    for kind in [Kind::Decoder, Kind::Encoder, Kind::Blocks] {
        let (level, x) = case(kind, 2, 10, &device);
        let plain = level.outcome(&x, None);
        assert!(plain.iter().all(Option::is_some));
        for keep in KEEPS {
            assert!(level.outcome(&x, Some(settings(10, 1, keep))) == plain, "{kind:?} {keep:?}");
        }
    }
}

#[test]
fn any_number_of_slabs_gives_the_results_of_the_plain_path() {
    let device = device();
    let mut worst: f64 = 0.0;
    for (kind, planes) in [(Kind::Decoder, 10), (Kind::Encoder, 9), (Kind::Blocks, 11)] {
        let (level, x) = case(kind, 2, planes, &device);
        let plain = level.outcome(&x, None);
        for (slabs, keep) in [2, 3, 5, 8, 100].into_iter().flat_map(|slabs| KEEPS.map(|keep| (slabs, keep))) {
            let streamed = level.outcome(&x, Some(settings(planes, slabs, keep)));
            for (index, (found, expected)) in streamed.iter().zip(&plain).enumerate() {
                let error = error(found.as_ref().expect("a gradient"), expected.as_ref().expect("a gradient"));
                // the gradients of biases, scales and shifts are few sums over all voxels, which may cancel: of 24 draws the worst had 2.3e-6
                let bound = if expected.as_ref().unwrap().shape().len() == 1 { 3e-6 } else { 1e-6 };
                assert!(error < bound, "{kind:?} {planes} {slabs} {keep:?}: {error} of number {index}");
                worst = worst.max(error);
            }
        }
    }
    println!("worst error {worst:.1e}");
}

/// Large enough for the transforms of the convolutions, forward and of the weights' gradients, whose groups of planes begin elsewhere in slabs.
#[test]
fn slabs_of_transformed_planes_give_the_results_of_the_plain_path() {
    let device = device();
    let level = Level::new(Kind::Blocks, [8, 8], &device);
    let x = (random::normal([1, 8, 26, 16, 16], &device) + 0.5).require_grad();
    let plain = level.outcome(&x, None);
    for (slabs, keep) in [(3, StreamKeep::Two), (3, StreamKeep::None), (4, StreamKeep::One)] {
        let streamed = level.outcome(&x, Some(settings(26, slabs, keep)));
        for (index, (found, expected)) in streamed.iter().zip(&plain).enumerate() {
            let error = error(found.as_ref().expect("a gradient"), expected.as_ref().expect("a gradient"));
            let bound = if expected.as_ref().unwrap().shape().len() == 1 { 3e-6 } else { 1e-6 };
            println!("{slabs} {keep:?} {index}: {error:.1e}");
            assert!(error < bound, "{slabs} {keep:?}: {error} of number {index}");
        }
    }
}

/// A cache ends between slabs of any kind: slabs of two passes do not begin at the same planes.
#[test]
fn cached_slabs_give_the_results_of_the_plain_path() {
    let device = device();
    for (kind, planes) in [(Kind::Decoder, 14), (Kind::Encoder, 13), (Kind::Blocks, 13)] {
        let (level, x) = case(kind, 2, planes, &device);
        let plain = level.outcome(&x, None);
        for (percent, keep) in [1, 40, 80, 100].into_iter().flat_map(|percent| KEEPS.map(|keep| (percent, keep))) {
            let one_slab = settings(planes, 1, keep).with_cached_percent(percent);
            assert!(level.outcome(&x, Some(one_slab)) == plain, "{kind:?} {keep:?} {percent} %");
            for slabs in [3, 6] {
                let settings = settings(planes, slabs, keep).with_cached_percent(percent);
                for (found, expected) in level.outcome(&x, Some(settings)).iter().zip(&plain) {
                    let (found, expected) =
                        (found.as_ref().expect("a gradient"), expected.as_ref().expect("a gradient"));
                    let (error, bound) =
                        (error(found, expected), if expected.shape().len() == 1 { 3e-6 } else { 1e-6 });
                    assert!(error < bound, "{kind:?} {slabs} slabs, {keep:?}, {percent} %: {error}");
                }
            }
        }
    }
}

#[test]
fn the_number_of_threads_does_not_show() {
    let device = device();
    let (level, x) = case(Kind::Decoder, 1, 12, &device);
    let on = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| level.outcome(&x, Some(settings(12, 3, StreamKeep::Two))))
    };
    assert!(on(1) == on(2));
}

#[test]
fn half_precision_is_that_of_the_plain_path() {
    let device = device();
    let level = Level::new(Kind::Decoder, [8, 4], &device);
    for (dtype, tolerance) in [(DType::BF16, 2e-2), (DType::F16, 3e-3)] {
        let x =
            Tensor::<5>::random([1, 8, 5, 4, 4], Distribution::Default, &device).cast(dtype).detach().require_grad();
        let plain = level.outcome(&x, None);
        assert!(level.outcome(&x, Some(settings(10, 1, StreamKeep::Two))) == plain);
        for (found, expected) in level.outcome(&x, Some(settings(10, 3, StreamKeep::None))).iter().zip(&plain) {
            let error = error(found.as_ref().expect("a gradient"), expected.as_ref().expect("a gradient"));
            assert!(error < tolerance, "{dtype:?} {error}");
        }
    }
}

#[test]
fn other_precision_is_composed_of_burns_operations() {
    let device = device();
    let weight = Tensor::<5>::random([4, 4, 3, 3, 3], Distribution::Normal(0.0, 0.1), (&device, DType::F64));
    let options = ConvOptions::new([1; 3], [1; 3], [1; 3], 1);
    let norm = leanburn_ops::Norm { num_groups: 2, epsilon: 1e-6, weight: None, bias: None };
    let x = Tensor::<5>::random([1, 4, 7, 4, 4], Distribution::Default, (&device, DType::F64)).require_grad();
    let run = |streamed: bool| {
        let convolution = Convolution { weight: weight.clone(), bias: None, options: options.clone() };
        let y = match streamed {
            false => leanburn_ops::norm_act_conv3d(
                x.clone(),
                Some(norm.clone()),
                Activation::Silu,
                convolution,
                Some(x.clone()),
            ),
            true => {
                let mut stages = Stages::new();
                let input = stages.input();
                stages.norm_act_conv3d(input, Some(norm.clone()), Activation::Silu, convolution, Some(input));
                stream(x.clone(), stages, StreamSettings::default().with_slab_planes(3))
            }
        };
        let gradient = leanburn_ops::backward((y.clone() * y.clone()).sum()).take(&x).unwrap();
        [y.into_data(), gradient.into_data()]
    };
    for (found, expected) in run(true).iter().zip(&run(false)) {
        assert!(error(found, expected) < 1e-12);
    }
}

/// Norm and activation behind a convolution, a transposed convolution and an interpolation, whole or in slabs: the output, and the
/// gradients of the input and of all parameters.
fn other_stages(dtype: DType, streamed: Option<StreamSettings>) -> Vec<TensorData> {
    let device = Device::flex().autodiff();
    device.seed(2);
    fn leaf<const D: usize>(dims: [usize; D], dtype: DType, device: &Device) -> Tensor<D> {
        Tensor::random(dims, Distribution::Normal(0.1, 0.3), (device, dtype)).require_grad()
    }
    let x = leaf([2, 2, 9, 5, 4], dtype, &device);
    let (down, up) = (leaf([4, 2, 3, 3, 3], dtype, &device), leaf([4, 3, 4, 4, 4], dtype, &device));
    let [scale, shift, bias, bias_up] = [4, 4, 4, 3].map(|channels| leaf([channels], dtype, &device));
    let norm =
        leanburn_ops::Norm { num_groups: 2, epsilon: 1e-6, weight: Some(scale.clone()), bias: Some(shift.clone()) };
    let options = ConvOptions::new([1; 3], [1; 3], [1; 3], 1);
    let convolution = Convolution { weight: down.clone(), bias: Some(bias.clone()), options };
    let transposed = ConvTransposeOptions::new([2; 3], [1; 3], [1, 0, 1], [1; 3], 1);
    let (activation, factors) = (Activation::LeakyRelu(0.2), [3, 1, 2]);
    let input = x.clone() * 1.5; // not a leaf
    let y = match streamed {
        None => {
            let h = leanburn_ops::conv3d(input, convolution);
            let y = leanburn_ops::group_norm_act(h.clone(), norm, activation) + h;
            let z = leanburn_ops::conv_transpose3d(y, up.clone(), Some(bias_up.clone()), transposed);
            let [_, _, size @ ..] = z.dims();
            let size = std::array::from_fn(|axis| size[axis] * factors[axis]);
            leanburn_ops::interpolate3d(z, size, Interpolation::Trilinear { align_corners: false })
        }
        Some(settings) => {
            let mut stages = Stages::new();
            let h = stages.conv3d(stages.input(), convolution);
            let y = stages.norm_act(h, Some(norm), activation, Some(h));
            let z = stages.conv_transpose3d(y, up.clone(), Some(bias_up.clone()), transposed, None);
            stages.trilinear(z, factors);
            stream(input, stages, settings)
        }
    };
    let output = y.clone().into_data();
    let mut gradients = leanburn_ops::backward((y.clone() * y.clone() * y).mean());
    let weights = [x, down, up].map(|weight| gradients.take(&weight).expect("a gradient").into_data());
    let vectors = [scale, shift, bias, bias_up].map(|vector| gradients.take(&vector).expect("a gradient").into_data());
    [output].into_iter().chain(weights).chain(vectors).collect()
}

#[test]
fn norms_alone_transposed_convolutions_and_interpolations_are_streamed_too() {
    let plain = other_stages(DType::F32, None);
    let exact = other_stages(DType::F64, None);
    for (slabs, keep) in [1, 2, 4, 20].into_iter().flat_map(|slabs| KEEPS.map(|keep| (slabs, keep))) {
        let settings = Some(settings(60, slabs, keep));
        let streamed = other_stages(DType::F32, settings);
        assert!(slabs > 1 || streamed == plain, "{keep:?} in one slab");
        let composed = other_stages(DType::F64, settings);
        for (index, ((found, expected), (composed, exact))) in
            streamed.iter().zip(&plain).zip(composed.iter().zip(&exact)).enumerate()
        {
            let errors = [error(found, expected), error(composed, exact)];
            assert!(errors[0] < 1e-6 && errors[1] < 1e-7, "{slabs} {keep:?}: {errors:?} of number {index}");
        }
    }
}

#[test]
fn two_inputs_norms_over_the_batch_and_learned_slopes_are_streamed_too() {
    let device = device();
    let of = |dtype, streamed| {
        random::seed(&device, 4);
        Junction::new([3, 5, 4, 3], 2, dtype, &device).outcome(streamed)
    };
    let exact = of(DType::F64, None);
    assert_eq!(exact.len(), 1 + 7 + 5 + 2);
    for (slabs, keep) in [1, 2, 3, 20].into_iter().flat_map(|slabs| KEEPS.map(|keep| (slabs, keep))) {
        let settings = Some(settings(10, slabs, keep));
        let (streamed, composed) = (of(DType::F32, settings), of(DType::F64, settings));
        assert_eq!(streamed.len(), exact.len(), "the statistics are told once");
        for (index, ((found, composed), exact)) in streamed.into_iter().zip(composed).zip(&exact).enumerate() {
            let errors = [error(&found.convert_dtype(DType::F64), exact), error(&composed, exact)];
            assert!(errors[0] < 1e-5 && errors[1] < 1e-7, "{slabs} {keep:?}: {errors:?} of number {index}");
        }
    }
}

#[test]
fn what_needs_no_gradient_gets_none() {
    let device = device();
    let (level, x) = case(Kind::Decoder, 1, 8, &device);
    let settings = Some(settings(8, 2, StreamKeep::Two));
    let still = level.outcome(&without_gradient(x.clone()), settings);
    assert!(still[1].is_none() && still[2..].iter().all(Option::is_some));
    let level = level.frozen();
    let frozen = level.outcome(&x, settings);
    assert!(frozen[1].is_some() && frozen[2..].iter().all(Option::is_none));
    let plain = level.outcome(&x, None);
    assert!(error(frozen[1].as_ref().unwrap(), plain[1].as_ref().unwrap()) < 1e-6);
}

#[test]
fn without_autodiff_only_forward_runs() {
    let device = device();
    let (level, x) = case(Kind::Encoder, 1, 9, &device);
    let frozen = level.frozen();
    let (tracked, still) =
        (frozen.run(x.clone(), None), frozen.run(without_gradient(x), Some(settings(9, 4, StreamKeep::Two))));
    assert!(!still.is_tracked());
    assert!(error(&still.into_data(), &tracked.into_data()) < 1e-6);
}

#[test]
#[should_panic(expected = "expected a kernel longer along the depth than its padding")]
fn a_kernel_that_leaves_planes_out_is_rejected() {
    let device = Device::flex();
    let weight = Tensor::<5>::zeros([1, 1, 1, 3, 3], &device);
    let mut stages = Stages::new();
    let input = stages.input();
    stages.conv3d(input, Convolution { weight, bias: None, options: ConvOptions::new([2, 1, 1], [0; 3], [1; 3], 1) });
    let _ = stream(Tensor::zeros([1, 1, 4, 4, 4], &device), stages, StreamSettings::default());
}
