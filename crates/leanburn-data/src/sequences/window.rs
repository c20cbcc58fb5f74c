//! Windows of consecutive frames, and batches of them.

use crate::error::DataError;
use crate::volumes::{count, zeros};
use std::borrow::Borrow;
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
        Self::gather(windows.len(), windows.iter().map(Ok))
    }

    /// Puts so many windows together as they come; no more than one of them is in memory.
    pub(crate) fn gather<W: Borrow<Window>>(
        batch_size: usize,
        mut windows: impl Iterator<Item = Result<W, DataError>>,
    ) -> Result<Self, DataError> {
        let mut next = || windows.next().unwrap_or_else(|| Err(too_few()));
        let first = next()?;
        let Window { input_shape, target_shape, .. } = *first.borrow();
        let of_all = |[days, channels, height, width]: [usize; 4]| [batch_size, days, channels, height, width];
        let (input_shape, target_shape) = (of_all(input_shape), of_all(target_shape));
        let mut batch = Self { input: zeros(&input_shape)?, input_shape, target: zeros(&target_shape)?, target_shape };
        batch.put(0, first.borrow())?;
        drop(first);
        for place in 1..batch_size {
            batch.put(place, next()?.borrow())?;
        }
        Ok(batch)
    }

    fn put(&mut self, place: usize, window: &Window) -> Result<(), DataError> {
        put(&mut self.input, self.input_shape, place, &window.input, window.input_shape)?;
        put(&mut self.target, self.target_shape, place, &window.target, window.target_shape)
    }
}

/// The error of a batch of nothing.
fn too_few() -> DataError {
    DataError::malformed("at least one window in a batch", "none", "Ask for a batch size of 1 or more.")
}

fn put(
    all: &mut [f32],
    [_, first @ ..]: [usize; 5],
    place: usize,
    values: &[f32],
    shape: [usize; 4],
) -> Result<(), DataError> {
    let count = count(&first)?;
    if shape != first || values.len() != count {
        return Err(DataError::Mismatch {
            path: PathBuf::from("window in memory"),
            expected: format!("the shape of the batch, {first:?}"),
            found: format!("{shape:?}"),
            remedy: "Stack windows of one data set.",
        });
    }
    all[place * count..][..count].copy_from_slice(values);
    Ok(())
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
