//! Samples, and batches of them.

use crate::error::DataError;
use crate::volumes::Intensity;
use crate::volumes::zeros;
use std::borrow::Borrow;

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
    /// What normalizing did to the volume; augmentation is not in it.
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
        Self::gather(samples.len(), samples.iter().map(Ok))
    }

    /// Puts so many samples together as they come; no more than one of them is in memory.
    pub(crate) fn gather<S: Borrow<Sample>>(
        batch_size: usize,
        mut samples: impl Iterator<Item = Result<S, DataError>>,
    ) -> Result<Self, DataError> {
        let mut next = || samples.next().unwrap_or_else(|| Err(too_few()));
        let first = next()?;
        let mut batch = Self::like(first.borrow(), batch_size)?;
        batch.put(0, first.borrow())?;
        drop(first);
        for place in 1..batch_size {
            batch.put(place, next()?.borrow())?;
        }
        Ok(batch)
    }

    /// Zeros for so many samples of the shape of one.
    fn like(sample: &Sample, batch_size: usize) -> Result<Self, DataError> {
        let [channels, x, y, z] = sample.shape;
        let shape = [batch_size, channels, x, y, z];
        let labels = sample.labels.is_some().then(|| zeros(&[batch_size, x, y, z])).transpose()?;
        Ok(Self { data: zeros(&shape)?, shape, labels })
    }

    fn put(&mut self, place: usize, sample: &Sample) -> Result<(), DataError> {
        let [_, shape @ ..] = self.shape;
        let (values, voxels) = (shape.iter().product::<usize>(), shape[1..].iter().product::<usize>());
        if sample.shape != shape || sample.data.len() != values {
            return Err(sample.differs(format!("the shape of the batch, {shape:?}"), format!("{:?}", sample.shape)));
        }
        self.data[place * values..][..values].copy_from_slice(&sample.data);
        match (&mut self.labels, &sample.labels) {
            (Some(all), Some(labels)) if labels.len() == voxels => {
                all[place * voxels..][..voxels].copy_from_slice(labels)
            }
            (None, None) => {}
            (None, Some(_)) => return Err(sample.differs("no labels, as the others".into(), "labels".into())),
            (Some(_), labels) => {
                let found = labels.as_ref().map_or(0, Vec::len);
                return Err(sample.differs(format!("{voxels} labels"), found.to_string()));
            }
        }
        Ok(())
    }

    /// The shape of the labels, `[batch_size, x, y, z]`.
    pub fn labels_shape(&self) -> [usize; 4] {
        let [batch_size, _, x, y, z] = self.shape;
        [batch_size, x, y, z]
    }
}

/// The error of a batch of nothing.
fn too_few() -> DataError {
    DataError::malformed("at least one sample in a batch", "none", "Ask for a batch size of 1 or more.")
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
