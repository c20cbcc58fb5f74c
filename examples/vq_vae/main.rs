//! Trains a discrete autoencoder on synthetic heads: every few voxels become one of 64 learnt codes. Prints how many codes
//! are in use, and what a scan written in codes takes.
//!
//! ```bash
//! cargo run --release --example vq_vae -- [picture.png]
//! ```

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

use burn::prelude::*;
use image::{GrayImage, Luma, imageops};
use leanburn::nn::blocks::VectorQuantizerConfig;
use leanburn::nn::losses::{Difference, VoxelLoss};
use leanburn::nn::models::VqVae3dConfig;
use leanburn::prelude::*;
use leanburn::train::VqVaeWorkload;

#[global_allocator]
static HEAP: CountingAllocator = CountingAllocator;

const SEED: u64 = 7;
const STEPS: u64 = 600;
const CODES: usize = 64;

/// Eight heads to train on, mirrored at random; two more are held out.
fn data() -> DataConfig {
    DataConfig {
        phantom: Some(PhantomConfig { count: 10, shape: [32, 32, 32], noise: 0.02 }),
        flip: [true; 3],
        num_workers: 1,
        ..DataConfig::default()
    }
}

/// One level, which halves the resolution. The codebook has no gradient: its vectors follow a running average of what they
/// stand for, and one that nothing is near to starts again where the latent is.
fn workload(device: &Device) -> Result<VqVaeWorkload, TrainError> {
    let codebook = VectorQuantizerConfig::new(CODES, 4).with_decay(0.9).with_restart_below(Some(0.1));
    let model = VqVae3dConfig::new(vec![16], vec![16], codebook).init(device);
    let schedule =
        ScheduleConfig::new(5e-3).with_kind(ScheduleKind::Cosine).with_warmup_steps(10).with_max_steps(STEPS);
    let config = LearnerConfig::new(schedule).with_max_grad_norm(Some(1.0));
    let loss = VoxelLoss { difference: Difference::L1, ..VoxelLoss::default() };
    Ok(VqVaeWorkload::new(Learner::new("vq_vae", model, config)?, loss, Precision::F32))
}

/// How many codes a scan is written in, and their perplexity, the number of equally used codes with the same information.
fn codes(workload: &VqVaeWorkload, scan: &Tensor<5>) -> (usize, f64) {
    let mut uses = BTreeMap::<i64, f64>::new();
    let codes = workload.codes(scan.clone()).into_data();
    codes.iter::<i64>().for_each(|code| *uses.entry(code).or_default() += 1.0);
    let positions: f64 = uses.values().sum();
    let entropy: f64 = uses.values().map(|uses| uses / positions).map(|share| -share * share.ln()).sum();
    (uses.len(), entropy.exp())
}

/// The middle slice of a volume, four pixels a voxel.
fn slice(volume: &Tensor<5>) -> GrayImage {
    let [.., depth, height, width] = volume.dims();
    let middle = volume.clone().narrow(2, depth / 2, 1).into_data();
    let pixels = middle.iter::<f32>().map(|value| (value.clamp(0.0, 1.0) * 255.0) as u8).collect();
    let image = GrayImage::from_raw(width as u32, height as u32, pixels).expect("one value a pixel");
    imageops::resize(&image, 4 * width as u32, 4 * height as u32, imageops::FilterType::Nearest)
}

fn main() -> Result<(), Box<dyn Error>> {
    let device = Device::flex().autodiff();
    let dataset = Arc::new(Dataset::open(&data(), SEED)?);
    let held_out = volumes(Batch::stack(&[dataset.val_sample(0)?])?, &device).without_autodiff();
    let mut batches = Loader::new(dataset, 1, 0).map(|batch| batch.map(|batch| volumes(batch, &device)));
    seed(&device, SEED);
    let config = TrainerConfig::default().with_seed(SEED).with_max_bad_steps(3);
    let mut trainer = Trainer::new(workload(&device)?, config, &device);

    let (begin, mut peak) = (Instant::now(), Bytes(0));
    while trainer.steps() < STEPS {
        let report = trainer.step(&mut batches)?;
        peak = peak.max(report.memory.map_or(Bytes(0), |memory| memory.peak));
        if trainer.steps() == 1 || trainer.steps().is_multiple_of(75) {
            let reconstruction = trainer.workload().reconstruct(held_out.clone());
            let distance = (reconstruction - held_out.clone()).abs().mean().into_scalar::<f32>();
            let (used, perplexity) = codes(trainer.workload(), &held_out);
            let seconds = begin.elapsed().as_secs_f64();
            print!("step {:3}/{STEPS}  {seconds:5.1} s  held-out L1 {distance:.4}", trainer.steps());
            println!("  {used:2} of {CODES} codes, perplexity {perplexity:4.1}");
        }
    }
    println!("peak of the heap: {:.1} MiB", peak.as_mib());
    let (voxels, positions) = (held_out.shape().num_elements(), trainer.workload().codes(held_out.clone()));
    let positions = positions.shape().num_elements();
    let bytes = positions * CODES.ilog2() as usize / 8;
    println!("the scan: {voxels} voxels, {} bytes; its codes: {positions} of 6 bits, {bytes} bytes", 4 * voxels);

    if let Some(path) = std::env::args().nth(1) {
        let (scan, made) = (slice(&held_out), slice(&trainer.workload().reconstruct(held_out)));
        let mut picture = GrayImage::from_pixel(2 * scan.width() + 8, scan.height(), Luma([255]));
        imageops::replace(&mut picture, &scan, 0, 0);
        imageops::replace(&mut picture, &made, i64::from(scan.width()) + 8, 0);
        picture.save(&path)?;
        println!("{path}: a held-out slice, and what its codes say");
    }
    Ok(())
}
