//! Features of images into the view from above.

use std::sync::Arc;

use burn::module::Module;
use burn::tensor::activation::softmax;
use burn::tensor::{Device, Tensor};
use leanburn_ops::numerics::{cast_to, widen};
use leanburn_ops::{BevCells, bev_pool};

use crate::blocks::{Conv2d, Conv2dConfig};

/// A distribution over depths and features for each pixel; a feature goes to the cells that its pixel shows, by the probability of their
/// depth.
///
/// # Memory
///
/// Saved for backward: the input, the features and some times the depths. The product of depths and features is never made; see
/// [`bev_pool`].
#[derive(Module, Debug)]
pub struct Lift {
    depthnet: Conv2d,
    bins: usize,
    with_depth: bool,
}

impl Lift {
    /// From so many channels of an image's features to `channels` of the view, and one more that says how much was lifted if `with_depth`.
    pub fn new(in_channels: usize, bins: usize, channels: usize, with_depth: bool, device: &Device) -> Self {
        Self { depthnet: Conv2dConfig::new([in_channels, bins + channels], 1).init(device), bins, with_depth }
    }

    /// The view from above, and the logits of the depths.
    ///
    /// # Shapes
    ///
    /// - input: `[batch_size * cameras, in_channels, 1, height, width]`, the cameras of an item one behind the other
    /// - view: `[batch_size, layers * channels, 1, rows, columns]`
    /// - logits: `[batch_size, bins, cameras, height, width]`
    ///
    /// # Panics
    ///
    /// Panics if the cells are of other items, pixels or depths.
    pub fn forward(&self, x: Tensor<5>, cells: &Arc<BevCells>) -> (Tensor<5>, Tensor<5>) {
        let ([images, _, _, height, width], batch_size) = (x.dims(), cells.batch_size());
        let cameras = images / batch_size.max(1);
        let h = self.depthnet.forward(x);
        let channels = h.dims()[1];
        let h = h.reshape([batch_size, cameras, channels, height, width]).swap_dims(1, 2);
        let logits = h.clone().narrow(1, 0, self.bins);
        let mut features = h.narrow(1, self.bins, channels - self.bins);
        if self.with_depth {
            let ones = Tensor::ones([batch_size, 1, cameras, height, width], (&features.device(), features.dtype()));
            features = Tensor::cat(vec![features, ones], 1);
        }
        let depth = cast_to(softmax(widen(logits.clone()), 1), features.dtype());
        let pooled = bev_pool(features, depth, cells);
        let [_, channels, layers, rows, columns] = pooled.dims();
        (pooled.swap_dims(1, 2).reshape([batch_size, layers * channels, 1, rows, columns]), logits)
    }
}
