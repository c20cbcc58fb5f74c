//! Training steps of a KL autoencoder; prints their time and memory as one line of JSON.
//!
//! Run by `autoencoder_step.py`, beside its twin `monai_autoencoder_step.py`: same arguments, same line.

use std::time::Instant;

use burn::prelude::*;
use burn::tensor::Distribution;
use clap::Parser;
use leanburn::nn::losses::{kl_divergence, l1_loss};
use leanburn::prelude::*;

#[global_allocator]
static HEAP: CountingAllocator = CountingAllocator;

/// Times training steps of a KL autoencoder on the CPU.
#[derive(Parser)]
struct Arguments {
    /// Voxels along depth, height and width.
    #[arg(long, num_args = 3, default_values_t = [64, 64, 32])]
    shape: Vec<usize>,
    /// Channels of each level, the finest first.
    #[arg(long, num_args = 1.., default_values_t = [32, 64, 64])]
    channels: Vec<usize>,
    /// Steps to time, after one that is not.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    steps: u64,
    /// Threads of the CPU.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Keep only each block's input for backward.
    #[arg(long)]
    recompute: bool,
}

/// The largest number of groups, 32 at most, that divides every level's channels.
fn norm_num_groups(channels: &[usize]) -> usize {
    (1..=32).rev().find(|groups| channels.iter().all(|channels| channels % groups == 0)).unwrap_or(1)
}

fn autoencoder(arguments: &Arguments, device: &Device) -> AutoencoderKl {
    let levels = arguments.channels.len();
    let residency = if arguments.recompute { ResidencyPolicy::recompute_all() } else { ResidencyPolicy::keep() };
    AutoencoderKlConfig::new(arguments.channels.clone(), vec![1; levels], vec![false; levels])
        .with_norm_num_groups(norm_num_groups(&arguments.channels))
        .with_encoder_nonlocal_attn(false)
        .with_decoder_nonlocal_attn(false)
        .init(device)
        .with_residency(residency)
}

fn adam(max_steps: u64) -> LearnerConfig {
    let schedule = ScheduleConfig { learning_rate: 1e-4, kind: ScheduleKind::Constant, warmup_steps: 0, max_steps };
    LearnerConfig {
        optimizer: OptimizerConfig::default(),
        schedule,
        loss_scale: LossScale::NONE,
        max_grad_norm: None,
        average_decay: None,
    }
}

/// The most memory that was resident so far, in bytes; `None` where the system has no `/proc`.
fn resident_peak_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib * 1024)
}

/// One step; its seconds, and the bytes held between forward and backward.
fn train_step(learner: &mut Learner<AutoencoderKl>, x: &Tensor<5>, step: u64) -> (f64, u64) {
    let (begin, live) = (Instant::now(), HEAP.current_usage());
    let (reconstruction, mean, sigma) = learner.module().forward(x.clone());
    let loss = l1_loss(reconstruction, x.clone()) + kl_divergence(mean, sigma) * 1e-6;
    let held = HEAP.current_usage() - live;
    learner.accumulate(loss, 1.0);
    learner.step(step);
    (begin.elapsed().as_secs_f64(), held as u64)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments = Arguments::parse();
    rayon::ThreadPoolBuilder::new().num_threads(arguments.threads).build_global()?;
    let device = Device::flex().autodiff();
    device.seed(1);
    let model = autoencoder(&arguments, &device);
    let shape = [1, 1, arguments.shape[0], arguments.shape[1], arguments.shape[2]];
    model.config().check_input(shape)?;
    let parameters = model.num_params();
    let mut learner = Learner::new("autoencoder", model, adam(arguments.steps + 1))?;
    let x = Tensor::random(shape, Distribution::Default, &device);
    let resident_before = resident_peak_bytes();

    train_step(&mut learner, &x, 0);
    HEAP.reset_peak_usage();
    let mut steps: Vec<_> = (1..=arguments.steps).map(|step| train_step(&mut learner, &x, step)).collect();
    let heap_peak = HEAP.peak_usage();
    steps.sort_by(|a, b| a.0.total_cmp(&b.0));
    let middle = steps.len() / 2;
    let seconds = (steps[middle].0 + steps[(steps.len() - 1) / 2].0) / 2.0;
    let line = serde_json::json!({
        "program": format!("leanburn {}, Burn 0.22.1 Flex", env!("CARGO_PKG_VERSION")),
        "mode": if arguments.recompute { "each block recomputed" } else { "plain" },
        "parameters": parameters,
        "step_seconds": seconds,
        "held_bytes": steps[middle].1,
        "heap_peak_bytes": heap_peak,
        "resident_before_bytes": resident_before,
        "resident_peak_bytes": resident_peak_bytes(),
    });
    println!("{line}");
    Ok(())
}
