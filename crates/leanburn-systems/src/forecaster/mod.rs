//! Forecasters of fields: convolutional LSTMs, and 3D convolutions with an LSTM.

mod model;
mod section;
mod system;

pub use model::AnyForecaster;
pub use section::{ForecastObjectiveSection, ForecasterSection, ModelType};
