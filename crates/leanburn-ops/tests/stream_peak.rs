//! Heap held and peak of a streamed level of a decoder. Alone in its binary: it counts the whole heap.

#[path = "common/level.rs"]
mod level;

use burn::prelude::*;
use burn::tensor::Distribution;
use leanburn_ops::{CountingAllocator, StreamKeep, StreamSettings, backward};
use level::{Kind, Level};

#[global_allocator]
static HEAP: CountingAllocator = CountingAllocator;

/// Channels of the enlarged volume and of those behind it.
const CHANNELS: [usize; 2] = [16, 8];
/// Of the input; the other volumes are twice as long.
const SIZE: [usize; 3] = [32, 24, 24];
/// Bytes of a volume of `CHANNELS[1]` channels at the full size.
const VOLUME: f64 = (CHANNELS[1] * SIZE[0] * SIZE[1] * SIZE[2] * 8 * 4) as f64;

/// Volumes held between forward and backward, and at the peak, above what is there before.
fn held_and_peak(streamed: Option<StreamSettings>) -> [f64; 2] {
    let device = Device::flex().autodiff();
    let level = Level::new(Kind::Decoder, CHANNELS, &device);
    let [depth, height, width] = SIZE;
    let x = Tensor::<5>::random([1, CHANNELS[0], depth, height, width], Distribution::Default, &device).require_grad();
    let before = HEAP.current_usage() as f64;
    HEAP.reset_peak_usage();
    let output = level.run(x.clone(), streamed);
    let held = HEAP.current_usage() as f64 - before;
    drop(backward(output.sum()));
    [held, HEAP.peak_usage() as f64 - before].map(|bytes| bytes / VOLUME)
}

/// One test, as tests of a binary run beside each other.
#[test]
fn a_streamed_level_holds_what_its_preset_says() {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let on_one_thread = |settings| pool.install(|| held_and_peak(settings));
    let [plain_held, plain_peak] = on_one_thread(None);
    println!("plain: held {plain_held:.2}, peak {plain_peak:.2} volumes");
    let settings = StreamSettings::default().with_slab_planes(2);
    // The gradient of the input is a quarter of a volume; a slab of two planes of 64 is a thirty-second.
    for (keep, percent, most) in [
        (StreamKeep::Two, 0, 2.5),
        (StreamKeep::One, 0, 1.8),
        (StreamKeep::None, 0, 1.1),
        (StreamKeep::One, 50, 2.3),
        (StreamKeep::None, 50, 1.6),
    ] {
        let [held, peak] = on_one_thread(Some(settings.with_keep(keep).with_cached_percent(percent)));
        println!("{keep:?}, {percent} %: held {held:.2}, peak {peak:.2} volumes");
        assert!(held < 0.2, "{keep:?}: {held:.2} volumes are saved for backward");
        assert!(peak < most, "{keep:?}: {peak:.2} volumes at the peak");
    }
    assert!(plain_held > 3.0 && plain_peak > 5.0, "the plain level holds U, H, Y and gradients");
}
