//! A small autoencoder with discriminators, phantoms to train them on, and weights in a form that compares bit for bit.
#![allow(dead_code)] // each test binary uses a part

use std::sync::{Mutex, MutexGuard, PoisonError};

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{Device, Tensor, TensorData};
use leanburn_common::Bytes;
use leanburn_data::phantom;
use leanburn_nn::losses::AdversarialCriterion;
use leanburn_nn::models::{
    AutoencoderKl, AutoencoderKlConfig, MultiScalePatchDiscriminator, MultiScalePatchDiscriminatorConfig,
    PatchDiscriminatorConfig,
};
use leanburn_ops::ResidencyPolicy;
use leanburn_train::{
    AnyLearner, AutoencoderObjective, AutoencoderWorkload, Learner, LearnerConfig, LossScale, Losses, MainModel,
    OptimizerConfig, OptimizerKind, Precision, ReconstructionLoss, ScheduleConfig, ScheduleKind, StepPosition,
    TrainError, Trainer, TrainerConfig, Workload,
};

/// Voxels along each axis.
pub const SIDE: usize = 12;

pub type AutoencoderTrainer = Trainer<AutoencoderWorkload>;
pub type Batch = Result<Tensor<5>, TrainError>;

/// The CPU has one random generator: tests that draw from it take turns.
pub fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs something in a pool of so many new threads, and waits for the end of the threads: what each keeps, such as the scratch memory of
/// matrix products, is made in it and gone after it.
pub fn on_new_threads<T: Send>(count: usize, part: impl FnOnce() -> T + Send) -> T {
    let mut threads = Vec::new();
    let spawn = |worker: rayon::ThreadBuilder| {
        threads.push(std::thread::spawn(|| worker.run()));
        Ok(())
    };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(count).spawn_handler(spawn).build().unwrap();
    let result = pool.install(part);
    drop(pool);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    result
}

pub fn device() -> Device {
    Device::flex().autodiff()
}

/// What a run is made of; the defaults train in f32, without a discriminator.
#[derive(Clone)]
pub struct Setup {
    /// Seed of the initial weights.
    pub weights_seed: u64,
    pub precision: Precision,
    pub scale: LossScale,
    pub discriminator_scale: LossScale,
    pub with_discriminator: bool,
    pub dropout: f64,
    pub adversarial_start_step: u64,
    pub kl_weight: f64,
    pub average_decay: Option<f64>,
    pub max_grad_norm: Option<f64>,
    pub residency: ResidencyPolicy,
    pub accumulation_steps: u64,
    pub max_bad_steps: u64,
    pub memory_limit: Option<Bytes>,
    pub deterministic_ranks: bool,
    pub shard_optimizer: bool,
    pub sync_batch_norm: bool,
    pub volume_ranks: usize,
    pub seed: u64,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            weights_seed: 1,
            precision: Precision::F32,
            scale: LossScale::NONE,
            discriminator_scale: LossScale::NONE,
            with_discriminator: false,
            dropout: 0.0,
            adversarial_start_step: 0,
            kl_weight: 1e-6,
            average_decay: None,
            max_grad_norm: None,
            residency: ResidencyPolicy::keep(),
            accumulation_steps: 1,
            max_bad_steps: 1000,
            memory_limit: None,
            deterministic_ranks: false,
            shard_optimizer: false,
            sync_batch_norm: false,
            volume_ranks: 1,
            seed: 42,
        }
    }
}

pub fn schedule() -> ScheduleConfig {
    ScheduleConfig::new(1e-3).with_kind(ScheduleKind::Cosine).with_warmup_steps(2).with_max_steps(100)
}

pub fn autoencoder_config() -> AutoencoderKlConfig {
    AutoencoderKlConfig::new(vec![4, 8], vec![1, 1], vec![false, true]).with_norm_num_groups(2)
}

impl Setup {
    pub fn learner_config(&self, loss_scale: LossScale) -> LearnerConfig {
        LearnerConfig::new(schedule())
            .with_loss_scale(loss_scale)
            .with_max_grad_norm(self.max_grad_norm)
            .with_average_decay(self.average_decay)
    }

    pub fn autoencoder(&self) -> AutoencoderKl {
        device().seed(self.weights_seed);
        autoencoder_config().init(&device()).with_residency(self.residency.clone())
    }

    /// Two scales, batch norm.
    pub fn discriminator(&self) -> MultiScalePatchDiscriminator {
        device().seed(self.weights_seed + 1000);
        let one = PatchDiscriminatorConfig::new(1, 4).with_num_layers_d(1).with_dropout(self.dropout);
        let config = MultiScalePatchDiscriminatorConfig::new(2, one).with_minimum_size(SIDE);
        config.init(&device()).with_residency(self.residency.clone())
    }

    pub fn trainer(&self) -> AutoencoderTrainer {
        let config = self.learner_config(self.scale);
        let autoencoder = Learner::new("autoencoder", self.autoencoder(), config).unwrap();
        let discriminator = self.with_discriminator.then(|| {
            let config = self.learner_config(self.discriminator_scale);
            Learner::new("discriminator", self.discriminator(), config).unwrap()
        });
        let objective = AutoencoderObjective {
            reconstruction: ReconstructionLoss::L1,
            kl_weight: self.kl_weight,
            adversarial: AdversarialCriterion::LeastSquares,
            adversarial_weight: 0.05,
            adversarial_start_step: self.adversarial_start_step,
        };
        let workload = AutoencoderWorkload::new(autoencoder, discriminator, objective, self.precision);
        Trainer::new(workload, self.trainer_config(), &device())
    }

    pub fn trainer_config(&self) -> TrainerConfig {
        TrainerConfig::default()
            .with_seed(self.seed)
            .with_accumulation_steps(self.accumulation_steps)
            .with_max_bad_steps(self.max_bad_steps)
            .with_memory_limit(self.memory_limit)
            .with_deterministic_ranks(self.deterministic_ranks)
            .with_shard_optimizer(self.shard_optimizer)
            .with_sync_batch_norm(self.sync_batch_norm)
            .with_volume_ranks(self.volume_ranks)
    }
}

/// A batch of `size` phantoms, the first of number `first`.
pub fn phantoms(first: u64, size: usize) -> Tensor<5> {
    let volumes = (first..).take(size).flat_map(|seed| phantom([SIDE; 3], 0.02, seed).unwrap().data().to_vec());
    let data: Vec<f32> = volumes.collect();
    Tensor::from_data(TensorData::new(data, [size, 1, SIDE, SIDE, SIDE]), &device())
}

/// Micro-batches of two, from micro-batch `from` on, without end.
pub fn batches(from: u64) -> impl Iterator<Item = Batch> {
    (from..).map(|index| Ok(phantoms(2 * index, 2)))
}

/// Batches that are undefined wherever `bad` says so.
pub fn broken(bad: &'static [bool]) -> impl Iterator<Item = Batch> {
    bad.iter().enumerate().map(|(index, &bad)| {
        let batch = phantoms(2 * index as u64, 2);
        Ok(if bad { batch * f32::NAN } else { batch })
    })
}

/// Bits of all parameters and buffers, running statistics settled.
pub fn bits<M: Module>(module: &M) -> Vec<Vec<u32>> {
    struct Read(Vec<Vec<u32>>);
    impl ModuleVisitor for Read {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            self.0.push(param.val().into_data().iter::<f32>().map(f32::to_bits).collect());
        }
    }
    let mut read = Read(Vec::new());
    module.valid().visit(&mut read);
    assert!(!read.0.is_empty());
    read.0
}

pub fn is_finite(bits: &[Vec<u32>]) -> bool {
    bits.iter().flatten().all(|&bits| f32::from_bits(bits).is_finite())
}

/// Bits of all that a run trains: autoencoder, its average, discriminator, its average.
pub fn state(trainer: &AutoencoderTrainer) -> Vec<Vec<Vec<u32>>> {
    let workload = trainer.workload();
    let autoencoder = [bits(workload.model().module()), bits(&workload.model().trained())];
    let discriminator = workload.discriminator().map(|learner| [bits(learner.module()), bits(&learner.trained())]);
    autoencoder.into_iter().chain(discriminator.into_iter().flatten()).collect()
}

/// Every optimizer with its default constants, and with each that gives it more states.
pub fn optimizers() -> Vec<OptimizerConfig> {
    let mut all: Vec<_> = OptimizerKind::ALL.map(OptimizerConfig::new).into();
    all.push(OptimizerConfig::new(OptimizerKind::Sgd).with_momentum(0.9).with_nesterov(true));
    all.push(OptimizerConfig::new(OptimizerKind::RmsProp).with_momentum(0.9));
    all.push(OptimizerConfig::new(OptimizerKind::RmsProp).with_centered(true));
    all.push(OptimizerConfig::new(OptimizerKind::RmsProp).with_centered(true).with_momentum(0.9));
    all.extend([OptimizerKind::Adam, OptimizerKind::AdamW].map(|kind| OptimizerConfig::new(kind).with_amsgrad(true)));
    all
}

/// Weights of a convolution, to be trained by themselves: 108 KiB of a kernel, and a bias.
#[derive(Module, Debug)]
pub struct Weights {
    kernel: Param<Tensor<5>>,
    bias: Param<Tensor<1>>,
}

/// Their training: the loss is the sum of their squares, times the batch.
pub struct WeightsWorkload(pub Learner<Weights>);

impl WeightsWorkload {
    pub fn trainer(optimizer: &OptimizerConfig, device: &Device) -> Result<Trainer<Self>, TrainError> {
        Self::trainer_of(optimizer, device, TrainerConfig::default())
    }

    pub fn trainer_of(
        optimizer: &OptimizerConfig,
        device: &Device,
        config: TrainerConfig,
    ) -> Result<Trainer<Self>, TrainError> {
        let values =
            |count: usize| (0..count).map(|index| ((index * 37 % 101) as f32 - 50.0) / 50.0).collect::<Vec<_>>();
        let dims = [32, 32, 3, 3, 3];
        let kernel = Tensor::from_data(TensorData::new(values(dims.iter().product()), dims), device);
        let bias = Tensor::from_data(TensorData::new(values(32), [32]), device);
        let module = Weights { kernel: Param::from_tensor(kernel), bias: Param::from_tensor(bias) };
        let learner = Learner::new("weights", module, LearnerConfig::default().with_optimizer(optimizer.clone()))?;
        Ok(Trainer::new(Self(learner), config, device))
    }
}

impl Workload for WeightsWorkload {
    type Batch = Tensor<1>;

    fn learners(&mut self) -> Vec<&mut dyn AnyLearner> {
        vec![&mut self.0]
    }

    fn loss(&mut self, _learner: usize, batch: &Tensor<1>, _position: StepPosition) -> Option<Losses> {
        let Weights { kernel, bias } = self.0.module();
        let total = kernel.val().powi_scalar(2).sum() + bias.val().powi_scalar(2).sum();
        Some(Losses { total: total * batch.clone(), parts: Vec::new() })
    }
}

/// Batches of it, from step `from` on, without end.
pub fn factors(from: u64) -> impl Iterator<Item = Result<Tensor<1>, TrainError>> {
    (from..).map(|step| Ok(Tensor::from_floats([1.0 + (step % 3) as f32], &device())))
}
