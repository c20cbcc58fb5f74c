//! Samples, and batches of them.

use crate::error::DataError;
use crate::volumes::Intensity;
use crate::volumes::zeros;

/// One patch, or one whole volume, ready for a model.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// Normalized values, last axis fastest.
    pub data: Vec<f32>,
    /// `[channels, x, y, z]`.
    pub shape: [usize; 4],
    /// The class of every voxel, `[x, y, z]`; none without labels.
    pub labels: Option<Vec<u8>>,
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
    /// The class of every voxel, `[batch_size, x, y, z]`; none without labels.
    pub labels: Option<Vec<u8>>,
}

impl Batch {
    /// Puts samples together.
    ///
    /// # Errors
    /// If there is none, their shapes differ, or some have labels and others have none.
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
                return Err(
                    sample.differs(format!("the shape of the batch, {:?}", first.shape), format!("{:?}", sample.shape))
                );
            }
            part.copy_from_slice(&sample.data);
        }
        let labels = first.labels.is_some().then(|| stack_labels(samples, [x, y, z])).transpose()?;
        if let Some(labelled) = samples.iter().find(|sample| labels.is_none() && sample.labels.is_some()) {
            return Err(labelled.differs("no labels, as the others".into(), "labels".into()));
        }
        Ok(Self { data, shape, labels })
    }

    /// The shape of the labels, `[batch_size, x, y, z]`.
    pub fn labels_shape(&self) -> [usize; 4] {
        let [batch_size, _, x, y, z] = self.shape;
        [batch_size, x, y, z]
    }
}

fn stack_labels(samples: &[Sample], [x, y, z]: [usize; 3]) -> Result<Vec<u8>, DataError> {
    let mut labels = zeros(&[samples.len(), x, y, z])?;
    for (sample, part) in samples.iter().zip(labels.chunks_exact_mut((x * y * z).max(1))) {
        match &sample.labels {
            Some(labels) if labels.len() == part.len() => part.copy_from_slice(labels),
            other => {
                let found = other.as_ref().map_or(0, Vec::len);
                return Err(sample.differs(format!("{} labels", part.len()), found.to_string()));
            }
        }
    }
    Ok(labels)
}

impl Sample {
    fn differs(&self, expected: String, found: String) -> DataError {
        let remedy = "Set patch_size or voxel_size, or a batch size of 1.";
        DataError::Mismatch { path: self.name.clone().into(), expected, found, remedy }
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
            labels: None,
            name: format!("sample {value}"),
            start: [0; 3],
            intensity: Intensity::default(),
        };
        let batch = Batch::stack(&[sample([1, 2, 1, 1], 1.0), sample([1, 2, 1, 1], 2.0)]).unwrap();
        assert_eq!((batch.shape, &batch.data[..]), ([2, 1, 2, 1, 1], &[1.0, 1.0, 2.0, 2.0][..]));
        assert_eq!(batch.labels, None);
        let error = Batch::stack(&[sample([1, 2, 1, 1], 1.0), sample([1, 1, 2, 1], 2.0)]).unwrap_err();
        assert!(error.to_string().contains("sample 2") && error.to_string().contains("patch_size"));
        assert!(Batch::stack(&[]).is_err());

        let labelled = |labels: &[u8]| Sample { labels: Some(labels.to_vec()), ..sample([3, 2, 1, 1], 1.0) };
        let batch = Batch::stack(&[labelled(&[1, 2]), labelled(&[3, 4])]).unwrap();
        assert_eq!((batch.labels.as_deref(), batch.labels_shape()), (Some(&[1, 2, 3, 4][..]), [2, 2, 1, 1]));
        let without = sample([3, 2, 1, 1], 5.0);
        for pair in [[labelled(&[1, 2]), without.clone()], [without, labelled(&[1, 2])]] {
            assert!(Batch::stack(&pair).unwrap_err().to_string().contains("labels"));
        }
        assert!(Batch::stack(&[labelled(&[1, 2, 3])]).is_err());
    }
}
