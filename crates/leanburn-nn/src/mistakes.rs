//! Validation errors as the command takes them still: field and text.

use crate::losses::LpipsConfig;
use crate::models::{
    AutoencoderKlConfig, Cnn3dLstmConfig, ConvLstmConfig, MultiScalePatchDiscriminatorConfig, PatchDiscriminatorConfig,
    Vae3dConfig, VqVae3dConfig,
};

macro_rules! mistakes {
    ($($config:ty),*) => {
        $(impl $config {
            /// The errors of [`validate`](Self::validate), field and text.
            #[doc(hidden)]
            #[must_use]
            pub fn mistakes(&self) -> Vec<(&'static str, String)> {
                let pair = |error: leanburn_common::ValidationError| {
                    let text = format!("expected {}, found {}; {}", error.expected, error.found, error.help);
                    (&*error.key.leak(), text)
                };
                self.validate().into_iter().map(pair).collect()
            }
        })*
    };
}

mistakes!(
    AutoencoderKlConfig,
    Cnn3dLstmConfig,
    ConvLstmConfig,
    LpipsConfig,
    MultiScalePatchDiscriminatorConfig,
    PatchDiscriminatorConfig,
    Vae3dConfig,
    VqVae3dConfig
);
