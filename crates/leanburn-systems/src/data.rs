//! What a system is trained on, opened: batches without end, and samples to validate on.

use std::sync::Arc;

use burn::tensor::{Device, Int, Tensor};
use leanburn_common::Bytes;
use leanburn_data::{Batch, DataError, Dataset, Loader, Sample, SequenceDataset, Window};
use leanburn_train::{TrainError, volumes, windows};

use crate::batch::labels_tensor;
use crate::error::Result;

/// Micro-batches without end.
pub type Batches<B> = Box<dyn Iterator<Item = std::result::Result<B, TrainError>>>;

/// An opened data set whose micro-batches are of type `B`.
pub trait Data<B> {
    /// The training batches from number `first` on, on a device.
    fn batches(&self, batch_size: usize, first: u64, device: &Device) -> Batches<B>;

    /// Depth, height and width of a training sample; of fields the days that are seen, height and width.
    ///
    /// # Errors
    ///
    /// If the first sample cannot be read.
    fn extent(&self) -> Result<[usize; 3]>;

    /// Names and shapes of samples that the models must take: `[channels, depth, height, width]`, of fields
    /// `[channels, days, height, width]`.
    ///
    /// # Errors
    ///
    /// If a sample cannot be read.
    fn samples(&self) -> Result<Vec<(String, [usize; 4])>>;

    /// What of it is held in memory.
    fn cached(&self) -> Bytes;
}

impl Data<Tensor<5>> for Arc<Dataset> {
    fn batches(&self, batch_size: usize, first: u64, device: &Device) -> Batches<Tensor<5>> {
        let device = device.clone();
        let loader = Loader::new(self.clone(), batch_size, first);
        Box::new(loader.map(move |batch| Ok(volumes(batch?, &device))))
    }

    fn extent(&self) -> Result<[usize; 3]> {
        extent(self)
    }

    fn samples(&self) -> Result<Vec<(String, [usize; 4])>> {
        samples(self)
    }

    fn cached(&self) -> Bytes {
        Bytes(self.cached_bytes())
    }
}

/// Volumes with their labels.
impl Data<(Tensor<5>, Tensor<4, Int>)> for Arc<Dataset> {
    fn batches(&self, batch_size: usize, first: u64, device: &Device) -> Batches<(Tensor<5>, Tensor<4, Int>)> {
        let device = device.clone();
        let loader = Loader::new(self.clone(), batch_size, first);
        Box::new(loader.map(move |batch| labelled(batch?, &device)))
    }

    fn extent(&self) -> Result<[usize; 3]> {
        extent(self)
    }

    fn samples(&self) -> Result<Vec<(String, [usize; 4])>> {
        samples(self)
    }

    fn cached(&self) -> Bytes {
        Bytes(self.cached_bytes())
    }
}

fn extent(dataset: &Dataset) -> Result<[usize; 3]> {
    let [_, extent @ ..] = dataset.train_sample(0)?.shape;
    Ok(extent)
}

fn samples(dataset: &Dataset) -> Result<Vec<(String, [usize; 4])>> {
    let named = |sample: Sample| (sample.name, sample.shape);
    let mut samples = vec![named(dataset.train_sample(0)?)];
    if dataset.val_len() > 0 {
        samples.push(named(dataset.val_sample(0)?));
    }
    Ok(samples)
}

/// A batch of volumes and its labels on a device; an error where there are no labels.
fn labelled(mut batch: Batch, device: &Device) -> std::result::Result<(Tensor<5>, Tensor<4, Int>), TrainError> {
    let shape = batch.labels_shape();
    let labels = batch.labels.take().ok_or_else(DataError::without_labels)?;
    Ok((volumes(batch, device), labels_tensor(labels, shape, device)))
}

impl Data<(Tensor<5>, Tensor<4>)> for Arc<SequenceDataset> {
    fn batches(&self, batch_size: usize, first: u64, device: &Device) -> Batches<(Tensor<5>, Tensor<4>)> {
        let device = device.clone();
        let loader = Loader::windows(self.clone(), batch_size, first);
        Box::new(loader.map(move |batch| Ok(windows(batch?, &device))))
    }

    fn extent(&self) -> Result<[usize; 3]> {
        let [days, _, height, width] = self.train_window(0)?.input_shape;
        Ok([days, height, width])
    }

    fn samples(&self) -> Result<Vec<(String, [usize; 4])>> {
        let Window { input_shape: [days, channels, height, width], .. } = self.train_window(0)?;
        Ok(vec![("the sequence".into(), [channels, days, height, width])])
    }

    fn cached(&self) -> Bytes {
        Bytes(size_of_val(self.sequence().data()) as u64)
    }
}

#[cfg(test)]
mod tests {
    use leanburn_data::{DataConfig, LabelsConfig, PhantomConfig};

    use super::*;

    #[test]
    fn labels_come_with_their_volumes_or_are_missed() {
        let phantom = Some(PhantomConfig { count: 3, shape: [6, 8, 4], noise: 0.0 });
        let config = DataConfig { phantom, val_fraction: 0.0, num_workers: 0, ..DataConfig::default() };
        let device = Device::flex();
        let first = |config: &DataConfig| {
            let dataset = Arc::new(Dataset::open(config, 1).unwrap());
            let mut batches = Data::<(Tensor<5>, Tensor<4, Int>)>::batches(&dataset, 2, 1, &device);
            (batches.next().unwrap(), dataset)
        };
        let (batch, dataset) = first(&DataConfig { labels: Some(LabelsConfig::default()), ..config.clone() });
        let (volumes, labels) = batch.unwrap();
        assert_eq!((volumes.dims(), labels.dims()), ([2, 1, 6, 8, 4], [2, 6, 8, 4]));
        let expected: Vec<u8> = (2..4).flat_map(|index| dataset.train_sample(index).unwrap().labels.unwrap()).collect();
        assert_eq!(labels.into_data().iter::<u8>().collect::<Vec<_>>(), expected);
        let error = first(&config).0.unwrap_err();
        assert!(error.to_string().contains("class_maps"), "{error}");
    }
}
