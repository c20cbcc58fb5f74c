//! Heap held and peak of a chain of residual blocks, plain and recomputed. Alone in its binary: it counts the whole heap.

mod common;

use burn::prelude::*;
use burn::tensor::Distribution;
use common::{ResBlock, chain};
use leanburn_ops::{CountingAllocator, backward};

#[global_allocator]
static HEAP: CountingAllocator = CountingAllocator;

const BLOCKS: usize = 8;
const CHANNELS: usize = 16;
const SIDE: usize = 24;
const ACTIVATION: f64 = (CHANNELS * SIDE * SIDE * SIDE * 4) as f64;

/// Activations held between forward and backward, and at the peak, above what is there before the step.
fn held_and_peak(blocks: &[ResBlock], x: &Tensor<5>, recomputed: bool) -> (f64, f64) {
    let before = HEAP.current_usage() as f64;
    HEAP.reset_peak_usage();
    let loss = chain(blocks, x.clone(), recomputed).powf_scalar(2.0).mean();
    let held = HEAP.current_usage() as f64 - before;
    drop(backward(loss));
    ((held) / ACTIVATION, (HEAP.peak_usage() as f64 - before) / ACTIVATION)
}

#[test]
fn a_recomputed_chain_peaks_below_a_third_of_the_plain_one() {
    let device = Device::flex().autodiff();
    let blocks: Vec<_> = (0..BLOCKS).map(|_| ResBlock::new(CHANNELS, &device)).collect();
    let x = Tensor::<5>::random([1, CHANNELS, SIDE, SIDE, SIDE], Distribution::Normal(0.0, 1.0), &device);
    chain(&blocks, x.clone().slice([0..1, 0..CHANNELS, 0..4, 0..4, 0..4]), false); // initialises the parameters
    let (plain_held, plain_peak) = held_and_peak(&blocks, &x, false);
    let (lean_held, lean_peak) = held_and_peak(&blocks, &x, true);
    println!(
        "held: plain {plain_held:.2}, recomputed {lean_held:.2}; peak: {plain_peak:.2}, {lean_peak:.2} activations"
    );
    let per_block = (lean_held - 1.0) / BLOCKS as f64; // one activation belongs to the loss
    assert!(per_block < 1.1, "{per_block:.2} activations a block");
    assert!(lean_peak < plain_peak / 3.0, "{lean_peak:.2} of {plain_peak:.2} activations");
}
