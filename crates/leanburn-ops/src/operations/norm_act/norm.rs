//! Group normalisation as the operations take it.

use burn::tensor::Tensor;

/// Group normalisation: groups of channels of each item to mean zero and variance one, then a scale and a shift.
///
/// `(x - mean) / sqrt(variance + epsilon) * weight + bias`. Source:
/// [Group Normalization](https://arxiv.org/abs/1803.08494). With as many groups as channels it is instance
/// normalisation.
#[derive(Clone, Debug)]
pub struct Norm {
    /// Number of groups the channels are divided into.
    pub num_groups: usize,
    /// Added to the variance.
    pub epsilon: f64,
    /// Scale of each channel, `[channels]`; one where there is none.
    pub weight: Option<Tensor<1>>,
    /// Shift of each channel, `[channels]`; zero where there is none.
    pub bias: Option<Tensor<1>>,
}

impl Norm {
    /// Panics unless the groups divide the channels.
    pub(super) fn check(&self, channels: usize) {
        assert!(
            self.num_groups > 0 && channels.is_multiple_of(self.num_groups),
            "{} groups do not divide {channels} channels",
            self.num_groups
        );
    }
}
