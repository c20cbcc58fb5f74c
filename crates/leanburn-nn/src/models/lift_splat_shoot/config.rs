//! Configuration of the model.

use burn::config::Config;
use leanburn_common::{Camera, Validation, ValidationError};
use leanburn_ops::BevCells;

use super::grid::{BevGridConfig, places};
use super::pyramid_head::{NUSCENES_PRIORS, PyramidHeadConfig};
use crate::models::SwinTransformer2dConfig;
use crate::validation::Rules;

/// Configuration of [`LiftSplatShoot`](super::LiftSplatShoot); the defaults are the guide's, with Swin-T as its backbone.
///
/// # Example
///
/// ```
/// use std::sync::Arc;
///
/// use burn::prelude::*;
/// use leanburn_common::Camera;
/// use leanburn_nn::models::{BevGridConfig, LiftSplatShootConfig, SwinTransformer2dConfig};
///
/// let backbone = SwinTransformer2dConfig::new().with_embed_dim(8).with_depths(vec![1, 1]).with_num_heads(vec![1, 2]);
/// let grid = BevGridConfig::new().with_x([-8.0, 8.0, 2.0]).with_z([1.0, 17.0, 2.0]).with_depth([1.0, 17.0, 2.0]);
/// let config = LiftSplatShootConfig::new([32, 48])
///     .with_backbone(backbone)
///     .with_grid(grid)
///     .with_bev_channels(8)
///     .with_priors(vec![0.4, 0.1])
///     .with_head_channels(16)
///     .with_norm_num_groups(4);
/// let model = config.init(&Device::flex());
/// let camera = Camera::pinhole(32.0, [32, 48]).at([0.0, -1.5, 0.0]);
/// let cells = Arc::new(config.cells(&[vec![camera]]));
/// let view = model.forward(Tensor::zeros([1, 3, 1, 32, 48], &Device::flex()), &cells);
/// assert_eq!(view.logits.dims(), [1, 2, 1, 16, 16]);
/// ```
#[derive(Config, Debug, PartialEq)]
pub struct LiftSplatShootConfig {
    /// Rows and columns of the images.
    pub image_size: [usize; 2],
    /// What makes features of images.
    #[config(default = "SwinTransformer2dConfig::new()")]
    pub backbone: SwinTransformer2dConfig,
    /// The space that is seen from above.
    #[config(default = "BevGridConfig::new()")]
    pub grid: BevGridConfig,
    /// Channels of the view.
    #[config(default = 64)]
    pub bev_channels: usize,
    /// Whether the view has one more channel that says how much was lifted into each cell.
    #[config(default = false)]
    pub out_depth: bool,
    /// How often each class occurs, one number for each.
    #[config(default = "NUSCENES_PRIORS.to_vec()")]
    pub priors: Vec<f64>,
    /// Channels of the head's first bottlenecks.
    #[config(default = 128)]
    pub head_channels: usize,
    /// Blocks of each layer of the head.
    #[config(default = "vec![4, 4]")]
    pub head_layers: Vec<usize>,
    /// By what each layer of the head enlarges the view.
    #[config(default = "vec![1, 2]")]
    pub head_strides: Vec<usize>,
    /// Groups of the head's norms.
    #[config(default = 16)]
    pub norm_num_groups: usize,
    /// Whether there is a network that removes noise from maps, for a loss of its own in training.
    #[config(default = false)]
    pub diffusion: bool,
}

impl LiftSplatShootConfig {
    /// Everything that is wrong with the configuration.
    #[must_use]
    pub fn validate(&self) -> Vec<ValidationError> {
        let mut validation = Validation::default();
        validation.extend_below("backbone", self.backbone.validate());
        validation.extend_below("grid", self.grid.validate());
        validation.count("bev_channels", self.bev_channels);
        let (downsampling, [height, width]) = (self.downsampling(), self.image_size);
        validation.check_together(
            height.min(width) >= downsampling && height.max(width) <= 1 << 16,
            &["backbone.depths", "backbone.patch_size"],
            "image_size",
            &format!(
                "at least {downsampling} x {downsampling} pixels, one of the backbone's last stage, at most 65536"
            ),
            format!("{height} x {width}"),
            "use larger images, or a backbone with fewer stages",
        );
        let renamed = |error: ValidationError| match error.key.as_str() {
            "channels" | "layers" | "strides" => ValidationError { key: format!("head_{}", error.key), ..error },
            _ => error,
        };
        let errors = if self.grid.validate().is_empty() { self.head().validate() } else { Vec::new() };
        let head = errors.into_iter().filter(|error| error.key != "in_channels").map(renamed);
        [validation.errors(), head.collect()].concat()
    }

    /// By how much the backbone divides height and width of an image.
    pub fn downsampling(&self) -> usize {
        let merged = self.backbone.depths.len().saturating_sub(1).min(16) as u32;
        self.backbone.patch_size.saturating_mul(1 << merged)
    }

    /// Rows and columns of an image's pixels that are lifted.
    pub fn lifted_size(&self) -> [usize; 2] {
        self.image_size.map(|length| length / self.downsampling())
    }

    /// The rows and columns of an image whose pixels are lifted.
    pub fn lifted_pixels(&self) -> [Vec<f64>; 2] {
        let lifted = self.lifted_size();
        [0, 1].map(|axis| places(self.image_size[axis], lifted[axis]))
    }

    /// Rows and columns of the map.
    pub fn map_size(&self) -> [usize; 2] {
        let [_, rows, columns] = self.grid.cells_along();
        [rows, columns].map(|cells| cells * self.head().upsampling())
    }

    /// Which cells the points of these cameras' views lie in, the cameras of each item; see [`BevGridConfig::cells`].
    ///
    /// # Panics
    ///
    /// As [`BevGridConfig::cells`].
    pub fn cells(&self, cameras: &[Vec<Camera>]) -> BevCells {
        self.grid.cells(cameras, self.image_size, self.lifted_size())
    }

    /// The head.
    pub(super) fn head(&self) -> PyramidHeadConfig {
        let [layers, ..] = self.grid.cells_along();
        let channels = layers.saturating_mul(self.bev_channels + usize::from(self.out_depth));
        PyramidHeadConfig::new(channels, self.priors.clone())
            .with_channels(self.head_channels)
            .with_layers(self.head_layers.clone())
            .with_strides(self.head_strides.clone())
            .with_norm_num_groups(self.norm_num_groups)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::keys;

    #[test]
    fn each_error_is_found() {
        let fields = |config: LiftSplatShootConfig| keys(config.validate());
        let valid = || LiftSplatShootConfig::new([600, 800]);
        assert!(fields(valid()).is_empty());
        assert_eq!(fields(LiftSplatShootConfig::new([31, 800])), ["image_size"]);
        assert_eq!(fields(valid().with_bev_channels(0)), ["bev_channels"]);
        assert_eq!(
            fields(valid().with_backbone(SwinTransformer2dConfig::new().with_patch_size(0))),
            ["backbone.patch_size"]
        );
        assert_eq!(fields(valid().with_grid(BevGridConfig::new().with_x([0.0; 3]))), ["grid.x"]);
        assert_eq!(fields(valid().with_head_layers(vec![])), ["head_layers", "head_strides"]);
        assert_eq!(fields(valid().with_norm_num_groups(48)), ["norm_num_groups"]);
        assert_eq!(fields(valid().with_priors(vec![2.0])), ["priors"]);
    }

    /// The guide's sizes: the last row of the backbone's 19 x 25 features is left out.
    #[test]
    fn the_default_is_the_guides() {
        let config = LiftSplatShootConfig::new([600, 800]);
        assert_eq!((config.downsampling(), config.lifted_size(), config.map_size()), (32, [18, 25], [196, 200]));
    }
}
