//! Windows of consecutive frames, and batches of them.

use crate::error::DataError;
use crate::volumes::zeros;
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
        let first = windows.first().ok_or_else(too_few)?;
        let shapes = [first.input_shape, first.target_shape];
        let mut batch = Self::zeros(windows.len(), shapes)?;
        if let Some(other) = windows.iter().find(|window| window.is_other(shapes)) {
            return Err(other.differs(shapes));
        }
        let mut windows = windows.iter();
        batch.fill(|input, target| {
            let window = windows.next()?;
            input.copy_from_slice(&window.input);
            target.copy_from_slice(&window.target);
            Some(())
        })?;
        Ok(batch)
    }

    /// Zeros for so many windows, each with an input and a target of these shapes.
    pub(crate) fn zeros(batch_size: usize, [input, target]: [[usize; 4]; 2]) -> Result<Self, DataError> {
        let of_all = |[days, channels, height, width]: [usize; 4]| [batch_size, days, channels, height, width];
        let (input_shape, target_shape) = (of_all(input), of_all(target));
        Ok(Self { input: zeros(&input_shape)?, input_shape, target: zeros(&target_shape)?, target_shape })
    }

    /// Has each window written into its place, in order; none where there are no more.
    pub(crate) fn fill(
        &mut self,
        mut write: impl FnMut(&mut [f32], &mut [f32]) -> Option<()>,
    ) -> Result<(), DataError> {
        let [batch_size, ..] = self.input_shape;
        if batch_size == 0 {
            return Err(too_few());
        }
        let [input, target] = [self.input.len(), self.target.len()].map(|length| length / batch_size);
        let (inputs, targets) = (self.input.chunks_exact_mut(input), self.target.chunks_exact_mut(target));
        inputs.zip(targets).try_for_each(|(input, target)| write(input, target)).ok_or_else(too_few)
    }
}

/// The error of a batch of nothing.
fn too_few() -> DataError {
    DataError::malformed("at least one window in a batch", "none", "Ask for a batch size of 1 or more.")
}

impl Window {
    fn is_other(&self, [input, target]: [[usize; 4]; 2]) -> bool {
        let values = |shape: [usize; 4]| shape.iter().product::<usize>();
        let lengths = (self.input.len(), self.target.len()) == (values(input), values(target));
        [self.input_shape, self.target_shape] != [input, target] || !lengths
    }

    fn differs(&self, [input, target]: [[usize; 4]; 2]) -> DataError {
        DataError::Mismatch {
            path: PathBuf::from("window in memory"),
            expected: format!("the shapes of the first, {input:?} and {target:?}, with as many values"),
            found: format!("{:?} and {:?}", self.input_shape, self.target_shape),
            remedy: "Stack windows of one data set.",
        }
    }
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
