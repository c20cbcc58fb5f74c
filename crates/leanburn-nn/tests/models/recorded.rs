//! Whole training steps on the recording device: what recomputation runs again can be counted there.

use std::collections::HashMap;
use std::sync::Arc;

use burn::backend::ir::OperationIr;
use burn::prelude::*;
use leanburn_common::Camera;
use leanburn_nn::losses::{DiceCeLoss, PatchAdversarialLoss, l1_loss, l2_loss};
use leanburn_nn::models::{
    AutoencoderKlConfig, BevGridConfig, DiffusionConditions, DiffusionUNet3dConfig, DynUnet, DynUnetConfig, FnoConfig,
    LiftSplatShootConfig, PatchDiscriminatorConfig, Sr3UNetConfig, SwinTransformer2dConfig, SwinUnetrConfig, UNet3d,
    UNet3dConfig,
};
use leanburn_ops::recording::as_on_cpu;
use leanburn_ops::{Residency, ResidencyPolicy, backward};

/// Convolutions of one forward and backward of the autoencoder, and how many the model has.
fn convolutions(policy: ResidencyPolicy) -> usize {
    let device = Device::capture();
    let captured = device.capture_scope(|scope| {
        let device = device.clone().autodiff();
        let config = AutoencoderKlConfig::new(vec![8, 16], vec![1, 1], vec![false, true]).with_norm_num_groups(4);
        let model = config.init(&device).with_residency(policy);
        let x = Tensor::<5>::zeros([1, 1, 16, 16, 16], &device);
        let (mean, _) = model.encode(x.clone());
        let gradients = backward(l1_loss(model.decode(mean), x)).take_module(&model);
        assert!(gradients.len() > 50, "{} gradients are recorded", gradients.len());
        scope.complete([], [])
    });
    let operations = captured.expect("a complete recording").graph.operations;
    operations.iter().filter(|operation: &&OperationIr| format!("{operation:?}").contains("convolve3d\"")).count()
}

#[test]
fn each_recomputed_segment_runs_its_convolutions_once_more() {
    let plain = convolutions(ResidencyPolicy::keep());
    // a residual block that keeps its channels has two convolutions, and the second one makes its output
    let one = ResidencyPolicy::keep().with_rule("encoder.level_0.res_0", Residency::Recompute);
    assert_eq!(convolutions(one) - plain, 1);
    let two = ResidencyPolicy::keep().with_rule("*.level_0.res_0", Residency::Recompute);
    let all = convolutions(ResidencyPolicy::recompute_all());
    assert!(convolutions(two) - plain > 1 && all - plain > 5, "{all} of {plain}");
}

#[test]
fn an_adversarial_step_with_batch_norm_records_too() {
    for policy in [ResidencyPolicy::keep(), ResidencyPolicy::recompute_all()] {
        let device = Device::capture();
        let captured = device.capture_scope(|scope| {
            let device = device.clone().autodiff();
            let config = PatchDiscriminatorConfig::new(1, 4).with_num_layers_d(2);
            let model = config.init(&device).with_residency(policy);
            let logits = |value: f64| model.forward(Tensor::full([1, 1, 24, 24, 24], value, &device)).split_off(3);
            let loss = PatchAdversarialLoss::default().discriminator(&logits(0.0), &logits(1.0));
            assert_eq!(backward(loss).take_module(&model).len(), 10);
            scope.complete([], [])
        });
        assert!(!captured.expect("a complete recording").graph.operations.is_empty());
    }
}

/// Convolutions and gradients of one forward and backward of a U-Net with its loss.
fn segmented<M: Module>(init: impl FnOnce(&Device) -> M, forward: fn(&M, Tensor<5>) -> Tensor<5>) -> (usize, usize) {
    let (device, mut gradients) = (Device::capture(), 0);
    let captured = device.capture_scope(|scope| {
        as_on_cpu(|| {
            let device = device.clone().autodiff();
            let model = init(&device);
            let logits = forward(&model, Tensor::zeros([1, 1, 8, 8, 8], &device));
            let labels = Tensor::<4, Int>::zeros([1, 8, 8, 8], &device);
            gradients = backward(DiceCeLoss::new().forward(logits, labels)).take_module(&model).len();
        });
        scope.complete([], [])
    });
    (crate::common::convolutions(&captured.expect("a complete recording").graph.operations), gradients)
}

fn unet(policy: ResidencyPolicy) -> (usize, usize) {
    let config = UNet3dConfig::new(1, 3, vec![4, 8, 16], vec![[2; 3]; 2]).with_num_res_units(2);
    segmented(|device| config.init(device).with_residency(policy), UNet3d::forward)
}

#[test]
fn a_recomputed_unet_runs_its_convolutions_once_more() {
    let (kept, gradients) = unet(ResidencyPolicy::keep());
    // encoder and bottom: two and a residual each; decoder: one each
    assert_eq!(kept, 3 * 3 + 2);
    assert_eq!(unet(ResidencyPolicy::recompute_all()), (2 * kept, gradients));
    let one = ResidencyPolicy::keep().with_rule("encoder.level_0", Residency::Recompute);
    assert_eq!(unet(one), (kept + 3, gradients));
}

fn dyn_unet(policy: ResidencyPolicy, res_block: bool) -> (usize, usize) {
    let config = DynUnetConfig::new(1, 3, vec![4, 8, 16], vec![[3; 3]; 3], vec![[1; 3], [2; 3], [2; 3]]);
    let config = config.with_res_block(res_block);
    segmented(|device| config.init(device).with_residency(policy), DynUnet::forward)
}

/// All but the last of a block, whose result backward has no use for; with residuals that one, too. The convolutions of residuals run again
/// anyway, and once more where their segment does.
#[test]
fn a_recomputed_dyn_unet_runs_its_convolutions_once_more() {
    // encoder and bottom: two each; decoder: one of each part of what is joined, and one; the logits'
    let (blocks, convolutions) = (3 + 2, 3 * 2 + 2 * 3);
    let (kept, gradients) = dyn_unet(ResidencyPolicy::keep(), false);
    assert_eq!(kept, convolutions + 1);
    assert_eq!(dyn_unet(ResidencyPolicy::recompute_all(), false), (kept + convolutions - blocks, gradients));
    let one = ResidencyPolicy::keep().with_rule("encoder.level_0", Residency::Recompute);
    assert_eq!(dyn_unet(one, false), (kept + 1, gradients));
    let (kept, _) = dyn_unet(ResidencyPolicy::keep(), true);
    assert_eq!(kept, convolutions + 1 + 2 * 3);
    assert_eq!(dyn_unet(ResidencyPolicy::recompute_all(), true).0, kept + convolutions - 2 + 3);
}

/// Convolutions and gradients of one forward and backward of the U-Net of super-resolution.
fn sr3(policy: ResidencyPolicy) -> (usize, usize) {
    let (device, mut gradients) = (Device::capture(), 0);
    let captured = device.capture_scope(|scope| {
        as_on_cpu(|| {
            let device = device.clone().autodiff();
            let config = Sr3UNetConfig::new(2, 1, 4, vec![4, 8], vec![false, true])
                .with_norm_num_groups(4)
                .with_num_res_blocks(1)
                .with_dropout(0.1);
            let model = config.init(&device).with_residency(policy);
            let prediction = model.forward(Tensor::zeros([1, 2, 1, 8, 8], &device), Tensor::zeros([1], &device));
            let target = Tensor::zeros_like(&prediction);
            gradients = backward(l2_loss(prediction, target)).take_module(&model).len();
        });
        scope.complete([], [])
    });
    (crate::common::convolutions(&captured.expect("a complete recording").graph.operations), gradients)
}

#[test]
fn a_recomputed_super_resolution_model_runs_its_convolutions_once_more() {
    let (kept, gradients) = sr3(ResidencyPolicy::keep());
    // Those of the noise's embedding are no segment, and those that make the outputs of five segments are left out.
    assert_eq!(sr3(ResidencyPolicy::recompute_all()), (2 * kept - 2 - 5, gradients));
    let one = |name| sr3(ResidencyPolicy::keep().with_rule(name, Residency::Recompute));
    assert_eq!(one("down.level_0.res_0"), (kept + 2, gradients), "the first convolution, and one of the embedding");
    // Two convolutions and one of the embedding; queries, keys and values, without the output.
    assert_eq!(one("middle.res_0"), (kept + 3 + 3, gradients));
    // What enlarges is no convolution by itself; of two joined volumes each has a convolution and a skip of its own.
    assert!(one("up.level_0").0 > kept + 6);
}

/// Convolutions and gradients of one forward and backward of the U-Net of a diffusion model.
fn diffusion(policy: ResidencyPolicy) -> (usize, usize) {
    let (device, mut gradients) = (Device::capture(), 0);
    let captured = device.capture_scope(|scope| {
        as_on_cpu(|| {
            let device = device.clone().autodiff();
            let config = DiffusionUNet3dConfig::new(2, 2, vec![4, 8], vec![1, 1], vec![false, true])
                .with_dropout(0.1)
                .with_norm_num_groups(4)
                .with_num_head_channels(vec![4])
                .with_cross_attention_dim(Some(3));
            let model = config.init(&device).with_residency(policy);
            let x = Tensor::<5>::zeros([1, 2, 8, 8, 8], &device);
            let context = Some(Tensor::zeros([1, 2, 3], &device));
            let conditions = DiffusionConditions { context, ..DiffusionConditions::default() };
            let prediction = model.forward(x.clone(), Tensor::zeros([1], &device), conditions);
            gradients = backward(l2_loss(prediction, x)).take_module(&model).len();
        });
        scope.complete([], [])
    });
    (crate::common::convolutions(&captured.expect("a complete recording").graph.operations), gradients)
}

#[test]
fn a_recomputed_diffusion_model_runs_its_convolutions_once_more() {
    let (kept, gradients) = diffusion(ResidencyPolicy::keep());
    // Those of the time's embedding are no segment, and those that make the outputs of five segments are left out.
    assert_eq!(diffusion(ResidencyPolicy::recompute_all()), (2 * kept - 2 - 5, gradients));
    let one = |name| diffusion(ResidencyPolicy::keep().with_rule(name, Residency::Recompute));
    assert_eq!(one("down.level_0.res_0"), (kept + 2, gradients), "the first convolution, and one of the embedding");
    // In, without the one out; queries, keys, values and output, twice; two gated layers.
    assert_eq!(one("middle.attention_0"), (kept + 1 + 8 + 2, gradients));
}

/// Attentions, and gradients, of one forward and backward of a Swin UNETR.
fn swin_unetr(policy: ResidencyPolicy) -> (usize, usize) {
    let (device, mut gradients) = (Device::capture(), 0);
    let captured = device.capture_scope(|scope| {
        as_on_cpu(|| {
            let device = device.clone().autodiff();
            let model = SwinUnetrConfig::new(1, 3).with_feature_size(12).init(&device).with_residency(policy);
            let logits = model.forward(Tensor::zeros([1, 1, 32, 32, 64], &device));
            gradients = backward(logits.sum()).take_module(&model).len();
        });
        scope.complete([], [])
    });
    let operations = captured.expect("a complete recording").graph.operations;
    let is_attention = |operation: &&OperationIr| format!("{operation:?}").contains("window_attention3d\"");
    (operations.iter().filter(is_attention).count(), gradients)
}

#[test]
fn a_recomputed_swin_unetr_runs_its_attentions_once_more() {
    let (kept, gradients) = swin_unetr(ResidencyPolicy::keep());
    assert_eq!(kept, 8);
    assert_eq!(swin_unetr(ResidencyPolicy::recompute_all()), (16, gradients));
    let one = ResidencyPolicy::keep().with_rule("stage_1.*", Residency::Recompute);
    assert_eq!(swin_unetr(one), (10, gradients));
}

/// Attentions, poolings, convolutions, and gradients, of one forward and backward of a map from the images of a camera.
fn map(policy: ResidencyPolicy) -> [usize; 4] {
    let (device, mut gradients) = (Device::capture(), 0);
    let captured = device.capture_scope(|scope| {
        as_on_cpu(|| {
            let device = device.clone().autodiff();
            let backbone = SwinTransformer2dConfig::new().with_embed_dim(8).with_depths(vec![1, 1]);
            let config = LiftSplatShootConfig::new([32, 48])
                .with_backbone(backbone.with_num_heads(vec![1, 2]))
                .with_grid(
                    BevGridConfig::new().with_x([-8.0, 8.0, 2.0]).with_z([1.0, 17.0, 2.0]).with_depth([1.0, 17.0, 2.0]),
                )
                .with_bev_channels(8)
                .with_priors(vec![0.4, 0.1])
                .with_head_channels(16)
                .with_head_layers(vec![2, 1])
                .with_norm_num_groups(4);
            let model = config.init(&device).with_residency(policy);
            let camera = Camera::pinhole(32.0, [32, 48]).at([0.0, -1.5, 0.0]);
            let view =
                model.forward(Tensor::zeros([1, 3, 1, 32, 48], &device), &Arc::new(config.cells(&[vec![camera]])));
            gradients = backward(view.logits.sum() + view.depth_logits.sum()).take_module(&model).len();
        });
        scope.complete([], [])
    });
    let operations = captured.expect("a complete recording").graph.operations;
    let named = |name: &str| operations.iter().filter(|operation| format!("{operation:?}").contains(name)).count();
    [named("window_attention3d\""), named("bev_pool\""), crate::common::convolutions(&operations), gradients]
}

#[test]
fn a_recomputed_map_attends_and_pools_once_more() {
    let [attentions, poolings, convolutions, gradients] = map(ResidencyPolicy::keep());
    assert_eq!([attentions, poolings], [2, 1]);
    let [all_attentions, all_poolings, all_convolutions, found] = map(ResidencyPolicy::recompute_all());
    assert_eq!([all_attentions, all_poolings, found], [4, 2, gradients]);
    // What makes patches of the image, what merges them, and what reads the classes are no segments; of three the last one is left out.
    assert!(
        (2 * convolutions - 3 - 3..2 * convolutions - 3).contains(&all_convolutions),
        "{convolutions}, {all_convolutions}"
    );
    let one = |name| map(ResidencyPolicy::keep().with_rule(name, Residency::Recompute));
    // Queries, keys, values and output; one of the two of the network behind them.
    assert_eq!(one("backbone.stage_1.*"), [3, 1, convolutions + 5, gradients]);
    assert_eq!(one("lift")[..2], [2, 2]);
    // Three of the block; its input has as many channels as its output.
    assert_eq!(one("head.layer_0.block_1"), [2, 1, convolutions + 3, gradients]);
}

/// Mebibytes that a step holds between forward and backward, without so many weights.
fn held(num_parameters: usize, forward: impl Fn(&Device) -> Tensor<1>) -> f64 {
    let record = |with_backward: bool| {
        let device = Device::capture();
        let captured = device.capture_scope(|scope| {
            as_on_cpu(|| {
                let loss = forward(&device.clone().autodiff());
                if with_backward {
                    drop(backward(loss));
                }
            });
            scope.complete([], [])
        });
        captured.expect("a complete recording").graph.operations
    };
    let (forward, whole) = (record(false).len(), record(true));
    let bytes = |operation: &OperationIr| {
        let outputs = operation.outputs().map(|tensor| (tensor.id, tensor.shape.num_elements() * tensor.dtype.size()));
        outputs.collect::<Vec<_>>()
    };
    let mut made: HashMap<_, _> = whole[..forward].iter().flat_map(bytes).collect();
    let read = whole[forward..].iter().flat_map(OperationIr::inputs);
    let held: usize = read.filter_map(|tensor| made.remove(&tensor.id)).sum();
    held.saturating_sub(4 * num_parameters) as f64 / (1 << 20) as f64
}

/// Of a Swin UNETR of 24 features and 14 classes at 96 x 96 x 96 voxels.
fn swin_unetr_held(policy: &ResidencyPolicy) -> f64 {
    let config = SwinUnetrConfig::new(1, 14);
    held(config.num_parameters(), |device| {
        let model = config.init(device).with_residency(policy.clone());
        let logits = model.forward(Tensor::zeros([1, 1, 96, 96, 96], device));
        DiceCeLoss::new().forward(logits, Tensor::zeros([1, 96, 96, 96], device))
    })
}

/// MONAI's keeps 3,040 MiB, and peaks at 2,220 MiB with its checkpointing (PyTorch 2.15, Intel Xeon).
#[test]
fn a_swin_unetr_holds_less_than_half_of_monais() {
    let [kept, recomputed] =
        [ResidencyPolicy::keep(), ResidencyPolicy::recompute_all()].map(|policy| swin_unetr_held(&policy));
    println!("held at 96 x 96 x 96: {kept:.0} MiB, recomputed {recomputed:.0} MiB");
    assert!(kept < 0.4 * 3040.0, "{kept:.0} MiB");
    assert!(recomputed < 0.45 * 2220.0, "{recomputed:.0} MiB");
}

/// MONAI's `DynUNet` keeps 1,584 MiB, 328 MiB with its blocks checkpointed and compiled (`segmentation_step.py --model dyn_unet`), where
/// ours keeps 801: here views of the skips count as volumes, 146 MiB. If blocks wrote their outputs it would be 1,199.
#[test]
fn a_dyn_unet_holds_less_than_monais() {
    let strides: Vec<_> = (0..5).map(|level| if level == 0 { [1; 3] } else { [2; 3] }).collect();
    let config = DynUnetConfig::new(1, 14, vec![32, 64, 128, 256, 320], vec![[3; 3]; 5], strides);
    let parameters = config.init(&Device::flex()).num_params();
    let of = |policy: ResidencyPolicy| {
        held(parameters, |device| {
            let model = config.init(device).with_residency(policy.clone());
            let logits = model.forward(Tensor::zeros([1, 1, 96, 96, 96], device));
            DiceCeLoss::new().forward(logits, Tensor::zeros([1, 96, 96, 96], device))
        })
    };
    let [kept, recomputed] = [ResidencyPolicy::keep(), ResidencyPolicy::recompute_all()].map(of);
    println!("held at 96 x 96 x 96: {kept:.0} MiB, recomputed {recomputed:.0} MiB");
    assert!(kept < 0.62 * 1584.0, "{kept:.0} MiB");
    assert!(recomputed < 340.0, "{recomputed:.0} MiB");
}

/// Transforms, and gradients, of one forward and backward of a Fourier neural operator with networks in its layers.
fn operator(policy: ResidencyPolicy) -> (usize, usize) {
    let (device, mut gradients) = (Device::capture(), 0);
    let captured = device.capture_scope(|scope| {
        as_on_cpu(|| {
            let device = device.clone().autodiff();
            let config = FnoConfig::neuraloperator(vec![4, 4, 4], 1, 1, 4, 3).with_rank(Some(0.5));
            let model = config.init(&device).with_residency(policy);
            let y = model.forward(Tensor::zeros([1, 1, 12, 10, 9], &device));
            gradients = backward(y.sum()).take_module(&model).len();
        });
        scope.complete([], [])
    });
    let operations = captured.expect("a complete recording").graph.operations;
    let is_transform = |operation: &&OperationIr| format!("{operation:?}").contains("fourier_transform\"");
    (operations.iter().filter(is_transform).count(), gradients)
}

#[test]
fn a_recomputed_operator_transforms_once_more() {
    // Forward one a layer, and one of the gradient of its output.
    let (kept, gradients) = operator(ResidencyPolicy::keep());
    assert_eq!(kept, 6);
    assert_eq!(operator(ResidencyPolicy::recompute_all()), (9, gradients));
    let one = |name| operator(ResidencyPolicy::keep().with_rule(name, Residency::Recompute));
    assert_eq!([one("layer_1"), one("layers_2")], [(7, gradients); 2]);
}

/// A step of an operator of the paper's kind at its full size holds 1.1 volumes a layer and less. PyTorch 2.15 holds 4,376 MiB on volumes
/// and 2,862 MiB on planes.
#[test]
fn an_operator_holds_one_volume_a_layer() {
    for (size, batch_size, width, modes, layers) in [(vec![128; 3], 1, 32, 16, 4), (vec![128; 2], 8, 256, 12, 10)] {
        let config = FnoConfig::new(1, 1, vec![width; layers + 1], vec![vec![modes; size.len()]; layers]);
        let mut field = [batch_size, 1, 1, 1, 1];
        field[5 - size.len()..].copy_from_slice(&size);
        let spectral = (layers * width * width * modes.pow(size.len() as u32)) << size.len();
        let [kept, recomputed] = [ResidencyPolicy::keep(), ResidencyPolicy::recompute_all()].map(|policy| {
            held(spectral, |device| {
                let model = config.init(device).with_residency(policy.clone());
                let x = Tensor::zeros(field, device);
                l2_loss(model.forward(x.clone()), x)
            })
        });
        let volume = (4 * batch_size * width * size.iter().product::<usize>()) as f64 / (1 << 20) as f64;
        println!("{size:?}: {kept:.0} MiB, recomputed {recomputed:.0} MiB; a volume has {volume:.0} MiB");
        assert!(kept > 0.9 * volume * layers as f64, "{size:?}: {kept:.0} MiB, not all is counted");
        assert!(kept < 1.1 * volume * layers as f64, "{size:?}: {kept:.0} MiB");
        assert!(recomputed < 0.7 * volume * layers as f64, "{size:?}: {recomputed:.0} MiB");
    }
}
