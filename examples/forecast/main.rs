//! Four forecasters on a field that a turning flow carries along: each must beat persistence, the last field that is seen.
//! Then 64 steps of the convolutional LSTM, kept and recomputed over time: states held, peak, gradients.
//!
//! ```bash
//! cargo run --release --example forecast
//! ```

use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

use burn::prelude::*;
use burn::tensor::Distribution;
use leanburn::data::metrics::{root_mean_squared_error, skill};
use leanburn::data::{AdvectionConfig, Flow, SequenceConfig, SequenceDataset};
use leanburn::nn::losses::Difference;
use leanburn::nn::models::{Cnn3dLstmConfig, ConvLstm, ConvLstmConfig};
use leanburn::prelude::*;
use leanburn::train::{ForecastWorkload, Forecaster, windows};

#[global_allocator]
static HEAP: CountingAllocator = CountingAllocator;

const SEED: u64 = 7;
const STEPS: u64 = 150;

/// Six days of the field and its two velocities, from which the next day's field is predicted. The last fifth is held out.
fn data() -> SequenceConfig {
    let flow = AdvectionConfig { steps: 200, shape: [16, 16], flow: Flow::Rotating, speed: 1.5, ..Default::default() };
    SequenceConfig {
        advection: Some(flow),
        input_days: 6,
        use_channels: vec![0, 1, 2],
        target_channel: Some(0),
        num_workers: 1,
        ..Default::default()
    }
}

/// Error and skill over all held-out windows.
fn score<M: Forecaster>(
    workload: &ForecastWorkload<M>,
    dataset: &SequenceDataset,
    device: &Device,
) -> Result<(f64, f64), Box<dyn Error>> {
    let (mut predicted, mut truth, mut persistence) = (Vec::new(), Vec::new(), Vec::new());
    for index in 0..dataset.val_len() {
        let window = dataset.val_window(index)?;
        let [days, channels, height, width] = window.input_shape;
        let input = TensorData::new(window.input.clone(), [1, days, channels, height, width]);
        let forecast = workload.forecast(Tensor::from_data(input, device)).into_data();
        predicted.extend(forecast.iter::<f32>());
        persistence.extend(dataset.persistence(&window)?);
        truth.extend(window.target);
    }
    Ok((root_mean_squared_error(&predicted, &truth)?, skill(&predicted, &truth, &persistence)?))
}

/// Trains a forecaster and prints what it has learnt.
fn train<M: Forecaster>(
    name: &str,
    model: M,
    dataset: &Arc<SequenceDataset>,
    device: &Device,
) -> Result<(), Box<dyn Error>> {
    let schedule =
        ScheduleConfig::new(5e-3).with_kind(ScheduleKind::Cosine).with_warmup_steps(10).with_max_steps(STEPS);
    let config = LearnerConfig::new(schedule).with_max_grad_norm(Some(1.0));
    let begin = Instant::now();
    let learner = Learner::new("forecaster", model, config)?;
    let parameters = learner.module().num_params();
    let workload = ForecastWorkload::new(learner, Difference::L2, Precision::F32);
    let config = TrainerConfig::default().with_seed(SEED).with_max_bad_steps(3);
    let mut trainer = Trainer::new(workload, config, device);
    let batches = Loader::windows(dataset.clone(), 4, 0);
    let mut batches = batches.map(|batch| batch.map(|batch| windows(batch, device)));
    let mut peak = Bytes(0);
    while trainer.steps() < STEPS {
        let report = trainer.step(&mut batches)?;
        peak = peak.max(report.memory.map_or(Bytes(0), |memory| memory.peak));
    }
    let ((error, skill), seconds) = (score(trainer.workload(), dataset, device)?, begin.elapsed().as_secs_f64());
    let peak = peak.as_mib();
    println!("{name:<16} {parameters:>10} {error:>6.3} {skill:>6.2} {peak:>9.1} MiB {seconds:>6.1} s");
    Ok(())
}

/// The gradient of the fields, which went through every step; states held between forward and backward; the peak in MiB.
fn step(model: &ConvLstm, policy: ResidencyPolicy, fields: &Tensor<5>) -> (TensorData, f64, f64) {
    let model = model.clone().with_residency(policy);
    let [batch_size, _, _, height, width] = fields.dims();
    let state = 4 * batch_size * model.config().hidden_channels * height * width;
    let before = HEAP.current_usage();
    HEAP.reset_peak_usage();
    let loss = model.forward(fields.clone()).square().mean();
    let held = (HEAP.current_usage() - before) as f64 / state as f64;
    let gradient = backward(loss).take(fields).expect("the loss depends on them");
    (gradient.into_data(), held, (HEAP.peak_usage() - before) as f64 / 1048576.0)
}

fn main() -> Result<(), Box<dyn Error>> {
    let device = Device::flex().autodiff();
    let dataset = Arc::new(SequenceDataset::open(&data(), SEED)?);
    seed(&device, SEED);
    println!("{:<16} {:>10} {:>6} {:>6} {:>13} {:>8}", "", "parameters", "RMSE", "skill", "peak", "time");
    train("convlstm", ConvLstmConfig::new(3).init(&device), &dataset, &device)?;
    train("3dcnn_lstm", Cnn3dLstmConfig::original(3).init(&device), &dataset, &device)?;
    train("3dcnn_lstm_lite", Cnn3dLstmConfig::lite(3).init(&device), &dataset, &device)?;
    train("3dcnn_lstm_micro", Cnn3dLstmConfig::micro(3).init(&device), &dataset, &device)?;

    let model = ConvLstmConfig::new(4).init(&device);
    let fields = Tensor::random([1, 64, 4, 96, 96], Distribution::Normal(0.0, 1.0), &device).require_grad();
    step(&model, ResidencyPolicy::keep(), &fields); // makes what is made once
    println!("\n64 steps of convlstm on 96 x 96 fields");
    let (kept, held, peak) = step(&model, ResidencyPolicy::keep(), &fields);
    println!("kept:                 {held:5.1} saved states, {peak:6.1} MiB at the peak");
    let (recomputed, held, peak) = step(&model, ResidencyPolicy::recompute_all(), &fields);
    println!("recomputed over time: {held:5.1} saved states, {peak:6.1} MiB at the peak");
    println!("gradients are {}", if kept == recomputed { "equal, bit for bit" } else { "different" });
    Ok(())
}
