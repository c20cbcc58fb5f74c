//! Several processes train as one does: the same bits where each takes one micro-batch, and an error of one is an error of all.
//!
//! The processes are threads here. `scripts/check_ranks.py` runs the command under MPI.

mod common;

use std::sync::{Arc, Barrier, Mutex};
use std::thread;

use burn::nn::{Linear, LinearConfig};
use burn::tensor::{Device, Tensor};
use common::{AutoencoderTrainer, Batch, Setup, alone, phantoms, state};
use leanburn_train::{
    AnyLearner, CheckpointStore, CountingAllocator, Group, Learner, LearnerConfig, LossScale, Precision, Ranks,
    StepReport, TrainError,
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
    all_are_here: Barrier,
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

    fn sum(&self, values: &mut [f32]) {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let there = self.gather(&bytes);
        for (index, value) in values.iter_mut().enumerate() {
            let of = |bytes: &Vec<u8>| f32::from_le_bytes(bytes[4 * index..4 * index + 4].try_into().unwrap());
            *value = there.iter().map(of).reduce(|sum, value| sum + value).unwrap();
        }
    }

    fn gather(&self, bytes: &[u8]) -> Vec<Vec<u8>> {
        self.shared.said.lock().unwrap()[self.rank] = bytes.to_vec();
        self.shared.all_are_here.wait();
        let all = self.shared.said.lock().unwrap().clone();
        self.shared.all_are_here.wait();
        all
    }
}

/// Runs something as each of so many ranks; what they come to, in their order.
fn on_ranks<T: Send>(size: usize, run: impl Fn(Group) -> T + Sync) -> Vec<T> {
    let shared = Arc::new(Shared { said: Mutex::new(vec![Vec::new(); size]), all_are_here: Barrier::new(size) });
    let run = &run;
    thread::scope(|scope| {
        let start = |rank| {
            let shared = shared.clone();
            scope.spawn(move || run(Thread { rank, shared }.into()))
        };
        let threads: Vec<_> = (0..size).map(start).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// The trainer of a rank; one at a time, since initial weights are drawn with the generator of the device.
fn trainer(setup: &Setup, group: Group) -> AutoencoderTrainer {
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap();
    let mut trainer = setup.trainer();
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
    let setup = Setup { precision: Precision::F16, scale, ..setup(2) };
    let bad_on = |rank: usize| {
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
    let first = bad_on(0);
    assert_eq!(first[0].0, [(true, 1000.0), (false, 500.0), (false, 500.0)]);
    assert!(first[0] == first[1]);
    assert!(bad_on(1)[0] == first[0], "whichever rank it is");
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
