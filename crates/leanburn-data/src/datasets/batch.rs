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
    /// The class of the volume, an index of `data.classes`; none where that names none.
    pub class: Option<usize>,
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
        let first = samples.first().ok_or_else(Self::too_few)?;
        let [channels, x, y, z] = first.shape;
        let mut batch = Self::zeros([samples.len(), channels, x, y, z], first.labels.is_some())?;
        for (place, sample) in samples.iter().enumerate() {
            batch.put(place, sample)?;
        }
        Ok(batch)
    }

    /// Zeros of a shape `[batch_size, channels, x, y, z]`.
    pub(crate) fn zeros(shape: [usize; 5], has_labels: bool) -> Result<Self, DataError> {
        let [batch_size, _, x, y, z] = shape;
        let labels = has_labels.then(|| zeros(&[batch_size, x, y, z])).transpose()?;
        Ok(Self { data: zeros(&shape)?, shape, labels })
    }

    /// Values and labels of one sample.
    pub(crate) fn place_mut(&mut self, place: usize) -> (&mut [f32], Option<&mut [u8]>) {
        let [_, shape @ ..] = self.shape;
        let (values, voxels) = (shape.iter().product::<usize>(), shape[1..].iter().product::<usize>());
        let labels = self.labels.as_mut().map(|labels| &mut labels[place * voxels..][..voxels]);
        (&mut self.data[place * values..][..values], labels)
    }

    fn put(&mut self, place: usize, sample: &Sample) -> Result<(), DataError> {
        let [_, shape @ ..] = self.shape;
        let (data, labels) = self.place_mut(place);
        if sample.shape != shape || sample.data.len() != data.len() {
            return Err(sample.differs(format!("the shape of the batch, {shape:?}"), format!("{:?}", sample.shape)));
        }
        data.copy_from_slice(&sample.data);
        match (labels, &sample.labels) {
            (Some(place), Some(labels)) if labels.len() == place.len() => place.copy_from_slice(labels),
            (None, None) => {}
            (None, Some(_)) => return Err(sample.differs("no labels, as the others".into(), "labels".into())),
            (Some(place), labels) => {
                let found = labels.as_ref().map_or(0, Vec::len);
                return Err(sample.differs(format!("{} labels", place.len()), found.to_string()));
            }
        }
        Ok(())
    }

    /// The error of a batch of nothing.
    pub(crate) fn too_few() -> DataError {
        DataError::malformed("at least one sample in a batch", "none", "Ask for a batch size of 1 or more.")
    }

    /// The shape of the labels, `[batch_size, x, y, z]`.
    pub fn labels_shape(&self) -> [usize; 4] {
        let [batch_size, _, x, y, z] = self.shape;
        [batch_size, x, y, z]
    }
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
            class: None,
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
