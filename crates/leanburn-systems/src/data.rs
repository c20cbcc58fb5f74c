//! What a system is trained on, opened: batches without end, and samples to validate on.

use std::sync::Arc;

use burn::tensor::{Device, Tensor};
use leanburn_common::Bytes;
use leanburn_data::{Dataset, Loader, Sample, SequenceDataset, Window};
use leanburn_train::{TrainError, volumes, windows};

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
        let [_, extent @ ..] = self.train_sample(0)?.shape;
        Ok(extent)
    }

    fn samples(&self) -> Result<Vec<(String, [usize; 4])>> {
        let named = |sample: Sample| (sample.name, sample.shape);
        let mut samples = vec![named(self.train_sample(0)?)];
        if self.val_len() > 0 {
            samples.push(named(self.val_sample(0)?));
        }
        Ok(samples)
    }

    fn cached(&self) -> Bytes {
        Bytes(self.cached_bytes())
    }
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
