//! The random stream of segments.
//!
//! A backend has one host-side generator that can be seeded but not read. To draw the same numbers when a segment
//! runs a second time, every segment, kept or recomputed, seeds that generator at its entry from a stream of
//! our own. The stream is a counter under a key; a segment inside a segment draws from the outer one's stream, which
//! starts over when the outer one runs again.
//!
//! After a backward pass the generator stands elsewhere in the two modes. Call [`seed`] before each training step (the
//! trainer does) and whatever is drawn outside segments agrees too.

use std::cell::Cell;

use burn::tensor::{DType, Device, Distribution, Tensor};

use crate::gpu::is_gpu;
use crate::recording::is_recording;

/// Place in the stream: the next seed is a hash of both numbers.
#[derive(Clone, Copy, Default)]
struct Stream {
    key: u64,
    drawn: u64,
}

thread_local! {
    static STREAM: Cell<Stream> = const { Cell::new(Stream { key: 0, drawn: 0 }) };
}

/// Seeds the generator of `device` and, on this thread, the stream of segments.
pub fn seed(device: &Device, seed: u64) {
    STREAM.set(Stream { key: mix(seed), drawn: 0 });
    seed_generator(device, seed);
}

/// A well-spread 64-bit number from a seed and a path of counters (step, micro-batch, ...).
///
/// All randomness of a run can be derived this way, so that a run's random state is its position alone.
#[must_use]
pub fn derive(seed: u64, path: &[u64]) -> u64 {
    path.iter().fold(mix(seed), |key, &part| mix(key ^ mix(part)))
}

/// Draws the next segment's seed from this thread's stream.
pub(crate) fn next_seed() -> u64 {
    let mut stream = STREAM.get();
    let seed = derive(stream.key, &[stream.drawn]);
    stream.drawn += 1;
    STREAM.set(stream);
    seed
}

/// Runs a segment under `seed`: the generator of `device` starts there, and so do the segments inside it.
pub(crate) fn under_seed<T>(device: Option<&Device>, seed: u64, run: impl FnOnce() -> T) -> T {
    struct Restore(Stream);
    impl Drop for Restore {
        fn drop(&mut self) {
            STREAM.set(self.0);
        }
    }
    let _restore = Restore(STREAM.replace(Stream { key: seed, drawn: 0 }));
    if let Some(device) = device {
        seed_generator(device, seed);
    }
    run()
}

/// Seeds a device's generator, and for a GPU the CPU's, which [`normal`] draws from; a recording device draws nothing and
/// rejects a seed.
fn seed_generator(device: &Device, seed: u64) {
    if is_recording(device) {
        return;
    }
    device.seed(seed);
    if is_gpu(device) {
        Device::flex().seed(seed);
    }
}

/// Standard normal numbers in float32, of shape `dims`. The CPU draws them also for a GPU: a seed gives the same numbers on
/// every device.
#[must_use]
pub fn normal<const D: usize>(dims: [usize; D], device: &Device) -> Tensor<D> {
    let draw = |device: &Device| Tensor::random(dims, Distribution::Normal(0.0, 1.0), (device, DType::F32));
    match is_gpu(device) {
        true => Tensor::from_data(draw(&Device::flex()).into_data(), (device, DType::F32)),
        false => draw(device),
    }
}

/// The finaliser of SplitMix64 ([Steele et al. 2014](https://doi.org/10.1145/2660193.2660195)).
fn mix(value: u64) -> u64 {
    let z = value.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_differ_and_start_over_with_the_stream() {
        let draw = || [next_seed(), next_seed(), next_seed()];
        STREAM.set(Stream { key: 7, drawn: 0 });
        let first = draw();
        STREAM.set(Stream { key: 7, drawn: 0 });
        assert_eq!(draw(), first);
        STREAM.set(Stream { key: 8, drawn: 0 });
        assert!(draw().iter().all(|seed| !first.contains(seed)));
    }

    #[test]
    fn a_segment_leaves_the_stream_where_it_was() {
        STREAM.set(Stream { key: 1, drawn: 0 });
        let nested = || under_seed(None, 99, || [next_seed(), next_seed()]);
        let first = nested();
        assert_eq!(STREAM.get().drawn, 0);
        assert_eq!(nested(), first, "the second run draws what the first drew");
        assert_ne!(under_seed(None, 98, || [next_seed(), next_seed()]), first, "another segment draws other numbers");
    }

    #[test]
    fn a_path_is_more_than_the_sum_of_its_parts() {
        assert_ne!(derive(1, &[1, 2]), derive(1, &[2, 1]));
        assert_ne!(derive(1, &[0]), derive(1, &[]));
    }
}
