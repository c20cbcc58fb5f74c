//! The model itself.

use std::sync::Arc;

use burn::module::Module;
use burn::tensor::{Device, Tensor, assert_shape};
use leanburn_common::panic_if_invalid;
use leanburn_ops::{BevCells, ResidencyPolicy};

use super::config::LiftSplatShootConfig;
use super::diffusion_head::BevDiffusionHead;
use super::lift::Lift;
use super::pyramid_head::PyramidHead;
use crate::models::SwinTransformer2d;
use crate::segmented::segmented;

/// The segment that goes from images to the view.
const LIFT: &str = "lift";
/// The segment of the diffusion head.
const DIFFUSION: &str = "diffusion";
/// What the names of the backbone's segments begin with.
const BACKBONE: &str = "backbone.";

/// A map of the ground from the images of cameras; see [`LiftSplatShootConfig`] for an example.
///
/// A Swin transformer makes features of each image, every pixel's features are put where the pixel's depth may be, all that falls into a cell
/// of the ground is added up, and a convolutional head reads the classes of each cell.
///
/// # Memory
///
/// Saved for backward: of each part what it says. With every segment recomputed, what each segment gives. Segments are those of the backbone,
/// `backbone.stage_0.block_0` and so on, `lift`, those of the head, `head.layer_0.block_0` and so on, and `diffusion`.
#[derive(Module, Debug)]
pub struct LiftSplatShoot {
    backbone: SwinTransformer2d,
    lift: Lift,
    head: PyramidHead,
    diffusion: Option<BevDiffusionHead>,
    #[module(skip)]
    config: LiftSplatShootConfig,
    #[module(skip)]
    residency: ResidencyPolicy,
}

/// What a [`LiftSplatShoot`] gives.
#[derive(Debug, Clone)]
pub struct BevView {
    /// Logits of each class in each cell of the map, `[batch_size, classes, 1, rows, columns]`.
    pub logits: Tensor<5>,
    /// The features that they are read from, `[batch_size, channels, 1, rows, columns]`.
    pub features: Tensor<5>,
    /// Logits of the depths of each lifted pixel, `[batch_size, bins, cameras, height, width]`.
    pub depth_logits: Tensor<5>,
}

impl LiftSplatShootConfig {
    /// Makes the model.
    ///
    /// # Panics
    ///
    /// Panics with the [errors](Self::validate) of the configuration if there are any.
    pub fn init(&self, device: &Device) -> LiftSplatShoot {
        panic_if_invalid("LiftSplatShoot", &self.validate());
        let (features, head) = (self.backbone.channels(self.backbone.depths.len() - 1), self.head());
        let bins = self.grid.depths().len();
        let diffusion = || BevDiffusionHead::new(self.priors.len(), head.out_channels(), device);
        LiftSplatShoot {
            backbone: self.backbone.init(device),
            lift: Lift::new(features, bins, self.bev_channels, self.out_depth, device),
            head: head.init(device),
            diffusion: self.diffusion.then(diffusion),
            config: self.clone(),
            residency: ResidencyPolicy::default(),
        }
    }
}

segmented!(LiftSplatShoot, LiftSplatShootConfig);

impl LiftSplatShoot {
    /// Names of the segments in order of execution.
    pub fn segments(&self) -> Vec<String> {
        let backbone = self.backbone.segments().into_iter().map(|name| format!("{BACKBONE}{name}"));
        let diffusion = self.diffusion.iter().map(|_| DIFFUSION.to_string());
        backbone.chain([LIFT.to_string()]).chain(self.head.segments()).chain(diffusion).collect()
    }

    /// The map.
    ///
    /// # Shapes
    ///
    /// - images: `[batch_size, in_channels, cameras, height, width]`
    /// - cells: as [`LiftSplatShootConfig::cells`] makes them of the items' cameras
    ///
    /// # Panics
    ///
    /// Panics if images or cells are of other sizes than the configuration says.
    pub fn forward(&self, images: Tensor<5>, cells: &Arc<BevCells>) -> BevView {
        let [rows, columns] = self.config.image_size;
        let in_channels = self.config.backbone.in_channels;
        assert_shape!(images, [_, in_channels, _, rows, columns]);
        let [batch_size, _, cameras, ..] = images.dims();
        let images = images.swap_dims(1, 2).reshape([batch_size * cameras, in_channels, rows, columns]);
        let features = self.backbone.forward_within(images, BACKBONE, &self.residency);
        let [height, width] = self.config.lifted_size();
        let features = features.narrow(2, 0, height).narrow(3, 0, width).unsqueeze_dim(2);
        let cells = cells.clone();
        let lift = move |lift: &Lift, features| lift.forward(features, &cells);
        let (view, depth_logits) = self.residency.run(LIFT, &self.lift, features, lift);
        let (logits, features) = self.head.forward_within(view, &self.residency);
        BevView { logits, features, depth_logits }
    }

    /// The noise in noisy logits of a map, from the features that the map was made of; see [`BevDiffusionHead::forward`].
    ///
    /// # Panics
    ///
    /// Panics if the model was made without a diffusion head.
    pub fn noise(&self, noisy: Tensor<5>, features: Tensor<5>, times: Tensor<1>) -> Tensor<5> {
        let head = self.diffusion.as_ref().expect("the configuration says `diffusion`");
        let forward = |head: &BevDiffusionHead, (noisy, features, times)| head.forward(noisy, features, times);
        self.residency.run(DIFFUSION, head, (noisy, features, times), forward)
    }
    pub(super) fn backbone(&self) -> &SwinTransformer2d {
        &self.backbone
    }
}
