//! How long planning takes: recording a step of a KL autoencoder and reading its memory off, at two sizes of volume, and
//! finding the plans within every budget.
//!
//! ```bash
//! cargo bench --bench plan
//! ```

use std::hint::black_box;
use std::time::Duration;

use burn::tensor::{Device, Tensor};
use criterion::{BenchmarkId, Criterion, SamplingMode, criterion_group, criterion_main};
use leanburn::nn::losses::{kl_divergence, l1_loss};
use leanburn::nn::models::AutoencoderKlConfig;
use leanburn::ops::backward;
use leanburn::ops::recording::mark_step;
use leanburn::plan::{
    Candidate, Class, FlexMemory, Machine, Rates, RecordError, Recording, Space, Target, frontier, record,
};
use leanburn::prelude::Bytes;

/// The autoencoder of the high-resolution guide on volumes of one size, two of them to a step.
struct Autoencoder {
    extent: [usize; 3],
}

impl Space for Autoencoder {
    type Error = RecordError;

    fn splits(&self) -> Vec<(usize, u64)> {
        vec![(2, 1), (1, 2)]
    }

    fn record(&self, candidate: &Candidate) -> Result<Recording, RecordError> {
        let [depth, height, width] = self.extent;
        let step = |device: &Device| {
            let config = AutoencoderKlConfig::new(vec![32, 64, 64], vec![1; 3], vec![false, false, true]);
            let model = config.with_norm_num_groups(16).init(device).with_residency(candidate.residency());
            mark_step(device);
            for _ in 0..candidate.recorded() {
                let x = Tensor::<5>::zeros([candidate.micro_batch, 1, depth, height, width], device);
                let (reconstruction, mean, sigma) = model.forward(x.clone());
                let loss = l1_loss(reconstruction, x) + kl_divergence(mean, sigma) * 1e-6;
                let _ = backward(loss).take_module(&model);
            }
        };
        record(Target::Cpu, step).map(|(recording, ())| recording)
    }
}

fn plan(criterion: &mut Criterion) {
    let sizes = [[64; 3], [256, 256, 64]];
    let name = |[depth, height, width]: [usize; 3]| format!("{depth}x{height}x{width}");
    let mut group = criterion.benchmark_group("plan");
    group.sample_size(20).measurement_time(Duration::from_secs(5));
    let candidate = Candidate::new(1, 1);
    for extent in sizes {
        let space = Autoencoder { extent };
        group.bench_function(BenchmarkId::new("record and timeline", name(extent)), |bencher| {
            bencher.iter(|| {
                black_box(space.record(&candidate).expect("it stays on the device").timeline(&FlexMemory).peak())
            });
        });
    }
    group.sampling_mode(SamplingMode::Flat).sample_size(10);
    let rates = Rates { flops: 1e11, half_flops: 1e11, bandwidth: 1e10, overhead: 1e-6 };
    let machine = Machine { memory: &FlexMemory, rates, other_bytes: Bytes(0) };
    for extent in sizes {
        let space = Autoencoder { extent };
        group.bench_function(BenchmarkId::new("fit", name(extent)), |bencher| {
            bencher.iter(|| black_box(frontier(&space, &machine, Class::Lossless).expect("it stays on the device")));
        });
    }
}

criterion_group!(benches, plan);
criterion_main!(benches);
