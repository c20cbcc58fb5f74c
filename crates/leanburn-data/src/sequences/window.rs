//! Windows of consecutive frames, and batches of them.

use crate::error::DataError;
use crate::volumes::{count, zeros};
use std::path::PathBuf;

/// Consecutive frames: those that a forecaster sees, and those that it predicts.
#[derive(Debug, Clone, PartialEq)]
pub struct Window {
    /// Normalized values, last axis fastest.
    pub input: Vec<f32>,
    /// `[input_days, channels, height, width]`.
    pub input_shape: [usize; 4],
    /// Normalized values, last axis fastest.
    pub target: Vec<f32>,
    /// `[predict_days, 1 or channels, height, width]`.
    pub target_shape: [usize; 4],
    /// The time of its first frame.
    pub start: usize,
}

/// Several windows of one shape, one behind the other.
#[derive(Debug, Clone, PartialEq)]
pub struct WindowBatch {
    /// Values, last axis fastest.
    pub input: Vec<f32>,
    /// `[batch_size, input_days, channels, height, width]`.
    pub input_shape: [usize; 5],
    /// Values, last axis fastest.
    pub target: Vec<f32>,
    /// `[batch_size, predict_days, 1 or channels, height, width]`.
    pub target_shape: [usize; 5],
}

impl WindowBatch {
    /// Puts windows together.
    ///
    /// # Errors
    /// If there is none, or their shapes differ.
    pub fn stack(windows: &[Window]) -> Result<Self, DataError> {
        let inputs: Vec<_> = windows.iter().map(|window| (&window.input[..], window.input_shape)).collect();
        let targets: Vec<_> = windows.iter().map(|window| (&window.target[..], window.target_shape)).collect();
        let ((input, input_shape), (target, target_shape)) = (stack(&inputs)?, stack(&targets)?);
        Ok(Self { input, input_shape, target, target_shape })
    }
}

fn stack(parts: &[(&[f32], [usize; 4])]) -> Result<(Vec<f32>, [usize; 5]), DataError> {
    let Some((_, first)) = parts.first() else {
        let remedy = "Ask for a batch size of 1 or more.";
        return Err(DataError::malformed("at least one window in a batch", "none", remedy));
    };
    let [days, channels, height, width] = *first;
    let shape = [parts.len(), days, channels, height, width];
    let mut data = zeros(&shape)?;
    for ((values, shape), place) in parts.iter().zip(data.chunks_exact_mut(count(first)?.max(1))) {
        if shape != first || values.len() != place.len() {
            return Err(DataError::Mismatch {
                path: PathBuf::from("window in memory"),
                expected: format!("the shape of the batch, {first:?}"),
                found: format!("{shape:?}"),
                remedy: "Stack windows of one data set.",
            });
        }
        place.copy_from_slice(values);
    }
    Ok((data, shape))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_equal_shapes_alone() {
        let window = |value: f32, width: usize| Window {
            input: vec![value; 2 * width],
            input_shape: [2, 1, 1, width],
            target: vec![-value; width],
            target_shape: [1, 1, 1, width],
            start: 0,
        };
        let batch = WindowBatch::stack(&[window(1.0, 1), window(2.0, 1)]).unwrap();
        assert_eq!((batch.input_shape, &batch.input[..]), ([2, 2, 1, 1, 1], &[1.0, 1.0, 2.0, 2.0][..]));
        assert_eq!((batch.target_shape, &batch.target[..]), ([2, 1, 1, 1, 1], &[-1.0, -2.0][..]));
        let error = WindowBatch::stack(&[window(1.0, 1), window(1.0, 2)]).unwrap_err().to_string();
        assert!(error.contains("[2, 1, 1, 2]"), "{error}");
        let mut turned = window(1.0, 2);
        turned.input_shape = [2, 1, 2, 1];
        let error = WindowBatch::stack(&[window(1.0, 2), turned]).unwrap_err().to_string();
        assert!(error.contains("[2, 1, 2, 1]"), "as many values in another order: {error}");
        assert!(WindowBatch::stack(&[]).is_err());
    }
}
