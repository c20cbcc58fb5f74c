//! Micro-batches of latents.

use std::sync::Arc;

use burn::tensor::{Device, Tensor, TensorData};
use leanburn_common::Bytes;
use leanburn_data::BatchOrder;
use leanburn_ops::random;
use leanburn_train::TrainError;

use super::latents::{Latent, LatentDataset};
use super::workload::LatentBatch;
use crate::batch::{Batch, Batches};
use crate::shared::Context;

/// Mean and deviation of latents; the shape is that of each.
impl Batch for LatentBatch {
    type Data = Arc<LatentDataset>;
    type Shape = [usize; 5];

    fn batches(data: &Self::Data, batch_size: usize, order: BatchOrder, device: &Device) -> Batches<Self> {
        let (data, device) = (data.clone(), device.clone());
        let (count, mut epoch) = (data.training().len() as u64, (u64::MAX, Vec::new()));
        let batch = move |batch: u64| -> std::result::Result<LatentBatch, TrainError> {
            let items = (0..batch_size as u64).map(|item| {
                let index = batch * batch_size as u64 + item;
                if epoch.0 != index / count {
                    epoch = (index / count, data.order(index / count));
                }
                &data.training()[epoch.1[(index % count) as usize]]
            });
            Ok(stacked(&items.collect::<Vec<_>>(), &device))
        };
        Box::new((order.first..).step_by(order.stride as usize).map(batch))
    }

    fn shape_of(_: &Context<'_>, micro_batch: usize, channels: usize, extent: [usize; 3]) -> Self::Shape {
        let [depth, height, width] = extent;
        [micro_batch, channels, depth, height, width]
    }

    fn zeros(shape: &Self::Shape, device: &Device) -> Self {
        (Tensor::zeros(*shape, device), Tensor::zeros(*shape, device))
    }

    fn random(shape: &Self::Shape, device: &Device) -> Self {
        (random::normal(*shape, device), random::uniform(*shape, device))
    }

    fn size(shape: &Self::Shape) -> Bytes {
        Bytes(2 * 4 * shape.iter().map(|&length| length as u64).product::<u64>())
    }
}

/// Latents of one shape as a batch.
pub(super) fn stacked(latents: &[&Latent], device: &Device) -> LatentBatch {
    let [channels, depth, height, width] = latents[0].shape;
    let shape = [latents.len(), channels, depth, height, width];
    let stack = |part: fn(&Latent) -> &[f32]| {
        let values: Vec<f32> = latents.iter().flat_map(|latent| part(latent)).copied().collect();
        Tensor::from_data(TensorData::new(values, shape), device)
    };
    (stack(|latent| &latent.mean), stack(|latent| &latent.deviation))
}
