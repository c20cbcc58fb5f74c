//! Random numbers that are a function of a key and a position.
//!
//! Word `i` of a key comes from a counter-based generator ([Salmon et al. 2011](https://doi.org/10.1145/2063384.2063405)),
//! [ChaCha](https://cr.yp.to/chacha.html) with 8 rounds. So there is no state: any thread computes any part, and what is drawn
//! once can be drawn again.

mod distribution;
mod fill;
#[cfg(test)]
mod tests;
mod words;

pub use distribution::Distribution;
pub use fill::fill;
pub(crate) use words::{CHUNK, words};
