//! An autoencoder whose levels are streamed trains as the plain one does.

use burn::backend::ir::OperationIr;
use burn::module::{Module, ModuleVisitor, Param};
use burn::prelude::*;
use burn::tensor::TensorData;
use leanburn_nn::blocks::VectorQuantizerConfig;
use leanburn_nn::losses::l2_loss;
use leanburn_nn::models::{
    AutoencoderKl, AutoencoderKlConfig, DynUnetConfig, NormConfig, PatchDiscriminatorConfig, SwinUnetrConfig, UNet3d,
    UNet3dConfig, Vae3dConfig, VqVae3dConfig,
};
use leanburn_ops::recording::{Marker, as_on_cpu};
use leanburn_ops::{
    Residency, ResidencyPolicy, Storage, StreamKeep, StreamSettings, backward, or_storage_error, random,
};

/// What is compared to 2e-5 of itself: gradients that cancel, of biases in front of a norm or of slopes, differ by more on other draws, up to 4e-4 of
/// themselves on the worst of twelve.
const SEED: u64 = 11_003;

/// A device, and the seed of what this thread draws: tests beside it draw from the device's generator.
fn seeded(seed: u64) -> Device {
    let device = Device::flex().autodiff();
    random::seed(&device, seed);
    device
}

fn model(device: &Device) -> AutoencoderKl {
    AutoencoderKlConfig::new(vec![8, 8, 16], vec![1, 2, 1], vec![false, false, true])
        .with_norm_num_groups(4)
        .init(device)
}

fn streamed(segments: &[&str], slab_planes: usize, keep: StreamKeep) -> ResidencyPolicy {
    let settings = StreamSettings::default().with_slab_planes(slab_planes).with_keep(keep);
    let stream = |policy: ResidencyPolicy, name: &&str| policy.with_rule(*name, Residency::Stream(settings));
    segments.iter().fold(ResidencyPolicy::keep(), stream)
}

/// Loss and the gradients of all parameters.
fn outcome(model: &AutoencoderKl, x: &Tensor<5>, policy: ResidencyPolicy) -> Vec<TensorData> {
    let model = model.clone().with_residency(policy);
    let (mean, _) = model.encode(x.clone());
    // Not L1: its gradient jumps where a last bit decides on a sign.
    with_gradients(&model, l2_loss(model.decode(mean), x.clone()))
}

fn with_gradients<M: Module>(model: &M, loss: Tensor<1>) -> Vec<TensorData> {
    struct Take(leanburn_ops::Gradients, Vec<TensorData>);
    impl ModuleVisitor for Take {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            self.1.extend(self.0.take(&param.val()).map(Tensor::into_data));
        }
    }
    let mut take = Take(backward(loss.clone()), vec![loss.into_data()]);
    model.visit(&mut take);
    take.1
}

fn length(values: &TensorData) -> f64 {
    values.iter::<f64>().map(|value| value * value).sum::<f64>().sqrt()
}

/// The difference relative to the size of the expected values, or to `least` where that is more.
fn error(found: &TensorData, expected: &TensorData, least: f64) -> f64 {
    let difference: Vec<f64> = found.iter::<f64>().zip(expected.iter::<f64>()).map(|(a, b)| a - b).collect();
    assert_eq!(found.shape(), expected.shape());
    difference.iter().map(|value| value * value).sum::<f64>().sqrt() / length(expected).max(least)
}

#[test]
fn streamed_levels_have_the_loss_and_the_gradients_of_the_plain_ones() {
    let device = seeded(SEED);
    let model = model(&device);
    let x = random::uniform([2, 1, 12, 8, 8], &device);
    let plain = outcome(&model, &x, ResidencyPolicy::keep());
    assert!(plain.len() > 80, "{} gradients", plain.len());
    // The gradient of a bias in front of a softmax is zero but for rounding.
    let least = 1e-4 * plain[1..].iter().map(length).fold(0.0, f64::max);
    let levels = ["encoder.level_0", "encoder.level_1", "decoder.level_1", "decoder.level_0"];
    for (segments, slab_planes, keep) in [
        (&levels[..], 100, StreamKeep::Two),
        (&levels, 3, StreamKeep::Two),
        (&levels, 5, StreamKeep::One),
        (&levels, 2, StreamKeep::None),
        (&levels, 100, StreamKeep::Joined),
        (&levels, 3, StreamKeep::Joined),
        (&["*.res_0", "decoder.out", "encoder.level_1.res_1", "decoder.level_1.upsample"], 3, StreamKeep::Two),
    ] {
        let policy = streamed(segments, slab_planes, keep);
        for (index, (found, expected)) in outcome(&model, &x, policy).iter().zip(&plain).enumerate() {
            let error = error(found, expected, least);
            // What differs in the last bit goes through all the layers behind.
            let most = if slab_planes == 100 { 0.0 } else { 2e-5 };
            assert!(error <= most, "{segments:?} {slab_planes} {keep:?}: {error} of number {index}");
        }
    }
}

/// Holds the outcomes of a model with streamed segments against those of the plain one.
fn assert_alike(outcome: impl Fn(ResidencyPolicy) -> Vec<TensorData>, segments: &[&str]) {
    let plain = outcome(ResidencyPolicy::keep());
    let least = 1e-4 * plain[1..].iter().map(length).fold(0.0, f64::max);
    for (slab_planes, keep) in [(100, StreamKeep::Two), (3, StreamKeep::Two), (4, StreamKeep::None)] {
        for (index, (found, expected)) in outcome(streamed(segments, slab_planes, keep)).iter().zip(&plain).enumerate()
        {
            let (error, most) = (error(found, expected, least), if slab_planes == 100 { 0.0 } else { 2e-5 });
            assert!(error <= most, "{slab_planes} {keep:?}: {error} of number {index}");
        }
    }
}

#[test]
fn a_voxel_autoencoder_is_streamed_with_trilinear_enlargements() {
    let device = seeded(SEED);
    // Without residual blocks an encoder's levels are convolutions that change the channels.
    for blocks in [0, 1] {
        let model = Vae3dConfig::new(8, vec![1, 2, 2], blocks).with_norm_num_groups(4).init(&device);
        let x = random::uniform([1, 4, 8, 8, 8], &device);
        let outcome = |policy| {
            let model = model.clone().with_residency(policy);
            with_gradients(&model, l2_loss(model.decode(model.encode(x.clone()).0), x.clone()))
        };
        assert_alike(outcome, &["*coder.level_0", "*coder.level_1"]);
    }
}

#[test]
fn a_discrete_autoencoder_is_streamed_with_transposed_convolutions() {
    let device = seeded(SEED);
    let model = VqVae3dConfig::new(vec![8, 8], vec![8, 4], VectorQuantizerConfig::new(16, 4))
        .with_num_res_layers(2)
        .init(&device);
    let x = random::normal([2, 1, 12, 8, 8], &device);
    assert!(model.unstreamable().iter().all(|(_, reason)| reason.is_none()));
    // Around the codebook, whose choice of a vector jumps.
    let outcome = |policy| {
        let model = model.clone().with_residency(policy);
        with_gradients(&model, l2_loss(model.decode(model.encode(x.clone())), x.clone()))
    };
    assert_alike(outcome, &["encoder.*", "decoder.*"]);
}

#[test]
fn an_autoencoder_is_streamed_with_transposed_convolutions() {
    let device = seeded(SEED);
    let config = AutoencoderKlConfig::new(vec![8, 8], vec![1, 1], vec![false, false]).with_norm_num_groups(4);
    let model = config.with_use_convtranspose(true).init(&device);
    let x = random::uniform([1, 1, 10, 8, 8], &device);
    assert_alike(|policy| outcome(&model, &x, policy), &["*coder.level_0"]);
}

/// Numbers that a training step moves but no gradient: running estimates.
fn running<M: Module>(model: &M) -> Vec<TensorData> {
    struct Take(Vec<TensorData>);
    impl ModuleVisitor for Take {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            let value = param.val();
            if !value.is_require_grad() {
                self.0.push(value.into_data());
            }
        }
    }
    let mut take = Take(Vec::new());
    model.visit(&mut take);
    take.0
}

fn u_net(norm: NormConfig, num_res_units: usize, device: &Device) -> UNet3d {
    let config = UNet3dConfig::new(1, 3, vec![4, 6, 8], vec![[2; 3], [1, 2, 2]]);
    // A bias in front of a norm has no gradient but rounding.
    config.with_num_res_units(num_res_units).with_norm(norm).with_bias(false).init(device)
}

#[test]
fn a_u_net_is_streamed_with_both_inputs_of_its_decoder() {
    let device = seeded(3);
    let x = random::normal([2, 1, 12, 8, 8], &device);
    for (norm, num_res_units) in [(NormConfig::Instance, 2), (NormConfig::Instance, 0), (NormConfig::Group(1), 1)] {
        let model = u_net(norm, num_res_units, &device);
        assert_eq!(model.unstreamable().iter().map(|(name, _)| name.clone()).collect::<Vec<_>>(), model.segments());
        assert!(model.unstreamable().iter().all(|(_, reason)| reason.is_none()), "{norm:?} {num_res_units}");
        let outcome = |policy| {
            let model = model.clone().with_residency(policy);
            with_gradients(&model, model.forward(x.clone()).square().mean())
        };
        assert_alike(outcome, &["*coder.level_0", "bottom", "decoder.level_1"]);
    }
}

/// Each axis has its own strides, and what is joined stays apart. The residual of a block that halves the depth skips planes. (Of one
/// channel that of a norm has no gradient but rounding.)
#[test]
fn nn_unets_u_net_is_streamed_with_both_inputs_of_its_decoder() {
    let device = seeded(SEED);
    let x = random::normal([2, 2, 12, 8, 8], &device);
    let (kernels, strides) = (vec![[1, 3, 3], [3; 3], [3; 3]], vec![[1; 3], [1, 2, 2], [2; 3]]);
    let norms = [NormConfig::InstanceAffine, NormConfig::Instance, NormConfig::None];
    for (res_block, norm) in [false, true, true].into_iter().zip(norms) {
        let config = DynUnetConfig::new(2, 3, vec![4, 6, 8], kernels.clone(), strides.clone());
        let model = config.with_res_block(res_block).with_norm(norm).init(&device);
        let (names, reasons): (Vec<_>, Vec<_>) = model.unstreamable().into_iter().unzip();
        assert_eq!(names, model.segments());
        for (name, reason) in names.iter().zip(reasons) {
            assert_eq!(reason.is_some(), res_block && name == "bottom", "{name}: {reason:?}");
        }
        let outcome = |policy| {
            let model = model.clone().with_residency(policy);
            with_gradients(&model, model.forward(x.clone()).square().mean())
        };
        let bottom = if res_block { "encoder.level_1" } else { "bottom" };
        assert_alike(outcome, &["*coder.level_0", "encoder.level_1", bottom, "decoder.level_1"]);
    }
}

/// Bit for bit Burn's norm over the batch it is not: its sums are added up otherwise.
fn assert_close(found: &[TensorData], expected: &[TensorData], what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let least = 1e-4 * expected[1..].iter().map(length).fold(0.0, f64::max);
    for (index, (found, expected)) in found.iter().zip(expected).enumerate() {
        let error = error(found, expected, least);
        assert!(error < 2e-5, "{what}: {error} of number {index}");
    }
}

#[test]
fn norms_over_the_batch_are_streamed_and_move_their_running_estimates_once() {
    let device = seeded(3);
    let x = random::normal([2, 1, 20, 16, 16], &device) + 0.5;
    let unet = |policy: ResidencyPolicy| {
        random::seed(&device, 8);
        let model = u_net(NormConfig::Batch, 2, &device).with_residency(policy);
        let outcome = with_gradients(&model, model.forward(x.clone()).square().mean());
        let used = model.valid().forward(x.clone().inner()).into_data();
        (outcome, [running(&model), vec![used]].concat())
    };
    let discriminator = |policy: ResidencyPolicy| {
        random::seed(&device, 9);
        let model = PatchDiscriminatorConfig::new(1, 4).with_num_layers_d(2).init(&device).with_residency(policy);
        let features = model.forward(x.clone());
        let loss = features.into_iter().map(|feature| feature.square().mean()).reduce(|sum, next| sum + next);
        let outcome = with_gradients(&model, loss.expect("features"));
        let used = model.valid().forward(x.clone().inner()).pop().expect("logits").into_data();
        (outcome, [running(&model), vec![used]].concat())
    };
    let models: [(&dyn Fn(ResidencyPolicy) -> _, &[&str]); 2] =
        [(&unet, &["encoder.*", "bottom", "decoder.*"]), (&discriminator, &["discriminator.*"])];
    for (run, segments) in models {
        let (plain, estimates) = run(ResidencyPolicy::keep());
        assert!(estimates.len() > 4, "running means and variances");
        for (slab_planes, keep) in [(100, StreamKeep::Two), (3, StreamKeep::Two), (4, StreamKeep::None)] {
            let (outcome, moved) = run(streamed(segments, slab_planes, keep));
            let what = format!("{segments:?} {slab_planes} {keep:?}");
            assert_close(&outcome, &plain, &what);
            assert_close(&moved, &estimates, &format!("{what}: running estimates, and what they give"));
        }
    }
}

/// The norm in an up block's skip is run again by itself.
#[test]
fn a_recomputed_swin_unetr_moves_its_running_estimates_once() {
    let device = seeded(4);
    let x = random::normal([2, 1, 32, 32, 32], &device) + 0.5;
    let config = SwinUnetrConfig::new(1, 2).with_feature_size(12).with_norm(NormConfig::Batch);
    let run = |policy| {
        random::seed(&device, 8);
        let model = config.init(&device).with_residency(policy);
        let before = running(&model);
        let outcome = with_gradients(&model, model.forward(x.clone()).square().mean());
        let moved = running(&model);
        assert!(moved.len() > 4 && moved.iter().zip(&before).all(|(moved, before)| moved != before));
        (outcome, moved)
    };
    assert!(run(ResidencyPolicy::recompute_all()) == run(ResidencyPolicy::keep()));
}

#[test]
fn the_input_of_a_streamed_level_lives_where_its_storage_says() {
    let device = seeded(SEED);
    let model = model(&device);
    let x = random::uniform([1, 1, 16, 16, 16], &device);
    let policy = streamed(&["decoder.level_0"], 4, StreamKeep::Two);
    let offloaded = policy.clone().with_storage("decoder.level_0", Storage::Offload);
    assert_eq!(outcome(&model, &x, offloaded.clone()), outcome(&model, &x, policy));
    let nowhere = offloaded.with_offload_folder("no/such/folder");
    assert!(or_storage_error(|| outcome(&model, &x, nowhere)).is_err(), "it is written");
}

#[test]
fn volumes_are_reconstructed_in_slabs_without_seams() {
    let device = Device::flex();
    random::seed(&device, 5);
    let model = model(&device);
    let x = random::uniform([1, 1, 12, 8, 8], &device);
    let whole = model.reconstruct(x.clone()).into_data();
    for keep in [StreamKeep::None, StreamKeep::Joined] {
        let model = model.clone().with_residency(streamed(&["*coder.level_0", "*coder.level_1"], 2, keep));
        let error = error(&model.reconstruct(x.clone()).into_data(), &whole, 0.0);
        assert!(error < 1e-5, "{keep:?}: {error}");
    }
}

/// Between two levels that are joined nothing is stored: the enlargement of the coarse one is made again wherever something behind it is.
#[test]
fn joined_levels_are_one_segment() {
    let model = |device: &Device| {
        let config = AutoencoderKlConfig::new(vec![8, 16, 16], vec![1; 3], vec![false; 3]).with_norm_num_groups(4);
        config.init(device)
    };
    let enlarged = |levels: &[&str], keep: StreamKeep| {
        let device = Device::capture();
        let captured = device.capture_scope(|scope| {
            let device = device.clone().autodiff();
            let model = model(&device).with_residency(streamed(levels, 4, keep));
            let latent = Tensor::zeros([1, 3, 4, 4, 4], &device).require_grad();
            as_on_cpu(|| drop(backward(model.decode(latent).sum())));
            scope.complete([], [])
        });
        let kernels = captured.expect("a complete recording").graph.operations.into_iter().filter_map(|operation| {
            let OperationIr::Custom(custom) = &operation else { return None };
            let is_enlargement =
                matches!(Marker::of(custom), Some(Marker::Kernel { name, .. }) if name == "upsample_conv3d");
            is_enlargement.then(|| custom.outputs.iter().map(|output| output.shape.num_elements()).sum::<usize>())
        });
        kernels.sum::<usize>()
    };
    // at half size and at full
    let [coarse, fine] = [16 * 8 * 8 * 8, 16 * 16 * 16 * 16];
    let levels = ["decoder.level_1", "decoder.level_0"];
    assert_eq!(enlarged(&[], StreamKeep::None), coarse + fine);
    // Of a level with an end of two norms more, and without it: a pass for each norm and one for the result, forward and backward.
    assert_eq!(enlarged(&levels, StreamKeep::None), 6 * coarse + 8 * fine);
    // Of both all norms are behind the coarse one. For a gradient in front of the fine one the volume that it gives is made as well.
    assert_eq!(enlarged(&levels, StreamKeep::Joined), 12 * coarse + 10 * fine);
}

#[test]
#[should_panic(
    expected = "the segment `encoder.level_2` cannot be streamed: it has attention, which sees the whole volume; recompute it"
)]
fn attention_is_refused() {
    let device = Device::flex();
    let model = model(&device).with_residency(streamed(&["encoder.level_2"], 2, StreamKeep::Two));
    let _ = model.encode(Tensor::zeros([1, 1, 8, 8, 8], &device));
}

#[test]
fn models_say_what_can_be_streamed() {
    let device = Device::flex();
    let of = |segments: Vec<(String, Option<leanburn_ops::Unstreamable>)>, name: &str| {
        let (_, reason) = segments.into_iter().find(|(segment, _)| segment == name).expect("a segment");
        reason.map(|reason| reason.to_string())
    };
    let autoencoder = model(&device);
    assert_eq!(autoencoder.unstreamable().len(), autoencoder.segments().len());
    assert_eq!(of(autoencoder.unstreamable(), "decoder.level_0"), None);
    assert_eq!(
        of(autoencoder.unstreamable(), "decoder.level_2").as_deref(),
        Some("it has attention, which sees the whole volume")
    );
    let vae = Vae3dConfig::new(8, vec![1, 2, 2], 1).init(&device);
    assert_eq!(of(vae.unstreamable(), "encoder.level_0"), None);
    assert_eq!(of(vae.unstreamable(), "decoder.level_0"), None);
}
