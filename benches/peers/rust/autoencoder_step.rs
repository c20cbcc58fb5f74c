//! Training steps of the KL autoencoder; the counterpart of `pytorch/autoencoder_step.py`.

use std::time::Instant;

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use clap::{Args, ValueEnum};
use leanburn::nn::losses::{kl_divergence, l1_loss};
use leanburn::prelude::*;
use serde_json::json;

use crate::burn_autoencoder::BurnAutoencoder;
use crate::measure::{Step, Timing, live_bytes, program, report, use_threads};
use crate::values::{fill, tensor};

#[derive(Args)]
pub struct Arguments {
    /// Voxels along depth, height and width.
    #[arg(long, num_args = 3, required = true)]
    shape: Vec<usize>,
    /// Channels of each level, the finest first.
    #[arg(long, num_args = 1.., required = true)]
    channels: Vec<usize>,
    #[command(flatten)]
    timing: Timing,
    /// Of the activations; parameters are float32.
    #[arg(long, value_enum)]
    dtype: Dtype,
    /// Attention at the last level.
    #[arg(long)]
    attention: bool,
    /// Run every segment again in backward.
    #[arg(long, conflicts_with = "burn")]
    recompute: bool,
    /// Burn's own layers.
    #[arg(long)]
    burn: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Dtype {
    F32,
    Bf16,
}

/// The reconstruction, and mean and deviation of the latent.
type Forward<M> = fn(&M, Tensor<5>) -> (Tensor<5>, Tensor<5>, Tensor<5>);

pub fn run(arguments: &Arguments) -> Result<(), Box<dyn std::error::Error>> {
    use_threads(arguments.timing.threads)?;
    let device = Device::flex().autodiff();
    device.seed(1);
    let config = config(arguments);
    let volume = [1, 1, arguments.shape[0], arguments.shape[1], arguments.shape[2]];
    config.check_input(volume)?;
    let x = tensor(volume, 7, 1.0, &device);
    if arguments.burn {
        return steps(arguments, BurnAutoencoder::new(&config, &device), &x, BurnAutoencoder::forward);
    }
    let residency = if arguments.recompute { ResidencyPolicy::recompute_all() } else { ResidencyPolicy::keep() };
    steps(arguments, config.init(&device).with_residency(residency), &x, AutoencoderKl::forward)
}

fn config(arguments: &Arguments) -> AutoencoderKlConfig {
    let levels = arguments.channels.len();
    let mut attention = vec![false; levels];
    attention[levels - 1] = arguments.attention;
    AutoencoderKlConfig::new(arguments.channels.clone(), vec![1; levels], attention)
        .with_norm_num_groups(norm_num_groups(&arguments.channels))
        .with_encoder_nonlocal_attn(false)
        .with_decoder_nonlocal_attn(false)
}

/// The largest number of groups, 32 at most, that divides every level's channels.
fn norm_num_groups(channels: &[usize]) -> usize {
    (1..=32).rev().find(|groups| channels.iter().all(|channels| channels % groups == 0)).unwrap_or(1)
}

fn steps<M: Module>(
    arguments: &Arguments,
    model: M,
    x: &Tensor<5>,
    forward: Forward<M>,
) -> Result<(), Box<dyn std::error::Error>> {
    let parameters = model.num_params();
    let mut learner = Learner::new("autoencoder", fill(model), LearnerConfig::new(ScheduleConfig::new(1e-4)))?;
    let precision = match arguments.dtype {
        Dtype::F32 => Precision::F32,
        Dtype::Bf16 => Precision::Bf16,
    };
    let mode = if arguments.recompute { "recomputed" } else { "plain" };
    let mut step = 0;
    report(mode, program(arguments.burn), arguments.timing.steps, || {
        let (begin, live) = (Instant::now(), live_bytes());
        let (reconstruction, mean, sigma) = forward(learner.module(), precision.cast(x.clone()));
        let (l1, kl) = (l1_loss(reconstruction, x.clone()), kl_divergence(mean, sigma));
        let loss = l1.clone() + kl.clone() * 1e-6;
        let kept_bytes = live_bytes() - live;
        learner.accumulate(loss, 1.0);
        assert!(learner.prepare().update(step).is_some_and(|report| !report.skipped), "the optimizer has stepped");
        step += 1;
        let seconds = begin.elapsed().as_secs_f64();
        let [kl, l1] = [kl, l1].map(|loss| loss.into_scalar::<f32>());
        Step { seconds, kept_bytes, checks: json!({"parameters": parameters, "kl": kl, "l1": l1}) }
    });
    Ok(())
}
