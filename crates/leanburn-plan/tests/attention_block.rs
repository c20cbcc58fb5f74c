//! The block of attention: what a recording says of it, against the heap; and what it costs.

#[path = "common/threads.rs"]
mod threads;

use std::sync::{Mutex, MutexGuard, PoisonError};

use burn::prelude::*;
use burn::tensor::{DType, Distribution};
use leanburn_ops::{CountingAllocator, attention3d_in_blocks, backward, largest_attention_block};
use leanburn_plan::{CubeMemory, FlexMemory, MemoryModel, Rates, Target, Timeline, record};
use threads::on_new_threads;

#[global_allocator]
static HEAP: CountingAllocator = CountingAllocator;

const RATES: Rates = Rates { flops: 3e13, half_flops: 6e13, bandwidth: 7e11, overhead: 8e-6 };

fn alone() -> MutexGuard<'static, ()> {
    static RUNNING: Mutex<()> = Mutex::new(());
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Forward and backward of attention of two heads in blocks.
fn attend(dims: [usize; 5], dtype: DType, block: Option<usize>, device: &Device) {
    let [query, key, value] =
        [0; 3].map(|_| Tensor::<5>::random(dims, Distribution::Default, (device, dtype)).require_grad());
    let y = attention3d_in_blocks(query.clone(), key.clone(), value.clone(), 2, 0.25, block);
    let mut gradients = backward((y.clone() * y).sum());
    assert!([query, key, value].iter().all(|tensor| gradients.take(tensor).is_some()));
}

fn timeline(target: Target, memory: &dyn MemoryModel, work: impl FnOnce(&Device)) -> Timeline {
    record(target, work).unwrap().0.timeline(memory)
}

/// In float64 the CPU runs the composition that cards run: its heap shows what the recording must say.
/// What is recorded, how it allocates, a volume, and blocks.
type Case<'a> = (Target, &'a dyn MemoryModel, [usize; 5], &'a [usize]);

#[test]
fn the_composition_takes_what_its_recording_says() {
    let _alone = alone();
    const DIMS: [usize; 5] = [1, 16, 12, 12, 12];
    const POSITIONS: usize = 12 * 12 * 12;
    let measured = |block| {
        on_new_threads(1, || {
            let before = HEAP.current_usage();
            HEAP.reset_peak_usage();
            attend(DIMS, DType::F64, block, &Device::flex().autodiff());
            (HEAP.peak_usage() - before) as f64
        })
    };
    // A plan counts what each thread of the pool keeps.
    let planned = |block| {
        on_new_threads(1, || {
            let timeline = timeline(Target::Cpu, &FlexMemory, |device| attend(DIMS, DType::F64, block, device));
            timeline.peak().get() as f64
        })
    };
    measured(Some(1)); // what is allocated once for all
    let mut before = f64::INFINITY;
    for block in [largest_attention_block(1, 2, POSITIONS), 576, 432, 100, 16] {
        let (planned, measured) = (planned(Some(block)), measured(Some(block)));
        println!("block {block}: planned {planned} measured {measured}");
        assert!((planned / measured - 1.0).abs() < 0.03, "block {block}: planned {planned} measured {measured}");
        assert!(measured < before, "block {block}: {measured}, {before}");
        before = measured;
    }
    let (all, most) = (planned(None), planned(Some(POSITIONS)));
    assert!(all == most && all == planned(Some(largest_attention_block(1, 2, POSITIONS))));
}

/// A smaller block takes less memory and more time, regardless of the device.
#[test]
fn a_smaller_block_takes_less_and_longer() {
    let _alone = alone();
    let devices: [Case<'_>; 2] = [
        (Target::Gpu, &CubeMemory, [1, 32, 24, 20, 28], &[128, 64, 32, 16]),
        (Target::Cpu, &FlexMemory, [1, 128, 12, 12, 12], &[144, 96, 48]),
    ];
    for (target, memory, dims, blocks) in devices {
        for dtype in [DType::F32, DType::BF16] {
            let of = |block| {
                let timeline = timeline(target, memory, |device| attend(dims, dtype, block, device));
                (timeline.peak(), RATES.seconds(&timeline, 1, 1))
            };
            let mut before = of(None);
            for &block in blocks {
                let (peak, seconds) = of(Some(block));
                println!("{target:?} {dtype:?} {block}: {peak} bytes {:.4} ms", 1e3 * seconds);
                assert!(peak < before.0 && seconds > before.1, "{block}: {peak}, {seconds} after {before:?}");
                before = (peak, seconds);
            }
        }
    }
}

/// A recording of many blocks is as long as that of two: one block stands for all.
#[test]
fn operations_do_not_grow_with_the_number_of_blocks() {
    let _alone = alone();
    let count = |block| {
        let (recording, ()) =
            record(Target::Gpu, |device| attend([1, 8, 16, 16, 16], DType::F32, Some(block), device)).unwrap();
        recording.operations().len()
    };
    assert_eq!(count(2), count(256));
    let timeline = timeline(Target::Gpu, &CubeMemory, |device| attend([1, 8, 16, 16, 16], DType::F32, Some(3), device));
    let products = timeline.events.iter().filter(|event| event.operation == "matmul");
    let flops: f64 = products.map(|event| event.repeats * event.flops as f64).sum();
    // forward: the scores and the sum of values; backward: the scores again and four gradients
    let expected = 7.0 * 2.0 * (8 * 4096 * 4096) as f64;
    assert!((flops / expected - 1.0).abs() < 1e-9, "{flops} of {expected}");
}
