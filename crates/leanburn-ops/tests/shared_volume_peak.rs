//! What processes hold that share a volume, beside one that has it alone. Alone in its binary: it counts the whole heap.

#[path = "common/level.rs"]
mod level;
#[path = "common/ranks.rs"]
mod ranks;

use burn::prelude::*;
use leanburn_ops::{CountingAllocator, StreamKeep, StreamSettings, backward};
use level::{Kind, Level};
use ranks::on_ranks;

#[global_allocator]
static HEAP: CountingAllocator = CountingAllocator;

/// Bytes held at the peak of a step, above what is there before, by so many processes together; each has its planes of the input.
fn peak(ranks: usize, keep: StreamKeep) -> f64 {
    let settings = StreamSettings::default().with_slab_planes(2).with_keep(keep);
    let before = HEAP.current_usage();
    HEAP.reset_peak_usage();
    on_ranks(ranks, |_| {
        let device = Device::flex().autodiff();
        let level = Level::new(Kind::Decoder, [16, 8], &device);
        let x = Tensor::<5>::ones([1, 16, 96 / ranks, 14, 14], &device).require_grad();
        drop(backward(level.run(x, Some(settings)).sum()));
    });
    (HEAP.peak_usage() - before) as f64
}

/// One test, as tests of a binary run beside each other.
#[test]
fn two_processes_hold_little_more_than_half_each() {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build_global();
    assert!(pool.is_ok(), "one thread computes for all, so that scratch does not count twice");
    // Slabs are as large in each process, and the less is stored the more of the peak they are.
    for (keep, most) in [(StreamKeep::Two, 0.55), (StreamKeep::One, 0.63)] {
        let [one, two] = [1, 2].map(|ranks| peak(ranks, keep));
        println!("{keep:?}: {:.3} of the heap of one in each of two processes", two / one / 2.0);
        assert!(two / 2.0 < most * one, "{keep:?}: {two} of {one}");
    }
}
