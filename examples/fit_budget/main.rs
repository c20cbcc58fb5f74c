//! The fastest way to train a model of plain Burn layers in each of five budgets: found without running it, then measured.
use burn::nn::{GroupNorm, GroupNormConfig, PaddingConfig3d, conv::*};
use burn::{prelude::*, tensor::activation::silu};
use leanburn::prelude::*;

#[global_allocator]
static HEAP: CountingAllocator = CountingAllocator;

#[derive(Module, Debug)]
struct Block {
    norm: GroupNorm,
    conv: Conv3d,
}

impl Block {
    fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        self.conv.forward(silu(self.norm.forward(x.clone()))) + x
    }
}

/// What is trained, and which of its blocks run again in backward.
struct Training(Learner<Vec<Block>>, ResidencyPolicy);

impl Workload for Training {
    type Batch = Tensor<5>;

    fn learners(&mut self) -> Vec<&mut dyn AnyLearner> {
        vec![&mut self.0]
    }

    fn loss(&mut self, _learner: usize, scans: &Tensor<5>, _position: StepPosition) -> Option<Losses> {
        let blocks = self.0.module().iter().enumerate();
        let run = |x, (index, block): (_, &_)| self.1.run(&format!("block_{index}"), block, x, Block::forward);
        Some(Losses::of(blocks.fold(scans.clone(), run).square().mean(), Vec::new()))
    }
}

fn trainer(setup: &StepSetup, device: &Device) -> Result<Trainer<Training>, TrainError> {
    let conv = || Conv3dConfig::new([8, 8], [3; 3]).with_padding(PaddingConfig3d::Same).init(device);
    let block = |_| Block { norm: GroupNormConfig::new(4, 8).init(device), conv: conv() };
    let blocks = Learner::new("blocks", (0..6).map(block).collect(), LearnerConfig::default())?;
    let config = TrainerConfig::default().with_accumulation_steps(setup.accumulation_steps);
    Ok(Trainer::new(Training(blocks, setup.residency.clone()), config, device))
}

fn scans(setup: &StepSetup, device: &Device) -> Tensor<5> {
    Tensor::ones([setup.micro_batch, 8, 32, 32, 32], device)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (options, cpu) = (Planner::cpu().options(4, trainer, scans)?, Device::flex().autodiff());
    let run = |setup: &StepSetup| measure(&cpu, 3, |device| trainer(setup, device), |device| scans(setup, device));
    run(&StepSetup::new(1, 1))?; // makes what is made once: threads and their buffers
    for budget in [10, 20, 30, 50, 100].map(Bytes::mib) {
        let fitted = options.within(budget)?;
        println!("{budget:>9}  {fitted}; measured {}", run(&fitted.setup)?);
    }
    println!("{}", options.within(Bytes::mib(1)).unwrap_err());
    Ok(())
}
