//! Configuration of the convolutional LSTM, and what can be wrong with it.

use burn::config::Config;
use leanburn_common::{Validation, ValidationError};

use crate::validation::Rules;

/// Configuration of [`ConvLstm`](super::ConvLstm).
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
    /// Everything that is wrong with the configuration.
    #[must_use]
    pub fn validate(&self) -> Vec<ValidationError> {
        let mut validation = Validation::default();
        validation.counts([
            ("in_channels", self.in_channels),
            ("hidden_channels", self.hidden_channels),
            ("kernel_size", self.kernel_size),
        ]);
        validation.odd("kernel_size", self.kernel_size.max(1));
        validation.at_least_one("predict_days", self.predict_days);
        validation.at_least_one("segment_steps", self.segment_steps.unwrap_or(1));
        validation.at_least_one("truncate_steps", self.truncate_steps.unwrap_or(1));
        validation.errors()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::keys;

    #[test]
    fn each_error_is_found() {
        let valid = || ConvLstmConfig::new(4);
        let fields = |config: ConvLstmConfig| keys(config.validate());
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
