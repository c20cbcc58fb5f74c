//! The memory of a training step of a model of Burn's own layers: planned on a device that records instead of computing,
//! then measured on the heap. Prints the peak, where it stands, what it is made of, and both side by side.
//!
//! ```bash
//! cargo run --release --example plan_any_model
//! ```

use std::time::Instant;

use burn::nn::conv::{Conv3d, Conv3dConfig};
use burn::nn::loss::MseLoss;
use burn::nn::{GroupNorm, GroupNormConfig, Linear, LinearConfig, PaddingConfig3d};
use burn::prelude::*;
use burn::tensor::activation::{relu, silu};
use leanburn::ops::recording::{Purpose, serves, step_begins};
use leanburn::prelude::*;

#[global_allocator]
static HEAP: CountingAllocator = CountingAllocator;

/// Predicts one number, such as an age, from a scan. An ordinary Burn module: it knows nothing of leanburn.
#[derive(Module, Debug)]
struct Regressor {
    convolutions: Vec<Conv3d>,
    norms: Vec<GroupNorm>,
    hidden: Linear,
    output: Linear,
}

impl Regressor {
    fn new(device: &Device) -> Self {
        let convolution = |channels, stride: usize| {
            let config = Conv3dConfig::new(channels, [3; 3]).with_stride([stride; 3]);
            config.with_padding(PaddingConfig3d::Explicit(1, 1, 1)).init(device)
        };
        Self {
            convolutions: vec![convolution([1, 8], 1), convolution([8, 16], 2), convolution([16, 32], 2)],
            norms: [8, 16, 32].map(|channels| GroupNormConfig::new(4, channels).init(device)).into(),
            hidden: LinearConfig::new(32, 64).init(device),
            output: LinearConfig::new(64, 1).init(device),
        }
    }

    fn forward(&self, scans: Tensor<5>) -> Tensor<2> {
        let layers = self.convolutions.iter().zip(&self.norms);
        let features = layers.fold(scans, |x, (convolution, norm)| silu(norm.forward(convolution.forward(x))));
        let pooled = features.flatten::<3>(2, 4).mean_dim(2).squeeze_dim::<2>(2);
        self.output.forward(relu(self.hidden.forward(pooled)))
    }
}

/// Forward and backward of a batch of two cubes.
fn train_step(model: &Regressor, size: usize, device: &Device) {
    let scans = Tensor::zeros([2, 1, size, size, size], device);
    let ages = Tensor::zeros([2, 1], device);
    let loss = MseLoss::new().forward(model.forward(scans), ages, burn::nn::loss::Reduction::Mean);
    let _gradients = backward(loss).take_module(model);
}

/// The plan: the same code on a recording device. The two notes are optional: they name the weights in the account, and
/// leave their making out of it.
fn plan(size: usize) -> Timeline {
    let recorded = record(Target::Cpu, |device| {
        let model = Regressor::new(device);
        serves(Purpose::Weights, &model);
        step_begins(device);
        train_step(&model, size, device);
    });
    let (recording, ()) = recorded.expect("everything is on the device");
    recording.timeline(&FlexMemory)
}

/// The most that the heap held above what it held before.
fn measure(size: usize) -> u64 {
    let device = Device::flex().autodiff();
    train_step(&Regressor::new(&device), 16, &device); // makes what is made once: threads and their buffers
    let before = HEAP.current_usage();
    let model = Regressor::new(&device);
    HEAP.reset_peak_usage();
    train_step(&model, size, &device);
    (HEAP.peak_usage() - before) as u64
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

fn main() {
    let timeline = plan(64);
    let peak = timeline.peak_index();
    let moment = &timeline.moments[peak];
    println!("two cubes of 64: peak {:.1} MiB", mib(timeline.peak()));
    println!("in {}, {}, {} of {} operations", moment.phase, moment.operation, peak + 1, timeline.moments.len());
    for (cause, bytes) in timeline.causes_at(peak) {
        println!("  {:<18} {:>8.1} MiB", cause.to_string(), mib(bytes));
    }

    println!("\n  cube   planned MiB   measured MiB   difference");
    for size in [16, 32, 48, 64, 80] {
        let (planned, measured) = (plan(size).peak(), measure(size));
        let difference = 100.0 * (planned as f64 / measured as f64 - 1.0);
        println!("{size:>6} {:>13.1} {:>14.1} {difference:>+10.2} %", mib(planned), mib(measured));
    }

    let began = Instant::now();
    let large = plan(512).peak();
    println!("\ncubes of 512 would need {:.1} GiB; said in {:.0?}", mib(large) / 1024.0, began.elapsed());
}
