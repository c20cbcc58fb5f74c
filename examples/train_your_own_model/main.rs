//! A model of one's own, from its plan to a run that stops and goes on: a small U-Net of Burn's layers learns to label spheres.
use burn::nn::{GroupNorm, GroupNormConfig, PaddingConfig3d, conv::*};
use burn::{prelude::*, tensor::activation::silu};
use leanburn::prelude::*;

#[global_allocator]
static HEAP: CountingAllocator = CountingAllocator;

/// Voxels along each axis of a volume.
const SIDE: usize = 32;

#[derive(Module, Debug)]
struct Layer {
    conv: Conv3d,
    norm: GroupNorm,
}

impl Layer {
    fn new(channels: [usize; 2], stride: usize, device: &Device) -> Self {
        let conv = Conv3dConfig::new(channels, [3; 3])
            .with_stride([stride; 3])
            .with_padding(PaddingConfig3d::Explicit(1, 1, 1));
        Self { conv: conv.init(device), norm: GroupNormConfig::new(4, channels[1]).init(device) }
    }

    fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        silu(self.norm.forward(self.conv.forward(x)))
    }
}

#[derive(Module, Debug)]
struct UNet {
    fine: Layer,
    coarse: Layer,
    up: ConvTranspose3d,
    merge: Layer,
    output: Conv3d,
}

impl UNet {
    fn new(device: &Device) -> Self {
        Self {
            fine: Layer::new([1, 8], 1, device),
            coarse: Layer::new([8, 16], 2, device),
            up: ConvTranspose3dConfig::new([16, 8], [2; 3]).with_stride([2; 3]).init(device),
            merge: Layer::new([16, 8], 1, device),
            output: Conv3dConfig::new([8, 3], [1; 3]).init(device),
        }
    }

    /// Segments by name: the policy says which of them are recomputed in backward.
    fn forward(&self, scans: Tensor<5>, policy: &ResidencyPolicy) -> Tensor<5> {
        let fine = policy.run("fine", &self.fine, scans, Layer::forward);
        let coarse = policy.run("coarse", &self.coarse, fine.clone(), Layer::forward);
        let both = Tensor::cat(vec![fine, self.up.forward(coarse)], 1);
        self.output.forward(policy.run("merge", &self.merge, both, Layer::forward))
    }
}

struct Training(Learner<UNet>, ResidencyPolicy);

impl Workload for Training {
    type Batch = (Tensor<5>, Tensor<4, Int>);

    fn learners(&mut self) -> Vec<&mut dyn AnyLearner> {
        vec![&mut self.0]
    }

    fn loss(&mut self, _: usize, (scans, labels): &Self::Batch, _: StepPosition) -> Option<Losses> {
        let logits = self.0.module().forward(scans.clone(), &self.1);
        let loss = DiceCeLoss::new().forward(logits, labels.clone());
        Some(Losses::of(loss.clone(), vec![("dice + cross-entropy", loss)]))
    }
}

fn trainer(setup: &StepSetup, device: &Device) -> Result<Trainer<Training>, TrainError> {
    let unet = Learner::new("unet", UNet::new(device), LearnerConfig::new(ScheduleConfig::new(1e-2)))?;
    let config = TrainerConfig::default().with_accumulation_steps(setup.accumulation_steps);
    Ok(Trainer::new(Training(unet, setup.residency.clone()), config, device))
}

/// Micro-batch `index` of a run: a bright sphere with a brighter core in noise, and the class of each voxel.
fn batch(setup: &StepSetup, index: u64, device: &Device) -> (Tensor<5>, Tensor<4, Int>) {
    let (mut scans, mut labels) = (Vec::new(), Vec::new());
    for place in 0..setup.micro_batch * SIDE.pow(3) {
        let volume = index as usize * setup.micro_batch + place / SIDE.pow(3);
        let from_centre = |axis: u32| (place / SIDE.pow(axis) % SIDE) as f32 - 12.0 - (volume % 8) as f32;
        let radius = (0..3).map(|axis| from_centre(axis).powi(2)).sum::<f32>().sqrt();
        labels.push(i32::from(radius < 10.0) + i32::from(radius < 5.0));
        scans.push(labels[place] as f32 + ((place * 7919 + volume * 104_729) % 997) as f32 / 997.0);
    }
    let dims = [setup.micro_batch, SIDE, SIDE, SIDE];
    let scans: Tensor<5> = Tensor::<4>::from_data(TensorData::new(scans, dims), device).unsqueeze_dim(1);
    (scans, Tensor::from_data(TensorData::new(labels, dims), device))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let whole = StepSetup::new(4, 1);
    let plan = Planner::cpu().plan(|device| trainer(&whole, device), |device| batch(&whole, 0, device))?;
    println!("planned: {plan}");
    let within = Planner::cpu().within(plan.needed.share(0.5));
    let setup = within.fit(4, trainer, |setup, device| batch(setup, 0, device))?.setup;
    println!("in half of that: {setup}");
    let (device, store) = (Device::flex().autodiff(), CheckpointStore::new("runs/train_your_own_model", 2));
    seed(&device, 7);
    let mut run = trainer(&setup, &device)?;
    if let Some((_, checkpoint)) = store.latest() {
        run.resume(&checkpoint)?; // of a run that was stopped
    }
    let mut batches = (run.micro_batches()..).map(|index| Ok::<_, TrainError>(batch(&setup, index, &device)));
    while run.steps() < 40 {
        let report = run.step(&mut batches)?;
        if run.steps().is_multiple_of(10) {
            let peak = report.memory.expect("the heap is counted").peak;
            println!("step {:>3}  loss {:.4}  peak {peak}", run.steps(), report.losses["dice + cross-entropy"]);
            run.save(&store)?;
        }
    }
    Ok(())
}
