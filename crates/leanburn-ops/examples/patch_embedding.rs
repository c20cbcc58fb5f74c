//! Patch embeddings (kernel = stride) beside Burn's convolution: seconds of forward and backward, and the most they hold on the heap.
//!
//! ```bash
//! cargo run --release -p leanburn-ops --example patch_embedding
//! ```

use std::time::Instant;

use burn::tensor::{Device, Distribution, Tensor, module, ops::ConvOptions};
use leanburn_ops::{Convolution, CountingAllocator, backward, conv3d};

#[global_allocator]
static HEAP: CountingAllocator = CountingAllocator;

const RUNS: usize = 7;

type Convolve = fn(Tensor<5>, Convolution) -> Tensor<5>;

fn ours(x: Tensor<5>, convolution: Convolution) -> Tensor<5> {
    conv3d(x, convolution)
}

fn burns(x: Tensor<5>, Convolution { weight, bias, options }: Convolution) -> Tensor<5> {
    module::conv3d(x, weight, bias, options)
}

/// Median milliseconds of forward and backward, and the peak above what was there, in MiB.
fn measure(convolve: Convolve, dims: [usize; 5], channels: usize, patch: usize) -> (f64, f64) {
    let device = Device::flex().autodiff();
    let x = Tensor::random(dims, Distribution::Default, &device).require_grad();
    let weight =
        Tensor::random([channels, dims[1], patch, patch, patch], Distribution::Default, &device).require_grad();
    let bias = Some(Tensor::zeros([channels], &device).require_grad());
    let convolution = Convolution { weight, bias, options: ConvOptions::new([patch; 3], [0; 3], [1; 3], 1) };
    let (mut times, mut peak) = (Vec::new(), 0);
    for _ in 0..=RUNS {
        let before = HEAP.current_usage();
        HEAP.reset_peak_usage();
        let began = Instant::now();
        drop(backward(convolve(x.clone(), convolution.clone()).sum()));
        times.push(1e3 * began.elapsed().as_secs_f64());
        peak = HEAP.peak_usage().saturating_sub(before); // that of the last run: the first allocates what is kept
    }
    times.remove(0);
    times.sort_by(f64::total_cmp);
    (times[RUNS / 2], peak as f64 / (1 << 20) as f64)
}

fn main() {
    println!(
        "{:>5} {:>24} {:>6}   {:>10} {:>10}   {:>10} {:>10}",
        "patch", "volume", "out", "ours ms", "Burn ms", "ours MiB", "Burn MiB"
    );
    for (patch, dims, channels) in [
        (2, [1, 8, 64, 64, 64], 16),
        (4, [1, 1, 96, 96, 96], 96),
        (8, [1, 1, 128, 128, 128], 192),
        (16, [1, 1, 128, 128, 128], 768),
        (16, [1, 4, 96, 96, 96], 384),
        (32, [1, 1, 128, 128, 128], 768),
    ] {
        let ((our_time, our_peak), (time, peak)) =
            (measure(ours, dims, channels, patch), measure(burns, dims, channels, patch));
        let volume = format!("{dims:?}");
        println!(
            "{patch:>5} {volume:>24} {channels:>6}   {our_time:>10.1} {time:>10.1}   {our_peak:>10.1} {peak:>10.1}"
        );
    }
}
