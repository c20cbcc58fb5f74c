//! The memory of a training step of a model of Burn's own layers: planned on a device that records instead of computing, for this
//! CPU and for a card, then measured on the heap.
//!
//! ```bash
//! cargo run --release --example plan_any_model
//! ```

use std::time::Instant;

use burn::nn::conv::{Conv3d, Conv3dConfig};
use burn::nn::{GroupNorm, GroupNormConfig, Linear, LinearConfig, PaddingConfig3d};
use burn::prelude::*;
use burn::tensor::activation::silu;
use leanburn::prelude::*;

#[global_allocator]
static HEAP: CountingAllocator = CountingAllocator;

/// Predicts one number, such as an age, from a scan. An ordinary Burn module: it knows nothing of leanburn.
#[derive(Module, Debug)]
struct Regressor {
    convolutions: Vec<Conv3d>,
    norms: Vec<GroupNorm>,
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
            output: LinearConfig::new(32, 1).init(device),
        }
    }

    fn forward(&self, scans: Tensor<5>) -> Tensor<2> {
        let layers = self.convolutions.iter().zip(&self.norms);
        let features = layers.fold(scans, |x, (convolution, norm)| silu(norm.forward(convolution.forward(x))));
        self.output.forward(features.flatten::<3>(2, 4).mean_dim(2).squeeze_dim::<2>(2))
    }
}

/// Its training.
struct Ages(Learner<Regressor>);

impl Workload for Ages {
    /// Scans, and how old their people are.
    type Batch = (Tensor<5>, Tensor<2>);

    fn learners(&mut self) -> Vec<&mut dyn AnyLearner> {
        vec![&mut self.0]
    }

    fn loss(&mut self, _learner: usize, (scans, ages): &Self::Batch, _position: StepPosition) -> Option<Losses> {
        let difference = self.0.module().forward(scans.clone()) - ages.clone();
        Some(Losses::of(difference.square().mean(), Vec::new()))
    }
}

fn trainer(device: &Device) -> Result<Trainer<Ages>, TrainError> {
    let learner = Learner::new("regressor", Regressor::new(device), LearnerConfig::default())?;
    Ok(Trainer::new(Ages(learner), TrainerConfig::default(), device))
}

/// Two cubes.
fn batch(size: usize) -> impl Fn(&Device) -> (Tensor<5>, Tensor<2>) {
    move |device| (Tensor::ones([2, 1, size, size, size], device), Tensor::ones([2, 1], device))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (cpu, card) = (Planner::cpu(), Planner::card("rtx-4090")?);
    let plan = cpu.plan(trainer, batch(64))?;
    println!("two cubes of 64 on {}: {plan}", cpu.name());
    for (cause, bytes) in plan.timeline.causes_at(plan.timeline.peak_index()) {
        println!("  {:<20} {bytes:>10}", cause.to_string());
    }

    println!("\n  cube      planned     measured   difference");
    let device = Device::flex().autodiff();
    measure(&device, 1, trainer, batch(16))?; // makes what is made once: threads and their buffers
    for size in [16, 32, 48, 64] {
        let planned = cpu.plan(trainer, batch(size))?.peak();
        let measured = measure(&device, 1, trainer, batch(size))?.peak;
        let difference = 100.0 * (planned.as_mib() / measured.as_mib() - 1.0);
        println!("{size:>6} {planned:>12} {measured:>12} {difference:>+10.2} %");
    }

    let began = Instant::now();
    println!("\ntwo cubes of 256 on {}: {}", card.name(), card.plan(trainer, batch(256))?);
    println!("said in {:.0?}", began.elapsed());
    Ok(())
}
