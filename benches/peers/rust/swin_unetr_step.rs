//! Training steps of Swin UNETR; the same as `pytorch/swin_unetr_step.py`.

use std::time::Instant;

use burn::module::Module;
use burn::tensor::{Device, Int, Tensor, TensorData};
use clap::{Args, ValueEnum};
use leanburn::nn::losses::DiceCeLoss;
use leanburn::nn::models::SwinUnetrConfig;
use leanburn::prelude::*;
use serde_json::json;

use crate::measure::{Line, Step, Timing, live_bytes, report, use_threads};
use crate::values::{fill, tensor};

#[derive(Args)]
pub struct Arguments {
    /// Voxels along depth, height and width.
    #[arg(long, num_args = 3, required = true)]
    shape: Vec<usize>,
    #[arg(long)]
    feature_size: usize,
    #[arg(long)]
    in_channels: usize,
    #[arg(long)]
    classes: usize,
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

#[derive(Clone, Copy, ValueEnum)]
enum Dtype {
    F32,
    Bf16,
}

pub fn run(arguments: &Arguments) -> Result<(), Box<dyn std::error::Error>> {
    use_threads(arguments.timing.threads)?;
    let device = Device::flex().autodiff();
    let config =
        SwinUnetrConfig::new(arguments.in_channels, arguments.classes).with_feature_size(arguments.feature_size);
    let volume = [1, arguments.in_channels, arguments.shape[0], arguments.shape[1], arguments.shape[2]];
    config.check_input(volume)?;
    let residency = if arguments.recompute { ResidencyPolicy::recompute_all() } else { ResidencyPolicy::keep() };
    let model = config.init(&device).with_residency(residency);
    let parameters = model.num_params();
    let schedule = ScheduleConfig::new(arguments.learning_rate);
    let mut learner = Learner::new("swin_unetr", fill(model), LearnerConfig::new(schedule))?;
    let (precision, dtype) = match arguments.dtype {
        Dtype::F32 => (Precision::F32, "f32"),
        Dtype::Bf16 => (Precision::Bf16, "bf16"),
    };
    let (x, labels) = (tensor(volume, 7, 1.0, &device), labels(arguments, &device));
    let mode = if arguments.recompute { "recomputed" } else { "plain" };
    let mut step = 0;
    report(Line { mode, dtype, burn: false, untimed: COMPARED }, &arguments.timing, || {
        let (begin, live) = (Instant::now(), live_bytes());
        let logits = learner.module().forward(precision.cast(x.clone()));
        let loss = DiceCeLoss::new().forward(logits, labels.clone());
        let kept_bytes = live_bytes() - live;
        learner.accumulate(loss.clone(), 1.0);
        let prepared = learner.prepare();
        let gradient_norm = prepared.gradients().expect("a loss was accumulated").norm;
        if !arguments.no_update {
            assert!(prepared.update(step).is_some_and(|report| !report.skipped), "the optimizer has stepped");
        }
        step += 1;
        let seconds = begin.elapsed().as_secs_f64();
        let loss = loss.into_scalar::<f32>();
        let checks = json!({"parameters": parameters, "loss": loss, "gradient norm": gradient_norm});
        Step { seconds, kept_bytes, checks }
    });
    Ok(())
}

/// Classes from the same numbers as the volume's.
fn labels(arguments: &Arguments, device: &Device) -> Tensor<4, Int> {
    let shape = [1, arguments.shape[0], arguments.shape[1], arguments.shape[2]];
    let numbers = tensor(shape, 17, 1.0, device).into_data().try_to_vec::<f32>().expect("float32");
    let class = |number: f32| ((number + 1.0) * (arguments.classes as f32 / 2.0)).floor() as i32;
    Tensor::from_data(TensorData::new(numbers.into_iter().map(class).collect(), shape), device)
}
