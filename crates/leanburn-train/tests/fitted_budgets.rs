//! What is fitted into a budget is run for real, and stays within it: an autoencoder of ours, and a model that is not.

mod common;

use std::sync::{Mutex, MutexGuard, PoisonError};

use burn::module::Module;
use burn::nn::conv::{Conv3d, Conv3dConfig};
use burn::nn::{GroupNorm, GroupNormConfig, PaddingConfig3d};
use burn::tensor::{Device, Tensor, activation::silu};
use leanburn_common::Bytes;
use leanburn_nn::losses::AdversarialCriterion;
use leanburn_nn::models::{AutoencoderKlConfig, PatchDiscriminator};
use leanburn_ops::ResidencyPolicy;
use leanburn_plan::{Class, Rates};
use leanburn_train::planning::{FitError, Fitted, Options, Planner, StepSetup, measure};
use leanburn_train::{
    AnyLearner, AutoencoderObjective, AutoencoderWorkload, CountingAllocator, Learner, LearnerConfig, Losses,
    Precision, ReconstructionLoss, StepPosition, TrainError, Trainer, TrainerConfig, Workload,
};

#[global_allocator]
static HEAP: CountingAllocator = CountingAllocator;

/// A processor whose half precision pays.
const RATES: Rates = Rates { flops: 2e11, half_flops: 1.5e11, bandwidth: 1e10, overhead: 5e-6 };

/// The heap is one: tests that measure it and tests that use it take turns.
fn alone() -> MutexGuard<'static, ()> {
    static RUNNING: Mutex<()> = Mutex::new(());
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

type AutoencoderTrainer = Trainer<AutoencoderWorkload<PatchDiscriminator>>;

fn autoencoder(setup: &StepSetup, device: &Device) -> Result<AutoencoderTrainer, TrainError> {
    leanburn_ops::random::seed(device, 1);
    let config = AutoencoderKlConfig::new(vec![8], vec![1], vec![true]).with_norm_num_groups(4);
    let model = config.init(device).with_residency(setup.residency.clone());
    let objective = AutoencoderObjective {
        reconstruction: ReconstructionLoss::L1,
        kl_weight: 1e-6,
        adversarial: AdversarialCriterion::LeastSquares,
        adversarial_weight: 0.0,
        adversarial_start_step: 0,
    };
    let learner = Learner::new("autoencoder", model, LearnerConfig::default())?;
    let workload = AutoencoderWorkload::new(learner, None, objective, setup.precision);
    Ok(Trainer::new(workload, TrainerConfig::default().with_accumulation_steps(setup.accumulation_steps), device))
}

fn volumes(setup: &StepSetup, device: &Device) -> Tensor<5> {
    Tensor::zeros([setup.micro_batch, 1, 24, 16, 16], device)
}

/// A residual block of Burn's own layers, wider or narrower inside.
#[derive(Module, Debug)]
struct Block {
    norm: GroupNorm,
    inner: Conv3d,
    outer: Conv3d,
}

const CHANNELS: usize = 8;

impl Block {
    fn new(inside: usize, device: &Device) -> Self {
        let convolution =
            |channels| Conv3dConfig::new(channels, [3; 3]).with_padding(PaddingConfig3d::Same).init(device);
        Self {
            norm: GroupNormConfig::new(4, CHANNELS).init(device),
            inner: convolution([CHANNELS, inside]),
            outer: convolution([inside, CHANNELS]),
        }
    }

    fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        self.outer.forward(silu(self.inner.forward(silu(self.norm.forward(x.clone()))))) + x
    }
}

/// A model that is not ours.
struct Blocks {
    learner: Learner<Vec<Block>>,
    residency: ResidencyPolicy,
}

impl Workload for Blocks {
    type Batch = Tensor<5>;

    fn learners(&mut self) -> Vec<&mut dyn AnyLearner> {
        vec![&mut self.learner]
    }

    fn loss(&mut self, _learner: usize, batch: &Tensor<5>, _position: StepPosition) -> Option<Losses> {
        let mut x = batch.clone();
        for (index, block) in self.learner.module().iter().enumerate() {
            x = self.residency.run(&format!("block_{index}"), block, x, Block::forward);
        }
        Some(Losses::of(x.powi_scalar(2).mean(), Vec::new()))
    }
}

fn blocks(setup: &StepSetup, device: &Device) -> Result<Trainer<Blocks>, TrainError> {
    let blocks = [4, 16, 8, 12].map(|inside| Block::new(inside, device)).into();
    let learner = Learner::new("blocks", blocks, LearnerConfig::default())?;
    let workload = Blocks { learner, residency: setup.residency.clone() };
    Ok(Trainer::new(workload, TrainerConfig::default().with_accumulation_steps(setup.accumulation_steps), device))
}

fn features(setup: &StepSetup, device: &Device) -> Tensor<5> {
    Tensor::ones([setup.micro_batch, CHANNELS, 16, 16, 16], device)
}

/// Runs the fastest way in each of some budgets from the smallest peak to the largest.
fn stays_within<W: Workload>(
    options: &Options,
    budgets: u64,
    build: impl Fn(&StepSetup, &Device) -> Result<Trainer<W>, TrainError> + Sync,
    batch: impl Fn(&StepSetup, &Device) -> W::Batch + Sync,
) {
    let device = Device::flex().autodiff();
    // A plan counts what each thread keeps for products of matrices.
    let run = |setup: &StepSetup| {
        common::on_new_threads(rayon::current_num_threads(), || {
            measure(&device, 1, |device| build(setup, device), |device| batch(setup, device)).unwrap().peak
        })
    };
    run(&options.all[0].setup); // what is allocated once for all
    let measured: Vec<Bytes> = options.all.iter().map(|fitted| run(&fitted.setup)).collect();
    let (low, high) = (options.all[0].peak.get(), options.all[options.all.len() - 1].peak.get());
    let mut before = f64::INFINITY;
    for budget in (0..budgets).map(|index| Bytes(low + (high - low) * index / (budgets - 2))) {
        let fitted = options.within(budget).unwrap();
        let measured = measured[options.all.iter().position(|other| other == fitted).unwrap()];
        println!("budget {budget}: measured {measured}, {fitted}");
        assert!(measured <= budget, "{measured} in a budget of {budget}: {fitted}");
        assert!(measured > fitted.peak.share(0.8), "the plan is that of what was run: {measured}, {fitted}");
        assert!(fitted.seconds <= before, "a larger budget is slower: {fitted}");
        before = fitted.seconds;
    }
    let error = options.within(Bytes(low - 1)).unwrap_err();
    assert!(error.smallest == Bytes(low) && error.to_string().contains(&Bytes(low).to_string()), "{error}");
}

#[test]
fn an_autoencoder_stays_within_thirty_budgets() {
    let _alone = alone();
    let planner = Planner::cpu().with_rates(RATES).allow(Class::Numerics);
    let options = planner.options(2, autoencoder, volumes).unwrap();
    assert!(options.all.iter().any(|fitted| fitted.setup.precision == Precision::Bf16));
    stays_within(&options, 30, autoencoder, volumes);
}

#[test]
fn a_model_that_is_not_ours_stays_within_five_budgets() {
    let _alone = alone();
    let planner = Planner::cpu().with_rates(RATES);
    let options = planner.options(4, blocks, features).unwrap();
    let is_split = |fitted: &&Fitted| fitted.setup.accumulation_steps > 1;
    assert!(options.all.len() > 5 && options.all.iter().filter(is_split).count() > 0, "{options:?}");
    assert!(options.all.iter().any(|fitted| fitted.setup.recomputed().count() > 0), "{options:?}");
    stays_within(&options, 5, blocks, features);
}

#[test]
fn no_plan_of_a_card_has_a_tensor_larger_than_it_allocates() {
    let _alone = alone();
    let card = |most: Option<Bytes>| Planner::unlisted("a card", None, most.map(Bytes::get));
    let largest = |setup: &StepSetup| {
        let plan = card(None).plan(|device| blocks(setup, device), |device| features(setup, device)).unwrap();
        plan.timeline.blocks.iter().map(|block| block.bytes).max().unwrap()
    };
    let options = |most| card(most).options(4, blocks, features).unwrap().all;
    let largest_of = |all: &[Fitted]| all.iter().map(|fitted| largest(&fitted.setup)).max().unwrap();
    let (whole, item) = (options(None), largest(&StepSetup::new(1, 4)));
    assert!(largest_of(&whole) > item, "{whole:?}");
    let fitted = options(Some(item));
    assert!(!fitted.is_empty() && largest_of(&fitted) <= item, "{fitted:?}");
    assert!(!options(Some(Bytes(1))).is_empty(), "where every plan has one, there are plans nevertheless");
}

#[test]
fn other_bytes_are_part_of_the_budget() {
    let _alone = alone();
    let planner = Planner::cpu().with_rates(RATES);
    let alone = planner.clone().within(Bytes::gib(1)).fit(2, blocks, features).unwrap();
    let with_others = planner.with_other_bytes(Bytes::mib(100)).within(Bytes::gib(1)).fit(2, blocks, features).unwrap();
    assert_eq!((with_others.peak, &with_others.setup), (alone.peak + Bytes::mib(100), &alone.setup));
}

#[test]
fn what_cannot_be_fitted_says_why() {
    let _alone = alone();
    let planner = Planner::cpu().with_rates(RATES);
    assert!(matches!(planner.fit(2, blocks, features), Err(FitError::NoBudget)));
    let error = planner.clone().within(Bytes::kib(10)).fit(2, blocks, features).unwrap_err();
    assert!(error.is_over_budget() && error.to_string().contains("allow half precision"), "{error}");
    let deaf = |_: &StepSetup, device: &Device| blocks(&StepSetup::new(1, 1), device);
    let error = planner.options(2, deaf, features).unwrap_err();
    assert!(matches!(error, FitError::SetupIgnored { expected: 2, found: 1 }), "{error}");
}

#[test]
fn a_plan_is_what_the_step_of_the_fit_needs() {
    let _alone = alone();
    let planner = Planner::cpu().with_rates(RATES).within(Bytes::mib(64));
    let fitted = planner.fit(4, blocks, features).unwrap();
    let plan = planner.plan(|device| blocks(&fitted.setup, device), |device| features(&fitted.setup, device)).unwrap();
    assert_eq!((plan.needed, plan.fits()), (fitted.peak, Some(true)));
    assert!((plan.seconds / fitted.seconds - 1.0).abs() < 1e-9);
    let card = Planner::card("rtx-4090").unwrap();
    let there = card.plan(|device| blocks(&fitted.setup, device), |device| features(&fitted.setup, device)).unwrap();
    assert!(there.needed > card.other_bytes() + there.peak() && there.fits() == Some(true), "{there}");
}
