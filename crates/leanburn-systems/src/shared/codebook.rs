//! A codebook: its keys, and how its vectors are used.

use std::collections::BTreeMap;

use burn::tensor::{Int, Tensor};
use leanburn_nn::blocks::VectorQuantizerConfig;
use serde::Serialize;

use super::builders::with_methods;
use crate::yaml::{MANY, Section};

/// A codebook: each position of the latent becomes the nearest of its vectors.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct CodebookSection {
    /// Vectors of the codebook. Default: 64.
    pub num_embeddings: usize,
    /// Weight of the commitment loss. Default: 0.25.
    pub commitment_cost: f64,
    /// How much of the running averages stays in a step. Default: 0.99.
    pub decay: f64,
    /// Vectors used less than this share of the average start again where the latent is. Default: none do.
    pub restart_below: Option<f64>,
}

impl Default for CodebookSection {
    fn default() -> Self {
        Self { num_embeddings: 64, commitment_cost: 0.25, decay: 0.99, restart_below: None }
    }
}

with_methods! { CodebookSection {
    with_num_embeddings => num_embeddings: usize,
    with_commitment_cost => commitment_cost: f64,
    with_decay => decay: f64,
    with_restart_below => restart_below: Option<f64>,
} }

impl CodebookSection {
    pub(crate) fn read(section: &mut Section<'_>) -> Self {
        let default = Self::default();
        Self {
            num_embeddings: section.number("num_embeddings", default.num_embeddings, 1..=MANY),
            commitment_cost: section.number("commitment_cost", default.commitment_cost, 0..),
            decay: section.number("decay", default.decay, 0..1),
            restart_below: section.number("restart_below", default.restart_below, 0..1),
        }
    }

    /// The quantizer of vectors of so many channels.
    pub fn quantizer(&self, channels: usize) -> VectorQuantizerConfig {
        VectorQuantizerConfig::new(self.num_embeddings, channels)
            .with_commitment_cost(self.commitment_cost)
            .with_decay(self.decay)
            .with_restart_below(self.restart_below)
    }
}

/// How often each vector of a codebook is used.
#[derive(Debug, Default)]
pub(crate) struct CodeUse(BTreeMap<i64, u64>);

impl CodeUse {
    /// Counts the codes of a latent.
    pub fn add(&mut self, codes: Tensor<4, Int>) {
        codes.into_data().iter::<i64>().for_each(|code| *self.0.entry(code).or_default() += 1);
    }

    /// The share of the codebook that is used, and the perplexity; nothing where nothing was counted.
    pub fn metrics(&self, num_embeddings: usize) -> Vec<(&'static str, f64)> {
        if self.0.is_empty() {
            return Vec::new();
        }
        vec![("codes_used", self.0.len() as f64 / num_embeddings as f64), ("perplexity", perplexity(self.0.values()))]
    }
}

/// `exp(-sum p log p)`: the number of equally used codes with the same information.
fn perplexity<'a>(uses: impl Iterator<Item = &'a u64> + Clone) -> f64 {
    let total: u64 = uses.clone().sum();
    let entropy: f64 = uses.map(|uses| *uses as f64 / total as f64).map(|share| -share * share.ln()).sum();
    entropy.exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn perplexity_counts_what_is_used() {
        let of = |uses: &[u64]| perplexity(uses.iter());
        assert!((of(&[5, 5, 5, 5]) - 4.0).abs() < 1e-12);
        assert!((of(&[7]) - 1.0).abs() < 1e-12);
        assert!(of(&[100, 1, 1]) < 1.2);
    }
}
