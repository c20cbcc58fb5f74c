//! What a system is trained on: volumes, or windows of fields.

use std::sync::Arc;

use burn::tensor::Device;
use leanburn_data::{Dataset, Loader, Progress, SequenceDataset, Window};
use leanburn_train::{TrainError, volumes, windows};

use super::{Batch, BatchShape};
use crate::config::Config;
use crate::error::Result;

/// An opened data set.
#[derive(Clone, Debug)]
pub enum Data {
    /// Volumes.
    Volumes(Arc<Dataset>),
    /// A sequence of fields.
    Fields(Arc<SequenceDataset>),
}

/// Micro-batches without end.
pub type Batches = Box<dyn Iterator<Item = std::result::Result<Batch, TrainError>>>;

impl Data {
    /// Opens what the configuration names, telling `progress` after each volume.
    ///
    /// # Errors
    ///
    /// As [`Dataset::open`] and [`SequenceDataset::open`].
    pub fn open(config: &Config, progress: impl FnMut(Progress<'_>)) -> Result<Self> {
        Ok(match &config.sequence {
            None => Self::Volumes(Arc::new(Dataset::open_with(&config.data, config.seed, progress)?)),
            Some(sequence) => Self::Fields(Arc::new(SequenceDataset::open(sequence, config.seed)?)),
        })
    }

    /// The training batches from one on, on a device.
    pub fn batches(&self, batch_size: usize, first: u64, device: &Device) -> Batches {
        let device = device.clone();
        match self {
            Self::Volumes(dataset) => {
                let loader = Loader::new(dataset.clone(), batch_size, first);
                Box::new(loader.map(move |batch| Ok((volumes(batch?, &device), None))))
            }
            Self::Fields(dataset) => {
                let loader = Loader::windows(dataset.clone(), batch_size, first);
                Box::new(loader.map(move |batch| {
                    let (input, target) = windows(batch?, &device);
                    Ok((input, Some(target)))
                }))
            }
        }
    }

    /// Depth, height and width of what is trained on; of fields the days that are seen, height and width.
    ///
    /// # Errors
    ///
    /// If the first sample cannot be read.
    pub fn extent(&self) -> Result<[usize; 3]> {
        let shape = match self {
            Self::Volumes(dataset) => dataset.train_sample(0)?.shape,
            Self::Fields(dataset) => {
                let [days, _, height, width] = dataset.train_window(0)?.input_shape;
                [0, days, height, width]
            }
        };
        let [_, extent @ ..] = shape;
        Ok(extent)
    }

    /// Checks that the models can take what the data gives.
    ///
    /// # Errors
    ///
    /// As [`BatchShape::check`].
    pub fn check(&self, config: &Config) -> Result<()> {
        let volume = |sample: leanburn_data::Sample| {
            let [channels, depth, height, width] = sample.shape;
            let shape = BatchShape { input: [1, channels, depth, height, width], target: None };
            shape.check(config, &sample.name)
        };
        match self {
            Self::Volumes(dataset) => {
                volume(dataset.train_sample(0)?)?;
                if dataset.val_len() > 0 {
                    volume(dataset.val_sample(0)?)?;
                }
                Ok(())
            }
            Self::Fields(dataset) => {
                let Window { input_shape: [days, channels, height, width], .. } = dataset.train_window(0)?;
                BatchShape { input: [1, days, channels, height, width], target: None }.check(config, "the sequence")
            }
        }
    }

    /// Bytes of what is held in memory.
    pub fn cached_bytes(&self) -> u64 {
        match self {
            Self::Volumes(dataset) => dataset.cached_bytes(),
            Self::Fields(dataset) => size_of_val(dataset.sequence().data()) as u64,
        }
    }

    /// Number of validation samples.
    pub fn val_len(&self) -> usize {
        match self {
            Self::Volumes(dataset) => dataset.val_len(),
            Self::Fields(dataset) => dataset.val_len(),
        }
    }
}
