//! What a GPU's pool holds, counted in activations.

use crate::common::{ResBlock, lean_chain};
use crate::device::gpu;
use burn::prelude::*;

const BLOCKS: usize = 8;
const CHANNELS: usize = 16;
const SIDE: usize = 16;
const ACTIVATION: f64 = (CHANNELS * SIDE * SIDE * SIDE * 4) as f64;

/// After what was begun is done: a process that ends while SwiftShader's threads compute ends with a fault.
fn live(device: &Device) -> f64 {
    device.sync().expect("the device computes what it was given");
    device.memory_pool_usage().expect("a GPU has a pool").bytes_in_use as f64
}

/// Activations that a block saves for backward.
fn saved(recomputed: bool) -> f64 {
    let device = gpu().autodiff();
    device.seed(1);
    let blocks: Vec<ResBlock> = (0..BLOCKS).map(|_| ResBlock::new(CHANNELS, &device)).collect();
    let x =
        Tensor::<5>::random([1, CHANNELS, SIDE, SIDE, SIDE], burn::tensor::Distribution::Uniform(-1.0, 1.0), &device);
    drop(lean_chain(&blocks, x.clone(), recomputed)); // what only the first time takes
    let before = live(&device);
    let y = lean_chain(&blocks, x, recomputed);
    let after = live(&device);
    drop(y);
    (after - before) / ACTIVATION / BLOCKS as f64
}

#[test]
fn a_chain_of_blocks_keeps_what_its_operations_say() {
    let (plain, recomputed) = (saved(false), saved(true));
    println!("saved a block: plain {plain:.2}, recomputed {recomputed:.2}");
    assert!(plain <= 2.3 && plain > 1.5, "plain {plain}");
    assert!(recomputed <= 1.2 && recomputed > 0.5, "recomputed {recomputed}");
}
