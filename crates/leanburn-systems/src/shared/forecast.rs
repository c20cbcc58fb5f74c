//! Forecasts of the windows of a sequence.

use burn::tensor::{Device, Tensor, TensorData};
use leanburn_data::Window;
use leanburn_train::{ForecastWorkload, Forecaster};

/// The forecast of a window, day by day.
pub(crate) fn forecast<M: Forecaster>(workload: &ForecastWorkload<M>, window: &Window, device: &Device) -> Vec<f32> {
    let [days, channels, height, width] = window.input_shape;
    let input = TensorData::new(window.input.clone(), [1, days, channels, height, width]);
    let forecast = workload.forecast(Tensor::from_data(input, device));
    forecast.into_data().convert::<f32>().try_to_vec().expect("the values were just made f32")
}
