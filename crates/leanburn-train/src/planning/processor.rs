//! How fast this processor is: measured once, stored in the user's cache folder.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use burn::tensor::{DType, Device, Tensor, TensorData, ops::ConvOptions};
use leanburn_common::atomic;
use leanburn_ops::{Activation, Convolution, activate, conv3d};
use leanburn_plan::Rates;

/// The rates of this machine's processor: as [`save_processor_rates`] stored them, else those of an
/// [assumed one](Rates::TWO_CORES).
pub fn processor_rates() -> Rates {
    read(&path()).unwrap_or(Rates::TWO_CORES)
}

/// Rates that cannot be stored.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {}: {source}; set XDG_CACHE_HOME to a folder that may be written to", path.display())]
pub struct SaveRatesError {
    /// The file.
    pub path: PathBuf,
    /// What the system says.
    pub source: io::Error,
}

/// Keeps rates for later plans, in `leanburn/rates.json` in the user's cache folder (`XDG_CACHE_HOME`, else `~/.cache`); the
/// file.
///
/// # Errors
///
/// [`SaveRatesError`].
pub fn save_processor_rates(rates: &Rates) -> Result<PathBuf, SaveRatesError> {
    let path = path();
    let text = serde_json::to_vec_pretty(rates).expect("numbers serialise");
    let folder = path.parent().map_or(Ok(()), fs::create_dir_all);
    match folder.and_then(|()| atomic::write(&path, &text)) {
        Ok(()) => Ok(path),
        Err(source) => Err(SaveRatesError { path, source }),
    }
}

fn path() -> PathBuf {
    let folder = |variable: &str| std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(".cache")));
    cache.unwrap_or_else(std::env::temp_dir).join("leanburn").join("rates.json")
}

fn read(path: &Path) -> Option<Rates> {
    let rates: Rates = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
    let is_sane = |rate: f64| rate.is_finite() && rate > 0.0;
    let all = [rates.flops, rates.half_flops, rates.bandwidth, rates.overhead];
    all.into_iter().all(is_sane).then_some(rates)
}

/// Measures what the processor reaches: a 3x3x3 convolution of 32 channels, an activation of 128 MiB, and one of a single value.
/// A few seconds; run it while nothing else runs.
///
/// # Memory
///
/// 256 MiB.
pub fn measure_processor() -> Rates {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_that_no_processor_has_are_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rates.json");
        assert_eq!(read(&path), None);
        for (overhead, found) in [(1e-6, true), (0.0, false), (-1.0, false)] {
            let rates = Rates { overhead, ..Rates::TWO_CORES };
            atomic::write(&path, &serde_json::to_vec(&rates).unwrap()).unwrap();
            assert_eq!(read(&path), found.then_some(rates));
        }
        fs::write(&path, "{").unwrap();
        assert_eq!(read(&path), None);
    }
}
