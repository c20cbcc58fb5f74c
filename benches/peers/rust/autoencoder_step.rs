//! Training steps of the KL autoencoder; the same as `pytorch/autoencoder_step.py`.

use std::time::Instant;

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use clap::{Args, ValueEnum};
use leanburn::nn::losses::{kl_divergence, l1_loss};
use leanburn::prelude::*;
use serde_json::json;

use crate::burn_autoencoder::BurnAutoencoder;
use crate::measure::{Line, Step, Timing, live_bytes, report, use_threads};
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
    #[arg(long)]
    learning_rate: f64,
    /// Leave the optimizer's step out, to see that it is noticed.
    #[arg(long)]
    no_update: bool,
}

/// The steps whose losses and gradients are compared: the first, and the one after three updates.
const COMPARED: usize = 4;

#[derive(Clone, Copy, ValueEnum)]
enum Dtype {
    F32,
    Bf16,
}

/// From a volume and the noise of its latent: the reconstruction, and mean and deviation of the latent.
type Forward<M> = fn(&M, Tensor<5>, Tensor<5>) -> (Tensor<5>, Tensor<5>, Tensor<5>);

pub fn run(arguments: &Arguments) -> Result<(), Box<dyn std::error::Error>> {
    use_threads(arguments.timing.threads)?;
    let device = Device::flex().autodiff();
    let config = config(arguments);
    let volume = [1, 1, arguments.shape[0], arguments.shape[1], arguments.shape[2]];
    config.check_input(volume)?;
    let halvings = arguments.channels.len() - 1;
    let latent = [1, config.latent_channels, volume[2] >> halvings, volume[3] >> halvings, volume[4] >> halvings];
    let inputs = [tensor(volume, 7, 1.0, &device), tensor(latent, 17, 1.0, &device)];
    if arguments.burn {
        return steps(arguments, BurnAutoencoder::new(&config, &device), &inputs, BurnAutoencoder::forward);
    }
    let residency = if arguments.recompute { ResidencyPolicy::recompute_all() } else { ResidencyPolicy::keep() };
    steps(arguments, config.init(&device).with_residency(residency), &inputs, forward)
}

/// [`AutoencoderKl::forward`] with given noise.
fn forward(model: &AutoencoderKl, x: Tensor<5>, noise: Tensor<5>) -> (Tensor<5>, Tensor<5>, Tensor<5>) {
    let (mean, sigma) = model.encode(x);
    let z = mean.clone() + noise.cast(sigma.dtype()) * sigma.clone();
    (model.decode(z), mean, sigma)
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
    [x, noise]: &[Tensor<5>; 2],
    forward: Forward<M>,
) -> Result<(), Box<dyn std::error::Error>> {
    let parameters = model.num_params();
    let mut learner =
        Learner::new("autoencoder", fill(model), LearnerConfig::new(ScheduleConfig::new(arguments.learning_rate)))?;
    let (precision, dtype) = match arguments.dtype {
        Dtype::F32 => (Precision::F32, "f32"),
        Dtype::Bf16 => (Precision::Bf16, "bf16"),
    };
    let mode = if arguments.recompute { "recomputed" } else { "plain" };
    let mut step = 0;
    let line = Line { mode, dtype, burn: arguments.burn, untimed: COMPARED };
    report(line, &arguments.timing, || {
        let (begin, live) = (Instant::now(), live_bytes());
        let (reconstruction, mean, sigma) = forward(learner.module(), precision.cast(x.clone()), noise.clone());
        let (l1, kl) = (l1_loss(reconstruction, x.clone()), kl_divergence(mean, sigma));
        let loss = l1.clone() + kl.clone() * 1e-6;
        let kept_bytes = live_bytes() - live;
        learner.accumulate(loss.clone(), 1.0);
        let prepared = learner.prepare();
        let gradient_norm = prepared.gradients().expect("a loss was accumulated").norm;
        if !arguments.no_update {
            assert!(prepared.update(step).is_some_and(|report| !report.skipped), "the optimizer has stepped");
        }
        step += 1;
        let seconds = begin.elapsed().as_secs_f64();
        let [kl, l1, loss] = [kl, l1, loss].map(|loss| loss.into_scalar::<f32>());
        let checks =
            json!({"parameters": parameters, "kl": kl, "l1": l1, "loss": loss, "gradient norm": gradient_norm});
        Step { seconds, kept_bytes, checks }
    });
    Ok(())
}
