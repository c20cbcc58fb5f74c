//! Random cases, and what comes of them.

pub mod attention;
pub mod bev;
pub mod conv;
pub mod fourier;
pub mod norm;
pub mod pool;
pub mod random;
pub mod resample;
pub mod stored;
pub mod window;

use leanburn_kernels::Activation;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

/// Elements that a volume has at most, to be computed.
pub const MOST: usize = 1 << 16;

/// Bytes of workspace at most, to be computed.
pub const MOST_WORKSPACE: usize = 1 << 24;

/// What came of a case.
#[derive(Clone, Copy)]
pub enum Outcome {
    Computed,
    /// Accepted, but too much to be computed in a test.
    Large,
    Rejected,
}

/// Sizes that are not usual: nothing, primes, powers of two up to where bytes, sums and products wrap around.
const EXTREMES: [usize; 26] = [
    0,
    0,
    0,
    1,
    1,
    2,
    3,
    5,
    13,
    97,
    1021,
    65_521,
    1 << 20,
    1 << 28,
    4_294_967_291,
    1 << 32,
    1 << 40,
    1 << 45,
    1 << 47,
    1 << 61,
    1 << 62,
    (1 << 63) - 1,
    1 << 63,
    (1 << 63) + 1,
    usize::MAX - 1,
    usize::MAX,
];

/// A seeded source of sizes and values.
pub struct Draw(SmallRng);

impl Draw {
    pub fn new(seed: u64) -> Self {
        Self(SmallRng::seed_from_u64(seed))
    }

    /// From 0 to one less than `end`.
    pub fn below(&mut self, end: usize) -> usize {
        self.0.random_range(0..end)
    }

    /// From 1 to `most`.
    pub fn usual(&mut self, most: usize) -> usize {
        1 + self.below(most)
    }

    pub fn three(&mut self, most: usize) -> [usize; 3] {
        [0; 3].map(|_| self.usual(most))
    }

    pub fn yes(&mut self) -> bool {
        self.0.random()
    }

    /// Makes none to four of the sizes extreme.
    pub fn disturb(&mut self, sizes: &mut [&mut usize]) {
        for _ in 0..self.below(5) {
            let place = self.below(sizes.len());
            *sizes[place] = EXTREMES[self.below(EXTREMES.len())];
        }
    }

    /// The length, now and then another one: a slice that does not fit must be noticed.
    pub fn len(&mut self, len: usize) -> usize {
        match self.below(250) {
            0 => len + 1,
            1 => len.saturating_sub(1),
            2 => 0,
            _ => len,
        }
    }

    /// About so many values from -1 to 1.
    pub fn values(&mut self, len: usize) -> Vec<f32> {
        (0..self.len(len)).map(|_| self.0.random_range(-1.0..1.0)).collect()
    }

    pub fn activation(&mut self) -> Activation {
        [Activation::None, Activation::Silu, Activation::Relu, Activation::LeakyRelu(0.1)][self.below(4)]
    }
}

/// The product, or the largest number.
pub fn volume(sizes: &[usize]) -> usize {
    sizes.iter().fold(1, |product, size| product.saturating_mul(*size))
}

/// Values that a kernel has to write.
pub fn unwritten(len: usize) -> Vec<f32> {
    vec![f32::NAN; len]
}

#[track_caller]
pub fn expect_finite(values: &[f32], len: usize, what: &str) {
    assert!(values.len() == len, "wrong: {what} has {} values, expected {len}", values.len());
    let found = values.iter().position(|value| !value.is_finite());
    assert!(found.is_none(), "wrong: {what}, value {found:?} of {len} is not finite");
}
