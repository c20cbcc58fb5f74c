//! Micro-batches of road scenes.

use std::sync::Arc;

use burn::backend::DispatchTensor;
use burn::tensor::{DType, Device, Tensor, TensorData};
use leanburn_common::{Bytes, Camera};
use leanburn_data::{BatchOrder, Loader, SceneBatch, SceneDataset};
use leanburn_ops::{Tensors, random};

use crate::batch::{Batch, Batches};
use crate::shared::Context;

/// What cameras saw, where they stood, and the maps.
#[derive(Debug, Clone)]
pub struct SceneViews {
    /// `[batch_size, 3, cameras, height, width]`.
    pub images: Tensor<5>,
    /// 0 or 1, `[batch_size, classes + 1, 1, rows, columns]`: what each cell is, and behind the classes whether it is seen.
    pub map: Tensor<5>,
    /// Metres to what each pixel shows, 0 where it is not known, `[batch_size, 1, cameras, height, width]`; `None` if it was not asked for.
    pub depth: Option<Tensor<5>>,
    /// The cameras of each item.
    pub cameras: Arc<Vec<Vec<Camera>>>,
}

/// The cameras go along: they are plain numbers. With them whether there are depths.
impl Tensors for SceneViews {
    type Layout = (Arc<Vec<Vec<Camera>>>, bool);

    fn device(&self) -> Option<Device> {
        Some(self.images.device())
    }

    fn flatten(self, tensors: &mut Vec<DispatchTensor>) -> Self::Layout {
        Tensors::flatten(self.images, tensors);
        Tensors::flatten(self.map, tensors);
        let has_depth = self.depth.is_some();
        if let Some(depth) = self.depth {
            Tensors::flatten(depth, tensors);
        }
        (self.cameras, has_depth)
    }

    fn assemble((cameras, has_depth): &Self::Layout, tensors: &mut std::vec::IntoIter<DispatchTensor>) -> Self {
        let mut next = || <Tensor<5> as Tensors>::assemble(&(), tensors);
        let [images, map] = [next(), next()];
        Self { images, map, depth: has_depth.then(next), cameras: cameras.clone() }
    }
}

/// The shapes of a micro-batch, and its cameras.
#[derive(Debug, Clone)]
pub struct SceneShape {
    images: [usize; 5],
    map: [usize; 5],
    depth: Option<[usize; 5]>,
    cameras: Arc<Vec<Vec<Camera>>>,
}

impl SceneViews {
    /// Scenes on a device.
    pub(super) fn of(scenes: SceneBatch, device: &Device) -> Self {
        let images = Tensor::from_data(TensorData::new(scenes.images, scenes.images_shape), device);
        let map = Tensor::from_data(TensorData::new(scenes.map, scenes.map_shape), (device, DType::F32));
        let [batch_size, _, cameras, height, width] = scenes.images_shape;
        let shape = [batch_size, 1, cameras, height, width];
        let depth = (!scenes.depth.is_empty()).then(|| Tensor::from_data(TensorData::new(scenes.depth, shape), device));
        Self { images, map, depth, cameras: Arc::new(scenes.cameras) }
    }
}

impl Batch for SceneViews {
    type Data = Arc<SceneDataset>;
    type Shape = SceneShape;

    fn batches(data: &Self::Data, batch_size: usize, order: BatchOrder, device: &Device) -> Batches<Self> {
        let device = device.clone();
        let loader = Loader::scenes(data.clone(), batch_size, order);
        Box::new(loader.map(move |batch| Ok(Self::of(batch?, &device))))
    }

    fn shape_of(context: &Context<'_>, micro_batch: usize, channels: usize, extent: [usize; 3]) -> Self::Shape {
        let scenes = context.scenes();
        let [cameras, height, width] = extent;
        let [rows, columns] = scenes.map.size();
        SceneShape {
            images: [micro_batch, channels, cameras, height, width],
            map: [micro_batch, scenes.classes().len() + 1, 1, rows, columns],
            depth: scenes.depth.then_some([micro_batch, 1, cameras, height, width]),
            cameras: Arc::new(vec![scenes.cameras(); micro_batch]),
        }
    }

    fn zeros(shape: &Self::Shape, device: &Device) -> Self {
        let map = Tensor::zeros(shape.map, (device, DType::F32));
        let depth = shape.depth.map(|shape| Tensor::zeros(shape, device));
        Self { images: Tensor::zeros(shape.images, device), map, depth, cameras: shape.cameras.clone() }
    }

    fn random(shape: &Self::Shape, device: &Device) -> Self {
        let cells = shape.map.iter().product::<usize>();
        let map = (0..cells).map(|cell| (cell % 3 == 0) as u8).collect();
        let map = Tensor::from_data(TensorData::new::<u8, _>(map, shape.map), (device, DType::F32));
        let depth = shape.depth.map(|shape| random::uniform(shape, device) * 10.0 + 2.0);
        Self { images: random::uniform(shape.images, device), map, depth, cameras: shape.cameras.clone() }
    }

    /// Maps wait as a byte a cell.
    fn size(shape: &Self::Shape) -> Bytes {
        let elements = |shape: &[usize]| shape.iter().map(|&length| length as u64).product::<u64>();
        let depth = shape.depth.map_or(0, |shape| elements(&shape));
        Bytes(4 * (elements(&shape.images) + depth) + elements(&shape.map))
    }
}
