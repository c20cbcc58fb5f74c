//! Six residual blocks of plain Burn layers and a batch of four: which of them to recompute, and how to split the batch,
//! so that a step fits into a budget and is as fast as it can be. Prints the ways worth taking, picks one for each of three
//! budgets, and runs it.
//!
//! ```bash
//! cargo run --release --example fit_budget
//! ```

use std::time::Instant;

use burn::nn::conv::{Conv3d, Conv3dConfig};
use burn::nn::{GroupNorm, GroupNormConfig, PaddingConfig3d};
use burn::prelude::*;
use burn::tensor::activation::silu;
use leanburn::ops::recording::{Purpose, serves, step_begins};
use leanburn::prelude::*;

#[global_allocator]
static HEAP: CountingAllocator = CountingAllocator;

const CHANNELS: usize = 8;
const SIZE: usize = 32;
const BATCH: usize = 4;

/// `x + outer(silu(inner(silu(norm(x)))))`, wider inside than outside.
#[derive(Module, Debug)]
struct Residual {
    norm: GroupNorm,
    inner: Conv3d,
    outer: Conv3d,
}

impl Residual {
    fn new(width: usize, device: &Device) -> Self {
        let convolution =
            |channels| Conv3dConfig::new(channels, [3; 3]).with_padding(PaddingConfig3d::Same).init(device);
        Self {
            norm: GroupNormConfig::new(4, CHANNELS).init(device),
            inner: convolution([CHANNELS, width]),
            outer: convolution([width, CHANNELS]),
        }
    }

    fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        self.outer.forward(silu(self.inner.forward(silu(self.norm.forward(x.clone()))))) + x
    }
}

fn blocks(device: &Device) -> Vec<Residual> {
    [8, 16, 24, 24, 16, 8].map(|width| Residual::new(width, device)).into()
}

/// Forward and backward of so many micro-batches; gradients are added up.
fn train_step(blocks: &[Residual], candidate: &Candidate, micro_batches: u64, device: &Device) {
    let recompute = |policy: ResidencyPolicy, name: &String| policy.with_rule(name, Residency::Recompute);
    let policy = candidate.recompute.iter().fold(ResidencyPolicy::keep(), recompute);
    let mut sums: Vec<Option<Tensor<5>>> = Vec::new();
    for _ in 0..micro_batches {
        let mut x = Tensor::zeros([candidate.micro_batch, CHANNELS, SIZE, SIZE, SIZE], device);
        for (index, block) in blocks.iter().enumerate() {
            x = policy.run(&format!("block_{index}"), block, x, Residual::forward);
        }
        let mut gradients = backward(x.square().mean());
        let weights = blocks.iter().flat_map(|block| [block.inner.weight.val(), block.outer.weight.val()]);
        let new = weights.map(|weight| gradients.take(&weight)).collect::<Vec<_>>();
        sums = match sums.is_empty() {
            true => new,
            false => sums.into_iter().zip(new).map(|(sum, new)| Some(sum? + new?)).collect(),
        };
    }
}

/// What there is to choose from.
struct Blocks;

impl Space for Blocks {
    type Error = RecordError;

    fn variants(&self) -> Vec<Variant> {
        vec![Variant { change: String::new(), class: Class::Lossless, cost: String::new() }]
    }

    fn splits(&self) -> Vec<(usize, u64)> {
        vec![(BATCH, 1), (BATCH / 2, 2), (1, BATCH as u64)]
    }

    fn record(&self, candidate: &Candidate) -> Result<Recording, RecordError> {
        let step = |device: &Device| {
            let blocks = blocks(device);
            serves(Purpose::Weights, &blocks);
            step_begins(device);
            train_step(&blocks, candidate, candidate.recorded(), device);
        };
        record(Target::Cpu, step).map(|(recording, ())| recording)
    }
}

/// The most that a real step holds, in bytes, and its seconds.
fn measure(candidate: &Candidate) -> (u64, f64) {
    let device = Device::flex().autodiff();
    train_step(&blocks(&device), candidate, 1, &device); // makes what is made once: threads and their buffers
    let before = HEAP.current_usage();
    let blocks = blocks(&device);
    HEAP.reset_peak_usage();
    let began = Instant::now();
    train_step(&blocks, candidate, candidate.accumulation, &device);
    ((HEAP.peak_usage() - before) as u64, began.elapsed().as_secs_f64())
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

fn main() -> Result<(), RecordError> {
    // Two cores; `leanburn calibrate` measures a processor's rates.
    let rates = Rates { flops: 1.5e11, half_flops: 1.5e11, bandwidth: 1.5e10, overhead: 5e-6 };
    let machine = Machine { memory: &FlexMemory, rates, beside: 0 };
    let began = Instant::now();
    let plans = frontier(&Blocks, &machine, Class::Lossless)?;
    println!("the frontier, found in {:.1?}: no other way needs less and is as fast", began.elapsed());
    println!("\n at most MiB   relative time   batch   recomputed");
    let fastest = plans.plans.last().map_or(1.0, |plan| plan.seconds);
    for Plan { candidate, peak, seconds, .. } in &plans.plans {
        let Candidate { micro_batch, accumulation, recompute, .. } = candidate;
        let time = seconds / fastest;
        println!("{:>12.1} {time:>15.2}   {micro_batch} x {accumulation}   {}", mib(*peak), recompute.join(" "));
    }

    println!("\n      budget   planned at most   measured   seconds   plan");
    for budget in [20, 50, 200].map(|budget: u64| budget << 20) {
        print!("{:>8.0} MiB", mib(budget));
        let Some(Plan { candidate, peak, .. }) = plans.within(budget) else {
            println!(
                "   nothing fits; the smallest plan needs {:.1} MiB",
                plans.smallest().map_or(0.0, |plan| mib(plan.peak))
            );
            continue;
        };
        let (measured, seconds) = measure(candidate);
        let Candidate { micro_batch, accumulation, recompute, .. } = candidate;
        let (peak, measured, count) = (mib(*peak), mib(measured), recompute.len());
        println!(
            "{peak:>18.1} {measured:>10.1} {seconds:>9.2}   {micro_batch} x {accumulation}, {count} blocks recomputed"
        );
    }
    Ok(())
}
