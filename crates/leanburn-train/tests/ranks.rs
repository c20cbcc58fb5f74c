//! Several processes train as one does: the same bits where each takes one micro-batch, and an error of one is an error of all.
//!
//! The processes are threads here. `scripts/check_ranks.py` runs the command under MPI.

mod common;

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use burn::module::{Module, Param};
use burn::nn::{Linear, LinearConfig};
use burn::tensor::{Device, Tensor, TensorData};
use common::{
    AutoencoderTrainer, Batch, Setup, WeightsWorkload, alone, bits, device, factors, optimizers, phantoms, state,
};
use leanburn_nn::blocks::{BatchNorm, BatchNormConfig, VectorQuantizer, VectorQuantizerConfig};
use leanburn_ops::{Residency, ResidencyPolicy, StreamSettings, random};
use leanburn_train::{
    AnyLearner, CheckpointStore, CountingAllocator, Group, Learner, LearnerConfig, LearnerMemory, LossScale, Losses,
    OptimizerConfig, OptimizerKind, Precision, PreparedStep, Ranks, Restore, ScheduleConfig, StepPosition, StepReport,
    TrainError, Trainer, TrainerConfig, Workload,
};

#[global_allocator]
static HEAP: CountingAllocator = CountingAllocator;

/// A rank of a group of threads.
#[derive(Debug)]
struct Thread {
    rank: usize,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    said: Mutex<Vec<Vec<u8>>>,
    /// How many have come to the meeting of this number.
    here: Mutex<(usize, u64)>,
    all_are_here: Condvar,
    /// Values that all ranks have sent to others.
    sent: AtomicU64,
    /// Bytes that they have exchanged in pairs.
    exchanged: AtomicU64,
}

impl Shared {
    /// Waits for all ranks. One that has failed does not come: the others fail too.
    fn meet(&self, size: usize) {
        let mut here = self.here.lock().unwrap();
        let meeting = here.1;
        here.0 += 1;
        if here.0 == size {
            *here = (0, meeting + 1);
            self.all_are_here.notify_all();
            return;
        }
        let patience = Duration::from_secs(120);
        let (_here, wait) = self.all_are_here.wait_timeout_while(here, patience, |here| here.1 == meeting).unwrap();
        assert!(!wait.timed_out(), "a rank is missing");
    }
}

impl Ranks for Thread {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.shared.said.lock().unwrap().len()
    }

    fn on_this_machine(&self) -> (usize, usize) {
        (self.rank, self.size())
    }

    fn reduce_scatter(&self, values: &[f32], counts: &[usize]) -> Vec<f32> {
        assert_eq!(values.len(), counts.iter().sum::<usize>());
        self.shared.sent.fetch_add((values.len() - counts[self.rank]) as u64, Ordering::Relaxed);
        let there = self.values(values);
        let start: usize = counts[..self.rank].iter().sum();
        let sum = |index| there.iter().map(|values| values[index]).reduce(|sum, value| sum + value).unwrap();
        (start..start + counts[self.rank]).map(sum).collect()
    }

    fn all_gather(&self, part: &[f32], counts: &[usize]) -> Vec<f32> {
        assert_eq!(part.len(), counts[self.rank]);
        self.shared.sent.fetch_add((part.len() * (self.size() - 1)) as u64, Ordering::Relaxed);
        self.values(part).concat()
    }

    fn gather(&self, bytes: &[u8]) -> Vec<Vec<u8>> {
        self.shared.said.lock().unwrap()[self.rank] = bytes.to_vec();
        self.shared.meet(self.size());
        let all = self.shared.said.lock().unwrap().clone();
        self.shared.meet(self.size());
        all
    }

    fn exchange(&self, with: [Option<usize>; 2], given: [&[u8]; 2]) -> [Vec<u8>; 2] {
        let bytes = |side: usize| if with[side].is_some() { given[side].len() as u64 } else { 0 };
        self.shared.exchanged.fetch_add(bytes(0) + bytes(1), Ordering::Relaxed);
        // what is given to the rank below is what that rank gets from above
        let there = given.map(|bytes| self.gather(bytes));
        let from = |side: usize| with[side].map_or(Vec::new(), |rank| there[1 - side][rank].clone());
        [from(0), from(1)]
    }
}

impl Thread {
    fn values(&self, here: &[f32]) -> Vec<Vec<f32>> {
        let bytes: Vec<u8> = here.iter().flat_map(|value| value.to_le_bytes()).collect();
        let value = |bytes: &[u8]| f32::from_le_bytes(bytes.try_into().unwrap());
        self.gather(&bytes).iter().map(|bytes| bytes.chunks_exact(4).map(value).collect()).collect()
    }
}

/// Runs something as each of so many ranks; what they come to, in their order.
fn on_ranks<T: Send>(size: usize, run: impl Fn(Group) -> T + Sync) -> Vec<T> {
    counted_on_ranks(size, run).0
}

/// The same, and how many values were sent from rank to rank.
fn counted_on_ranks<T: Send>(size: usize, run: impl Fn(Group) -> T + Sync) -> (Vec<T>, u64) {
    let said = Mutex::new(vec![Vec::new(); size]);
    let (all_are_here, sent) = (Condvar::new(), AtomicU64::new(0));
    let shared = Arc::new(Shared { said, here: Mutex::default(), all_are_here, sent, exchanged: AtomicU64::new(0) });
    let run = &run;
    let all = thread::scope(|scope| {
        let start = |rank| {
            let shared = shared.clone();
            scope.spawn(move || run(Thread { rank, shared }.into()))
        };
        let threads: Vec<_> = (0..size).map(start).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    (all, shared.sent.load(Ordering::Relaxed))
}

/// The trainer of a rank. Initial weights are drawn with the generator of the device, which steps seed: one at a time, and all before any trains.
fn trainer(setup: &Setup, group: Group) -> AutoencoderTrainer {
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap();
    let mut trainer = setup.trainer();
    drop(turn);
    group.any(false);
    trainer.join_group(group).unwrap();
    trainer
}

/// The micro-batches that a rank takes from where it stands.
fn batches(trainer: &AutoencoderTrainer) -> impl Iterator<Item = Batch> + use<> {
    let order = trainer.batch_order();
    (order.first..).step_by(order.stride as usize).map(|index| Ok(phantoms(2 * index, 2)))
}

fn steps(trainer: &mut AutoencoderTrainer, count: usize) -> Vec<StepReport> {
    let mut batches = batches(trainer);
    let reports = (0..count).map(|_| trainer.step(&mut batches).unwrap());
    reports.map(|report| StepReport { memory: None, phases: Default::default(), ..report }).collect()
}

type State = Vec<Vec<Vec<u32>>>;

/// What every rank reports and holds after so many steps.
fn trained(setup: &Setup, ranks: usize, count: usize) -> Vec<(Vec<StepReport>, State)> {
    on_ranks(ranks, |group| {
        let mut trainer = trainer(setup, group);
        let reports = steps(&mut trainer, count);
        (reports, state(&trainer))
    })
}

fn setup(accumulation_steps: u64) -> Setup {
    Setup { average_decay: Some(0.9), max_grad_norm: Some(0.5), accumulation_steps, ..Setup::default() }
}

#[test]
fn a_micro_batch_for_each_rank_is_accumulation_bit_for_bit() {
    let _alone = alone();
    for ranks in [2, 4] {
        let setup = setup(ranks);
        let one = trained(&setup, 1, 4).remove(0);
        assert!(one.0.iter().all(|report| report.learners[0].gradient_norm > 0.5), "some are clipped: {:?}", one.0);
        for several in trained(&setup, ranks as usize, 4) {
            assert!(several == one, "{ranks} ranks: {:?} {:?}", several.0, one.0);
        }
    }
}

#[test]
fn several_micro_batches_for_each_rank_are_summed_in_another_order() {
    let _alone = alone();
    let one = trained(&setup(4), 1, 1).remove(0);
    let two = trained(&setup(4), 2, 1);
    assert!(two[0] == two[1], "all ranks hold the same bits");
    let in_order = trained(&Setup { deterministic_ranks: true, ..setup(4) }, 2, 1);
    assert!(in_order[0].1 == one.1 && in_order[1].1 == one.1, "unless they are to be in the order of one process");
    let norm = |reports: &[StepReport]| reports[0].learners[0].gradient_norm;
    let (there, here) = (norm(&one.0), norm(&two[0].0));
    assert!((there - here).abs() < 1e-6 * there, "{there} {here}");
}

#[test]
fn all_ranks_leave_out_the_step_that_overflows_on_one() {
    let _alone = alone();
    let scale = LossScale::Dynamic { initial: 1000.0, growth: 2.0, back_off: 0.5, growth_interval: 2 };
    let bad_on = |rank: usize, shard_optimizer: bool| {
        let setup = Setup { precision: Precision::F16, scale, shard_optimizer, ..setup(2) };
        on_ranks(2, |group| {
            let is_bad = group.ranks().rank() == rank;
            let mut trainer = trainer(&setup, group);
            let mut batches = batches(&trainer);
            let first = batches.next().unwrap().map(|batch| if is_bad { batch * f32::NAN } else { batch });
            let mut batches = std::iter::once(first).chain(batches);
            let reports: Vec<_> = (0..3).map(|_| trainer.step(&mut batches).unwrap().learners.remove(0)).collect();
            (reports.iter().map(|learner| (learner.skipped, learner.loss_scale)).collect::<Vec<_>>(), state(&trainer))
        })
    };
    let first = bad_on(0, false);
    assert_eq!(first[0].0, [(true, 1000.0), (false, 500.0), (false, 500.0)]);
    assert!(first[0] == first[1]);
    assert!(bad_on(1, false)[0] == first[0], "whichever rank it is");
    assert!(bad_on(1, true) == first, "with a split optimizer too");
}

#[test]
fn an_error_of_a_rank_breaks_the_step_off_on_all() {
    let _alone = alone();
    let setup = setup(2);
    let straight = trained(&setup, 2, 2).remove(0).1;
    let ranks = on_ranks(2, |group| {
        let fails = group.ranks().rank() == 1;
        let mut trainer = trainer(&setup, group);
        let error = match fails {
            true => trainer.step(&mut batches(&trainer).take(0)).unwrap_err(),
            false => trainer.step(&mut batches(&trainer)).unwrap_err(),
        };
        steps(&mut trainer, 2);
        (error, state(&trainer))
    });
    assert!(matches!(ranks[1].0, TrainError::OutOfBatches { step: 0 }), "{}", ranks[1].0);
    let said = ranks[0].0.to_string();
    assert!(
        matches!(&ranks[0].0, TrainError::Rank { step: 0, rank: 1, .. }) && said.contains("batches ended"),
        "{said}"
    );
    assert!(ranks.iter().all(|(_, state)| *state == straight), "and leaves no trace");
}

#[test]
fn a_rank_without_memory_is_an_error_that_others_can_step_down_from() {
    let _alone = alone();
    let errors = on_ranks(2, |group| {
        let memory_limit = (group.ranks().rank() == 1).then_some(leanburn_common::Bytes(1));
        let mut trainer = trainer(&Setup { memory_limit, ..setup(2) }, group);
        trainer.step(&mut batches(&trainer)).unwrap_err()
    });
    for error in &errors {
        assert!(matches!(error, TrainError::OutOfMemory { state_is_intact: true, .. }), "{error}");
    }
    assert!(errors[0].to_string().contains("rank 1 says"), "{}", errors[0]);
}

/// A learner that may have no memory to prepare its gradients, as a GPU that says so late.
struct Late {
    learner: Learner<Linear>,
    has_memory: bool,
}

impl AnyLearner for Late {
    fn name(&self) -> &'static str {
        self.learner.name()
    }

    fn devices(&self) -> Vec<Device> {
        self.learner.devices()
    }

    fn steps_to_settle(&self) -> u64 {
        self.learner.steps_to_settle()
    }

    fn tag_tensors(&self) {
        self.learner.tag_tensors();
    }

    fn accumulate(&mut self, loss: Tensor<1>, share: f64) {
        self.learner.accumulate(loss, share);
    }

    fn join(&mut self, group: &Group, more_follow: bool) {
        self.learner.join(group, more_follow);
    }

    fn shard(&mut self, group: &Group) {
        self.learner.shard(group);
    }

    fn plan_shard(&mut self, ranks: usize) {
        self.learner.plan_shard(ranks);
    }

    fn gather_states(&mut self) {
        self.learner.gather_states();
    }

    fn prepare(&mut self) -> PreparedStep<'_> {
        assert!(self.has_memory, "out of memory");
        self.learner.prepare()
    }

    fn abandon(&mut self) {
        AnyLearner::abandon(&mut self.learner);
    }

    fn memory(&self) -> LearnerMemory {
        self.learner.memory()
    }

    fn save(&mut self, folder: &Path) -> Result<(), TrainError> {
        self.learner.save(folder)
    }

    fn load<'a>(&'a mut self, folder: &Path) -> Result<Restore<'a>, TrainError> {
        self.learner.load(folder)
    }
}

impl Workload for Late {
    type Batch = Tensor<2>;

    fn learners(&mut self) -> Vec<&mut dyn AnyLearner> {
        vec![self]
    }

    fn loss(&mut self, _learner: usize, batch: &Tensor<2>, _position: StepPosition) -> Option<Losses> {
        Some(Losses { total: self.learner.module().forward(batch.clone()).sum(), parts: Vec::new() })
    }
}

#[test]
fn a_rank_without_memory_to_prepare_its_update_breaks_the_step_off_on_all() {
    let _alone = alone();
    let errors = on_ranks(2, |group| {
        let layer: Linear = LinearConfig::new(2, 1).init(&device());
        let learner = Learner::new("late", layer, LearnerConfig::default()).unwrap();
        let late = Late { learner, has_memory: group.leads() };
        let mut trainer = Trainer::new(late, TrainerConfig::default().with_accumulation_steps(2), &device());
        trainer.join_group(group).unwrap();
        let mut batches = std::iter::repeat_with(|| Ok::<_, TrainError>(Tensor::<2>::ones([1, 2], &device())));
        trainer.step(&mut batches).unwrap_err()
    });
    for error in &errors {
        assert!(matches!(error, TrainError::OutOfMemory { state_is_intact: true, .. }), "{error}");
    }
    assert!(errors[0].to_string().contains("rank 1 says"), "{}", errors[0]);
}

#[test]
fn a_checkpoint_of_four_ranks_goes_on_with_two_or_one() {
    let _alone = alone();
    let setup = Setup { deterministic_ranks: true, ..setup(4) };
    let straight = trained(&setup, 1, 3).remove(0).1;
    let folder = tempfile::tempdir().unwrap();
    let store = CheckpointStore::new(folder.path(), 1);
    on_ranks(4, |group| {
        let leads = group.leads();
        let mut trainer = trainer(&setup, group);
        steps(&mut trainer, 2);
        if leads {
            trainer.save(&store).unwrap();
        }
    });
    let gone_on = |ranks: usize| {
        on_ranks(ranks, |group| {
            let mut trainer = trainer(&Setup { weights_seed: 9, ..setup.clone() }, group);
            trainer.resume(&store.latest().unwrap().1).unwrap();
            steps(&mut trainer, 1);
            state(&trainer)
        })
    };
    assert!(gone_on(1)[0] == straight, "bit for bit");
    assert!(gone_on(4).iter().all(|state| *state == straight));
    let two = gone_on(2);
    let values =
        |state: &State| -> Vec<f32> { state.iter().flatten().flatten().map(|&bits| f32::from_bits(bits)).collect() };
    let (two, one) = (values(&two[0]), values(&straight));
    let worst = two.iter().zip(&one).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(worst < 1e-6, "{worst}");
}

#[test]
fn running_statistics_are_those_of_the_leading_rank() {
    let _alone = alone();
    let setup = Setup { with_discriminator: true, ..setup(2) };
    let ranks = trained(&setup, 2, 2);
    assert!(ranks[0] == ranks[1], "all ranks hold the same bits");
    let one = trained(&setup, 1, 2).remove(0);
    assert!(ranks[0].1[..2] == one.1[..2], "which weights do not depend on");
    assert!(ranks[0].1 != one.1, "one process has seen both micro-batches");
}

#[test]
fn a_gradient_that_a_rank_lacks_is_zero_there() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let layers: [Linear; 2] = [0, 1].map(|_| LinearConfig::new(2, 1).init(&device));
    let norms = on_ranks(2, |group| {
        let mut learner = Learner::new("layers", layers.clone().to_vec(), LearnerConfig::default()).unwrap();
        let used = group.ranks().rank();
        let loss = learner.module()[used].forward(Tensor::<2>::ones([1, 2], &Device::flex().autodiff())).sum();
        learner.accumulate(loss, 1.0);
        learner.join(&group, false);
        learner.prepare().gradients().unwrap().norm
    });
    // a one for each of two weights and a bias, in both layers
    assert_eq!(norms, [6.0_f64.sqrt(); 2]);
}

#[test]
fn micro_batches_that_cannot_be_dealt_out_are_rejected() {
    let _alone = alone();
    let errors = on_ranks(2, |group| {
        let mut trainer = trainer(&setup(4), Group::default());
        drop(trainer.join_group(group.clone()));
        Setup::default().trainer().join_group(group).unwrap_err().to_string()
    });
    assert!(errors[0].contains("multiple of 2"), "{}", errors[0]);
}

/// The training of a kernel and a bias, six micro-batches a step.
fn weights(optimizer: &OptimizerConfig, group: Group, shard_optimizer: bool) -> Trainer<WeightsWorkload> {
    let config = TrainerConfig::default().with_accumulation_steps(6).with_deterministic_ranks(true);
    let config = config.with_shard_optimizer(shard_optimizer);
    let mut trainer = WeightsWorkload::trainer_of(optimizer, &device(), config).unwrap();
    trainer.join_group(group).unwrap();
    trainer
}

/// The weights after so many steps more.
fn weights_after(trainer: &mut Trainer<WeightsWorkload>, steps: usize) -> Vec<Vec<u32>> {
    let order = trainer.batch_order();
    let mut batches = factors(order.first).step_by(order.stride as usize);
    for _ in 0..steps {
        trainer.step(&mut batches).unwrap();
    }
    bits(trainer.workload().0.module())
}

#[test]
fn every_optimizer_split_over_ranks_takes_the_steps_of_one_process() {
    let _alone = alone();
    for optimizer in optimizers() {
        let straight = weights_after(&mut weights(&optimizer, Group::default(), false), 4);
        let folder = tempfile::tempdir().unwrap();
        let store = CheckpointStore::new(folder.path(), 1);
        let split = on_ranks(2, |group| {
            let leads = group.leads();
            let mut trainer = weights(&optimizer, group, true);
            weights_after(&mut trainer, 2);
            trainer.gather_states();
            if leads {
                trainer.save(&store).unwrap();
            }
            weights_after(&mut trainer, 2)
        });
        assert!(split.iter().all(|weights| *weights == straight), "{optimizer:?}");
        for ranks in [1, 3] {
            // of three ranks one has no parameter
            let gone_on = on_ranks(ranks, |group| {
                let mut trainer = weights(&optimizer, group, true);
                trainer.resume(&store.latest().unwrap().1).unwrap();
                weights_after(&mut trainer, 2)
            });
            assert!(gone_on.iter().all(|weights| *weights == straight), "{optimizer:?} on {ranks} ranks");
        }
    }
}

#[test]
fn states_of_a_checkpoint_that_were_not_gathered_are_an_error() {
    let _alone = alone();
    let errors = on_ranks(2, |group| {
        let folder = tempfile::tempdir().unwrap();
        let mut trainer = weights(&OptimizerConfig::default(), group, true);
        trainer.save(&CheckpointStore::new(folder.path(), 1)).unwrap_err().to_string()
    });
    assert!(errors[0].contains("not gathered"), "{}", errors[0]);
}

#[test]
fn a_split_optimizer_clips_averages_and_sits_out_as_a_whole_one() {
    let _alone = alone();
    let whole = Setup { with_discriminator: true, adversarial_start_step: 1, ..setup(2) };
    let split = Setup { shard_optimizer: true, ..whole.clone() };
    let (whole, split) = (trained(&whole, 2, 3), trained(&split, 2, 3));
    assert!(whole[0].0.iter().any(|report| report.learners[0].gradient_norm > 0.5), "clipped: {:?}", whole[0].0);
    assert!(split == whole, "{:?} {:?}", split[1].0, whole[1].0);
}

/// Layers of the same size, and what training them has sent and held.
fn layers(ranks: usize, shard_optimizer: bool) -> (usize, u64) {
    const STEPS: usize = 2;
    let (held, sent) = counted_on_ranks(ranks, |group| {
        let device = Device::flex().autodiff();
        let layers: Vec<Linear> = (0..8).map(|_| LinearConfig::new(128, 128).with_bias(false).init(&device)).collect();
        let mut learner = Learner::new("layers", layers, LearnerConfig::default()).unwrap();
        if shard_optimizer {
            learner.shard(&group);
        }
        for step in 0..STEPS as u64 {
            let x = Tensor::<2>::ones([1, 128], &device);
            let loss = learner.module().iter().map(|layer| layer.forward(x.clone()).sum()).reduce(|sum, one| sum + one);
            learner.accumulate(loss.unwrap(), 1.0);
            learner.join(&group, false);
            learner.prepare().update(step);
        }
        assert_eq!(learner.memory().optimizer.get() as usize, 8 * LAYERS / if shard_optimizer { ranks } else { 1 });
        let together = || {
            group.any(false);
            let usage = CountingAllocator.current_usage();
            group.any(false);
            usage
        };
        let with = together();
        drop(learner);
        with - together() // of all ranks
    });
    (*held.iter().min().unwrap(), sent / STEPS as u64)
}

/// Weights of the layers.
const LAYERS: usize = 8 * 128 * 128;

#[test]
fn each_rank_holds_its_part_of_the_states_and_sends_what_a_sum_sends() {
    let _alone = alone();
    let (whole, sent_whole) = layers(4, false);
    let (split, sent_split) = layers(4, true);
    let states = 8 * LAYERS;
    let saved = whole - split;
    assert!(
        saved.abs_diff(3 * states) < states / 20,
        "four times the states become once: {whole} - {split} of {}",
        4 * states
    );
    // of N ranks each sends (N - 1) / N of the gradients, and as much of the sums or of the weights
    assert_eq!((sent_whole, sent_split), (2 * 3 * LAYERS as u64, 2 * 3 * LAYERS as u64));
}

/// A layer with a batch norm and a codebook.
#[derive(Module, Debug)]
struct Normed {
    layer: Linear,
    norm: BatchNorm,
    codebook: VectorQuantizer,
}

struct NormedWorkload(Learner<Normed>);

impl Workload for NormedWorkload {
    type Batch = Tensor<2>;

    fn learners(&mut self) -> Vec<&mut dyn AnyLearner> {
        vec![&mut self.0]
    }

    fn loss(&mut self, _learner: usize, batch: &Tensor<2>, _position: StepPosition) -> Option<Losses> {
        let Normed { layer, norm, codebook } = self.0.module();
        let y = norm.forward(layer.forward(batch.clone())).tanh();
        let (y, commitment) = codebook.forward(y.reshape([-1, 4, 1, 1, 1]));
        let distance = (y.reshape(batch.dims()) - batch.clone()).powi_scalar(2).mean();
        Some(Losses { total: distance + commitment, parts: Vec::new() })
    }
}

/// Three steps of eight items each, dealt out to so many ranks: weights, running statistics and codebook of each.
fn normed(ranks: usize, sync_batch_norm: bool) -> Vec<Vec<f32>> {
    on_ranks(ranks, |group| {
        // of its own: autodiff takes turns in graphs that share a weight, and ranks that wait for each other do not
        let values: Vec<f32> = (0..16).map(|value| (value as f32).cos()).collect();
        let mut layer: Linear = LinearConfig::new(4, 4).with_bias(false).init(&device());
        layer.weight = Param::from_tensor(Tensor::from_data(TensorData::new(values, [4, 4]), &device()));
        let codebook = random::scoped(|| {
            random::seed(&device(), 5);
            VectorQuantizerConfig::new(1, 4).init(&device())
        });
        let module = Normed { layer, norm: BatchNormConfig::new(4).init(&device()), codebook };
        let optimizer = OptimizerConfig::new(OptimizerKind::Sgd);
        let config = LearnerConfig::new(ScheduleConfig::new(0.1)).with_optimizer(optimizer);
        let learner = Learner::new("normed", module, config).unwrap();
        let config =
            TrainerConfig::default().with_accumulation_steps(ranks as u64).with_sync_batch_norm(sync_batch_norm);
        let mut trainer = Trainer::new(NormedWorkload(learner), config, &device());
        trainer.join_group(group).unwrap();
        let order = trainer.batch_order();
        let items = 8 / ranks;
        let batch = |index: u64| {
            let values = (0..4 * items).map(|value| ((4 * items) as u64 * index + value as u64) as f32).map(f32::sin);
            Ok::<_, TrainError>(Tensor::from_data(TensorData::new(values.collect::<Vec<_>>(), [items, 4]), &device()))
        };
        let mut batches = (order.first..).step_by(order.stride as usize).map(batch);
        (0..3).for_each(|_| drop(trainer.step(&mut batches).unwrap()));
        bits(trainer.workload().0.module()).concat().into_iter().map(f32::from_bits).collect()
    })
}

#[test]
fn batch_norms_and_codebooks_in_step_have_the_statistics_of_one_batch() {
    let _alone = alone();
    let one = normed(1, true).remove(0);
    let distance = |several: &[f32]| several.iter().zip(&one).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    for ranks in [2, 4] {
        let several = normed(ranks, true);
        assert!(several.iter().all(|rank| *rank == several[0]), "all ranks hold the same bits");
        assert!(distance(&several[0]) < 1e-6, "{ranks} ranks: {}", distance(&several[0]));
    }
    assert!(distance(&normed(2, false)[0]) > 1e-3, "else each has its own");
}

#[test]
fn a_rank_that_fails_ends_the_pass_that_others_wait_for_it_in() {
    let _alone = alone();
    let sync = Setup { sync_batch_norm: true, with_discriminator: true, ..setup(2) };
    let straight = trained(&sync, 2, 1).remove(0).1;
    let ranks = on_ranks(2, |group| {
        let fails = group.ranks().rank() == 1;
        let mut trainer = trainer(&sync, group);
        let taken =
            if fails { trainer.step(&mut batches(&trainer).take(0)) } else { trainer.step(&mut batches(&trainer)) };
        steps(&mut trainer, 1);
        (taken.unwrap_err(), state(&trainer))
    });
    assert!(matches!(ranks[1].0, TrainError::OutOfBatches { step: 0 }), "{}", ranks[1].0);
    assert!(matches!(&ranks[0].0, TrainError::Rank { rank: 1, .. }), "{}", ranks[0].0);
    assert!(ranks.iter().all(|(_, state)| *state == straight), "and leaves no trace");
    let errors = on_ranks(2, |group| {
        let memory_limit = (group.ranks().rank() == 1).then_some(leanburn_common::Bytes(1));
        let mut trainer = trainer(&Setup { memory_limit, ..sync.clone() }, group);
        trainer.step(&mut batches(&trainer)).unwrap_err()
    });
    assert!(
        errors.iter().all(|error| matches!(error, TrainError::OutOfMemory { state_is_intact: true, .. })),
        "{errors:?}"
    );
}

/// The autoencoder with its finest levels in slabs, each volume held by so many ranks.
fn shared_volumes(volume_ranks: usize, accumulation_steps: u64) -> Setup {
    let streamed = Residency::Stream(StreamSettings::default().with_slab_planes(4));
    let residency =
        ResidencyPolicy::keep().with_rule("encoder.level_0", streamed).with_rule("decoder.level_0", streamed);
    // a weight at which the divergence shows in the gradients
    Setup { residency, volume_ranks, kl_weight: 1e-3, ..setup(accumulation_steps) }
}

#[test]
fn ranks_that_hold_a_volume_together_train_as_one_process() {
    let _alone = alone();
    for (ranks, volume_ranks, accumulation_steps) in [(2, 2, 1), (3, 3, 1), (4, 2, 2)] {
        let one = trained(&shared_volumes(1, accumulation_steps), 1, 3).remove(0);
        let several = trained(&shared_volumes(volume_ranks, accumulation_steps), ranks, 3);
        assert!(several.windows(2).all(|pair| pair[0] == pair[1]), "all ranks hold the same bits");
        let error = apart(&several[0].0, &one.0);
        assert!(error < 2e-6, "{ranks} ranks: {error}");
    }
}

/// By how much losses and norms of gradients of two trainings differ, the worst of all steps.
fn apart(found: &[StepReport], expected: &[StepReport]) -> f64 {
    let numbers = |report: &StepReport| {
        let norms = report.learners.iter().map(|learner| learner.gradient_norm);
        report.losses.values().copied().chain(norms).collect::<Vec<_>>()
    };
    let [found, expected] = [found, expected].map(|reports| reports.iter().flat_map(numbers).collect::<Vec<_>>());
    assert_eq!(found.len(), expected.len());
    let errors = found.iter().zip(&expected).map(|(found, expected)| (found - expected).abs() / expected.abs());
    errors.inspect(|error| assert!(error.is_finite(), "{found:?} {expected:?}")).fold(0.0, f64::max)
}

#[test]
fn batch_norms_in_step_are_streamed_too() {
    let _alone = alone();
    let streamed = Residency::Stream(StreamSettings::default().with_slab_planes(2));
    let on_two = |residency: ResidencyPolicy, sync_batch_norm: bool| {
        let setup = Setup { residency, sync_batch_norm, with_discriminator: true, ..setup(2) };
        let ranks = trained(&setup, 2, 3);
        assert_eq!(ranks[0], ranks[1], "all ranks hold the same bits");
        ranks.into_iter().next().unwrap().0
    };
    let stream = || ResidencyPolicy::keep().with_rule("discriminator*", streamed);
    let kept = on_two(ResidencyPolicy::keep(), true);
    let error = apart(&on_two(stream(), true), &kept);
    assert!(error < 1e-5, "{error}");
    let own = apart(&on_two(stream(), false), &kept);
    assert!(own > 1e-3, "with statistics of their own: {own}");
}

#[test]
fn volumes_that_cannot_be_shared_are_an_error_of_all() {
    let _alone = alone();
    let errors = on_ranks(2, |group| {
        let setup = Setup { with_discriminator: true, ..shared_volumes(2, 1) };
        let mut trainer = trainer(&setup, group);
        let mut batches = batches(&trainer);
        trainer.step(&mut batches).unwrap_err()
    });
    assert!(errors.iter().all(|error| matches!(error, TrainError::WholeVolumes)), "{errors:?}");
    let uneven = on_ranks(3, |group| shared_volumes(2, 3).trainer().join_group(group).unwrap_err());
    assert!(matches!(uneven[0], TrainError::UnevenVolumeRanks { volume_ranks: 2, ranks: 3 }), "{uneven:?}");
}
