//! Plans for thirty budgets, each run for real: none is exceeded.

use burn::tensor::{Device, Tensor};
use leanburn_nn::losses::AdversarialCriterion;
use leanburn_nn::models::{AutoencoderKlConfig, PatchDiscriminator};
use leanburn_ops::{Residency, ResidencyPolicy};
use leanburn_plan::{Candidate, Class, FlexMemory, Machine, Rates, Recording, Space, Target, Variant, frontier};
use leanburn_train::{
    AutoencoderObjective, AutoencoderWorkload, CountingAllocator, Learner, LearnerConfig, LossScale, OptimizerConfig,
    Precision, ReconstructionLoss, RecordStepError, ScheduleConfig, ScheduleKind, TrainError, Trainer, TrainerConfig,
    record_step,
};

#[global_allocator]
static HEAP: CountingAllocator = CountingAllocator;

const BUDGETS: u64 = 30;
const EXTENT: [usize; 3] = [32, 32, 24];
const EFFECTIVE_BATCH: usize = 2;

/// An autoencoder, in f32 and in bf16.
struct Autoencoder;

impl Autoencoder {
    fn trainer(
        candidate: &Candidate,
        micro_batches: u64,
        device: &Device,
    ) -> Result<Trainer<AutoencoderWorkload<PatchDiscriminator>>, TrainError> {
        let recompute = |policy: ResidencyPolicy, name: &String| policy.with_rule(name, Residency::Recompute);
        let policy = candidate.recompute.iter().fold(ResidencyPolicy::keep(), recompute);
        leanburn_ops::random::seed(device, 1);
        let config = AutoencoderKlConfig::new(vec![8, 16], vec![1, 1], vec![false, true]).with_norm_num_groups(4);
        let learner = LearnerConfig {
            optimizer: OptimizerConfig::default(),
            schedule: ScheduleConfig {
                learning_rate: 1e-4,
                kind: ScheduleKind::Constant,
                warmup_steps: 0,
                max_steps: 9,
            },
            loss_scale: LossScale::NONE,
            max_grad_norm: None,
            average_decay: None,
        };
        let autoencoder = Learner::new("autoencoder", config.init(device).with_residency(policy), learner)?;
        let objective = AutoencoderObjective {
            reconstruction: ReconstructionLoss::L1,
            kl_weight: 1e-6,
            adversarial: AdversarialCriterion::LeastSquares,
            adversarial_weight: 0.0,
            adversarial_start_step: 0,
        };
        let precision = [Precision::F32, Precision::Bf16][candidate.variant];
        let workload = AutoencoderWorkload::new(autoencoder, None, objective, precision);
        Ok(Trainer::new(
            workload,
            TrainerConfig { seed: 7, accumulation_steps: micro_batches, max_bad_steps: 9, memory_limit: None },
            device,
        ))
    }

    fn batch(candidate: &Candidate, device: &Device) -> Tensor<5> {
        let [depth, height, width] = EXTENT;
        Tensor::zeros([candidate.micro_batch, 1, depth, height, width], device)
    }

    /// The most that a real step holds.
    fn measured(candidate: &Candidate) -> u64 {
        let device = Device::flex().autodiff();
        let before = HEAP.current_usage() as u64;
        let mut trainer = Self::trainer(candidate, candidate.accumulation, &device).unwrap();
        let mut batches = std::iter::from_fn(|| Some(Ok::<_, TrainError>(Self::batch(candidate, &device))));
        trainer.step(&mut batches).unwrap();
        let report = trainer.step(&mut batches).unwrap();
        report.memory.expect("the heap is counted").peak - before
    }
}

impl Space for Autoencoder {
    type Error = RecordStepError<TrainError>;

    fn variants(&self) -> Vec<Variant> {
        let variant = |change: &str, class| Variant { change: change.into(), class, cost: String::new() };
        vec![variant("", Class::Lossless), variant("bf16", Class::Numerics)]
    }

    fn splits(&self) -> Vec<(usize, u64)> {
        vec![(EFFECTIVE_BATCH, 1), (1, EFFECTIVE_BATCH as u64)]
    }

    fn record(&self, candidate: &Candidate) -> Result<Recording, Self::Error> {
        let build = |device: &Device| Self::trainer(candidate, candidate.recorded(), device);
        record_step(Target::Cpu, build, |device| Self::batch(candidate, device))
    }
}

#[test]
fn a_plan_that_is_run_stays_within_its_budget() {
    let rates = Rates { flops: 2e11, half_flops: 1.5e11, bandwidth: 1e10, overhead: 5e-6 };
    let machine = Machine { memory: &FlexMemory, rates, beside: 0 };
    let plans = frontier(&Autoencoder, &machine, Class::Numerics).unwrap();
    let (low, high) = (plans.smallest().unwrap().peak, plans.plans.last().unwrap().peak);
    assert!(plans.within(low - 1).is_none());
    Autoencoder::measured(&plans.plans[0].candidate); // what is allocated once for all
    let measured: Vec<u64> = plans.plans.iter().map(|plan| Autoencoder::measured(&plan.candidate)).collect();
    let mut before = f64::INFINITY;
    for budget in (0..BUDGETS).map(|rung| low + (high - low) * rung / (BUDGETS - 2)) {
        let plan = plans.within(budget).unwrap();
        let index = plans.plans.iter().position(|other| other == plan).unwrap();
        println!("budget {budget}: planned {} measured {} {:.3} s", plan.peak, measured[index], plan.seconds);
        assert!(measured[index] <= budget, "{} bytes in a budget of {budget}: {plan:?}", measured[index]);
        assert!(plan.seconds <= before, "a larger budget is slower: {plan:?}");
        before = plan.seconds;
    }
}
