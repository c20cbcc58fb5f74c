//! The planner's peak and the measured one, over configurations drawn at random.
//!
//! `LEANBURN_PLAN_CASES=63` takes as many as the README speaks of, `LEANBURN_PLAN_SEED=2` others.

mod common;

use std::env;

use burn::module::Module;
use burn::nn::conv::{Conv3d, Conv3dConfig};
use burn::nn::{GroupNorm, GroupNormConfig, Linear, LinearConfig, PaddingConfig3d};
use burn::tensor::{Device, Tensor, activation::silu};
use common::{alone, on_new_threads};
use leanburn_nn::losses::AdversarialCriterion;
use leanburn_nn::models::{AutoencoderKlConfig, PatchDiscriminatorConfig};
use leanburn_ops::{Residency, ResidencyPolicy};
use leanburn_plan::bound;
use leanburn_train::{
    AnyLearner, AutoencoderObjective, AutoencoderWorkload, Learner, LearnerConfig, LossScale, Losses, OptimizerConfig,
    OptimizerKind, Precision, ReconstructionLoss, StepPosition, TrainError, Trainer, TrainerConfig, Workload,
};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

#[path = "planned_peak/diffusion.rs"]
mod diffusion;
#[path = "planned_peak/operator.rs"]
mod operator;
#[path = "common/peak.rs"]
mod peak;

use peak::{numbers, planned_and_measured};

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
        let groups = [4, 8][random.random_range(0..2)];
        let channels: Vec<usize> = (0..levels).map(|_| groups * random.random_range(1..=4)).collect();
        let factor = 1 << (levels - 1);
        let size = std::array::from_fn(|_| factor * random.random_range((24 / factor)..=(44 / factor)));
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
        if case.nonlocal || case.attention.contains(&true) {
            // Attention's time grows with the square of the volume, its memory does not.
            case.size = case.size.map(|length| length.min(32));
        }
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
        let scale = if self.precision == Precision::F16 { LossScale::Static(16.0) } else { LossScale::NONE };
        let config = learner_config(self.optimizer)
            .with_loss_scale(scale)
            .with_max_grad_norm(self.clip.then_some(1e-3))
            .with_average_decay(self.average.then_some(0.9));
        let model = self.model().init(device).with_residency(policy);
        let autoencoder = Learner::new("autoencoder", model, config.clone())?;
        let discriminator = match self.discriminator {
            true => {
                let model = PatchDiscriminatorConfig::new(1, 8).with_num_layers_d(2).init(device);
                Some(Learner::new("discriminator", model, config.with_average_decay(None))?)
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
        let config = TrainerConfig::default().with_seed(7).with_accumulation_steps(self.accumulation);
        Ok(Trainer::new(workload, config, device))
    }

    fn batch(&self, device: &Device) -> Tensor<5> {
        let [depth, height, width] = self.size;
        numbers([self.batch_size, 1, depth, height, width], device)
    }

    /// The smallest volume that the models take.
    fn small_batch(&self, device: &Device) -> Tensor<5> {
        let size = if self.discriminator { 16 } else { 8 };
        numbers([1, 1, size, size, size], device)
    }
}

/// A model of Burn's own layers.
#[derive(Module, Debug)]
struct Plain {
    convolutions: Vec<Conv3d>,
    norms: Vec<GroupNorm>,
    head: Linear,
}

impl Plain {
    const CHANNELS: usize = 8;

    fn new(device: &Device) -> Self {
        let convolution = |channels| {
            let config = Conv3dConfig::new([channels, Self::CHANNELS], [3; 3]);
            config.with_padding(PaddingConfig3d::Same).init(device)
        };
        Self {
            convolutions: [1, Self::CHANNELS, Self::CHANNELS].map(convolution).into(),
            norms: (0..3).map(|_| GroupNormConfig::new(2, Self::CHANNELS).init(device)).collect(),
            head: LinearConfig::new(Self::CHANNELS, 4).init(device),
        }
    }

    fn forward(&self, x: Tensor<5>) -> Tensor<1> {
        let layers = self.convolutions.iter().zip(&self.norms);
        let y = layers.fold(x, |x, (convolution, norm)| silu(norm.forward(convolution.forward(x))));
        let [batch_size, channels, ..] = y.dims();
        let pooled: Tensor<3> = y.reshape([batch_size as i64, channels as i64, -1]);
        self.head.forward(pooled.mean_dim(2).reshape([batch_size, channels])).powi_scalar(2).mean()
    }
}

/// Its training.
struct PlainWorkload(Learner<Plain>);

impl Workload for PlainWorkload {
    type Batch = Tensor<5>;

    fn learners(&mut self) -> Vec<&mut dyn AnyLearner> {
        vec![&mut self.0]
    }

    fn loss(&mut self, _learner: usize, batch: &Tensor<5>, _position: StepPosition) -> Option<Losses> {
        Some(Losses { total: self.0.module().forward(batch.clone()), parts: Vec::new() })
    }
}

fn plain_trainer(device: &Device) -> Result<Trainer<PlainWorkload>, TrainError> {
    let learner = Learner::new("plain", Plain::new(device), learner_config(OptimizerKind::Adam))?;
    let config = TrainerConfig::default().with_seed(7).with_accumulation_steps(2);
    Ok(Trainer::new(PlainWorkload(learner), config, device))
}

fn learner_config(kind: OptimizerKind) -> LearnerConfig {
    LearnerConfig::default().with_optimizer(OptimizerConfig::new(kind))
}

/// Configurations of a seed and how far their plans are from what is measured.
struct Compared {
    /// Plans that the measured peak exceeds, with their margin.
    exceeded: Vec<String>,
    /// Planned over measured, less one, in rising order.
    errors: Vec<f64>,
}

impl Compared {
    fn worst(&self) -> f64 {
        self.errors.iter().fold(0.0, |worst: f64, error| worst.max(error.abs()))
    }

    fn median(&self) -> f64 {
        let mut errors: Vec<f64> = self.errors.iter().map(|error| error.abs()).collect();
        errors.sort_by(f64::total_cmp);
        errors[errors.len() / 2]
    }
}

/// Plans and runs a model of Burn's own layers and `count` drawn ones on so many threads.
fn compare(threads: usize, count: u64) -> Compared {
    let _alone = alone(); // the heap is counted for the whole process
    let mut random = StdRng::seed_from_u64(number("LEANBURN_PLAN_SEED", 1));
    let sized =
        |[depth, height, width]: [usize; 3]| move |device: &Device| numbers([1, 1, depth, height, width], device);
    let plain = || on_new_threads(threads, || planned_and_measured(plain_trainer, sized([28, 30, 32]), sized([8; 3])));
    plain(); // what is allocated once for all
    let plain = [("plain Burn layers".to_string(), plain())];
    let drawn = (0..count).map(|_| {
        let case = Case::draw(&mut random);
        let (batch, small_batch) = (|device: &Device| case.batch(device), |device: &Device| case.small_batch(device));
        let compare = || planned_and_measured(|device| case.trainer(device), batch, small_batch);
        (format!("{case:?}"), on_new_threads(threads, compare))
    });
    let mut compared = Compared { exceeded: Vec::new(), errors: Vec::new() };
    for (case, (planned, measured)) in plain.into_iter().chain(drawn) {
        let error = planned.as_mib() / measured.as_mib() - 1.0;
        println!("{:8.2} planned {:8.2} measured {:6.2} % {case}", planned.as_mib(), measured.as_mib(), 100.0 * error);
        compared.exceeded.extend((bound(planned) < measured).then_some(case));
        compared.errors.push(error);
    }
    let (median, worst) = (100.0 * compared.median(), 100.0 * compared.worst());
    println!("{threads} threads, {} configurations: median {median:.2} %, worst {worst:.2} %", compared.errors.len());
    compared
}

fn number(name: &str, default: u64) -> u64 {
    env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn the_planned_peak_is_the_measured_one_on_one_thread() {
    let compared = compare(1, number("LEANBURN_PLAN_CASES", 31));
    assert!(compared.exceeded.is_empty(), "plans that are exceeded: {:#?}", compared.exceeded);
    assert!(compared.median() <= 0.01 && compared.worst() <= 0.03, "{:?}", compared.errors);
}

/// A second thread that comes late takes no scratch: then the plan is an upper bound.
#[test]
fn the_planned_peak_bounds_the_measured_one_on_two_threads() {
    let compared = compare(2, number("LEANBURN_PLAN_CASES", 15));
    assert!(compared.exceeded.is_empty(), "plans that are exceeded: {:#?}", compared.exceeded);
    assert!(compared.median() <= 0.01 && compared.worst() <= 0.06, "{:?}", compared.errors);
}
