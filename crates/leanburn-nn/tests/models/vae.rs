//! The autoencoders' own choices: codebooks under recomputation, and what they record.

use std::sync::{Mutex, MutexGuard, PoisonError};

use burn::prelude::*;
use burn::tensor::Distribution;
use leanburn_nn::blocks::VectorQuantizerConfig;
use leanburn_nn::losses::{Difference, VaeLoss, VoxelLoss};
use leanburn_nn::models::{Vae3d, Vae3dConfig, VqVae3dConfig};
use leanburn_ops::recording::as_on_cpu;
use leanburn_ops::{ResidencyPolicy, backward};

use crate::common::{state, values};

/// Tests take turns: the generator is the process's, and a codebook draws the vectors that it restarts.
fn alone() -> MutexGuard<'static, ()> {
    static GENERATOR: Mutex<()> = Mutex::new(());
    GENERATOR.lock().unwrap_or_else(PoisonError::into_inner)
}

fn config() -> Vae3dConfig {
    Vae3dConfig::new(8, vec![1, 2], 1).with_strides(vec![[1, 2, 2]]).with_attention(true)
}

/// Codes few of which are near to anything at first, so that some restart.
fn discrete() -> Vae3dConfig {
    config().with_codebook(Some(VectorQuantizerConfig::new(32, 4).with_restart_below(Some(0.05))))
}

fn volume(device: &Device) -> Tensor<5> {
    device.seed(5);
    Tensor::random([2, 4, 2, 8, 8], Distribution::Default, device)
}

/// Two steps of a discrete autoencoder from one seed: the reconstructions, and everything the model holds.
fn two_steps(model: &Vae3d, device: &Device) -> (Vec<Vec<f32>>, crate::common::Values) {
    leanburn_ops::random::seed(device, 11);
    let x = volume(device);
    let steps = (0..2).map(|_| {
        let (latent, loss) = model.quantize(x.clone());
        let reconstruction = model.decode(latent);
        (VoxelLoss::default().forward(reconstruction.clone(), x.clone()) + loss).backward();
        values(reconstruction)
    });
    (steps.collect(), state(model))
}

#[test]
fn a_codebook_with_restarts_moves_once_a_step_also_when_recomputed() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let start = discrete().init(&device);
    let before = state(&start);
    let run = |policy| {
        let model = discrete().init(&device).load_record(start.clone().into_record());
        two_steps(&model.with_residency(policy), &device)
    };
    let kept = run(ResidencyPolicy::keep());
    assert_eq!(run(ResidencyPolicy::recompute_all()), kept);
    assert_ne!(kept.1["quantizer.embedding"], before["quantizer.embedding"]);
    assert!(kept.1["quantizer.ema_cluster_size"].iter().all(|uses| *uses > 0.0), "unused vectors were restarted");
}

#[test]
fn the_latent_of_a_discrete_autoencoder_is_of_the_codebook() {
    let _alone = alone();
    let device = Device::flex();
    let model = discrete().init(&device);
    let (latent, _) = model.quantize(volume(&device));
    assert_eq!(latent.dims(), [2, 4, 2, 4, 4]);
    let codes = model.quantizer().unwrap().codes(latent.clone());
    let difference = (model.quantizer().unwrap().embed(codes) - latent).abs().max().into_scalar::<f32>();
    assert!(difference < 1e-6, "{difference}");
    assert_eq!(model.reconstruct(volume(&device)).dims(), [2, 4, 2, 8, 8]);
    assert!(model.segments().contains(&"quantizer".to_string()));
}

#[test]
#[should_panic = "the latent is a codebook; use quantize"]
fn a_discrete_autoencoder_has_no_gaussian() {
    let _alone = alone();
    discrete().init(&Device::flex()).encode(volume(&Device::flex()));
}

/// Where no residual block does, the first convolution and those between the levels change the channels.
#[test]
fn without_residual_blocks_convolutions_have_the_channels_of_their_levels() {
    let _alone = alone();
    let config = Vae3dConfig { num_res_blocks: 0, norm_num_groups: 2, ..Vae3dConfig::new(4, vec![2, 4, 6], 1) };
    let state = state(&config.init(&Device::flex()));
    let channels = [0, 1, 2].map(|block| state[&format!("encoder.{block}.bias")].len());
    assert_eq!(channels, [8, 16, 24]);
}

#[test]
fn every_part_of_the_loss_counts() {
    let _alone = alone();
    let device = Device::flex();
    let (x, model) = (volume(&device), config().init(&device));
    let (mean, sigma) = model.encode(x.clone());
    let loss = |loss: VaeLoss| {
        loss.forward(Tensor::zeros_like(&x), x.clone(), mean.clone(), sigma.clone()).into_scalar::<f32>()
    };
    let losses = [
        (0.0, VoxelLoss::default()),
        (1.0, VoxelLoss::default()),
        (0.0, VoxelLoss { difference: Difference::L1, ..VoxelLoss::default() }),
        (0.0, VoxelLoss { occupancy_weight: 10.0, ..VoxelLoss::default() }),
    ]
    .map(|(beta, voxels)| loss(VaeLoss { voxels, beta }));
    assert!((losses[0] - 1.0 / 3.0).abs() < 0.03 && (losses[2] - 0.5).abs() < 0.03, "{losses:?}");
    assert!(losses[1] > losses[0] + 1e-3 && losses[3] > losses[0] + 0.1, "{losses:?}");
}

/// Convolutions of a recorded step.
fn recorded(step: impl FnOnce(&Device) -> usize) -> usize {
    let device = Device::capture();
    let captured = device.capture_scope(|scope| {
        assert!(as_on_cpu(|| step(&device.clone().autodiff())) > 10);
        scope.complete([], [])
    });
    let operations = captured.expect("a complete recording").graph.operations;
    crate::common::convolutions(&operations)
}

#[test]
fn recorded_steps_show_what_runs_again() {
    let _alone = alone();
    let vae = |policy: ResidencyPolicy| {
        recorded(move |device| {
            let model = config().init(device).with_residency(policy);
            let x = Tensor::zeros([1, 4, 2, 8, 8], device);
            let (reconstruction, mean, sigma) = model.forward(x.clone());
            backward(VaeLoss::default().forward(reconstruction, x, mean, sigma)).take_module(&model).len()
        })
    };
    let discrete = |policy: ResidencyPolicy| {
        recorded(move |device| {
            let model = discrete().init(device).with_residency(policy);
            let x = Tensor::zeros([1, 4, 2, 8, 8], device);
            let (latent, loss) = model.quantize(x.clone());
            let loss = VoxelLoss::default().forward(model.decode(latent), x) + loss;
            backward(loss).take_module(&model).len()
        })
    };
    let vq_vae = |policy: ResidencyPolicy| {
        recorded(move |device| {
            let config = VqVae3dConfig::new(vec![4, 8], vec![4, 8], VectorQuantizerConfig::new(16, 8));
            let model = config.init(device).with_residency(policy);
            let (reconstruction, loss) = model.forward(Tensor::zeros([1, 1, 8, 8, 8], device));
            backward(reconstruction.mean() + loss).take_module(&model).len()
        })
    };
    let (keep, again) = (ResidencyPolicy::keep, ResidencyPolicy::recompute_all);
    // Those around the latent are no segments, and of a segment the convolution that makes its output runs once.
    assert_eq!(vae(again()), 2 * vae(keep()) - 2 - 4);
    assert_eq!(discrete(again()), 2 * discrete(keep()) - 2 - 4);
    assert_eq!(vq_vae(again()), 2 * vq_vae(keep()) - 1);
}
