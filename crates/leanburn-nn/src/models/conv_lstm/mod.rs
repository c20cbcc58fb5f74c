//! Convolutional LSTM: a forecast from a sequence of images.
//!
//! Shi et al., [Convolutional LSTM Network](https://arxiv.org/abs/1506.04214), without the peepholes. One cell reads the
//! images one after the other; a 1x1 convolution makes the prediction of its last hidden state.

mod config;
mod model;

pub use config::ConvLstmConfig;
pub use model::ConvLstm;
