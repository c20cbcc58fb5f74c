//! A chain of residual blocks of plain Burn layers, trained for one step twice: with all activations saved for backward, and
//! with each block keeping its input only. Prints both peaks and compares the gradients.
//!
//! ```bash
//! cargo run --release --example recompute_segment
//! ```

use burn::nn::conv::{Conv3d, Conv3dConfig};
use burn::nn::{GroupNorm, GroupNormConfig, PaddingConfig3d};
use burn::prelude::*;
use burn::tensor::{Distribution, activation::silu};
use leanburn::prelude::*;

#[global_allocator]
static HEAP: CountingAllocator = CountingAllocator;

/// `x + convolution(silu(norm(x)))`: an ordinary Burn module, it knows nothing of leanburn.
#[derive(Module, Debug)]
struct Residual {
    norm: GroupNorm,
    conv: Conv3d,
}

impl Residual {
    fn new(device: &Device) -> Self {
        let conv = Conv3dConfig::new([16, 16], [3, 3, 3]).with_padding(PaddingConfig3d::Same);
        Self { norm: GroupNormConfig::new(4, 16).init(device), conv: conv.init(device) }
    }

    fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        self.conv.forward(silu(self.norm.forward(x.clone()))) + x
    }
}

/// Gradients of the input and of every convolution, and the peak of the heap in MiB.
fn train_step(blocks: &[Residual], x: &Tensor<5>, is_lean: bool) -> (Vec<TensorData>, f64) {
    HEAP.reset_peak_usage();
    let y = blocks.iter().fold(x.clone(), |x, block| match is_lean {
        false => block.forward(x),
        true => recompute(block, x, Residual::forward), // this is all there is to it
    });
    let mut gradients = backward(y.square().mean());
    let peak = HEAP.peak_usage() as f64 / f64::from(1 << 20);
    let of_blocks = blocks.iter().map(|block| gradients.take(&block.conv.weight.val()));
    let of_blocks: Vec<_> = of_blocks.collect();
    let all = of_blocks.into_iter().chain([gradients.take(x)]);
    (all.map(|gradient| gradient.expect("the loss depends on it").into_data()).collect(), peak)
}

fn main() {
    let device = Device::flex().autodiff();
    device.seed(1);
    let blocks: Vec<_> = (0..8).map(|_| Residual::new(&device)).collect();
    let x = Tensor::random([1, 16, 32, 32, 32], Distribution::Normal(0.0, 1.0), &device).require_grad();
    println!("one activation: {:6.1} MiB", (16 * 32 * 32 * 32 * size_of::<f32>()) as f32 / 1048576.0);

    let (kept, peak) = train_step(&blocks, &x, false);
    println!("kept:           {peak:6.1} MiB at the peak");
    let (recomputed, peak) = train_step(&blocks, &x, true);
    println!("recomputed:     {peak:6.1} MiB at the peak");
    println!("gradients bit-equal: {}", if kept == recomputed { "yes" } else { "NO" });
}
