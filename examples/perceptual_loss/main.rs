//! Perceptual losses and a squared difference: their values for two errors of the same size, and what they add to the
//! memory of a training step, read off a recording of it.
//!
//! ```bash
//! cargo run --release --example perceptual_loss -- [lpips_squeeze.pt]
//! ```

use std::error::Error;
use std::path::Path;

use burn::prelude::*;
use burn::tensor::Distribution;
use leanburn::data::phantom;
use leanburn::nn::losses::{FeatureLoss3dConfig, LpipsConfig, LpipsNetwork, l2_loss};
use leanburn::ops::{AvgPool3d, avg_pool3d};
use leanburn::prelude::*;
use leanburn::train::{Perceptual, PerceptualKind, ReconstructionLoss};

/// The perceptual loss of the reconstruction, in addition to L1.
type MakeLoss = fn(&Device) -> Option<PerceptualKind>;

/// What the losses say of a scan with noise and of one that is blurred, both as far from it in squares.
fn compare(weights: Option<&Path>) -> Result<(), Box<dyn Error>> {
    let device = Device::flex();
    device.seed(7);
    let scan = phantom([32, 32, 32], 0.0, 7)?;
    let scan = Tensor::<5>::from_data(TensorData::new(scan.data().to_vec(), [1, 1, 32, 32, 32]), &device);
    let blurred = avg_pool3d(scan.clone(), AvgPool3d { stride: [1; 3], padding: [1; 3], ..AvgPool3d::new([3; 3]) });
    let error = l2_loss(blurred.clone(), scan.clone()).into_scalar::<f32>();
    let noise = Tensor::random(scan.shape(), Distribution::Normal(0.0, f64::from(error.sqrt())), &device);
    let noisy = scan.clone() + noise;

    let features = FeatureLoss3dConfig::new().init(&device);
    println!("{:<24} {:>8} {:>8}", "a head of 32x32x32", "noisy", "blurred");
    let row = |name: &str, loss: &dyn Fn(Tensor<5>) -> Tensor<1>| {
        let [noisy, blurred] = [&noisy, &blurred].map(|volume| loss(volume.clone()).into_scalar::<f32>());
        println!("{name:<24} {noisy:>8.4} {blurred:>8.4}");
    };
    row("squared difference", &|volume| l2_loss(volume, scan.clone()));
    row("3D features and edges", &|volume| features.forward(volume, scan.clone()));
    match weights {
        Some(path) => {
            let slices = LpipsConfig::new().with_slice_share(1.0).load(path, &device)?;
            let range = |volume: Tensor<5>| volume * 2.0 - 1.0; // LPIPS takes values from -1 to 1
            row("slices, squeeze", &|volume| slices.forward(range(volume), range(scan.clone()), 0));
        }
        None => println!("{:<24} give the file of its weights", "slices, squeeze"),
    }
    Ok(())
}

/// Features of the whole volume, which a policy recomputes or keeps.
fn features(policy: ResidencyPolicy, device: &Device) -> PerceptualKind {
    PerceptualKind::Features(FeatureLoss3dConfig::new().init(device).with_residency(policy))
}

/// LPIPS of half of the slices along each axis; a plan needs no weights.
fn slices(network: LpipsNetwork, policy: ResidencyPolicy, device: &Device) -> PerceptualKind {
    PerceptualKind::Slices(LpipsConfig::new().with_network(network).init(device).with_residency(policy))
}

/// A step of a small autoencoder on one cube, with or without a perceptual loss.
fn trainer(make: MakeLoss, device: &Device) -> Result<Trainer<AutoencoderWorkload>, TrainError> {
    let model = AutoencoderKlConfig::new(vec![16, 32, 32], vec![1; 3], vec![false; 3])
        .with_norm_num_groups(8)
        .with_encoder_nonlocal_attn(false)
        .with_decoder_nonlocal_attn(false)
        .init(device)
        .with_residency(ResidencyPolicy::recompute_all());
    let schedule = ScheduleConfig::new(1e-4);
    let config = LearnerConfig::new(schedule);
    let objective = AutoencoderObjective {
        reconstruction: ReconstructionLoss::L1,
        kl_weight: 1e-6,
        adversarial: Default::default(),
        adversarial_weight: 0.0,
        adversarial_start_step: 0,
    };
    let learner = Learner::new("autoencoder", model, config)?;
    let perceptual = make(device).map(|kind| Perceptual { kind, weight: 0.001 });
    let workload = AutoencoderWorkload::new(learner, None, objective, Precision::F32).with_perceptual(perceptual);
    let config = TrainerConfig::default().with_seed(7).with_max_bad_steps(3);
    Ok(Trainer::new(workload, config, device))
}

fn main() -> Result<(), Box<dyn Error>> {
    let weights = std::env::args().nth(1);
    compare(weights.as_deref().map(Path::new))?;

    let losses: [(&str, MakeLoss); 7] = [
        ("none", |_| None),
        ("3D features and edges", |device| Some(features(ResidencyPolicy::recompute_all(), device))),
        ("  all kept", |device| Some(features(ResidencyPolicy::keep(), device))),
        ("slices, squeeze", |device| Some(slices(LpipsNetwork::Squeeze, ResidencyPolicy::recompute_all(), device))),
        ("  all kept", |device| Some(slices(LpipsNetwork::Squeeze, ResidencyPolicy::keep(), device))),
        ("slices, vgg", |device| Some(slices(LpipsNetwork::Vgg, ResidencyPolicy::recompute_all(), device))),
        ("  all kept", |device| Some(slices(LpipsNetwork::Vgg, ResidencyPolicy::keep(), device))),
    ];
    println!("\n{:<24} {:>12} {:>12}", "a step on a cube of", "64", "128");
    for (name, make) in losses {
        let plan = |size: usize| {
            let shape = [1, 1, size, size, size];
            record_step(Target::Cpu, |device| trainer(make, device), |device| Tensor::zeros(shape, device))
                .map(|recording| recording.timeline(&FlexMemory).peak().as_mib())
        };
        println!("{name:<24} {:>8.1} MiB {:>8.1} MiB", plan(64)?, plan(128)?);
    }
    Ok(())
}
