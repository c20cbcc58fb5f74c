//! Forecasters of fields: convolutional LSTMs, and 3D convolutions with an LSTM.

mod inference;
mod model;
mod section;
mod system;

pub use inference::FieldForecaster;
pub use model::AnyForecaster;
pub use section::{ForecastObjectiveSection, ForecasterSection, ModelType};
