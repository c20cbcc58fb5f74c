//! What all models made of named segments have.

use burn::tensor::Tensor;

/// The volume as a node of its own in the graph.
///
/// The gradients of its users are added up here, before they meet those of other segments: the sum has one order, whether the segment is
/// kept or recomputed, and the same bits.
pub(crate) fn apart(x: Tensor<5>) -> Tensor<5> {
    x.unsqueeze_dim::<6>(0).squeeze_dim(0)
}

/// Gives a model with a field `residency`, and with a field `config` where its type is named, the methods of those fields.
macro_rules! segmented {
    ($model:ident, $config:ty) => {
        crate::segmented::segmented!($model);

        impl $model {
            /// What the model was made from.
            pub fn config(&self) -> &$config {
                &self.config
            }
        }
    };
    ($model:ident) => {
        impl $model {
            /// Sets which segments keep their saved activations; results and gradients do not depend on it.
            #[must_use]
            pub fn with_residency(mut self, residency: leanburn_ops::ResidencyPolicy) -> Self {
                self.residency = residency;
                self
            }

            /// Which segments keep their saved activations.
            pub fn residency(&self) -> &leanburn_ops::ResidencyPolicy {
                &self.residency
            }
        }
    };
}

pub(crate) use segmented;
