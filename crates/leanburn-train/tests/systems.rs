//! Voxel autoencoders, discrete ones, forecasters and operators train as the KL autoencoder does: a run that goes on is the run that never
//! stopped, recomputation changes nothing, and a plan is what a step holds.

mod common;

use std::env;

use burn::module::Module;
use burn::tensor::{Device, Tensor, TensorData};
use common::{alone, bits, on_new_threads, schedule};
use leanburn_common::Bytes;
use leanburn_nn::blocks::VectorQuantizerConfig;
use leanburn_nn::losses::{Difference, FeatureLoss3dConfig, LpipsConfig, VaeLoss, VoxelLoss};
use leanburn_nn::models::{
    Cnn3dLstmConfig, ConvLstmConfig, FnoBlock, FnoConfig, FnoUpsampling, Vae3dConfig, VqVae3dConfig,
};
use leanburn_ops::{Residency, ResidencyPolicy, Tensors};
use leanburn_plan::{FlexMemory, Target, bound};
use leanburn_train::{
    CheckpointStore, CountingAllocator, ForecastBatch, ForecastLoss, ForecastWorkload, Learner, LearnerConfig,
    MainModel, Perceptual, PerceptualKind, Precision, StepReport, TrainError, Trainer, TrainerConfig, VaeWorkload,
    VqVaeWorkload, Workload, record_step,
};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

#[global_allocator]
static HEAP: CountingAllocator = CountingAllocator;

/// How a system is trained.
#[derive(Clone)]
struct Setup {
    weights_seed: u64,
    residency: ResidencyPolicy,
    precision: Precision,
    average_decay: Option<f64>,
    accumulation_steps: u64,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            weights_seed: 1,
            residency: ResidencyPolicy::keep(),
            precision: Precision::F32,
            average_decay: None,
            accumulation_steps: 2,
        }
    }
}

impl Setup {
    fn learner<M: Module>(&self, module: M) -> Learner<M> {
        let config =
            LearnerConfig::new(schedule()).with_max_grad_norm(Some(1.0)).with_average_decay(self.average_decay);
        Learner::new("model", module, config).unwrap()
    }

    fn trainer<W: Workload>(&self, workload: W, device: &Device) -> Trainer<W> {
        let config = TrainerConfig::default().with_seed(42).with_accumulation_steps(self.accumulation_steps);
        Trainer::new(workload, config, device)
    }

    fn seed(&self, device: &Device) {
        leanburn_ops::random::seed(device, self.weights_seed);
    }
}

/// A system small enough to train in a test, and access to its state.
trait System {
    type Batch: Tensors + Clone;
    type Workload: Workload<Batch = Self::Batch>;

    fn trainer(&self, setup: &Setup, device: &Device) -> Trainer<Self::Workload>;

    /// A micro-batch of this many items, no two alike.
    fn batch(&self, size: usize, index: u64, device: &Device) -> Self::Batch;

    fn state(workload: &Self::Workload) -> [Vec<Vec<u32>>; 2];
}

/// The network of a perceptual loss.
#[derive(Clone, Copy)]
enum Kind {
    Features,
    Slices,
}

impl Kind {
    fn loss(self, device: &Device) -> Perceptual {
        let kind = match self {
            Self::Features => {
                PerceptualKind::Features(FeatureLoss3dConfig::new().with_channels(vec![4, 8]).init(device))
            }
            Self::Slices => PerceptualKind::Slices(LpipsConfig::new().with_slice_share(0.2).init(device)),
        };
        Perceptual { kind, weight: 0.1 }
    }
}

/// A voxel autoencoder, with a loss of occupied voxels and features.
struct Voxels {
    codebook: Option<VectorQuantizerConfig>,
    perceptual: Option<Kind>,
    volume: [usize; 3],
}

impl System for Voxels {
    type Batch = Tensor<5>;
    type Workload = VaeWorkload;

    fn trainer(&self, setup: &Setup, device: &Device) -> Trainer<VaeWorkload> {
        setup.seed(device);
        let model = Vae3dConfig::new(8, vec![1, 2, 2], 1).with_in_channels(2).with_codebook(self.codebook.clone());
        let model = model.init(device).with_residency(setup.residency.clone());
        let voxels = VoxelLoss {
            occupancy_weight: 3.0,
            channel_weights: Some(vec![2.0, 0.5]),
            false_positive_weight: 0.5,
            occupancy_mass_weight: 0.25,
            ..VoxelLoss::default()
        };
        let loss = VaeLoss { voxels, ..VaeLoss::default() };
        let perceptual = self.perceptual.map(|kind| kind.loss(device));
        let workload = VaeWorkload::new(setup.learner(model), loss, perceptual, setup.precision);
        setup.trainer(workload, device)
    }

    fn batch(&self, size: usize, index: u64, device: &Device) -> Tensor<5> {
        let [depth, height, width] = self.volume;
        waves([size, 2, depth, height, width], index, device)
    }

    fn state(workload: &VaeWorkload) -> [Vec<Vec<u32>>; 2] {
        [bits(workload.model().module()), bits(&workload.model().trained())]
    }
}

/// A discrete autoencoder whose codebook starts unused vectors again.
#[derive(Debug)]
struct Discrete {
    channels: Vec<usize>,
    codebook: VectorQuantizerConfig,
    volume: [usize; 3],
}

impl Discrete {
    fn new(volume: [usize; 3]) -> Self {
        Self { channels: vec![8, 16], codebook: codebook(8), volume }
    }
}

impl System for Discrete {
    type Batch = Tensor<5>;
    type Workload = VqVaeWorkload;

    fn trainer(&self, setup: &Setup, device: &Device) -> Trainer<VqVaeWorkload> {
        setup.seed(device);
        let residual = vec![8; self.channels.len()];
        let model = VqVae3dConfig::new(self.channels.clone(), residual, self.codebook.clone()).init(device);
        let learner = setup.learner(model.with_residency(setup.residency.clone()));
        let loss = VoxelLoss { difference: Difference::L1, ..VoxelLoss::default() };
        setup.trainer(VqVaeWorkload::new(learner, loss, setup.precision), device)
    }

    fn batch(&self, size: usize, index: u64, device: &Device) -> Tensor<5> {
        let [depth, height, width] = self.volume;
        waves([size, 1, depth, height, width], index, device)
    }

    fn state(workload: &VqVaeWorkload) -> [Vec<Vec<u32>>; 2] {
        [bits(workload.model().module()), bits(&workload.model().trained())]
    }
}

fn codebook(channels: usize) -> VectorQuantizerConfig {
    VectorQuantizerConfig::new(24, channels).with_restart_below(Some(0.1))
}

/// A forecaster of either kind.
#[derive(Debug)]
struct Recurrent {
    hidden_channels: usize,
    time: usize,
    size: [usize; 2],
}

impl Recurrent {
    fn new(time: usize, size: [usize; 2]) -> Self {
        Self { hidden_channels: 6, time, size }
    }
}

fn fields(time: usize, [height, width]: [usize; 2], size: usize, index: u64, device: &Device) -> ForecastBatch {
    let target: Tensor<5> = waves([size, 2, 1, height, width], index + 100, device);
    (waves([size, time, 2, height, width], index, device), target.reshape([size, 2, height, width]))
}

impl System for Recurrent {
    type Batch = ForecastBatch;
    type Workload = ForecastWorkload<leanburn_nn::models::ConvLstm>;

    fn trainer(&self, setup: &Setup, device: &Device) -> Trainer<Self::Workload> {
        setup.seed(device);
        let model = ConvLstmConfig::new(2).with_hidden_channels(self.hidden_channels).with_predict_days(2).init(device);
        let learner = setup.learner(model.with_residency(setup.residency.clone()));
        setup.trainer(ForecastWorkload::new(learner, Difference::L2, setup.precision), device)
    }

    fn batch(&self, size: usize, index: u64, device: &Device) -> ForecastBatch {
        fields(self.time, self.size, size, index, device)
    }

    fn state(workload: &Self::Workload) -> [Vec<Vec<u32>>; 2] {
        [bits(workload.model().module()), bits(&workload.model().trained())]
    }
}

/// The one with batch norms.
#[derive(Debug)]
struct Convolutional(Recurrent);

impl System for Convolutional {
    type Batch = ForecastBatch;
    type Workload = ForecastWorkload<leanburn_nn::models::Cnn3dLstm>;

    fn trainer(&self, setup: &Setup, device: &Device) -> Trainer<Self::Workload> {
        setup.seed(device);
        let model = Cnn3dLstmConfig::lite(2).with_predict_days(2).init(device);
        let learner = setup.learner(model.with_residency(setup.residency.clone()));
        setup.trainer(ForecastWorkload::new(learner, Difference::L1, setup.precision), device)
    }

    fn batch(&self, size: usize, index: u64, device: &Device) -> ForecastBatch {
        self.0.batch(size, index, device)
    }

    fn state(workload: &Self::Workload) -> [Vec<Vec<u32>>; 2] {
        [bits(workload.model().module()), bits(&workload.model().trained())]
    }
}

/// An operator.
struct Operator {
    model: FnoConfig,
    size: [usize; 2],
}

impl Operator {
    /// Of fields of a day, or two, of two channels, to two days.
    fn new(days: usize, widths: usize, modes: [usize; 2], layers: usize, size: [usize; 2]) -> Self {
        Self { model: FnoConfig::new(2 * days, 2, vec![widths; layers + 1], vec![modes.to_vec(); layers]), size }
    }

    fn with(self, change: impl FnOnce(FnoConfig) -> FnoConfig) -> Self {
        Self { model: change(self.model), ..self }
    }
}

impl System for Operator {
    type Batch = ForecastBatch;
    type Workload = ForecastWorkload<leanburn_nn::models::Fno>;

    fn trainer(&self, setup: &Setup, device: &Device) -> Trainer<Self::Workload> {
        setup.seed(device);
        let learner = setup.learner(self.model.init(device).with_residency(setup.residency.clone()));
        setup.trainer(ForecastWorkload::new(learner, ForecastLoss::RelativeL2, setup.precision), device)
    }

    fn batch(&self, size: usize, index: u64, device: &Device) -> ForecastBatch {
        let (input, _) = fields(self.model.in_channels / 2, self.size, size, index, device);
        let [_, height, width] = self.model.output_size([1, self.size[0], self.size[1]]);
        (input, fields(1, [height, width], size, index, device).1)
    }

    fn state(workload: &Self::Workload) -> [Vec<Vec<u32>>; 2] {
        [bits(workload.model().module()), bits(&workload.model().trained())]
    }
}

/// Smooth values between 0 and 1 that differ from index to index.
fn waves<const D: usize>(shape: [usize; D], index: u64, device: &Device) -> Tensor<D> {
    let count: usize = shape.iter().product();
    let value = |at: usize| 0.5 + 0.5 * (at as f32 * 0.37 + index as f32).sin() * (at as f32 * 0.011).cos();
    Tensor::from_data(TensorData::new((0..count).map(value).collect::<Vec<_>>(), shape), device)
}

fn steps<S: System>(system: &S, trainer: &mut Trainer<S::Workload>, count: usize, device: &Device) -> Vec<StepReport> {
    let mut batches = (trainer.micro_batches()..).map(|index| Ok::<_, TrainError>(system.batch(2, index, device)));
    let reports = (0..count).map(|_| trainer.step(&mut batches).unwrap());
    // what the heap holds is not part of what is computed
    reports.map(|report| StepReport { memory: None, phases: Default::default(), ..report }).collect()
}

fn is_the_straight_run<S: System>(system: &S) {
    let device = Device::flex().autodiff();
    let setup = Setup { average_decay: Some(0.9), ..Setup::default() };
    let folder = tempfile::tempdir().unwrap();
    let mut straight = system.trainer(&setup, &device);
    let expected = steps(system, &mut straight, 4, &device).split_off(2);
    let mut stopped = system.trainer(&setup, &device);
    steps(system, &mut stopped, 2, &device);
    let saved = stopped.save(&CheckpointStore::new(folder.path(), 1)).unwrap();

    let mut fresh = system.trainer(&Setup { weights_seed: 77, ..setup }, &device);
    assert_ne!(S::state(fresh.workload()), S::state(stopped.workload()));
    fresh.resume(&saved).unwrap();
    assert_eq!(S::state(fresh.workload()), S::state(stopped.workload()));
    assert_eq!(steps(system, &mut fresh, 2, &device), expected);
    assert!(S::state(fresh.workload()) == S::state(straight.workload()), "weights or statistics differ");
}

fn is_bit_equal_recomputed<S: System>(system: &S, some: &str) {
    let device = Device::flex().autodiff();
    let trained = |residency| {
        let mut trainer = system.trainer(&Setup { residency, ..Setup::default() }, &device);
        let reports = steps(system, &mut trainer, 3, &device);
        (reports, S::state(trainer.workload()))
    };
    let (reports, state) = trained(ResidencyPolicy::keep());
    let part = ResidencyPolicy::keep().with_rule(some, Residency::Recompute);
    for policy in [ResidencyPolicy::recompute_all(), part] {
        let (lean_reports, lean_state) = trained(policy.clone());
        assert_eq!(lean_reports, reports, "{policy:?}");
        assert!(lean_state == state, "weights or statistics differ: {policy:?}");
    }
}

/// What a second step is planned to hold at most, and what it holds.
fn planned_and_measured<S: System>(system: &S, setup: &Setup, batch_size: usize) -> (Bytes, Bytes) {
    let build = |device: &Device| Ok::<_, TrainError>(system.trainer(setup, device));
    let recording = record_step(Target::Cpu, build, |device| system.batch(batch_size, 0, device)).unwrap();
    let planned = recording.timeline(&FlexMemory).peak();
    let device = Device::flex().autodiff();
    // Autodiff searches for unused graphs, those of the run before, at the end of the next backward.
    drop(Tensor::<1>::ones([1], &device).require_grad().backward());
    let before = Bytes(HEAP.current_usage() as u64);
    let mut trainer = system.trainer(setup, &device);
    let mut batches = (0..).map(|index| Ok::<_, TrainError>(system.batch(batch_size, index, &device)));
    trainer.step(&mut batches).unwrap();
    (planned, trainer.step(&mut batches).unwrap().memory.expect("the heap is counted").peak - before)
}

/// The plan of a second step as a share of what it holds, kept and recomputed.
fn is_planned<S: System + Sync>(name: &str, system: &S, precision: Precision) {
    let run = |residency| {
        let setup = Setup { residency, precision, ..Setup::default() };
        on_new_threads(1, || planned_and_measured(system, &setup, 2))
    };
    run(ResidencyPolicy::recompute_all()); // what is allocated once for all
    for residency in [ResidencyPolicy::keep(), ResidencyPolicy::recompute_all()] {
        let (planned, measured) = run(residency);
        let error = 100.0 * (planned.as_mib() / measured.as_mib() - 1.0);
        println!("{name}: planned {planned}, measured {measured}, {error:+.2} %");
        assert!(measured <= bound(planned), "{name}: planned {planned}, exceeded by {measured}");
        assert!(error.abs() <= 3.0, "{name}: planned {planned}, measured {measured}, {error:+.2} %");
    }
}

/// Steps of a few MiB, where what dependencies keep is a large part.
fn stays_within<S: System + Sync + std::fmt::Debug>(system: &S, random: &mut StdRng) {
    let residency = [ResidencyPolicy::keep(), ResidencyPolicy::recompute_all()][random.random_range(0..2)].clone();
    let setup = Setup { residency, accumulation_steps: random.random_range(1..=2), ..Setup::default() };
    let (threads, batch_size) = (random.random_range(1..=2), random.random_range(1..=3));
    let (planned, measured) = on_new_threads(threads, || planned_and_measured(system, &setup, batch_size));
    let error = 100.0 * (planned.as_mib() / measured.as_mib() - 1.0);
    println!("planned {planned}, measured {measured}, {error:+.2} %: {threads} threads, {batch_size} x {system:?}");
    assert!(measured <= bound(planned), "planned {planned}, measured {measured}: {threads} threads, {system:?}");
}

/// `LEANBURN_PLAN_SEED` draws others, `LEANBURN_PLAN_CASES` takes more.
#[test]
fn discrete_autoencoders_and_forecasters_drawn_at_random_stay_within_their_plans() {
    let _alone = alone();
    let number = |name: &str, default: u64| env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default);
    let mut random = StdRng::seed_from_u64(number("LEANBURN_PLAN_SEED", 1));
    for _ in 0..number("LEANBURN_PLAN_CASES", 12) / 2 {
        let levels = random.random_range(1..=2);
        let channels: Vec<usize> = (0..levels).map(|_| 4 * random.random_range(1..=6)).collect();
        let embedding = [2, 4, 8, 16][random.random_range(0..4)];
        let embeddings = [8, 16, 24, 64, 100, 256][random.random_range(0..6)];
        let volume = std::array::from_fn(|_| 4 * random.random_range(2..=6));
        let codebook = VectorQuantizerConfig::new(embeddings, embedding).with_restart_below(Some(0.1));
        stays_within(&Discrete { channels, codebook, volume }, &mut random);
        let size = std::array::from_fn(|_| random.random_range(8..=40));
        let recurrent =
            Recurrent { hidden_channels: random.random_range(2..=20), time: random.random_range(3..=8), size };
        match random.random_bool(0.5) {
            true => stays_within(&recurrent, &mut random),
            false => stays_within(&Convolutional(recurrent), &mut random),
        }
    }
}

const SMALL: [usize; 3] = [4, 8, 8];

fn gaussian(volume: [usize; 3]) -> Voxels {
    Voxels { codebook: None, perceptual: None, volume }
}

#[test]
fn a_resumed_run_is_the_straight_run() {
    let _alone = alone();
    is_the_straight_run(&Voxels { perceptual: Some(Kind::Features), ..gaussian(SMALL) });
    is_the_straight_run(&Voxels { codebook: Some(codebook(4)), ..gaussian(SMALL) });
    is_the_straight_run(&Discrete::new([8; 3]));
    is_the_straight_run(&Recurrent::new(6, [8, 6]));
    is_the_straight_run(&Convolutional(Recurrent::new(6, [8, 6])));
    is_the_straight_run(&Operator::new(1, 4, [3, 2], 2, [8, 6]).with(|model| model.with_block(FnoBlock::BatchNorm)));
}

#[test]
fn recomputation_changes_nothing() {
    let _alone = alone();
    is_bit_equal_recomputed(&Voxels { perceptual: Some(Kind::Features), ..gaussian(SMALL) }, "decoder.*");
    is_bit_equal_recomputed(&Voxels { codebook: Some(codebook(4)), ..gaussian(SMALL) }, "quantizer");
    is_bit_equal_recomputed(&Discrete::new([8; 3]), "quantizer");
    is_bit_equal_recomputed(&Recurrent::new(6, [8, 6]), "steps_3");
    is_bit_equal_recomputed(&Convolutional(Recurrent::new(6, [8, 6])), "features.*");
    let refining = FnoUpsampling { factor: 2, modes: vec![2, 2] };
    let operator = Operator::new(2, 4, [3, 2], 2, [8, 6]).with(|model| model.with_upsampling(Some(refining)));
    is_bit_equal_recomputed(&operator, "layer_*");
}

#[test]
fn the_planned_peak_is_the_measured_one() {
    let _alone = alone();
    is_planned("vae", &gaussian([16, 64, 64]), Precision::F32);
    is_planned("vae, bf16", &gaussian([16, 48, 48]), Precision::Bf16);
    is_planned("vae, codebook", &Voxels { codebook: Some(codebook(4)), ..gaussian([16, 48, 48]) }, Precision::F32);
    let with_loss = |kind, volume| Voxels { perceptual: Some(kind), ..gaussian(volume) };
    is_planned("vae, features", &with_loss(Kind::Features, [16, 32, 32]), Precision::F32);
    is_planned("vae, slices", &with_loss(Kind::Slices, [28, 32, 32]), Precision::F32);
    is_planned("vqvae", &Discrete::new([32, 32, 24]), Precision::F32);
    let fields = || Recurrent::new(12, [64, 48]);
    is_planned("convlstm", &fields(), Precision::F32);
    is_planned("convlstm, bf16", &fields(), Precision::Bf16);
    is_planned("3dcnn_lstm", &Convolutional(fields()), Precision::F32);
    let operator = || Operator::new(2, 24, [12, 10], 3, [96, 80]);
    is_planned("operator", &operator(), Precision::F32);
    let refining = FnoUpsampling { factor: 2, modes: vec![12, 10] };
    let refining = operator().with(|model| model.with_upsampling(Some(refining)).with_activate_last(true));
    is_planned("operator, refining", &Operator { size: [48, 40], ..refining }, Precision::F32);
}
