//! A training step of the KL autoencoder with all segments recomputed, and with its two finest levels streamed: both peaks, both times,
//! and how far the gradients are apart.
//!
//! ```bash
//! cargo run --release --example train_larger_than_memory -- 256 256 64 two 8
//! ```

use std::time::Instant;

use burn::module::{ModuleVisitor, Param};
use burn::prelude::*;
use burn::tensor::Distribution;
use leanburn::nn::losses::l1_loss;
use leanburn::prelude::*;

#[global_allocator]
static HEAP: CountingAllocator = CountingAllocator;

const USAGE: &str =
    "expected depth, height and width, multiples of 4, then two, one or none, then planes of a slab: 128 64 64 two 8";

/// Gradients of all parameters, in visiting order.
struct Taken(Gradients, Vec<Tensor<1>>);

impl ModuleVisitor for Taken {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.1.extend(self.0.take(&param.val()).map(|gradient| gradient.reshape([-1])));
    }
}

/// Loss and gradients of one forward and backward; prints peak and time.
fn step(name: &str, model: &AutoencoderKl, x: &Tensor<5>, policy: ResidencyPolicy) -> (f32, Tensor<1>) {
    let model = model.clone().with_residency(policy);
    HEAP.reset_peak_usage();
    let start = Instant::now();
    let (mean, _) = model.encode(x.clone());
    let loss = l1_loss(model.decode(mean), x.clone());
    let mut taken = Taken(backward(loss.clone()), Vec::new());
    let (peak, seconds) = (HEAP.peak_usage() as f64 / f64::from(1 << 20), start.elapsed().as_secs_f64());
    println!("{name:11} {peak:8.1} MiB at the peak, {seconds:6.2} s");
    model.visit(&mut taken);
    (loss.into_scalar(), Tensor::cat(taken.1, 0))
}

/// What the command line asks for.
fn asked() -> Option<([usize; 3], StreamSettings)> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [depth, height, width, keep, slab_planes] = arguments.as_slice() else {
        return arguments.is_empty().then(|| ([128, 64, 64], StreamSettings::default()));
    };
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
    Some((size, StreamSettings::default().with_keep(keep).with_slab_planes(slab_planes.parse().ok()?)))
}

fn main() {
    keep_freed_memory();
    let Some(([depth, height, width], settings)) = asked() else {
        eprintln!("{USAGE}");
        std::process::exit(2);
    };
    let device = Device::flex().autodiff();
    seed(&device, 1);
    let config = AutoencoderKlConfig::new(vec![32, 64, 64], vec![1; 3], vec![false; 3]).with_norm_num_groups(32);
    let config = config.with_encoder_nonlocal_attn(false).with_decoder_nonlocal_attn(false);
    let model = config.init(&device);
    let x = Tensor::random([1, 1, depth, height, width], Distribution::Default, &device);
    let all = ResidencyPolicy::recompute_all;
    let stream = all().with_rule("*coder.level_0", Residency::Stream(settings));

    step("warm-up", &model, &x.clone().narrow(2, 0, 4), all());
    let (loss, recomputed) = step("recomputed:", &model, &x, all());
    let (streamed_loss, streamed) = step("streamed:", &model, &x, stream);
    let norm = |gradient: Tensor<1>| gradient.square().sum().sqrt().into_scalar::<f32>();
    let apart = norm(streamed - recomputed.clone()) / norm(recomputed);
    println!("losses {loss} and {streamed_loss}, gradients apart by {apart:.1e} of their norm");
}
