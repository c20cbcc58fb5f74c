//! Configuration of the convolutional LSTM, and what can be wrong with it.

use burn::config::Config;
use burn::tensor::Device;

use super::ConvLstm;
use crate::models::refuse;

/// Configuration of [`ConvLstm`].
///
/// # Example
///
/// ```
/// use burn::tensor::{Device, Distribution, Tensor};
/// use leanburn_nn::models::ConvLstmConfig;
///
/// let device = Device::flex();
/// let model = ConvLstmConfig::new(4).with_predict_days(2).init(&device);
/// let x = Tensor::random([1, 6, 4, 12, 10], Distribution::Default, &device);
/// assert_eq!(model.forward(x).dims(), [1, 2, 12, 10]);
/// ```
#[derive(Config, Debug, PartialEq)]
pub struct ConvLstmConfig {
    /// Channels of each image.
    pub in_channels: usize,
    /// Channels of the state.
    #[config(default = 16)]
    pub hidden_channels: usize,
    /// Size of the kernel of the gates, an odd number.
    #[config(default = 3)]
    pub kernel_size: usize,
    /// How often the prediction is repeated.
    #[config(default = 1)]
    pub predict_days: usize,
    /// Steps of one segment; `None` for the square root of the sequence, which keeps the fewest states at the peak.
    #[config(default = "None")]
    pub segment_steps: Option<usize>,
    /// Truncated backpropagation through time: backward goes through the last so many steps; `None` for all.
    #[config(default = "None")]
    pub truncate_steps: Option<usize>,
}

impl ConvLstmConfig {
    /// Everything that is wrong with the configuration: the field, and what to do about it.
    pub fn mistakes(&self) -> Vec<(&'static str, String)> {
        let counts = [
            ("in_channels", self.in_channels),
            ("hidden_channels", self.hidden_channels),
            ("predict_days", self.predict_days),
            ("segment_steps", self.segment_steps.unwrap_or(1)),
            ("truncate_steps", self.truncate_steps.unwrap_or(1)),
        ];
        let zeros = counts.into_iter().filter(|(_, count)| *count == 0);
        let mut mistakes: Vec<_> = zeros.map(|(field, _)| (field, "is 0; give at least 1".to_string())).collect();
        if self.kernel_size.is_multiple_of(2) {
            let message = format!("is {}; give an odd number, so that the state keeps its size", self.kernel_size);
            mistakes.push(("kernel_size", message));
        }
        mistakes
    }

    /// Makes the model, weights distributed as PyTorch's defaults.
    ///
    /// # Panics
    ///
    /// Panics with the [mistakes](Self::mistakes) if there are any.
    pub fn init(&self, device: &Device) -> ConvLstm {
        refuse("ConvLstm", &self.mistakes());
        ConvLstm::new(self, device)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mistake_is_found() {
        let valid = || ConvLstmConfig::new(4);
        let fields =
            |config: ConvLstmConfig| -> Vec<_> { config.mistakes().into_iter().map(|(field, _)| field).collect() };
        assert!(fields(valid()).is_empty());
        assert_eq!(fields(ConvLstmConfig::new(0)), ["in_channels"]);
        assert_eq!(fields(valid().with_hidden_channels(0)), ["hidden_channels"]);
        assert_eq!(fields(valid().with_kernel_size(2)), ["kernel_size"]);
        assert_eq!(fields(valid().with_kernel_size(0)), ["kernel_size"]);
        assert_eq!(fields(valid().with_predict_days(0)), ["predict_days"]);
        assert_eq!(fields(valid().with_segment_steps(Some(0))), ["segment_steps"]);
        assert_eq!(fields(valid().with_truncate_steps(Some(0))), ["truncate_steps"]);
    }
}
