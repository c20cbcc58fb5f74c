//! Micro-batches: taken of the data, and made by shape where plans and measurements read none.

use std::fmt::Debug;
use std::sync::Arc;

use burn::tensor::{DType, Device, Int, Tensor, TensorData};
use leanburn_common::Bytes;
use leanburn_data::{self as data, BatchOrder, DataError, Dataset, Loader, SequenceDataset};
use leanburn_ops::{Tensors, random};
use leanburn_train::{TrainError, volumes, windows};

use crate::data::Data;
use crate::shared::Context;

/// Micro-batches without end.
pub type Batches<B> = Box<dyn Iterator<Item = std::result::Result<B, TrainError>>>;

/// A micro-batch of one kind: a tensor, or a few that belong together.
///
/// A system whose batches are of a kind that is not here implements this for a type of its own.
pub trait Batch: Tensors + Clone + 'static {
    /// What it is taken of.
    type Data: Data;
    /// The shapes of its tensors.
    type Shape: Clone + Debug;

    /// The training batches of the data in this order, on a device.
    fn batches(data: &Self::Data, batch_size: usize, order: BatchOrder, device: &Device) -> Batches<Self>;

    /// The shapes for samples of so many channels and of an extent: depth, height and width, of fields the days that are seen,
    /// height and width.
    fn shape_of(context: &Context<'_>, micro_batch: usize, channels: usize, extent: [usize; 3]) -> Self::Shape;

    /// A batch of zeros.
    fn zeros(shape: &Self::Shape, device: &Device) -> Self;

    /// A batch of noise, of values that the data could have.
    fn random(shape: &Self::Shape, device: &Device) -> Self;

    /// Its size, as it waits for its step.
    fn size(shape: &Self::Shape) -> Bytes;
}

/// Volumes `[batch_size, channels, depth, height, width]`.
impl Batch for Tensor<5> {
    type Data = Arc<Dataset>;
    type Shape = [usize; 5];

    fn batches(data: &Self::Data, batch_size: usize, order: BatchOrder, device: &Device) -> Batches<Self> {
        let device = device.clone();
        let loader = Loader::new(data.clone(), batch_size, order);
        Box::new(loader.map(move |batch| Ok(volumes(batch?, &device))))
    }

    fn shape_of(_: &Context<'_>, micro_batch: usize, channels: usize, extent: [usize; 3]) -> Self::Shape {
        let [depth, height, width] = extent;
        [micro_batch, channels, depth, height, width]
    }

    fn zeros(shape: &Self::Shape, device: &Device) -> Self {
        Tensor::zeros(*shape, device)
    }

    fn random(shape: &Self::Shape, device: &Device) -> Self {
        random::uniform(*shape, device)
    }

    fn size(shape: &Self::Shape) -> Bytes {
        Bytes(4 * elements(shape))
    }
}

/// Fields `[batch_size, input_days, channels, height, width]` and those that follow, `[batch_size, predict_days, height, width]`.
impl Batch for (Tensor<5>, Tensor<4>) {
    type Data = Arc<SequenceDataset>;
    type Shape = ([usize; 5], [usize; 4]);

    fn batches(data: &Self::Data, batch_size: usize, order: BatchOrder, device: &Device) -> Batches<Self> {
        let device = device.clone();
        let loader = Loader::windows(data.clone(), batch_size, order);
        Box::new(loader.map(move |batch| Ok(windows(batch?, &device))))
    }

    fn shape_of(context: &Context<'_>, micro_batch: usize, channels: usize, extent: [usize; 3]) -> Self::Shape {
        let [days, height, width] = extent;
        let (predicted, finer) = context.sequence.map_or((1, 1), |fields| (fields.predict_days, fields.sample_factor));
        ([micro_batch, days, channels, height, width], [micro_batch, predicted, height * finer, width * finer])
    }

    fn zeros((input, target): &Self::Shape, device: &Device) -> Self {
        (Tensor::zeros(*input, device), Tensor::zeros(*target, device))
    }

    fn random((input, target): &Self::Shape, device: &Device) -> Self {
        (random::uniform(*input, device), random::uniform(*target, device))
    }

    fn size((input, target): &Self::Shape) -> Bytes {
        Bytes(4 * (elements(input) + elements(target)))
    }
}

/// Volumes `[batch_size, channels, depth, height, width]` and the class of each of their voxels,
/// `[batch_size, depth, height, width]`; the shape is that of the volumes.
impl Batch for (Tensor<5>, Tensor<4, Int>) {
    type Data = Arc<Dataset>;
    type Shape = [usize; 5];

    fn batches(data: &Self::Data, batch_size: usize, order: BatchOrder, device: &Device) -> Batches<Self> {
        let device = device.clone();
        let loader = Loader::new(data.clone(), batch_size, order);
        Box::new(loader.map(move |batch| labelled(batch?, &device)))
    }

    fn shape_of(context: &Context<'_>, micro_batch: usize, channels: usize, extent: [usize; 3]) -> Self::Shape {
        <Tensor<5> as Batch>::shape_of(context, micro_batch, channels, extent)
    }

    fn zeros(shape: &Self::Shape, device: &Device) -> Self {
        (Tensor::zeros(*shape, device), Tensor::zeros(labels_shape(shape), (device, LABELS)))
    }

    /// Labels are of the classes 0 and 1, which all label maps have.
    fn random(shape: &Self::Shape, device: &Device) -> Self {
        let labels_shape = labels_shape(shape);
        let labels = (0..elements(&labels_shape)).map(|voxel| (voxel % 2) as u8).collect();
        (random::uniform(*shape, device), labels_tensor(labels, labels_shape, device))
    }

    /// Labels wait as a byte a voxel.
    fn size(shape: &Self::Shape) -> Bytes {
        Bytes(4 * elements(shape) + elements(&labels_shape(shape)))
    }
}

/// How labels lie on a device: every device computes with these.
const LABELS: DType = DType::I32;

fn labels_shape([batch_size, _, extent @ ..]: &[usize; 5]) -> [usize; 4] {
    let [depth, height, width] = *extent;
    [*batch_size, depth, height, width]
}

/// A batch of volumes and its labels on a device; an error where there are no labels.
fn labelled(mut batch: data::Batch, device: &Device) -> std::result::Result<(Tensor<5>, Tensor<4, Int>), TrainError> {
    let shape = batch.labels_shape();
    let labels = batch.labels.take().ok_or_else(DataError::without_labels)?;
    Ok((volumes(batch, device), labels_tensor(labels, shape, device)))
}

/// Labels `[batch_size, depth, height, width]` on a device.
fn labels_tensor(labels: Vec<u8>, shape: [usize; 4], device: &Device) -> Tensor<4, Int> {
    Tensor::from_data(TensorData::new(labels, shape), (device, LABELS))
}

/// Numbers in a tensor of a shape.
fn elements(shape: &[usize]) -> u64 {
    shape.iter().map(|&length| length as u64).product()
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
            let mut batches = <(Tensor<5>, Tensor<4, Int>)>::batches(&dataset, 2, 1.into(), &device);
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
