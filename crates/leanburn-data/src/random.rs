//! Random numbers: one generator for each use and each item.

use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;

/// What a random number is for; each use has a stream of its own.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Stream {
    Split = 1,
    EpochOrder = 2,
    TrainSample = 3,
    PhantomSeed = 4,
    PhantomShape = 5,
    PhantomNoise = 6,
    Validation = 7,
    RadarSeed = 8,
    RadarScene = 9,
    RadarReturns = 10,
    Advection = 11,
    Augmentation = 12,
    NavierStokes = 13,
    Scene = 14,
    SceneNoise = 15,
    Directions = 16,
    LocalPatches = 17,
}

/// A new generator for item `index` of a stream. Nothing else enters, so that no number depends
/// on how many were drawn before it.
pub(crate) fn generator(seed: u64, stream: Stream, index: u64) -> ChaCha8Rng {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&seed.to_le_bytes());
    key[8..16].copy_from_slice(&(stream as u64).to_le_bytes());
    key[16..24].copy_from_slice(&index.to_le_bytes());
    ChaCha8Rng::from_seed(key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::Rng;

    #[test]
    fn seed_stream_and_index_all_count() {
        let first = |seed, stream, index| generator(seed, stream, index).next_u64();
        let base = first(1, Stream::Split, 0);
        assert_eq!(base, first(1, Stream::Split, 0));
        assert_ne!(base, first(2, Stream::Split, 0));
        assert_ne!(base, first(1, Stream::EpochOrder, 0));
        assert_ne!(base, first(1, Stream::Split, 1));
    }
}
