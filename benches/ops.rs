//! The operations at the levels of an autoencoder (channels 32, 64, 64 on a volume of 64x64x32): forward, and each
//! gradient on its own, by what requires one.
//!
//! ```bash
//! cargo bench --bench ops -- conv3d/
//! ```

use std::hint::black_box;
use std::time::Duration;

use burn::tensor::{Device, Distribution, Tensor, ops::ConvOptions};
use criterion::measurement::WallTime;
use criterion::{BatchSize, BenchmarkGroup, BenchmarkId, Criterion, SamplingMode, criterion_group, criterion_main};
use leanburn::ops::{
    Activation, AvgPool3d, Convolution, Interpolation, Norm, adaptive_avg_pool3d, attention3d, avg_pool3d,
    backward_from, conv3d, group_norm_act, interpolate3d, norm_act_conv3d, upsample_conv3d,
};

/// Shapes of the levels, the finest first.
const LEVELS: [[usize; 5]; 3] = [[1, 32, 64, 64, 32], [1, 64, 32, 32, 16], [1, 64, 16, 16, 8]];

/// What an operation takes in addition to a volume of `channels`.
#[derive(Clone)]
struct Parameters {
    norm: Norm,
    convolution: Convolution,
}

impl Parameters {
    fn new(channels: usize, device: &Device) -> Self {
        let random = Distribution::Normal(0.0, 1.0 / (27.0 * channels as f64).sqrt());
        Self {
            norm: Norm {
                num_groups: 32,
                epsilon: 1e-6,
                weight: Some(Tensor::ones([channels], device)),
                bias: Some(Tensor::zeros([channels], device)),
            },
            convolution: Convolution {
                weight: Tensor::random([channels, channels, 3, 3, 3], random, device),
                bias: Some(Tensor::zeros([channels], device)),
                options: ConvOptions::new([1; 3], [1; 3], [1; 3], 1),
            },
        }
    }

    /// All of them require a gradient.
    fn tracked(mut self) -> Self {
        self.norm.weight = self.norm.weight.map(Tensor::require_grad);
        self.norm.bias = self.norm.bias.map(Tensor::require_grad);
        self.convolution.weight = self.convolution.weight.require_grad();
        self.convolution.bias = self.convolution.bias.map(Tensor::require_grad);
        self
    }
}

type Operation = fn(Tensor<5>, Parameters) -> Tensor<5>;

/// Forward without autodiff, then backward for the volume alone and, where there are any, for the parameters alone.
fn bench(group: &mut BenchmarkGroup<'_, WallTime>, dims: [usize; 5], has_parameters: bool, operation: Operation) {
    let device = Device::flex();
    device.seed(1);
    let level = dims[1..].iter().map(usize::to_string).collect::<Vec<_>>().join("x");
    let volume = |device: &Device| Tensor::<5>::random(dims, Distribution::Normal(0.0, 1.0), device);
    let (x, parameters) = (volume(&device), Parameters::new(dims[1], &device));
    group.bench_function(BenchmarkId::new("forward", &level), |bencher| {
        bencher.iter(|| black_box(operation(x.clone(), parameters.clone())));
    });
    let device = device.autodiff();
    let (x, parameters) = (volume(&device), Parameters::new(dims[1], &device));
    let mut gradient = |name, x: Tensor<5>, parameters: Parameters| {
        group.bench_function(BenchmarkId::new(name, &level), |bencher| {
            let forward = || {
                let y = operation(x.clone(), parameters.clone());
                (y.ones_like(), y)
            };
            bencher.iter_batched(forward, |(ones, y)| black_box(backward_from(y, ones)), BatchSize::PerIteration);
        });
    };
    gradient("data_gradient", x.clone().require_grad(), parameters.clone());
    if has_parameters {
        gradient("weight_gradient", x, parameters.tracked());
    }
}

fn ops(criterion: &mut Criterion) {
    let operations: [(&str, bool, Operation); 8] = [
        ("conv3d", true, |x, parameters| conv3d(x, parameters.convolution)),
        ("norm_act_conv3d", true, |x, Parameters { norm, convolution }| {
            norm_act_conv3d(x, Some(norm), Activation::Silu, convolution, None)
        }),
        ("group_norm_act", true, |x, parameters| group_norm_act(x, parameters.norm, Activation::Silu)),
        ("upsample_conv3d", true, |x, parameters| upsample_conv3d(x, [2; 3], parameters.convolution)),
        ("interpolate3d_nearest", false, |x, _| interpolate3d(x.clone(), doubled(&x), Interpolation::Nearest)),
        ("interpolate3d_trilinear", false, |x, _| {
            interpolate3d(x.clone(), doubled(&x), Interpolation::Trilinear { align_corners: false })
        }),
        ("avg_pool3d", false, |x, _| avg_pool3d(x, AvgPool3d::new([2; 3]))),
        ("adaptive_avg_pool3d", false, |x, _| adaptive_avg_pool3d(x, [5, 6, 7])),
    ];
    for (name, has_parameters, operation) in operations {
        let mut group = short(criterion, name);
        LEVELS.into_iter().for_each(|dims| bench(&mut group, dims, has_parameters, operation));
    }
    let mut group = short(criterion, "attention3d");
    let attention: Operation = |x, _| attention3d(x.clone(), x.clone(), x, 1, 0.125);
    LEVELS[2..].iter().for_each(|dims| bench(&mut group, *dims, false, attention));
}

fn doubled(x: &Tensor<5>) -> [usize; 3] {
    let [_, _, depth, height, width] = x.dims();
    [2 * depth, 2 * height, 2 * width]
}

/// A group whose benchmarks take about a second each.
fn short<'a>(criterion: &'a mut Criterion, name: &str) -> BenchmarkGroup<'a, WallTime> {
    let mut group = criterion.benchmark_group(name);
    group.sampling_mode(SamplingMode::Flat).sample_size(10);
    group.warm_up_time(Duration::from_millis(200)).measurement_time(Duration::from_millis(800));
    group
}

criterion_group!(benches, ops);
criterion_main!(benches);
