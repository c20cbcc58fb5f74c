//! A diffusion model: the planner's peak and the measured one, over configurations drawn at random.

use burn::tensor::{Device, Tensor};
use leanburn_nn::diffusion::DiffusionProcessConfig;
use leanburn_nn::losses::l2_loss;
use leanburn_nn::models::{DiffusionConditions, DiffusionUNet3d, DiffusionUNet3dConfig};
use leanburn_ops::numerics::cast_to;
use leanburn_ops::{Residency, ResidencyPolicy, random};
use leanburn_plan::bound;
use leanburn_train::{
    AnyLearner, Learner, LearnerConfig, Losses, Precision, StepPosition, TrainError, Trainer, TrainerConfig, Workload,
};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::common::{alone, on_new_threads};
use crate::number;
use crate::peak::{numbers, planned_and_measured};

/// Tokens of a context.
const TOKENS: usize = 5;

/// A training to be planned and run.
#[derive(Clone, Debug)]
struct Case {
    model: DiffusionUNet3dConfig,
    size: [usize; 3],
    batch_size: usize,
    precision: Precision,
    recomputed: Vec<String>,
}

impl Case {
    fn draw(random: &mut StdRng) -> Self {
        let levels = random.random_range(1..=3);
        let factor = 1 << (levels - 1);
        let channels: Vec<usize> = (0..levels).map(|_| 8 * random.random_range(1..=3)).collect();
        let blocks = (0..levels).map(|_| random.random_range(1..=2)).collect();
        let attention = (0..levels).map(|level| level + 1 == levels && random.random_bool(0.5)).collect();
        let model = DiffusionUNet3dConfig::new(2, 2, channels, blocks, attention)
            .with_norm_num_groups([4, 8][random.random_range(0..2)])
            .with_num_head_channels(vec![4])
            .with_resblock_updown(random.random_bool(0.5))
            .with_cross_attention_dim(random.random_bool(0.4).then_some(6))
            .with_dropout([0.0, 0.1][random.random_range(0..2)]);
        let share = [0.0, 0.5, 1.0][random.random_range(0..3)];
        let segments = model.init(&Device::flex()).segments();
        Self {
            size: std::array::from_fn(|_| factor * random.random_range((16 / factor)..=(24 / factor))),
            batch_size: random.random_range(1..=2),
            precision: [Precision::F32, Precision::Bf16][random.random_range(0..2)],
            recomputed: segments.into_iter().filter(|_| random.random_bool(share)).collect(),
            model,
        }
    }

    fn trainer(&self, device: &Device) -> Result<Trainer<DiffusionWorkload>, TrainError> {
        let recompute = |policy: ResidencyPolicy, name: &String| policy.with_rule(name, Residency::Recompute);
        let policy = self.recomputed.iter().fold(ResidencyPolicy::keep(), recompute);
        random::seed(device, 1);
        let model = self.model.init(device).with_residency(policy);
        let learner = Learner::new("diffusion", model, LearnerConfig::default())?;
        Ok(Trainer::new(DiffusionWorkload(learner, self.precision), TrainerConfig::default().with_seed(7), device))
    }
}

/// The training of a model that predicts noise.
struct DiffusionWorkload(Learner<DiffusionUNet3d>, Precision);

impl Workload for DiffusionWorkload {
    type Batch = Tensor<5>;

    fn learners(&mut self) -> Vec<&mut dyn AnyLearner> {
        vec![&mut self.0]
    }

    fn loss(&mut self, _learner: usize, batch: &Tensor<5>, _position: StepPosition) -> Option<Losses> {
        let (model, device, batch_size) = (self.0.module(), batch.device(), batch.dims()[0]);
        let process = DiffusionProcessConfig::new().init();
        let noise = random::normal(batch.dims(), &device);
        let times = (random::uniform([batch_size], &device) * process.num_train_timesteps() as f64).floor();
        let noisy = process.add_noise(batch.clone(), noise.clone(), times.clone());
        let features = model.config().cross_attention_dim;
        let context = features.map(|features| Tensor::ones([batch_size, TOKENS, features], &device));
        let conditions = DiffusionConditions { context, ..DiffusionConditions::default() };
        let prediction = model.forward(self.1.cast(noisy), times, conditions);
        let total = l2_loss(cast_to(prediction, noise.dtype()), noise);
        Some(Losses { total, parts: Vec::new() })
    }
}

#[test]
fn the_planned_peak_of_a_diffusion_model_is_the_measured_one() {
    let _alone = alone();
    let mut random = StdRng::seed_from_u64(number("LEANBURN_PLAN_SEED", 1));
    let (mut exceeded, mut worst) = (Vec::new(), 0f64);
    let run = |case: &Case| {
        let [depth, height, width] = case.size;
        let batch = |device: &Device| numbers([case.batch_size, 2, depth, height, width], device);
        let small_batch = |device: &Device| numbers([1, 2, 8, 8, 8], device);
        on_new_threads(1, || planned_and_measured(|device| case.trainer(device), batch, small_batch))
    };
    run(&Case::draw(&mut random)); // what is allocated once for all
    for _ in 0..number("LEANBURN_PLAN_DIFFUSION_CASES", 7) {
        let case = Case::draw(&mut random);
        let (planned, measured) = run(&case);
        let error = planned.as_mib() / measured.as_mib() - 1.0;
        println!(
            "{:8.2} planned {:8.2} measured {:6.2} % {case:?}",
            planned.as_mib(),
            measured.as_mib(),
            100.0 * error
        );
        exceeded.extend((bound(planned) < measured).then(|| format!("{case:?}")));
        worst = worst.max(error.abs());
    }
    assert!(exceeded.is_empty(), "plans that are exceeded: {exceeded:#?}");
    assert!(worst <= 0.03, "{worst}");
}
