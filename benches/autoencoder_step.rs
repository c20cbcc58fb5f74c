//! Forward and backward of a small KL autoencoder, every segment kept and every segment recomputed.
//!
//! ```bash
//! cargo bench --bench autoencoder_step
//! ```

use std::hint::black_box;
use std::time::Duration;

use burn::tensor::{Device, Distribution, Tensor};
use criterion::{Criterion, SamplingMode, criterion_group, criterion_main};
use leanburn::nn::losses::{kl_divergence, l1_loss};
use leanburn::nn::models::{AutoencoderKl, AutoencoderKlConfig};
use leanburn::ops::{Gradients, ResidencyPolicy, backward};

fn step(model: &AutoencoderKl, x: &Tensor<5>) -> Gradients {
    let (reconstruction, mean, sigma) = model.forward(x.clone());
    backward(l1_loss(reconstruction, x.clone()) + kl_divergence(mean, sigma) * 1e-6)
}

fn autoencoder_step(criterion: &mut Criterion) {
    let device = Device::flex().autodiff();
    device.seed(1);
    let model = AutoencoderKlConfig::new(vec![8, 16, 32], vec![1; 3], vec![false; 3])
        .with_norm_num_groups(8)
        .with_encoder_nonlocal_attn(false)
        .with_decoder_nonlocal_attn(false)
        .init(&device);
    let x = Tensor::random([1, 1, 32, 32, 32], Distribution::Default, &device);
    let mut group = criterion.benchmark_group("autoencoder_step");
    group.sampling_mode(SamplingMode::Flat).sample_size(10).measurement_time(Duration::from_secs(5));
    for (name, residency) in [("kept", ResidencyPolicy::keep()), ("recomputed", ResidencyPolicy::recompute_all())] {
        let model = model.clone().with_residency(residency);
        group.bench_function(name, |bencher| bencher.iter(|| black_box(step(&model, &x))));
    }
}

criterion_group!(benches, autoencoder_step);
criterion_main!(benches);
