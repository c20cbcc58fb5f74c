//! Live and peak memory of steps, kept and recomputed. Alone in its binary: it counts the whole heap.

mod common;

use common::{Setup, alone, batches, device};
use leanburn_common::Bytes;
use leanburn_ops::ResidencyPolicy;
use leanburn_train::{CountingAllocator, MemoryMonitor, MemoryUse};

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
    let parameters: usize = common::bits(trainer.workload().autoencoder().module()).iter().map(Vec::len).sum();
    let bytes = Bytes(4 * parameters as u64);
    let [(name, memory)] = trainer.memory()[..] else { panic!("one learner") };
    assert_eq!(name, "autoencoder");
    assert_eq!(
        [memory.weights, memory.gradients, memory.optimizer, memory.average],
        [bytes, bytes, bytes + bytes, bytes]
    );
}
