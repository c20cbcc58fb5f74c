//! Training steps of the U-Net of a latent diffusion model; the same as `pytorch/diffusion_step.py`.

use std::time::Instant;

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use clap::{Args, ValueEnum};
use leanburn::nn::losses::l2_loss;
use leanburn::nn::models::{DiffusionConditions, DiffusionUNet3d, DiffusionUNet3dConfig};
use leanburn::prelude::*;
use serde_json::json;

use crate::measure::{Line, Step, Timing, live_bytes, report, use_threads};
use crate::values::{fill, tensor};

#[derive(Args)]
pub struct Arguments {
    /// Voxels of the latent along depth, height and width.
    #[arg(long, num_args = 3, required = true)]
    shape: Vec<usize>,
    /// Channels of the latent.
    #[arg(long)]
    latent_channels: usize,
    /// Channels of each level, the finest first.
    #[arg(long, num_args = 1.., required = true)]
    channels: Vec<usize>,
    /// Channels of an attention head.
    #[arg(long)]
    head_channels: usize,
    #[command(flatten)]
    timing: Timing,
    /// Of the activations; parameters are float32.
    #[arg(long, value_enum)]
    dtype: Dtype,
    /// Run every segment again in backward.
    #[arg(long)]
    recompute: bool,
    #[arg(long)]
    learning_rate: f64,
    /// Leave the optimizer's step out, to see that it is noticed.
    #[arg(long)]
    no_update: bool,
}

/// The steps whose losses and gradients are compared: the first, and the one after three updates.
const COMPARED: usize = 4;
/// The time of the noisy latent.
const TIME: f32 = 500.0;

#[derive(Clone, Copy, ValueEnum)]
enum Dtype {
    F32,
    Bf16,
}

pub fn run(arguments: &Arguments) -> Result<(), Box<dyn std::error::Error>> {
    use_threads(arguments.timing.threads)?;
    let device = Device::flex().autodiff();
    let config = config(arguments);
    let [depth, height, width] = arguments.shape[..] else { unreachable!("clap takes three") };
    let latent = [1, arguments.latent_channels, depth, height, width];
    config.check_input(latent)?;
    let [x, noise] = [7, 17].map(|salt| tensor(latent, salt, 1.0, &device));
    let residency = if arguments.recompute { ResidencyPolicy::recompute_all() } else { ResidencyPolicy::keep() };
    steps(arguments, config.init(&device).with_residency(residency), &x, &noise)
}

fn config(arguments: &Arguments) -> DiffusionUNet3dConfig {
    let (levels, latent) = (arguments.channels.len(), arguments.latent_channels);
    let attention = (0..levels).map(|level| level > 0).collect();
    DiffusionUNet3dConfig::new(latent, latent, arguments.channels.clone(), vec![1; levels], attention)
        .with_norm_num_groups(norm_num_groups(&arguments.channels))
        .with_num_head_channels(vec![arguments.head_channels])
}

/// The largest number of groups, 32 at most, that divides every level's channels.
fn norm_num_groups(channels: &[usize]) -> usize {
    (1..=32).rev().find(|groups| channels.iter().all(|channels| channels % groups == 0)).unwrap_or(1)
}

fn steps(
    arguments: &Arguments,
    model: DiffusionUNet3d,
    x: &Tensor<5>,
    noise: &Tensor<5>,
) -> Result<(), Box<dyn std::error::Error>> {
    let parameters = model.num_params();
    let mut learner =
        Learner::new("diffusion", fill(model), LearnerConfig::new(ScheduleConfig::new(arguments.learning_rate)))?;
    let (precision, dtype) = match arguments.dtype {
        Dtype::F32 => (Precision::F32, "f32"),
        Dtype::Bf16 => (Precision::Bf16, "bf16"),
    };
    let mode = if arguments.recompute { "recomputed" } else { "plain" };
    let mut step = 0;
    let line = Line { mode, dtype, burn: false, untimed: COMPARED };
    report(line, &arguments.timing, || {
        let (begin, live) = (Instant::now(), live_bytes());
        let times = Tensor::from_floats([TIME], &x.device());
        let prediction = learner.module().forward(precision.cast(x.clone()), times, DiffusionConditions::default());
        let loss = l2_loss(prediction, noise.clone());
        let kept_bytes = live_bytes() - live;
        learner.accumulate(loss.clone(), 1.0);
        let prepared = learner.prepare();
        let gradient_norm = prepared.gradients().expect("a loss was accumulated").norm;
        if !arguments.no_update {
            assert!(prepared.update(step).is_some_and(|report| !report.skipped), "the optimizer has stepped");
        }
        step += 1;
        let seconds = begin.elapsed().as_secs_f64();
        let checks =
            json!({"parameters": parameters, "loss": loss.into_scalar::<f32>(), "gradient norm": gradient_norm});
        Step { seconds, kept_bytes, checks }
    });
    Ok(())
}
