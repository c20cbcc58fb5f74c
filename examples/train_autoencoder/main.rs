//! Trains a small KL autoencoder on synthetic heads, every segment recomputed: data, model, learner, trainer.
//!
//! ```bash
//! cargo run --release --example train_autoencoder -- [picture.png]
//! ```

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use burn::prelude::*;
use image::{GrayImage, Luma, imageops};
use leanburn::prelude::*;
use leanburn::train::ReconstructionLoss;

#[global_allocator]
static HEAP: CountingAllocator = CountingAllocator;

const SEED: u64 = 7;
const STEPS: u64 = 150;

/// Sixteen heads to train on; four more are held out.
fn data() -> DataConfig {
    DataConfig {
        phantom: Some(PhantomConfig { count: 20, shape: [32, 32, 32], noise: 0.02 }),
        flip: [true, false, false],
        num_workers: 1,
        ..DataConfig::default()
    }
}

/// Two levels, 8 and 16 channels; the latent is half as long as the volume along each axis.
fn autoencoder(device: &Device) -> AutoencoderKl {
    AutoencoderKlConfig::new(vec![8, 16], vec![1, 1], vec![false, false])
        .with_norm_num_groups(4)
        .with_encoder_nonlocal_attn(false)
        .with_decoder_nonlocal_attn(false)
        .init(device)
        .with_residency(ResidencyPolicy::recompute_all())
}

/// Adam, L1 and a little Kullback-Leibler divergence; no discriminator.
fn workload(autoencoder: AutoencoderKl) -> Result<AutoencoderWorkload, TrainError> {
    let schedule = ScheduleConfig::new(2e-3).with_kind(ScheduleKind::Cosine).with_warmup_steps(5).with_max_steps(STEPS);
    let config = LearnerConfig::new(schedule).with_max_grad_norm(Some(1.0));
    let objective = AutoencoderObjective {
        reconstruction: ReconstructionLoss::L1,
        kl_weight: 1e-7,
        adversarial: Default::default(),
        adversarial_weight: 0.0,
        adversarial_start_step: STEPS,
    };
    let learner = Learner::new("autoencoder", autoencoder, config)?;
    Ok(AutoencoderWorkload::new(learner, None, objective, Precision::F32))
}

/// The middle slice of a volume, four pixels a voxel.
fn slice(volume: &Tensor<5>) -> GrayImage {
    let [.., depth, height, width] = volume.dims();
    let middle = volume.clone().slice([0..1, 0..1, depth / 2..depth / 2 + 1]).into_data();
    let pixels = middle.iter::<f32>().map(|value| (value.clamp(0.0, 1.0) * 255.0) as u8).collect();
    let image = GrayImage::from_raw(width as u32, height as u32, pixels).expect("one value a pixel");
    imageops::resize(&image, 4 * width as u32, 4 * height as u32, imageops::FilterType::Nearest)
}

/// Images side by side.
fn side_by_side(images: &[GrayImage]) -> GrayImage {
    let (width, height) = images[0].dimensions();
    let mut picture = GrayImage::from_pixel((width + 8) * images.len() as u32 - 8, height, Luma([255]));
    for (index, image) in images.iter().enumerate() {
        imageops::replace(&mut picture, image, index as i64 * i64::from(width + 8), 0);
    }
    picture
}

fn main() -> Result<(), Box<dyn Error>> {
    let device = Device::flex().autodiff();
    let dataset = Arc::new(Dataset::open(&data(), SEED)?);
    let held_out = volumes(Batch::stack(&[dataset.val_sample(0)?])?, &device).without_autodiff();
    let mut batches = Loader::new(dataset, 1, 0).map(|batch| batch.map(|batch| volumes(batch, &device)));

    seed(&device, SEED);
    let config = TrainerConfig::default().with_seed(SEED).with_max_bad_steps(3);
    let mut trainer = Trainer::new(workload(autoencoder(&device))?, config, &device);
    let before = trainer.workload().reconstruct(held_out.clone());

    let (begin, mut printed, mut peak) = (Instant::now(), None::<Instant>, Bytes(0));
    while trainer.steps() < STEPS {
        let report = trainer.step(&mut batches)?;
        peak = peak.max(report.memory.map_or(Bytes(0), |memory| memory.peak));
        if printed.is_none_or(|at| at.elapsed() >= Duration::from_secs(2)) || trainer.steps() == STEPS {
            let (distance, kl) = (report.losses["reconstruction"], report.losses["kl"]);
            let seconds = begin.elapsed().as_secs_f64();
            println!("step {:3}/{STEPS}  {seconds:5.1} s  L1 {distance:.4}  KL {kl:7.1}", trainer.steps());
            printed = Some(Instant::now());
        }
    }

    let after = trainer.workload().reconstruct(held_out.clone());
    let distance = |volume: &Tensor<5>| (volume.clone() - held_out.clone()).abs().mean().into_scalar::<f32>();
    println!("held-out L1: {:.4} before, {:.4} after", distance(&before), distance(&after));
    println!("peak of the heap: {:.1} MiB", peak.as_mib());
    if let Some(path) = std::env::args().nth(1) {
        side_by_side(&[&held_out, &before, &after].map(slice)).save(&path)?;
        println!("{path}: a held-out slice, its reconstruction before and after");
    }
    Ok(())
}
