//! Norm and activation in front of a convolution.

use burn::tensor::Tensor;
use leanburn_kernels::Activation;

use crate::operations::norm_act::{Norm, Normalization, SliceMap, norm_act};

/// What is done to a volume before it is convolved.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(super) normalization: Option<Normalization>,
    pub(super) activation: Activation,
}

impl Entry {
    /// Nothing happens.
    pub(crate) fn plain() -> Self {
        Self { normalization: None, activation: Activation::None }
    }

    /// A norm with statistics that are known, and an activation.
    pub(crate) fn of(normalization: Option<Normalization>, activation: Activation) -> Self {
        Self { normalization, activation }
    }

    /// A norm, with the statistics of `x`, and an activation.
    pub(super) fn new(norm: Option<Norm>, activation: Activation, x: &Tensor<5>) -> Self {
        Self { normalization: norm.map(|norm| Normalization::of(norm, x)), activation }
    }

    pub(super) fn is_plain(&self) -> bool {
        self.normalization.is_none() && self.activation == Activation::None
    }

    /// The normalised and activated volume.
    pub(crate) fn apply(&self, x: Tensor<5>) -> Tensor<5> {
        norm_act(x, self.normalization.as_ref(), self.activation)
    }

    /// What the kernels of the CPU do to each channel of a volume of these dimensions.
    pub(super) fn slice_map(&self, dims: [usize; 5]) -> Option<SliceMap> {
        SliceMap::of(dims, self.normalization.as_ref(), self.activation)
    }
}
