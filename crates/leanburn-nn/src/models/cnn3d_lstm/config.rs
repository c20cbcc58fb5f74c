//! Configuration of the 3D-convolutional LSTM, and what can be wrong with it.

use burn::config::Config;
use burn::tensor::Device;

use super::Cnn3dLstm;
use crate::models::refuse;

/// Configuration of [`Cnn3dLstm`].
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

    /// Everything that is wrong with the configuration: the field, and what to do about it.
    pub fn mistakes(&self) -> Vec<(&'static str, String)> {
        let counts = [
            ("in_channels", self.in_channels),
            ("pooled_time", self.pooled_time),
            ("hidden_channels", self.hidden_channels),
            ("head_channels", self.head_channels.unwrap_or(1)),
            ("predict_days", self.predict_days),
        ];
        let layers = self.channels.iter().map(|channels| ("channels", *channels));
        let zeros = counts.into_iter().chain(layers).filter(|(_, count)| *count == 0);
        let mut mistakes: Vec<_> = zeros.map(|(field, _)| (field, "is 0; give at least 1".to_string())).collect();
        if self.channels.is_empty() {
            mistakes.push(("channels", "is empty; give the channels of at least one convolution".to_string()));
        }
        mistakes
    }

    /// Makes the model, weights distributed as PyTorch's defaults.
    ///
    /// # Panics
    ///
    /// Panics with the [mistakes](Self::mistakes) if there are any.
    pub fn init(&self, device: &Device) -> Cnn3dLstm {
        refuse("Cnn3dLstm", &self.mistakes());
        Cnn3dLstm::new(self, device)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mistake_is_found() {
        let fields =
            |config: Cnn3dLstmConfig| -> Vec<_> { config.mistakes().into_iter().map(|(field, _)| field).collect() };
        assert!(fields(Cnn3dLstmConfig::original(4)).is_empty());
        assert_eq!(fields(Cnn3dLstmConfig::micro(0)), ["in_channels"]);
        assert_eq!(fields(Cnn3dLstmConfig::new(4, vec![], 2, 8)), ["channels"]);
        assert_eq!(fields(Cnn3dLstmConfig::new(4, vec![8, 0], 2, 8)), ["channels"]);
        assert_eq!(fields(Cnn3dLstmConfig::new(4, vec![8], 0, 0)), ["pooled_time", "hidden_channels"]);
        assert_eq!(fields(Cnn3dLstmConfig::micro(4).with_head_channels(Some(0))), ["head_channels"]);
        assert_eq!(fields(Cnn3dLstmConfig::micro(4).with_predict_days(0)), ["predict_days"]);
    }
}
