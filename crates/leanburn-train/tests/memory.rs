//! Live and peak memory of steps, kept and recomputed. Alone in its binary: it counts the whole heap.

mod common;

use burn::tensor::{Device, Tensor};
use common::{Setup, WeightsWorkload, alone, batches, device, factors, optimizers};
use leanburn_common::Bytes;
use leanburn_ops::ResidencyPolicy;
use leanburn_plan::{Cause, FlexMemory, Target};
use leanburn_train::{CountingAllocator, MainModel, MemoryMonitor, MemoryUse, record_step};

#[global_allocator]
static HEAP: CountingAllocator = CountingAllocator;

/// Memory of the second step, above what is live before it.
fn second_step(residency: ResidencyPolicy) -> MemoryUse {
    let mut trainer = Setup { residency, ..Setup::default() }.trainer();
    let mut batches = batches(0);
    trainer.step(&mut batches).unwrap();
    let before = trainer.monitor().read().unwrap().live;
    let memory = trainer.step(&mut batches).unwrap().memory.unwrap();
    assert!(memory.peak >= memory.live && memory.reserved == memory.live, "{memory:?}");
    MemoryUse { peak: memory.peak - before, ..memory }
}

#[test]
fn a_recomputed_step_peaks_below_a_kept_one() {
    let _alone = alone();
    let kept = second_step(ResidencyPolicy::keep());
    let lean = second_step(ResidencyPolicy::recompute_all());
    println!("kept {kept:?}, recomputed {lean:?}");
    assert!(lean.peak < kept.peak.share(0.75), "{} of {}", lean.peak, kept.peak);
}

#[test]
fn a_peak_starts_from_what_is_live() {
    let _alone = alone();
    const LARGE: Bytes = Bytes::mib(64);
    let monitor = MemoryMonitor::new(&device());
    let large = vec![1u8; LARGE.get() as usize];
    let with = monitor.read().unwrap();
    assert!(with.live >= LARGE && with.peak >= with.live);
    drop(large);
    let without = monitor.read().unwrap();
    assert!(without.live < LARGE && without.peak >= LARGE, "{without:?}");
    monitor.start();
    let restarted = monitor.read().unwrap();
    assert!(restarted.peak < LARGE && restarted.peak >= restarted.live, "{restarted:?}");
}

#[test]
fn what_a_learner_holds_is_counted() {
    let _alone = alone();
    let mut trainer = Setup { average_decay: Some(0.9), ..Setup::default() }.trainer();
    let parameters: usize = common::bits(trainer.workload().model().module()).iter().map(Vec::len).sum();
    let bytes = Bytes(4 * parameters as u64);
    let [(name, memory)] = trainer.memory()[..] else { panic!("one learner") };
    assert_eq!(name, "autoencoder");
    assert_eq!(
        [memory.weights, memory.gradients, memory.optimizer, memory.average],
        [bytes, bytes, bytes + bytes, bytes]
    );
}

/// What a plan says, what a learner says, and what is on the heap.
#[test]
fn the_states_of_every_optimizer_are_planned_and_counted() {
    let _alone = alone();
    /// What the planner adds to each tensor that lasts.
    const HANDLE: Bytes = Bytes(940);
    const METADATA: f64 = 6.0 * 1024.0;
    for optimizer in optimizers() {
        let build = |device: &Device| WeightsWorkload::trainer(&optimizer, device);
        let recording = record_step(Target::Cpu, build, |device| Tensor::ones([1], device)).unwrap();
        let timeline = recording.timeline(&FlexMemory);
        let blocks = timeline.blocks_at(0).filter(|block| block.cause == Cause::Optimizer);
        let planned = blocks.map(|block| block.bytes - HANDLE).sum::<Bytes>();

        let mut trainer = build(&device()).unwrap();
        let before = HEAP.current_usage() as f64;
        let mut factors = factors(0);
        (0..3).for_each(|_| drop(trainer.step(&mut factors).unwrap()));
        let held = HEAP.current_usage() as f64 - before;
        let states = trainer.memory()[0].1.optimizer;
        println!("{}: planned {planned}, counted {states}, held {held} bytes", optimizer.kind);
        assert_eq!(planned, states, "{optimizer:?}");
        assert!((held - states.get() as f64).abs() < METADATA, "{optimizer:?}: {held} bytes held, {states} counted");
    }
}
