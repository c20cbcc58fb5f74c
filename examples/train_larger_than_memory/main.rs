//! Training steps of the KL autoencoder under a limit that the process sets on itself: with all segments recomputed the step does not fit, with
//! the two finest levels streamed it does. What it takes without the limit stands beside it.
//!
//! ```bash
//! cargo run --release --example train_larger_than_memory -- 256 256 64 two 8 1.5GiB
//! ```

use std::time::Instant;

use burn::prelude::*;
use burn::tensor::Distribution;
use leanburn::prelude::*;

#[global_allocator]
static HEAP: CountingAllocator = CountingAllocator;

const USAGE: &str = "expected depth, height and width, multiples of 4; two, one or none; planes of a slab; and the limit: \
    128 64 64 two 8 300MiB";

/// What the command line asks for.
struct Asked {
    size: [usize; 3],
    settings: StreamSettings,
    limit: Bytes,
}

impl Asked {
    fn read() -> Option<Self> {
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        let default = || ["128", "64", "64", "two", "8", "300MiB"].map(String::from).to_vec();
        let arguments = if arguments.is_empty() { default() } else { arguments };
        let [depth, height, width, keep, slab_planes, limit] = arguments.as_slice() else { return None };
        let keep = match keep.as_str() {
            "two" => StreamKeep::Two,
            "one" => StreamKeep::One,
            "none" => StreamKeep::None,
            _ => return None,
        };
        let mut size = [0; 3];
        for (size, text) in size.iter_mut().zip([depth, height, width]) {
            *size = text.parse().ok().filter(|size: &usize| *size > 0 && size.is_multiple_of(4))?;
        }
        let settings = StreamSettings::default().with_keep(keep).with_slab_planes(slab_planes.parse().ok()?);
        Some(Self { size, settings, limit: limit.parse().ok()? })
    }
}

/// A trainer of a new model, which holds at most so much.
fn trainer(
    residency: ResidencyPolicy,
    limit: Option<Bytes>,
    device: &Device,
) -> Result<Trainer<AutoencoderWorkload>, TrainError> {
    seed(device, 1);
    let config = AutoencoderKlConfig::new(vec![32, 64, 64], vec![1; 3], vec![false; 3]).with_norm_num_groups(32);
    let config = config.with_encoder_nonlocal_attn(false).with_decoder_nonlocal_attn(false);
    let model = config.init(device).with_residency(residency);
    let learner = Learner::new("autoencoder", model, LearnerConfig::new(ScheduleConfig::new(1e-4)))?;
    let objective = AutoencoderObjective {
        reconstruction: leanburn::train::ReconstructionLoss::L1,
        kl_weight: 1e-6,
        adversarial: Default::default(),
        adversarial_weight: 0.0,
        adversarial_start_step: 0,
    };
    let workload = AutoencoderWorkload::new(learner, None, objective, Precision::F32);
    Ok(Trainer::new(workload, TrainerConfig::default().with_memory_limit(limit), device))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    keep_freed_memory();
    let Some(Asked { size: [depth, height, width], settings, limit }) = Asked::read() else {
        eprintln!("{USAGE}");
        std::process::exit(2);
    };
    let device = Device::flex().autodiff();
    seed(&device, 0);
    let x = Tensor::random([1, 1, depth, height, width], Distribution::Default, &device);
    let recomputed = ResidencyPolicy::recompute_all;
    let streamed = || recomputed().with_rule("*coder.level_0", Residency::Stream(settings));
    println!("a step at {depth}x{height}x{width}");
    let limited = format!("at most {limit}");
    for (name, residency, limit) in [
        ("recomputed", recomputed(), None),
        ("recomputed", recomputed(), Some(limit)),
        ("streamed", streamed(), Some(limit)),
    ] {
        let mut trainer = trainer(residency, limit, &device)?;
        let mut batches = std::iter::repeat_with(|| Ok::<_, TrainError>(x.clone()));
        let start = Instant::now();
        let taken = trainer.step(&mut batches);
        let seconds = start.elapsed().as_secs_f64();
        print!("{name:10} {:18} ", if limit.is_some() { &limited } else { "without a limit" });
        match taken {
            Ok(StepReport { losses, learners, memory, .. }) => println!(
                "peak {}, {seconds:.1} s, loss {:.6}, norm of the gradients {:.6}",
                memory.expect("the heap is counted").peak,
                losses["reconstruction"],
                learners[0].gradient_norm,
            ),
            Err(error @ TrainError::OutOfMemory { .. }) => println!("{error}"),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
