use crate::error::DataError;
use crate::intensity::Intensity;
use crate::volume::zeros;

/// One patch, or one whole volume, ready for a model.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// Normalized values, last axis fastest.
    pub data: Vec<f32>,
    /// `[channels, x, y, z]`.
    pub shape: [usize; 4],
    /// The file (or phantom) it was cut from.
    pub name: String,
    /// The voxel of the prepared volume where it starts; below zero where the patch stands out.
    pub start: [i64; 3],
    /// What normalizing did to the volume; the random jitter is not in it.
    pub intensity: Intensity,
}

/// Several samples of one shape, one behind the other.
#[derive(Debug, Clone, PartialEq)]
pub struct Batch {
    /// Values, last axis fastest.
    pub data: Vec<f32>,
    /// `[batch_size, channels, x, y, z]`.
    pub shape: [usize; 5],
}

impl Batch {
    /// Puts samples together.
    ///
    /// # Errors
    /// If there is none, or their shapes differ.
    pub fn stack(samples: &[Sample]) -> Result<Self, DataError> {
        let Some(first) = samples.first() else {
            let remedy = "Ask for a batch size of 1 or more.";
            return Err(DataError::malformed("at least one sample in a batch", "none", remedy));
        };
        let [channels, x, y, z] = first.shape;
        let shape = [samples.len(), channels, x, y, z];
        let mut data = zeros(&shape)?;
        for (sample, part) in samples.iter().zip(data.chunks_exact_mut((channels * x * y * z).max(1))) {
            if sample.shape != first.shape || sample.data.len() != part.len() {
                return Err(DataError::Mismatch {
                    path: sample.name.clone().into(),
                    expected: format!("the shape of the batch, {:?}", first.shape),
                    found: format!("{:?}", sample.shape),
                    remedy: "Set patch_size or voxel_size, or a batch size of 1.",
                });
            }
            part.copy_from_slice(&sample.data);
        }
        Ok(Self { data, shape })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_equal_shapes_alone() {
        let sample = |shape: [usize; 4], value: f32| Sample {
            data: vec![value; shape.iter().product()],
            shape,
            name: format!("sample {value}"),
            start: [0; 3],
            intensity: Intensity::default(),
        };
        let batch = Batch::stack(&[sample([1, 2, 1, 1], 1.0), sample([1, 2, 1, 1], 2.0)]).unwrap();
        assert_eq!((batch.shape, &batch.data[..]), ([2, 1, 2, 1, 1], &[1.0, 1.0, 2.0, 2.0][..]));
        let error = Batch::stack(&[sample([1, 2, 1, 1], 1.0), sample([1, 1, 2, 1], 2.0)]).unwrap_err();
        assert!(error.to_string().contains("sample 2") && error.to_string().contains("patch_size"));
        assert!(Batch::stack(&[]).is_err());
    }
}
