//! Heap held and peak of a ConvLSTM, two U-Nets, a Swin UNETR and a neural operator, kept and recomputed. Alone in their binary: they count the whole heap.

use std::sync::{Mutex, MutexGuard, PoisonError};

use burn::prelude::*;
use leanburn_nn::losses::{DiceCeLoss, l2_loss};
use leanburn_nn::models::{
    ConvLstm, ConvLstmConfig, DiffusionConditions, DiffusionUNet3d, DiffusionUNet3dConfig, Fno, FnoConfig, SwinUnetr,
    SwinUnetrConfig, UNet3d, UNet3dConfig,
};
use leanburn_ops::{CountingAllocator, Residency, ResidencyPolicy, backward};

#[global_allocator]
static HEAP: CountingAllocator = CountingAllocator;

/// Tests take turns: the heap is the process's.
fn alone() -> MutexGuard<'static, ()> {
    static HEAP: Mutex<()> = Mutex::new(());
    HEAP.lock().unwrap_or_else(PoisonError::into_inner)
}

const STEPS: usize = 64;
const SIDE: usize = 96;
/// Bytes of a hidden state of 16 channels.
const STATE: f64 = (16 * SIDE * SIDE * 4) as f64;

/// States held between forward and backward, and at the peak, above what is there before the step.
fn held_and_peak(model: &ConvLstm, policy: ResidencyPolicy) -> (f64, f64) {
    let device = Device::flex().autodiff();
    let model = model.clone().with_residency(policy);
    let x = Tensor::zeros([1, STEPS, 4, SIDE, SIDE], &device);
    let before = HEAP.current_usage() as f64;
    HEAP.reset_peak_usage();
    let loss = model.forward(x).square().mean();
    let held = HEAP.current_usage() as f64 - before;
    drop(backward(loss));
    (held / STATE, (HEAP.peak_usage() as f64 - before) / STATE)
}

#[test]
fn memory_grows_with_the_square_root_of_time() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let model = ConvLstmConfig::new(4).init(&device);
    model.forward(Tensor::zeros([1, 2, 4, 4, 4], &device)); // initialises the parameters
    let steps = ResidencyPolicy::recompute_all().with_rule("*.step_*", Residency::Recompute);
    let [plain, runs, nested] =
        [ResidencyPolicy::keep(), ResidencyPolicy::recompute_all(), steps].map(|policy| held_and_peak(&model, policy));
    println!("states held and at the peak: plain {plain:.2?}, runs recomputed {runs:.2?}, steps too {nested:.2?}");
    assert!(plain.0 > 10.0 * STEPS as f64, "{plain:.2?}");
    assert!(runs.0 < 20.0 && nested.0 < 20.0, "{runs:.2?} {nested:.2?}");
    assert!(runs.1 < plain.1 / 4.0 && nested.1 < runs.1 * 0.7, "{plain:.2?} {runs:.2?} {nested:.2?}");
}

/// Depth, height and width.
const VOLUME: usize = 48;
/// Bytes of 16 channels of the finest level, which has half the resolution of the volume.
const FINEST: f64 = (16 * VOLUME * VOLUME * VOLUME / 8 * 4) as f64;

/// Volumes of the finest level held between forward and backward, and at the peak, above what is there before the step.
fn unet_held_and_peak(model: &UNet3d, policy: ResidencyPolicy) -> (f64, f64) {
    let device = Device::flex().autodiff();
    let model = model.clone().with_residency(policy);
    let x = Tensor::zeros([1, 1, VOLUME, VOLUME, VOLUME], &device);
    let labels = Tensor::<4, Int>::zeros([1, VOLUME, VOLUME, VOLUME], &device);
    let before = HEAP.current_usage() as f64;
    HEAP.reset_peak_usage();
    let loss = DiceCeLoss::new().forward(model.forward(x), labels);
    let held = HEAP.current_usage() as f64 - before;
    drop(backward(loss));
    (held / FINEST, (HEAP.peak_usage() as f64 - before) / FINEST)
}

#[test]
fn a_unet_saves_one_volume_a_convolution() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let config = UNet3dConfig::new(1, 2, vec![16, 32, 64], vec![[2; 3]; 2]).with_num_res_units(2);
    let model = config.init(&device);
    model.forward(Tensor::zeros([1, 1, 8, 8, 8], &device)); // initialises the parameters
    let [kept, recomputed] =
        [ResidencyPolicy::keep(), ResidencyPolicy::recompute_all()].map(|policy| unet_held_and_peak(&model, policy));
    println!("volumes held and at the peak: kept {kept:.2?}, recomputed {recomputed:.2?}");
    // Level 0 saves 3 in the encoder and 1 in the decoder, level 1 a quarter of 3 and 3, the bottom half of 3, the loss 1. With
    // norm and activation apart from the convolutions it would be 30.
    assert!(kept.0 < 10.3 && kept.1 < 17.2, "{kept:.2?}");
    assert!(recomputed.0 < 3.75 && recomputed.1 < 10.4, "{recomputed:.2?}");
}

/// Side of a latent.
const LATENT: usize = 32;
/// Bytes of 16 channels of it.
const LATENT_VOLUME: f64 = (16 * LATENT * LATENT * LATENT * 4) as f64;

/// Volumes of the finest level held between forward and backward, and at the peak, above what is there before the step.
fn diffusion_held_and_peak(model: &DiffusionUNet3d, policy: ResidencyPolicy) -> (f64, f64) {
    let device = Device::flex().autodiff();
    let model = model.clone().with_residency(policy);
    let x = Tensor::<5>::zeros([1, 2, LATENT, LATENT, LATENT], &device);
    let before = HEAP.current_usage() as f64;
    HEAP.reset_peak_usage();
    let prediction = model.forward(x.clone(), Tensor::zeros([1], &device), DiffusionConditions::default());
    let loss = l2_loss(prediction, x);
    let held = HEAP.current_usage() as f64 - before;
    drop(backward(loss));
    (held / LATENT_VOLUME, (HEAP.peak_usage() as f64 - before) / LATENT_VOLUME)
}

#[test]
fn a_diffusion_model_saves_two_volumes_a_block_and_no_scores() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let config = DiffusionUNet3dConfig::new(2, 2, vec![16, 32], vec![1, 1], vec![false, true])
        .with_norm_num_groups(8)
        .with_num_head_channels(vec![16]);
    let model = config.init(&device);
    let tiny = Tensor::zeros([1, 2, 2, 2, 2], &device);
    model.forward(tiny, Tensor::zeros([1], &device), DiffusionConditions::default()); // initialises the parameters
    let [kept, recomputed] = [ResidencyPolicy::keep(), ResidencyPolicy::recompute_all()]
        .map(|policy| diffusion_held_and_peak(&model, policy));
    println!("volumes held and at the peak: kept {kept:.2?}, recomputed {recomputed:.2?}");
    // Level 0 saves 10: what conv_in gives, two a block, and the joined volume of three that a group of its first norm spans. Level 1 and
    // the middle save a quarter of 28: two a block, four an attention. The scores of one head alone would be 32.
    assert!(kept.0 < 18.6 && kept.1 < 21.5, "{kept:.2?}");
    assert!(recomputed.0 < 3.6 && recomputed.1 < 12.3, "{recomputed:.2?}");
}

/// Bytes of 12 channels of the volume.
const FEATURES: f64 = (12 * 32 * 32 * 64 * 4) as f64;

/// Volumes of 12 channels held between forward and backward, and at the peak, above what is there before the step and above what
/// the gradients of the weights need.
fn swin_held_and_peak(model: &SwinUnetr, policy: ResidencyPolicy) -> (f64, f64) {
    let device = Device::flex().autodiff();
    let model = model.clone().with_residency(policy);
    let x = Tensor::zeros([1, 1, 32, 32, 64], &device);
    let before = HEAP.current_usage() as f64;
    HEAP.reset_peak_usage();
    let loss = model.forward(x).square().mean();
    let held = HEAP.current_usage() as f64 - before;
    let gradients = backward(loss);
    let peak = HEAP.peak_usage() as f64 - before;
    drop(gradients);
    (held / FEATURES, peak / FEATURES)
}

#[test]
fn a_swin_unetr_holds_no_scores() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let config = SwinUnetrConfig::new(1, 2).with_feature_size(12);
    let model = config.init(&device);
    model.forward(Tensor::zeros([1, 1, 32, 32, 64], &device)); // initialises the parameters
    let [kept, recomputed] =
        [ResidencyPolicy::keep(), ResidencyPolicy::recompute_all()].map(|policy| swin_held_and_peak(&model, policy));
    println!("volumes held and at the peak: kept {kept:.2?}, recomputed {recomputed:.2?}");
    // At the volume's own size 3 in the encoder and 4 in the decoder; a stage's two blocks hold 24 volumes of an eighth,
    // then of a sixteenth .. of the size. The scores of a block of the first stage alone, 45 windows of 343 x 343 for each of 3
    // heads, would be 20 volumes.
    assert!(kept.0 < 14.0 && kept.1 < 17.1, "{kept:.2?}");
    assert!(recomputed.0 < 3.6 && recomputed.1 < 10.8, "{recomputed:.2?}");
}

/// Positions along each axis.
const GRID: usize = 40;
/// Bytes of 8 channels.
const FIELD: f64 = (8 * GRID * GRID * GRID * 4) as f64;

/// Volumes of 8 channels held between forward and backward, and at the peak, above what is there before the step.
fn operator_held_and_peak(model: &Fno, policy: ResidencyPolicy) -> (f64, f64) {
    let device = Device::flex().autodiff();
    let model = model.clone().with_residency(policy);
    let x = Tensor::<5>::zeros([1, 1, GRID, GRID, GRID], &device);
    let before = HEAP.current_usage() as f64;
    HEAP.reset_peak_usage();
    let loss = l2_loss(model.forward(x.clone()), x);
    let held = HEAP.current_usage() as f64 - before;
    drop(backward(loss));
    (held / FIELD, (HEAP.peak_usage() as f64 - before) / FIELD)
}

#[test]
fn an_operator_saves_one_volume_a_layer() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let of = |config: FnoConfig| {
        let model = config.init(&device);
        model.forward(Tensor::zeros([1, 1, 4, 4, 4], &device)); // initialises the parameters
        [ResidencyPolicy::keep(), ResidencyPolicy::recompute_all()].map(|policy| operator_held_and_peak(&model, policy))
    };
    let [kept, recomputed] = of(FnoConfig::classic(1, 1, 8, vec![4; 3]));
    println!("volumes held and at the peak: kept {kept:.2?}, recomputed {recomputed:.2?}");
    // The first layer saves the input with positions and ones, five eighths. The network behind the last one would save 16 more; of these a
    // slab of 8 planes of 40 is there at a time, and its gradient.
    assert!(kept.0 < 4.9 && kept.1 < 12.8, "{kept:.2?}");
    // Of four layers two volumes are saved.
    assert!(recomputed.0 < 2.8 && recomputed.1 < 10.8, "{recomputed:.2?}");
    let [kept, recomputed] = of(FnoConfig::neuraloperator(vec![8; 3], 1, 1, 8, 4));
    println!("volumes held and at the peak, with networks: kept {kept:.2?}, recomputed {recomputed:.2?}");
    // Two and a half a layer, the input of the network behind them and the input with positions.
    assert!(kept.0 < 11.9 && kept.1 < 13.9, "{kept:.2?}");
    assert!(recomputed.0 < 3.8 && recomputed.1 < 10.0, "{recomputed:.2?}");
}
