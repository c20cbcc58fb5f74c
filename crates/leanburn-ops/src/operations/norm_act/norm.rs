//! Group normalisation as the operations take it.

use burn::tensor::Tensor;
use leanburn_kernels::norm::NormShape;

use crate::operations::check::{assert_not_empty, assert_per_channel, valid};

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

/// Number of groups and epsilon: what is no tensor.
type Settings = (usize, f64);

impl Norm {
    /// Settings, scale and shift, as an operation takes its inputs.
    pub(crate) fn apart(norm: Option<Self>) -> (Option<Settings>, Option<Tensor<1>>, Option<Tensor<1>>) {
        match norm {
            None => (None, None, None),
            Some(Self { num_groups, epsilon, weight, bias }) => (Some((num_groups, epsilon)), weight, bias),
        }
    }

    /// The norm that was taken [apart](Self::apart).
    pub(crate) fn together(
        settings: Option<Settings>,
        weight: Option<Tensor<1>>,
        bias: Option<Tensor<1>>,
    ) -> Option<Self> {
        settings.map(|(num_groups, epsilon)| Self { num_groups, epsilon, weight, bias })
    }

    /// Panics if this is no norm of `x`.
    pub(crate) fn check(&self, operation: &str, x: &Tensor<5>) {
        assert_not_empty(operation, "input", x);
        valid(operation, NormShape::new(x.dims(), self.num_groups));
        for (name, parameter) in [("weight of the norm", &self.weight), ("bias of the norm", &self.bias)] {
            assert_per_channel(operation, name, parameter.as_ref(), x.dims()[1], x.dtype());
        }
    }
}
