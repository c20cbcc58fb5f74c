//! Where keys come from, and who owns Burn's generator.

use std::cell::Cell;
use std::sync::{Mutex, MutexGuard, PoisonError};

use burn::tensor::{DType, Device, Distribution, Tensor};

use crate::meanwhile::meanwhile;
use crate::recording::is_recording;

/// Where the seeds of this thread's segments come from.
#[derive(Clone, Copy)]
enum Stream {
    /// Burn's generator.
    Generator,
    /// A hash of a key and of how many have been drawn under it; what rounds saved tensors is counted by itself.
    Keyed { key: u64, drawn: u64, rounded: u64 },
}

impl Stream {
    const fn of(key: u64) -> Self {
        Self::Keyed { key, drawn: 0, rounded: 0 }
    }
}

thread_local! {
    static STREAM: Cell<Stream> = const { Cell::new(Stream::Generator) };
    /// How many [`Owned`] this thread has.
    static OWNED: Cell<usize> = const { Cell::new(0) };
}

/// The generator for this thread alone, among those who ask. A thread may ask again.
struct Owned {
    _guard: Option<MutexGuard<'static, ()>>,
}

impl Owned {
    fn wait() -> Self {
        static GENERATOR: Mutex<()> = Mutex::new(());
        let is_first = OWNED.replace(OWNED.get() + 1) == 0;
        Self { _guard: is_first.then(|| GENERATOR.lock().unwrap_or_else(PoisonError::into_inner)) }
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        OWNED.set(OWNED.get() - 1);
    }
}

/// Seeds the generator of `device` and, on this thread, the stream of segments.
pub fn seed(device: &Device, seed: u64) {
    STREAM.set(Stream::of(mix(seed)));
    seed_generator(device, seed);
}

/// Runs something after which segments draw from where they drew before, whatever it has [seeded](seed).
pub fn scoped<T>(run: impl FnOnce() -> T) -> T {
    drawing_from(STREAM.get(), run)
}

/// Runs something whose segments draw from a stream.
fn drawing_from<T>(stream: Stream, run: impl FnOnce() -> T) -> T {
    meanwhile(|stream| STREAM.replace(stream), stream, run)
}

/// A well-spread 64-bit number from a seed and a path of counters (step, micro-batch, ...).
///
/// All randomness of a run can be derived this way, so that a run's random state is its position alone.
#[must_use]
pub fn derive(seed: u64, path: &[u64]) -> u64 {
    path.iter().fold(mix(seed), |key, &part| mix(key ^ mix(part)))
}

/// The seed of a kept segment, or of one without gradients; `None` leaves the generator alone.
pub(crate) fn kept_seed() -> Option<u64> {
    next()
}

/// The key of what is drawn next, for [`drawn`](super::drawn): the next number of this thread's stream, or of Burn's generator. A recomputed
/// segment that runs again takes the keys that it took before.
///
/// Without a stream a GPU has to be waited for; a recording device gives 0.
#[must_use]
pub fn next_key(device: &Device) -> u64 {
    next().unwrap_or_else(|| drawn_from_generator(device))
}

/// The key that rounds a saved tensor. What segments draw does not depend on it where a stream has been [seeded](seed).
pub(crate) fn rounding_key(device: &Device) -> u64 {
    let Stream::Keyed { key, drawn, rounded } = STREAM.get() else { return drawn_from_generator(device) };
    STREAM.set(Stream::Keyed { key, drawn, rounded: rounded + 1 });
    derive(key, &[ROUNDING, rounded])
}

/// The next number of the stream, if it has a key.
fn next() -> Option<u64> {
    let Stream::Keyed { key, drawn, rounded } = STREAM.get() else { return None };
    STREAM.set(Stream::Keyed { key, drawn: drawn + 1, rounded });
    Some(derive(key, &[drawn]))
}

/// A number that depends on the generator's seed.
fn drawn_from_generator(device: &Device) -> u64 {
    if is_recording(device) {
        return 0;
    }
    let _owned = Owned::wait();
    let device = device.clone().without_autodiff();
    let drawn = Tensor::<1>::random([4], Distribution::Uniform(0.0, 1.0), (&device, DType::F32)).into_data();
    drawn.iter::<f32>().fold(0, |key, value| mix(key ^ u64::from(value.to_bits())))
}

/// Runs a kept segment under its seed, if it has one: the generator starts there, and so do the segments inside it.
pub(crate) fn kept<T>(device: Option<&Device>, run: impl FnOnce() -> T) -> T {
    let Some(seed) = kept_seed() else { return run() };
    drawing_from(Stream::of(seed), || {
        if let Some(device) = device {
            seed_generator(device, seed);
        }
        run()
    })
}

/// Runs a recomputed segment, for the first or the second time, under its seed and with the generator for itself.
///
/// Behind the segment the generator goes on from a number that it drew before, so that its numbers do not come again.
pub(crate) fn recomputed<T>(device: &Device, seed: u64, run: impl FnOnce() -> T) -> T {
    let _owned = Owned::wait();
    let draws_here = matches!(STREAM.get(), Stream::Generator);
    drawing_from(Stream::of(seed), || {
        let after = draws_here.then(|| drawn_from_generator(device));
        seed_generator(device, seed);
        let result = run();
        if let Some(after) = after {
            seed_generator(device, after);
        }
        result
    })
}

/// Numbers under this path round saved tensors.
const ROUNDING: u64 = 2;

/// Seeds a device's generator; a recording device draws nothing and rejects a seed.
fn seed_generator(device: &Device, seed: u64) {
    if !is_recording(device) {
        let _owned = Owned::wait();
        device.seed(seed);
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
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    fn draw() -> [u64; 2] {
        [(); 2].map(|()| kept_seed().expect("a stream has a key"))
    }

    #[test]
    fn seeds_differ_and_start_over_with_the_stream() {
        let first = {
            STREAM.set(Stream::of(7));
            draw()
        };
        STREAM.set(Stream::of(7));
        assert_eq!(draw(), first);
        STREAM.set(Stream::of(8));
        assert!(draw().iter().all(|seed| !first.contains(seed)));
        assert_ne!(first[0], first[1]);
    }

    #[test]
    fn a_segment_leaves_the_stream_where_it_was() {
        let inner = |key: u64| {
            STREAM.set(Stream::of(key));
            let inner = kept(None, draw);
            assert!(matches!(STREAM.get(), Stream::Keyed { drawn: 1, .. }), "the segment's own seed");
            inner
        };
        let first = inner(1);
        assert_eq!(inner(1), first, "the second run draws what the first drew");
        assert_ne!(inner(2), first, "another segment draws other numbers");
        STREAM.set(Stream::Generator);
        scoped(|| STREAM.set(Stream::of(3)));
        assert!(kept_seed().is_none(), "a scope ends with what was before");
    }

    #[test]
    fn what_is_rounded_draws_numbers_of_its_own() {
        let device = Device::flex();
        STREAM.set(Stream::of(7));
        let expected = draw();
        STREAM.set(Stream::of(7));
        let keys = [(); 2].map(|()| rounding_key(&device));
        assert_eq!(draw(), expected);
        assert!(keys[0] != keys[1] && keys.iter().all(|key| !expected.contains(key)));
    }

    #[test]
    fn a_thread_may_own_the_generator_twice() {
        let outer = Owned::wait();
        drop(Owned::wait());
        let (sent, received) = mpsc::channel();
        let other = std::thread::spawn(move || {
            let _owned = Owned::wait();
            sent.send(()).unwrap();
        });
        assert!(received.recv_timeout(Duration::from_millis(50)).is_err(), "it waits");
        drop(outer);
        received.recv().unwrap();
        other.join().unwrap();
        assert_eq!(OWNED.get(), 0);
    }

    #[test]
    fn a_path_is_more_than_the_sum_of_its_parts() {
        assert_ne!(derive(1, &[1, 2]), derive(1, &[2, 1]));
        assert_ne!(derive(1, &[0]), derive(1, &[]));
    }
}
