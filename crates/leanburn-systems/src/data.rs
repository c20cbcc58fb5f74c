//! What a system is trained on, opened: batches are taken of it, and samples to validate on.

use std::sync::Arc;

use leanburn_common::Bytes;
use leanburn_data::{Dataset, Progress, Sample, SequenceDataset, Window};

use crate::error::Result;
use crate::shared::Context;

/// An opened data set.
pub trait Data: Sized {
    /// Opens what a configuration names, with a call of `progress` after each sample.
    ///
    /// # Errors
    ///
    /// If a sample cannot be read.
    fn open(context: &Context<'_>, progress: &mut dyn FnMut(Progress<'_>)) -> Result<Self>;

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

/// Volumes, with labels or without: the section `data`.
impl Data for Arc<Dataset> {
    fn open(context: &Context<'_>, progress: &mut dyn FnMut(Progress<'_>)) -> Result<Self> {
        Ok(Arc::new(Dataset::open_with(context.data, context.seed, progress)?))
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

/// A sequence of fields: the section `sequence`.
impl Data for Arc<SequenceDataset> {
    fn open(context: &Context<'_>, _progress: &mut dyn FnMut(Progress<'_>)) -> Result<Self> {
        Ok(Arc::new(SequenceDataset::open(&context.fields(), context.seed)?))
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
