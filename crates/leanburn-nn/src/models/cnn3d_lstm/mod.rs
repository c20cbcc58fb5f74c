//! 3D convolutions and an LSTM: a forecast from a sequence of images.
//!
//! Time is the depth of 3D convolutions (as in Tran et al., [C3D](https://arxiv.org/abs/1412.0767)), then averaged to a few
//! places, which an LSTM reads at every position of the image; a head of 2D convolutions makes the prediction.

mod config;
mod model;

pub use config::Cnn3dLstmConfig;
pub use model::{Cnn3dLstm, FeatureLayer, ForecastHead};
