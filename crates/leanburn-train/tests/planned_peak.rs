//! The planner's peak beside the measured one, over configurations drawn at random.

use std::env;

use burn::tensor::{Device, Tensor};
use leanburn_nn::losses::AdversarialCriterion;
use leanburn_nn::models::{AutoencoderKlConfig, PatchDiscriminatorConfig};
use leanburn_ops::{Residency, ResidencyPolicy};
use leanburn_plan::{FlexMemory, Target};
use leanburn_train::{
    AutoencoderObjective, AutoencoderWorkload, CountingAllocator, Learner, LearnerConfig, LossScale, OptimizerConfig,
    OptimizerKind, Precision, ReconstructionLoss, ScheduleConfig, ScheduleKind, TrainError, Trainer, TrainerConfig,
    record_step,
};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

#[global_allocator]
static HEAP: CountingAllocator = CountingAllocator;

/// A training to be planned and run.
#[derive(Clone, Debug)]
struct Case {
    channels: Vec<usize>,
    blocks: Vec<usize>,
    attention: Vec<bool>,
    nonlocal: bool,
    groups: usize,
    size: [usize; 3],
    batch_size: usize,
    accumulation: u64,
    precision: Precision,
    optimizer: OptimizerKind,
    recomputed: Vec<String>,
    discriminator: bool,
    average: bool,
    transposed: bool,
    clip: bool,
}

impl Case {
    fn draw(random: &mut StdRng) -> Self {
        let levels = random.random_range(1..=3);
        let groups = [2, 4, 8][random.random_range(0..3)];
        let channels: Vec<usize> = (0..levels).map(|_| groups * random.random_range(1..=4)).collect();
        let factor = 1 << (levels - 1);
        let size = std::array::from_fn(|_| factor * random.random_range((16 / factor)..=(40 / factor)));
        let blocks: Vec<usize> = (0..levels).map(|_| random.random_range(1..=2)).collect();
        let attention: Vec<bool> =
            (0..levels).map(|level| level + 1 == levels && level > 0 && random.random_bool(0.4)).collect();
        let mut case = Self {
            channels,
            blocks,
            attention,
            nonlocal: levels > 1 && random.random_bool(0.3),
            groups,
            size,
            batch_size: random.random_range(1..=2),
            accumulation: random.random_range(1..=3),
            precision: [Precision::F32, Precision::F32, Precision::Bf16, Precision::F16][random.random_range(0..4)],
            optimizer: [OptimizerKind::Adam, OptimizerKind::AdamW][random.random_range(0..2)],
            recomputed: Vec::new(),
            discriminator: random.random_bool(0.3) && size.iter().all(|size| *size >= 24),
            average: random.random_bool(0.3),
            transposed: random.random_bool(0.2),
            clip: random.random_bool(0.3),
        };
        let share = [0.0, 0.5, 1.0][random.random_range(0..3)];
        let segments = case.model().init(&Device::flex()).segments();
        case.recomputed = segments.into_iter().filter(|_| random.random_bool(share)).collect();
        case
    }

    fn model(&self) -> AutoencoderKlConfig {
        AutoencoderKlConfig::new(self.channels.clone(), self.blocks.clone(), self.attention.clone())
            .with_norm_num_groups(self.groups)
            .with_encoder_nonlocal_attn(self.nonlocal)
            .with_decoder_nonlocal_attn(self.nonlocal)
            .with_use_convtranspose(self.transposed)
    }

    fn trainer(
        &self,
        device: &Device,
    ) -> Result<Trainer<AutoencoderWorkload<leanburn_nn::models::PatchDiscriminator>>, TrainError> {
        let recompute = |policy: ResidencyPolicy, name: &String| policy.with_rule(name, Residency::Recompute);
        let policy = self.recomputed.iter().fold(ResidencyPolicy::keep(), recompute);
        leanburn_ops::random::seed(device, 1);
        let schedule =
            ScheduleConfig { learning_rate: 1e-4, kind: ScheduleKind::Constant, warmup_steps: 0, max_steps: 9 };
        let config = LearnerConfig {
            optimizer: OptimizerConfig { kind: self.optimizer, ..OptimizerConfig::default() },
            schedule,
            loss_scale: if self.precision == Precision::F16 { LossScale::Static(16.0) } else { LossScale::NONE },
            max_grad_norm: self.clip.then_some(1e-3),
            average_decay: self.average.then_some(0.9),
        };
        let model = self.model().init(device).with_residency(policy);
        let autoencoder = Learner::new("autoencoder", model, config.clone())?;
        let discriminator = match self.discriminator {
            true => {
                let model = PatchDiscriminatorConfig::new(1, 8).with_num_layers_d(2).init(device);
                Some(Learner::new("discriminator", model, LearnerConfig { average_decay: None, ..config })?)
            }
            false => None,
        };
        let objective = AutoencoderObjective {
            reconstruction: ReconstructionLoss::L1,
            kl_weight: 1e-6,
            adversarial: AdversarialCriterion::LeastSquares,
            adversarial_weight: 0.1,
            adversarial_start_step: 0,
        };
        let workload = AutoencoderWorkload::new(autoencoder, discriminator, objective, self.precision);
        let config = TrainerConfig { seed: 7, accumulation_steps: self.accumulation, max_bad_steps: 100 };
        Ok(Trainer::new(workload, config, device))
    }

    fn batch(&self, device: &Device) -> Tensor<5> {
        let [depth, height, width] = self.size;
        Tensor::zeros([self.batch_size, 1, depth, height, width], device)
    }

    fn predicted(&self) -> u64 {
        let recording = record_step(Target::Cpu, |device| self.trainer(device), |device| self.batch(device)).unwrap();
        let timeline = recording.timeline(&FlexMemory);
        if env::var("LEANBURN_PLAN_PRINT").is_ok() {
            let peak = timeline.peak_index();
            println!("{:?}", timeline.moments[peak]);
            for (cause, bytes) in timeline.causes_at(peak) {
                println!("  {cause} {:.3}", bytes as f64 / 1048576.0);
            }
        }
        timeline.peak()
    }

    fn measured(&self) -> u64 {
        let device = Device::flex().autodiff();
        let before = HEAP.current_usage() as u64;
        let mut trainer = self.trainer(&device).unwrap();
        let mut batches = std::iter::from_fn(|| Some(Ok::<_, TrainError>(self.batch(&device))));
        trainer.step(&mut batches).unwrap();
        HEAP.reset_peak_usage();
        trainer.step(&mut batches).unwrap();
        HEAP.peak_usage() as u64 - before
    }
}

#[test]
fn the_predicted_peak_is_the_measured_one() {
    let number = |name: &str, default: u64| env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default);
    let (seed, count) = (number("LEANBURN_PLAN_SEED", 1), number("LEANBURN_PLAN_CASES", 10));
    let mut random = StdRng::seed_from_u64(seed);
    Case::draw(&mut random).measured(); // what is allocated once for all
    let mut errors: Vec<f64> = (0..count)
        .map(|index| {
            let case = Case::draw(&mut random);
            let began = std::time::Instant::now();
            let predicted = case.predicted();
            let took = began.elapsed();
            let measured = case.measured();
            let error = predicted as f64 / measured as f64 - 1.0;
            let mib = |bytes: u64| bytes as f64 / (1 << 20) as f64;
            println!(
                "{index:3} {:8.2} {:8.2} MiB {:6.2} % {took:?} {case:?}",
                mib(predicted),
                mib(measured),
                100.0 * error
            );
            error.abs()
        })
        .collect();
    errors.sort_by(f64::total_cmp);
    println!("median {:.2} %, worst {:.2} %", 100.0 * errors[errors.len() / 2], 100.0 * errors[errors.len() - 1]);
}
