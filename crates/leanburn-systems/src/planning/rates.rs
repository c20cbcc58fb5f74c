//! How fast a device is: measured once, or from the catalogue.

use std::path::{Path, PathBuf};
use std::time::Instant;

use burn::tensor::{DType, Device, Tensor, TensorData, ops::ConvOptions};
use leanburn_common::atomic;
use leanburn_ops::{Activation, Convolution, activate, conv3d};
use leanburn_plan::{Rates, catalogue};

use crate::error::{Result, SystemError};

/// Shares of a card's peak rates that a training step of this kind is taken to reach until it is measured.
const SHARE_OF_FLOPS: f64 = 0.4;
const SHARE_OF_BANDWIDTH: f64 = 0.7;
/// Seconds to start a kernel of a card.
const LAUNCH: f64 = 8e-6;
/// A processor with two cores, until it is measured.
const PROCESSOR: Rates = Rates { flops: 2.5e11, half_flops: 2.5e11, bandwidth: 1.5e10, overhead: 5e-6 };

/// The rates of a card of the catalogue, or of this machine's processor: as `leanburn calibrate` found them, if it was run.
pub fn rates_for(gpu: Option<&catalogue::Device>) -> Rates {
    match gpu {
        Some(gpu) => Rates {
            flops: SHARE_OF_FLOPS * gpu.f32_rate,
            half_flops: SHARE_OF_FLOPS * gpu.bf16_rate.or(gpu.f16_rate).unwrap_or(gpu.f32_rate),
            bandwidth: SHARE_OF_BANDWIDTH * gpu.bandwidth,
            overhead: LAUNCH,
        },
        None => read_rates(&rates_path()).unwrap_or(PROCESSOR),
    }
}

/// Where the processor's rates are kept: `leanburn/rates.json` in the user's cache folder.
fn rates_path() -> PathBuf {
    let folder = |variable: &str| std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(".cache")));
    cache.unwrap_or_else(std::env::temp_dir).join("leanburn").join("rates.json")
}

fn read_rates(path: &Path) -> Option<Rates> {
    let rates: Rates = serde_json::from_slice(&std::fs::read(path).ok()?).ok()?;
    let is_sane = |rate: f64| rate.is_finite() && rate > 0.0;
    let all = [rates.flops, rates.half_flops, rates.bandwidth, rates.overhead];
    all.into_iter().all(is_sane).then_some(rates)
}

/// Keeps rates for later plans; where.
///
/// # Errors
///
/// [`SystemError::Write`].
pub fn save_rates(rates: &Rates) -> Result<PathBuf> {
    let path = rates_path();
    let text = serde_json::to_vec_pretty(rates).expect("numbers serialise");
    path.parent().map_or(Ok(()), std::fs::create_dir_all).map_err(SystemError::writing(&path))?;
    atomic::write(&path, &text).map_err(SystemError::writing(&path))?;
    Ok(path)
}

/// Measures what the processor reaches: a 3x3x3 convolution of 32 channels, an activation of 128 MiB, and one of nothing.
pub fn measure_rates() -> Rates {
    let device = Device::flex();
    let convolution = |dtype: DType| {
        let x = filled([1, 32, 32, 32, 32], dtype, &device);
        let weight = filled([32, 32, 3, 3, 3], DType::F32, &device);
        let options = ConvOptions::new([1; 3], [1; 3], [1; 3], 1);
        let flops = 2.0 * (32 * 32 * 27 * 32_768) as f64;
        flops
            / fastest(|| {
                drop(conv3d(x.clone(), Convolution { weight: weight.clone(), bias: None, options: options.clone() }))
            })
    };
    let large = filled([1, 32, 64, 128, 128], DType::F32, &device);
    let moved = 2.0 * (4 * 32 * 64 * 128 * 128) as f64;
    let small = filled([1, 1, 1, 1, 1], DType::F32, &device);
    Rates {
        flops: convolution(DType::F32),
        half_flops: convolution(DType::BF16),
        bandwidth: moved / fastest(|| drop(activate(large.clone(), Activation::Relu))),
        overhead: fastest(|| drop(activate(small.clone(), Activation::Relu))),
    }
}

fn filled(shape: [usize; 5], dtype: DType, device: &Device) -> Tensor<5> {
    let values = (0..shape.iter().product()).map(|index: usize| (index % 7) as f32 * 0.25 - 0.75).collect::<Vec<_>>();
    Tensor::<5>::from_data(TensorData::new(values, shape), device).cast(dtype)
}

/// Seconds of the fastest of several runs.
fn fastest(mut run: impl FnMut()) -> f64 {
    run();
    let timed = (0..9).map(|_| {
        let began = Instant::now();
        run();
        began.elapsed().as_secs_f64()
    });
    timed.fold(f64::INFINITY, f64::min).max(1e-9)
}
