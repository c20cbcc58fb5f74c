//! Configuration of the 3D-convolutional LSTM, and what can be wrong with it.

use burn::config::Config;
use leanburn_common::{Validation, ValidationError};

use crate::validation::Rules;

/// Configuration of [`Cnn3dLstm`](super::Cnn3dLstm).
///
/// # Example
///
/// ```
/// use burn::tensor::{Device, Distribution, Tensor};
/// use leanburn_nn::models::Cnn3dLstmConfig;
///
/// let device = Device::flex();
/// let model = Cnn3dLstmConfig::micro(4).init(&device);
/// let x = Tensor::random([1, 6, 4, 12, 10], Distribution::Default, &device);
/// assert_eq!(model.forward(x).dims(), [1, 1, 12, 10]);
/// ```
#[derive(Config, Debug, PartialEq)]
pub struct Cnn3dLstmConfig {
    /// Channels of each image.
    pub in_channels: usize,
    /// Channels of each 3D convolution.
    pub channels: Vec<usize>,
    /// Places to which time is averaged.
    pub pooled_time: usize,
    /// Channels of the LSTM's state.
    pub hidden_channels: usize,
    /// Whether the LSTM reads from both ends.
    #[config(default = false)]
    pub bidirectional: bool,
    /// Channels of the 3x3 convolution before the last one; `None` for none.
    #[config(default = "None")]
    pub head_channels: Option<usize>,
    /// How often the prediction is repeated.
    #[config(default = 1)]
    pub predict_days: usize,
}

impl Cnn3dLstmConfig {
    /// Three convolutions, an LSTM from both ends, a head of two: 114,833 parameters with 4 input channels.
    pub fn original(in_channels: usize) -> Self {
        Self::new(in_channels, vec![16, 32, 64], 8, 32).with_bidirectional(true).with_head_channels(Some(32))
    }

    /// Two convolutions, an LSTM from both ends, a head of one: 8,777 parameters with 4 input channels.
    pub fn lite(in_channels: usize) -> Self {
        Self::new(in_channels, vec![8, 16], 4, 16).with_bidirectional(true)
    }

    /// One convolution, an LSTM from the beginning, a head of one: 2,617 parameters with 4 input channels.
    pub fn micro(in_channels: usize) -> Self {
        Self::new(in_channels, vec![16], 2, 8)
    }

    /// Everything that is wrong with the configuration.
    #[must_use]
    pub fn validate(&self) -> Vec<ValidationError> {
        let mut validation = Validation::default();
        validation.counts([
            ("in_channels", self.in_channels),
            ("pooled_time", self.pooled_time),
            ("hidden_channels", self.hidden_channels),
            ("head_channels", self.head_channels.unwrap_or(1)),
        ]);
        validation.at_least_one("predict_days", self.predict_days);
        let help = "list the channels of each convolution, as in [16, 32, 64]";
        validation.check(!self.channels.is_empty(), "channels", "at least one convolution", "none", help);
        self.channels.iter().for_each(|channels| validation.count("channels", *channels));
        validation.errors()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::keys;

    #[test]
    fn each_error_is_found() {
        let fields = |config: Cnn3dLstmConfig| keys(config.validate());
        assert!(fields(Cnn3dLstmConfig::original(4)).is_empty());
        assert_eq!(fields(Cnn3dLstmConfig::micro(0)), ["in_channels"]);
        assert_eq!(fields(Cnn3dLstmConfig::new(4, vec![], 2, 8)), ["channels"]);
        assert_eq!(fields(Cnn3dLstmConfig::new(4, vec![8, 0], 2, 8)), ["channels"]);
        assert_eq!(fields(Cnn3dLstmConfig::new(4, vec![8], 0, 0)), ["pooled_time", "hidden_channels"]);
        assert_eq!(fields(Cnn3dLstmConfig::micro(4).with_head_channels(Some(0))), ["head_channels"]);
        assert_eq!(fields(Cnn3dLstmConfig::micro(4).with_predict_days(0)), ["predict_days"]);
    }
}
