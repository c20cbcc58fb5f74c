//! Trains the radar guide's smallest autoencoder on patches of synthetic scenes twice: with all voxels alike, and with an
//! occupied voxel that counts as four empty ones. Overlap and Chamfer distance say what was learnt.
//!
//! ```bash
//! cargo run --release --example radar_vae -- [picture.png]
//! ```

use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

use burn::prelude::*;
use image::{GrayImage, Luma, imageops};
use leanburn::data::metrics::{chamfer_distance, intersection_over_union};
use leanburn::data::{Normalize, RadarConfig};
use leanburn::nn::losses::{VaeLoss, VoxelLoss};
use leanburn::nn::models::Vae3dConfig;
use leanburn::prelude::*;
use leanburn::train::VaeWorkload;

#[global_allocator]
static HEAP: CountingAllocator = CountingAllocator;

const SEED: u64 = 7;
const STEPS: u64 = 120;
/// A patch: upwards, ahead and across.
const EXTENT: [usize; 3] = [8, 32, 32];
/// A voxel is occupied where its first channel is above this.
const OCCUPIED: f32 = 0.5;

/// Patches, most of them around something, of eight scenes; two more are held out. Percentiles of so many zeros would be
/// zero: nothing is normalized.
fn data() -> DataConfig {
    DataConfig {
        radar: Some(RadarConfig { count: 10, shape: [16, 128, 128], vehicles: 60, speckle: 0.0 }),
        patch_size: Some(EXTENT),
        normalize: Normalize::None,
        num_workers: 1,
        ..DataConfig::default()
    }
}

/// Squared differences, where an occupied voxel counts as `weight` empty ones, and a little divergence of the latent.
fn workload(weight: f64, device: &Device) -> Result<VaeWorkload, TrainError> {
    let schedule = ScheduleConfig::new(2e-3).with_kind(ScheduleKind::Cosine).with_warmup_steps(5).with_max_steps(STEPS);
    let config = LearnerConfig::new(schedule).with_max_grad_norm(Some(1.0));
    let (occupancy_threshold, occupancy_weight) = (f64::from(OCCUPIED), weight);
    let loss =
        VaeLoss { voxels: VoxelLoss { occupancy_threshold, occupancy_weight, ..VoxelLoss::default() }, beta: 1e-6 };
    let vae = Vae3dConfig::ultra_lightweight().init(device);
    Ok(VaeWorkload::new(Learner::new("vae", vae, config)?, loss, None, Precision::F32))
}

/// The first channel, occupancy.
fn occupancy(scene: &Tensor<5>) -> Vec<f32> {
    scene.clone().narrow(1, 0, 1).into_data().iter::<f32>().collect()
}

/// Trains with a weight; prints the scores of held-out patches, and gives the reconstructions.
fn train(
    weight: f64,
    dataset: &Arc<Dataset>,
    held_out: &[Tensor<5>],
    device: &Device,
) -> Result<Vec<Tensor<5>>, Box<dyn Error>> {
    seed(device, SEED);
    let config = TrainerConfig::default().with_seed(SEED).with_max_bad_steps(3);
    let mut trainer = Trainer::new(workload(weight, device)?, config, device);
    let mut batches = Loader::new(dataset.clone(), 1, 0).map(|batch| batch.map(|batch| volumes(batch, device)));
    let (begin, mut peak) = (Instant::now(), Bytes(0));
    loop {
        if trainer.steps().is_multiple_of(40) {
            let (mut overlap, mut distance) = (0.0, 0.0);
            for truth in held_out {
                let (made, truth) = (occupancy(&trainer.workload().reconstruct(truth.clone())), occupancy(truth));
                overlap += intersection_over_union(&made, &truth, OCCUPIED)? / held_out.len() as f64;
                distance += chamfer_distance(&made, &truth, EXTENT, OCCUPIED)?.mean() / held_out.len() as f64;
            }
            let seconds = begin.elapsed().as_secs_f64();
            print!("weight {weight}, step {:3}/{STEPS}  {seconds:4.1} s", trainer.steps());
            println!("  IoU {overlap:.3}  Chamfer distance {distance:.2} voxels");
        }
        if trainer.steps() == STEPS {
            break;
        }
        let report = trainer.step(&mut batches)?;
        peak = peak.max(report.memory.map_or(Bytes(0), |memory| memory.peak));
    }
    println!("peak of the heap: {:.1} MiB\n", peak.as_mib());
    Ok(held_out.iter().map(|truth| trainer.workload().reconstruct(truth.clone())).collect())
}

/// A patch from above: the largest occupancy of each column, four pixels a voxel.
fn from_above(scene: &Tensor<5>) -> GrayImage {
    let [_, height, width] = EXTENT;
    let seen = scene.clone().narrow(1, 0, 1).max_dim(2).into_data();
    let pixels = seen.iter::<f32>().map(|value| (value.clamp(0.0, 1.0) * 255.0) as u8).collect();
    let image = GrayImage::from_raw(width as u32, height as u32, pixels).expect("one value a pixel");
    imageops::resize(&image, 4 * width as u32, 4 * height as u32, imageops::FilterType::Nearest)
}

fn main() -> Result<(), Box<dyn Error>> {
    let device = Device::flex().autodiff();
    let dataset = Arc::new(Dataset::open(&data(), SEED)?);
    let held_out: Result<Vec<_>, Box<dyn Error>> = (0..4.min(dataset.val_len()))
        .map(|index| Ok(volumes(Batch::stack(&[dataset.val_sample(index)?])?, &device).without_autodiff()))
        .collect();
    let held_out = held_out?;
    let occupied = held_out.iter().flat_map(occupancy).filter(|value| *value > OCCUPIED).count() as f64;
    let voxels = (held_out.len() * EXTENT.iter().product::<usize>()) as f64;
    println!("{} held-out patches, {:.1} % of their voxels occupied\n", held_out.len(), 100.0 * occupied / voxels);

    let alike = train(1.0, &dataset, &held_out, &device)?;
    let weighted = train(4.0, &dataset, &held_out, &device)?;
    if let Some(path) = std::env::args().nth(1) {
        let rows = [&held_out, &alike, &weighted];
        let tile = 4 * EXTENT[2] as u32 + 8;
        let mut picture = GrayImage::from_pixel(tile * held_out.len() as u32 - 8, tile * 3 - 8, Luma([255]));
        for (row, patches) in rows.into_iter().enumerate() {
            for (column, patch) in patches.iter().enumerate() {
                let (left, top) = (column as i64 * i64::from(tile), row as i64 * i64::from(tile));
                imageops::replace(&mut picture, &from_above(patch), left, top);
            }
        }
        picture.save(&path)?;
        println!("{path}: held-out patches from above, then their reconstructions with weight 1 and with weight 4");
    }
    Ok(())
}
