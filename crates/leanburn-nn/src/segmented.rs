//! What all models made of named segments have.

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
