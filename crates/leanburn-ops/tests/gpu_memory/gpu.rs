//! What a GPU's pool holds, counted in activations.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::common::{ResBlock, lean_chain};
use crate::device::gpu;
use crate::level::{Kind, Level};
use burn::prelude::*;
use leanburn_ops::{StreamKeep, StreamSettings, backward, probe, random};

const BLOCKS: usize = 8;
const CHANNELS: usize = 16;
const SIDE: usize = 16;
const ACTIVATION: f64 = (CHANNELS * SIDE * SIDE * SIDE * 4) as f64;

/// The tests of a binary have one pool.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

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
    let _alone = alone();
    let (plain, recomputed) = (saved(false), saved(true));
    println!("saved a block: plain {plain:.2}, recomputed {recomputed:.2}");
    assert!(plain <= 2.3 && plain > 1.5, "plain {plain}");
    assert!(recomputed <= 1.2 && recomputed > 0.5, "recomputed {recomputed}");
}

/// Channels of the enlarged volume of a decoder's level and of those behind it.
const LEVEL: [usize; 2] = [16, 8];
/// Of the level's input; the other volumes are twice as long.
const SIZE: [usize; 3] = [24, 8, 8];
/// Bytes of a volume of `LEVEL[1]` channels at the full size.
const VOLUME: f64 = (LEVEL[1] * SIZE[0] * SIZE[1] * SIZE[2] * 8 * 4) as f64;

/// Volumes held between forward and backward, and at the peak, above what is there before.
fn held_and_peak(streamed: Option<StreamSettings>) -> [f64; 2] {
    let device = gpu().autodiff();
    random::seed(&device, 1);
    let level = Level::new(Kind::Decoder, LEVEL, &device);
    let [depth, height, width] = SIZE;
    let x = random::normal([1, LEVEL[0], depth, height, width], &device).require_grad();
    let before = live(&device);
    let (most, of) = (Rc::new(Cell::new(0.0)), device.clone());
    let seen = most.clone();
    let sample = move || {
        let pool = of.memory_pool_usage().expect("a GPU has a pool");
        seen.set(pool.bytes_in_use.max(seen.get() as u64) as f64);
    };
    let held = probe::sampled(Rc::new(sample), || {
        let output = level.run(x.clone(), streamed);
        let held = live(&device) - before;
        drop(backward(output.sum()));
        live(&device);
        held
    });
    [held, most.get() - before].map(|bytes| bytes / VOLUME)
}

#[test]
fn a_streamed_level_holds_what_its_preset_says() {
    let _alone = alone();
    let [plain_held, plain_peak] = held_and_peak(None);
    println!("plain: held {plain_held:.2}, peak {plain_peak:.2} volumes");
    let settings = StreamSettings::default().with_slab_planes(4);
    for (keep, most) in [(StreamKeep::Two, 3.2), (StreamKeep::None, 1.8)] {
        let [held, peak] = held_and_peak(Some(settings.with_keep(keep)));
        println!("{keep:?}: held {held:.2}, peak {peak:.2} volumes");
        assert!(held < 0.2, "{keep:?}: {held:.2} volumes are saved for backward");
        assert!(peak < most, "{keep:?}: {peak:.2} volumes at the peak");
    }
    assert!(plain_held > 3.0 && plain_peak > 5.0, "the plain level holds U, H, Y and gradients");
}
