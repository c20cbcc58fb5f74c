//! One residual block (group norm, SiLU, 3x3x3 convolution, twice, plus the input), 16 channels: forward alone, and a
//! step (forward and backward) with everything kept and with the block recomputed.
//!
//! ```bash
//! cargo bench --bench residual_block
//! ```

#[path = "peers/rust/burn_block.rs"]
mod burn_block;

use std::hint::black_box;
use std::time::Duration;

use burn::module::Module;
use burn::tensor::{Device, Distribution, Tensor};
use criterion::{
    BenchmarkGroup, BenchmarkId, Criterion, SamplingMode, criterion_group, criterion_main, measurement::WallTime,
};
use leanburn::nn::blocks::{ResBlock, ResBlockConfig};
use leanburn::ops::{backward, recompute};

use burn_block::BurnBlock;

const CHANNELS: usize = 16;
const GROUPS: usize = 4;

fn bench_block<M: Module + Sync + 'static>(
    group: &mut BenchmarkGroup<'_, WallTime>,
    name: &str,
    block: &M,
    x: &Tensor<5>,
    forward: fn(&M, Tensor<5>) -> Tensor<5>,
) {
    let size = x.dims()[2];
    let (inference, volume) = (block.clone().valid(), x.clone().without_autodiff());
    let step = |y: Tensor<5>| black_box(backward(y.square().mean()));
    group.bench_function(BenchmarkId::new(format!("{name}/forward"), size), |bencher| {
        bencher.iter(|| black_box(forward(&inference, volume.clone())));
    });
    group.bench_function(BenchmarkId::new(format!("{name}/step_kept"), size), |bencher| {
        bencher.iter(|| step(forward(block, x.clone())));
    });
    group.bench_function(BenchmarkId::new(format!("{name}/step_recomputed"), size), |bencher| {
        bencher.iter(|| step(recompute(block, x.clone(), forward)));
    });
}

fn residual_block(criterion: &mut Criterion) {
    let device = Device::flex().autodiff();
    device.seed(1);
    let ours = ResBlockConfig::new([CHANNELS; 2], GROUPS).init(&device);
    let burns = BurnBlock::new([CHANNELS; 2], GROUPS, &device);
    let mut group = criterion.benchmark_group("residual_block");
    group.sampling_mode(SamplingMode::Flat).sample_size(10);
    group.warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(2));
    for size in [24, 48] {
        let x = Tensor::random([1, CHANNELS, size, size, size], Distribution::Normal(0.0, 1.0), &device).require_grad();
        bench_block(&mut group, "leanburn", &ours, &x, ResBlock::forward);
        bench_block(&mut group, "burn", &burns, &x, BurnBlock::forward);
    }
}

criterion_group!(benches, residual_block);
criterion_main!(benches);
