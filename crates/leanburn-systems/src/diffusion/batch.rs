//! Micro-batches of latents.

use std::borrow::Cow;
use std::sync::Arc;

use burn::tensor::{Device, Tensor, TensorData};
use leanburn_common::Bytes;
use leanburn_data::BatchOrder;
use leanburn_ops::random;
use leanburn_train::TrainError;

use super::latent::Latent;
use super::latents::LatentDataset;
use super::workload::LatentBatch;
use crate::batch::{Batch, Batches};
use crate::shared::Context;

/// Mean and deviation of latents, and their classes; the shape is that of each, and whether there are classes.
impl Batch for LatentBatch {
    type Data = Arc<LatentDataset>;
    type Shape = ([usize; 5], bool);

    fn batches(data: &Self::Data, batch_size: usize, order: BatchOrder, device: &Device) -> Batches<Self> {
        let (data, device) = (data.clone(), device.clone());
        let (count, mut epoch) = (data.training_len() as u64, (u64::MAX, Vec::new()));
        let batch = move |batch: u64| -> std::result::Result<LatentBatch, TrainError> {
            let items = (0..batch_size as u64).map(|item| {
                let index = batch * batch_size as u64 + item;
                if epoch.0 != index / count {
                    epoch = (index / count, data.order(index / count));
                }
                data.latent(epoch.1[(index % count) as usize])
            });
            Ok(stacked(&items.collect::<std::result::Result<Vec<_>, _>>()?, &device))
        };
        Box::new((order.first..).step_by(order.stride as usize).map(batch))
    }

    fn shape_of(context: &Context<'_>, micro_batch: usize, channels: usize, extent: [usize; 3]) -> Self::Shape {
        let [depth, height, width] = extent;
        ([micro_batch, channels, depth, height, width], !context.data.classes.is_empty())
    }

    fn zeros((shape, has_classes): &Self::Shape, device: &Device) -> Self {
        let classes = has_classes.then(|| Tensor::zeros([shape[0]], device));
        (Tensor::zeros(*shape, device), Tensor::zeros(*shape, device), classes)
    }

    fn random((shape, has_classes): &Self::Shape, device: &Device) -> Self {
        let classes = has_classes.then(|| Tensor::zeros([shape[0]], device));
        (random::normal(*shape, device), random::uniform(*shape, device), classes)
    }

    fn size((shape, has_classes): &Self::Shape) -> Bytes {
        let latents = 2 * shape.iter().map(|&length| length as u64).product::<u64>();
        Bytes(4 * (latents + if *has_classes { shape[0] as u64 } else { 0 }))
    }
}

/// Latents of one shape as a batch.
pub(super) fn stacked(latents: &[Cow<'_, Latent>], device: &Device) -> LatentBatch {
    let [channels, depth, height, width] = latents[0].shape;
    let shape = [latents.len(), channels, depth, height, width];
    let stack = |part: fn(&Latent) -> &[f32]| {
        let values: Vec<f32> = latents.iter().flat_map(|latent| part(latent)).copied().collect();
        Tensor::from_data(TensorData::new(values, shape), device)
    };
    let classes: Option<Vec<f32>> = latents.iter().map(|latent| Some(latent.class? as f32)).collect();
    let classes = classes.map(|classes| Tensor::from_data(TensorData::new(classes, [latents.len()]), device));
    (stack(|latent| &latent.mean), stack(|latent| &latent.deviation), classes)
}
