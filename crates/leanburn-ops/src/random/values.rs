//! Tensors of random numbers.

use burn::tensor::{self, DType, Device, Tensor, TensorCreationOptions, TensorData};
use leanburn_kernels::random::{Distribution, fill};

use super::stream::next_key;
use crate::recording::is_recording;

/// Standard normal numbers in float32, under the [next key](next_key).
///
/// # Shapes
///
/// - output: `dims`
///
/// # Memory
///
/// That of the output. For a GPU the CPU draws, and holds the same until they are copied.
///
/// # Example
///
/// ```
/// use burn::tensor::Device;
/// use leanburn_ops::random;
///
/// let noise = || {
///     random::seed(&Device::flex(), 7);
///     random::normal([2, 3], &Device::flex())
/// };
/// assert_eq!(noise().into_data(), noise().into_data());
/// ```
#[must_use]
pub fn normal<const D: usize>(dims: [usize; D], device: &Device) -> Tensor<D> {
    drawn(next_key(device), Distribution::STANDARD, dims, (device, DType::F32))
}

/// Numbers from 0 to 1 in float32, as [`normal`].
#[must_use]
pub fn uniform<const D: usize>(dims: [usize; D], device: &Device) -> Tensor<D> {
    drawn(next_key(device), Distribution::UNIT, dims, (device, DType::F32))
}

/// The numbers of a key: the same for the same key, distribution and size, on every device and in any number of threads.
///
/// # Shapes
///
/// - output: `dims`
///
/// # Memory
///
/// As [`normal`]. Drawn in float32; another dtype is a copy.
#[must_use]
pub fn drawn<const D: usize>(
    key: u64,
    distribution: Distribution,
    dims: [usize; D],
    options: impl Into<TensorCreationOptions>,
) -> Tensor<D> {
    let options = options.into();
    if is_recording(&options.device) {
        // recorded as Burn's own, which makes the same tensor and takes nothing else
        let burns = match distribution {
            Distribution::Uniform { low, high } => tensor::Distribution::Uniform(low, high),
            Distribution::Normal { mean, deviation } => tensor::Distribution::Normal(mean, deviation),
        };
        return Tensor::random(dims, burns, options);
    }
    let mut values = vec![0.0; dims.iter().product()];
    fill(&mut values, key, distribution);
    Tensor::from_data(TensorData::new(values, dims), options)
}
