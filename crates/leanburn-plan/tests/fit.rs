//! Plans within a budget, on chains of segments small enough to try every assignment.

use std::cell::RefCell;

use burn::module::{Module, Param};
use burn::prelude::*;
use burn::tensor::ops::ConvOptions;
use leanburn_common::Bytes;
use leanburn_ops::{Activation, Convolution, Norm, backward, norm_act_conv3d, recording::mark_step};
use leanburn_plan::{
    Candidate, Class, FlexMemory, Frontier, Machine, Plans, Rates, RecordError, Recording, Space, Target, Variant,
    bound, frontier, record,
};

/// Two convolutions, wider or narrower inside.
#[derive(Module, Debug)]
struct Block {
    weights: [Param<Tensor<5>>; 2],
}

impl Block {
    fn new(channels: usize, inside: usize, device: &Device) -> Self {
        let weight = |shape: [usize; 5]| Param::from_tensor(Tensor::zeros(shape, device).require_grad());
        Self { weights: [weight([inside, channels, 3, 3, 3]), weight([channels, inside, 3, 3, 3])] }
    }

    fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        let convolve = |x: Tensor<5>, weight: &Param<Tensor<5>>, residual| {
            let norm = Norm { num_groups: 1, epsilon: 1e-5, weight: None, bias: None };
            let options = ConvOptions::new([1; 3], [1; 3], [1; 3], 1);
            let convolution = Convolution { weight: weight.val(), bias: None, options };
            norm_act_conv3d(x, Some(norm), Activation::Silu, convolution, residual)
        };
        convolve(convolve(x.clone(), &self.weights[0], None), &self.weights[1], Some(x))
    }
}

/// A chain of blocks on a volume that may be halved in batch.
struct Chain {
    /// Channels inside of each block.
    inside: Vec<usize>,
}

impl Space for Chain {
    type Error = RecordError;

    fn splits(&self) -> Vec<(usize, u64)> {
        vec![(2, 1), (1, 2)]
    }

    fn record(&self, candidate: &Candidate) -> Result<Recording, RecordError> {
        let policy = candidate.residency();
        let step = |device: &Device| {
            let blocks: Vec<Block> = self.inside.iter().map(|&inside| Block::new(8, inside, device)).collect();
            mark_step(device);
            for _ in 0..candidate.recorded() {
                let mut x = Tensor::<5>::zeros([candidate.micro_batch, 8, 16, 16, 16], device);
                for (index, block) in blocks.iter().enumerate() {
                    x = policy.run(&format!("block_{index}"), block, x, |block: &Block, x| block.forward(x));
                }
                let _ = backward(x.sum()).take_module(&blocks);
            }
        };
        record(Target::Cpu, step).map(|(recording, ())| recording)
    }
}

const MACHINE: Machine<'_> = Machine {
    memory: &FlexMemory,
    rates: Rates { flops: 1e11, half_flops: 1e11, bandwidth: 1e10, overhead: 1e-6 },
    other_bytes: Bytes::mib(1),
};

fn plans(chain: &Chain) -> Frontier {
    frontier(chain, &MACHINE, Class::Lossless).unwrap()
}

/// Peak and seconds of every assignment.
fn every_assignment(chain: &Chain) -> Vec<(Bytes, f64)> {
    let assignment = |bits: u32, (micro_batch, accumulation): (usize, u64)| {
        let is_chosen = |index: &usize| bits >> index & 1 == 1;
        let recompute = (0..chain.inside.len()).filter(is_chosen).map(|index| format!("block_{index}")).collect();
        let candidate = Candidate { recompute, ..Candidate::new(micro_batch, accumulation) };
        let timeline = chain.record(&candidate).unwrap().timeline(MACHINE.memory);
        (
            bound(timeline.peak()) + MACHINE.other_bytes,
            MACHINE.rates.seconds(&timeline, accumulation, candidate.recorded()),
        )
    };
    let bits = 0..1 << chain.inside.len();
    bits.flat_map(|bits| chain.splits().into_iter().map(move |split| assignment(bits, split))).collect()
}

/// The fastest of all assignments within a budget.
fn fastest(assignments: &[(Bytes, f64)], budget: Bytes) -> Option<f64> {
    let within = assignments.iter().filter(|(peak, _)| *peak <= budget);
    within.map(|(_, seconds)| *seconds).min_by(f64::total_cmp)
}

/// Budgets from less than anything needs to plenty.
fn budgets(assignments: &[(Bytes, f64)]) -> Vec<Bytes> {
    let (low, high) =
        (assignments.iter().map(|(peak, _)| *peak).min(), assignments.iter().map(|(peak, _)| *peak).max());
    let (low, high) = (low.unwrap().get(), high.unwrap().get());
    let between = (1..=30).map(|index| low + (high - low) / 30 * index);
    [low - 1, low].into_iter().chain(between).chain([2 * high]).map(Bytes).collect()
}

#[test]
fn of_a_short_chain_nothing_within_the_budget_is_faster() {
    let chain = Chain { inside: vec![4, 24, 8, 2] };
    let (plans, assignments) = (plans(&chain), every_assignment(&chain));
    for budget in budgets(&assignments) {
        let found = plans.within(budget).map(|plan| plan.seconds);
        assert_eq!(found, fastest(&assignments, budget), "budget {budget}");
    }
}

#[test]
fn of_a_chain_of_eight_nothing_within_the_budget_is_faster() {
    let chain = Chain { inside: vec![8; 8] };
    let (plans, assignments) = (plans(&chain), every_assignment(&chain));
    for budget in budgets(&assignments) {
        let found = plans.within(budget).map(|plan| plan.seconds);
        assert_eq!(found, fastest(&assignments, budget), "budget {budget}");
    }
}

#[test]
fn of_a_long_chain_the_plan_is_nearly_the_fastest() {
    let chain = Chain { inside: vec![8, 2, 16, 4, 8, 24, 2, 8, 4] };
    let (plans, assignments) = (plans(&chain), every_assignment(&chain));
    for budget in budgets(&assignments).into_iter().skip(2) {
        let (found, best) = (plans.within(budget).map(|plan| plan.seconds), fastest(&assignments, budget));
        let ratio = found.unwrap_or(f64::INFINITY) / best.unwrap();
        println!("{budget} {ratio:.3}");
        assert!((1.0..1.05).contains(&ratio), "budget {budget}: {ratio} times the fastest");
    }
}

/// Of 64 segments there are 2^64 choices, which an integer does not count.
#[test]
fn of_a_very_long_chain_not_every_choice_is_tried() {
    let chain = Chain { inside: vec![2; 64] };
    let plans = plans(&chain);
    let (smallest, fastest) = (plans.smallest().unwrap(), plans.plans.last().unwrap());
    assert!(smallest.peak < fastest.peak && fastest.candidate.recompute.is_empty());
    assert!(smallest.candidate.recompute.len() > 32, "{smallest:?}");
}

#[test]
fn a_larger_budget_is_never_slower_and_never_exceeded() {
    let chain = Chain { inside: vec![8, 2, 16, 4, 8, 24, 2, 8, 4, 12] };
    let plans = plans(&chain);
    let smallest = plans.smallest().unwrap().peak;
    assert!(plans.within(smallest - Bytes(1)).is_none());
    let mut before = f64::INFINITY;
    for budget in (0..300).map(|index| smallest.share(1.0 + f64::from(index) / 50.0)) {
        let plan = plans.within(budget).unwrap();
        assert!(plan.peak <= budget && plan.seconds <= before, "budget {budget}: {plan:?}");
        let again = chain.record(&plan.candidate).unwrap().timeline(MACHINE.memory);
        assert_eq!(bound(again.peak()) + MACHINE.other_bytes, plan.peak, "a plan's peak is that of its recording");
        before = plan.seconds;
    }
    let fastest = plans.plans.iter().map(|plan| plan.seconds).min_by(f64::total_cmp);
    assert_eq!(Some(before), fastest, "with plenty nothing is faster");
}

/// How often a chain's variants are recorded.
struct Counted {
    chain: Chain,
    recorded: RefCell<[usize; 3]>,
}

impl Space for Counted {
    type Error = RecordError;

    fn variants(&self) -> Vec<Variant> {
        let variant = |class| Variant { class, ..Variant::default() };
        [Class::Lossless, Class::Numerics, Class::Model].map(variant).to_vec()
    }

    fn splits(&self) -> Vec<(usize, u64)> {
        self.chain.splits()
    }

    fn record(&self, candidate: &Candidate) -> Result<Recording, RecordError> {
        self.recorded.borrow_mut()[candidate.variant] += 1;
        self.chain.record(candidate)
    }
}

/// Of a chain of eight, as above: of 256 choices for each of two splits.
#[test]
fn what_a_plan_beats_is_not_recorded() {
    let space = Counted { chain: Chain { inside: vec![8, 2, 16, 4, 8, 24, 2, 8] }, recorded: RefCell::default() };
    frontier(&space, &MACHINE, Class::Lossless).unwrap();
    let [recorded, ..] = *space.recorded.borrow();
    assert!(recorded <= 200, "{recorded} of 512");
}

#[test]
fn what_was_searched_for_one_class_is_not_searched_for_the_next() {
    let space = Counted { chain: Chain { inside: vec![4, 8] }, recorded: RefCell::default() };
    let mut search = Plans::new(&space, &MACHINE);
    let mut before = [0; 3];
    for (class, is_new) in [
        (Class::Lossless, [true, false, false]),
        (Class::Numerics, [false, true, false]),
        (Class::Lossless, [false; 3]),
        (Class::Model, [false, false, true]),
        (Class::Model, [false; 3]),
    ] {
        let found = search.up_to(class).unwrap();
        let recorded = *space.recorded.borrow();
        assert_eq!(std::array::from_fn(|variant| recorded[variant] > before[variant]), is_new, "{class}: {recorded:?}");
        assert!(!found.plans.is_empty() && found.plans.iter().all(|plan| plan.class <= class));
        before = recorded;
    }
    let again = frontier(&space, &MACHINE, Class::Model).unwrap();
    assert_eq!(search.up_to(Class::Model).unwrap(), again, "nothing is lost");
}

/// From each budget on the same plans as of all, where halves of a batch take hardly longer and where they do.
#[test]
fn down_to_a_budget_the_plans_are_the_same_and_fewer_are_recorded() {
    for overhead in [1e-6, 1e-3] {
        let machine = Machine { rates: Rates { overhead, ..MACHINE.rates }, ..MACHINE };
        let space = Counted { chain: Chain { inside: vec![8, 2, 16, 4, 8, 24] }, recorded: RefCell::default() };
        let all = frontier(&space, &machine, Class::Lossless).unwrap();
        let recorded = || std::mem::take(&mut *space.recorded.borrow_mut())[0];
        let of_all = recorded();
        let [smallest, largest] = [all.plans.first(), all.plans.last()].map(|plan| plan.unwrap().peak);
        let mut budgets: Vec<Bytes> = all.plans.iter().map(|plan| plan.peak).collect();
        budgets.extend([smallest - Bytes(1), largest + largest]);
        let mut of_each = Vec::new();
        for &least in &budgets {
            let plans = Plans::new(&space, &machine).down_to(least, Class::Lossless).unwrap();
            of_each.push(recorded());
            for &budget in budgets.iter().filter(|budget| **budget >= least) {
                let seconds = |plans: &Frontier| plans.within(budget).map(|plan| plan.seconds);
                assert_eq!(seconds(&plans), seconds(&all), "{budget} of budgets from {least} on");
            }
            let below = plans.plans.iter().filter(|plan| plan.peak <= least).count();
            assert_eq!(below, usize::from(least >= smallest), "one that fits, where one does");
        }
        assert!(of_each.iter().all(|fewer| *fewer <= of_all) && of_each.last() == Some(&2), "{of_each:?} of {of_all}");
        let half = of_each[budgets.len() / 2];
        assert!(4 * half < 3 * of_all, "{half} of {of_all}");
        // What surely does not fit is told by its smallest plan, which few recordings find.
        let mut search = Plans::new(&space, &machine);
        let plans = search.down_to(Bytes(smallest.get() / 2), Class::Lossless).unwrap();
        let few = recorded();
        assert_eq!(plans.smallest().map(|plan| plan.peak), Some(smallest));
        assert!(8 * few < of_all, "{few} of {of_all}");
        // More is not answered by what was found then.
        let budget = budgets[budgets.len() / 2];
        let plans = search.down_to(budget, Class::Lossless).unwrap();
        recorded();
        assert_eq!(plans.within(budget), all.within(budget));
    }
}

#[test]
fn what_was_searched_down_to_a_budget_is_searched_again_for_less() {
    let space = Counted { chain: Chain { inside: vec![4, 8] }, recorded: RefCell::default() };
    let mut search = Plans::new(&space, &MACHINE);
    let mut recorded = |least: Bytes| {
        let plans = search.down_to(least, Class::Lossless).unwrap();
        (plans, std::mem::take(&mut *space.recorded.borrow_mut())[0])
    };
    assert_eq!(recorded(Bytes::mib(1 << 10)).1, 2, "the two splits as they are");
    let (all, again) = recorded(Bytes(0));
    assert!(again > 2 && all == frontier(&space, &MACHINE, Class::Lossless).unwrap(), "{again}");
    space.recorded.take();
    let (least, none) = recorded(Bytes::mib(1 << 10));
    assert_eq!((least.plans.len(), none), (1, 0), "what is known down to less is known");
}
