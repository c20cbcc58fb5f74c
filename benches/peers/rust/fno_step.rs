//! Training steps of the Fourier neural operator; the same as `pytorch/fno_step.py`.

use std::time::Instant;

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use clap::Args;
use leanburn::nn::losses::l2_loss;
use leanburn::nn::models::{Fno, FnoConfig};
use leanburn::prelude::*;
use serde_json::json;

use crate::measure::{Line, Step, Timing, live_bytes, report, use_threads};
use crate::values::{fill, tensor};

#[derive(Args)]
pub struct Arguments {
    /// Positions of the grid along each axis; one to three axes.
    #[arg(long, num_args = 1..=3, required = true)]
    shape: Vec<usize>,
    /// Fields at a time.
    #[arg(long)]
    batch_size: usize,
    /// Channels of the layers.
    #[arg(long)]
    width: usize,
    /// Frequencies of each sign along each axis.
    #[arg(long)]
    modes: usize,
    #[arg(long)]
    layers: usize,
    #[command(flatten)]
    timing: Timing,
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

pub fn run(arguments: &Arguments) -> Result<(), Box<dyn std::error::Error>> {
    use_threads(arguments.timing.threads)?;
    let device = Device::flex().autodiff();
    let Arguments { shape, batch_size, width, modes, layers, .. } = arguments;
    let config = FnoConfig::new(1, 1, vec![*width; layers + 1], vec![vec![*modes; shape.len()]; *layers]);
    let mut field = [*batch_size, 1, 1, 1, 1];
    field[5 - shape.len()..].copy_from_slice(shape);
    config.check_input(field)?;
    let [x, target] = [7, 17].map(|salt| tensor(field, salt, 1.0, &device));
    let residency = if arguments.recompute { ResidencyPolicy::recompute_all() } else { ResidencyPolicy::keep() };
    steps(arguments, config.init(&device).with_residency(residency), &x, &target)
}

fn steps(
    arguments: &Arguments,
    model: Fno,
    x: &Tensor<5>,
    target: &Tensor<5>,
) -> Result<(), Box<dyn std::error::Error>> {
    let parameters = model.num_params();
    let mut learner =
        Learner::new("operator", fill(model), LearnerConfig::new(ScheduleConfig::new(arguments.learning_rate)))?;
    let mode = if arguments.recompute { "recomputed" } else { "plain" };
    let mut step = 0;
    let line = Line { mode, dtype: "f32", burn: false, untimed: COMPARED };
    report(line, &arguments.timing, || {
        let (begin, live) = (Instant::now(), live_bytes());
        let loss = l2_loss(learner.module().forward(x.clone()), target.clone());
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
