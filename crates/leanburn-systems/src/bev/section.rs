//! The `bev` section.

use leanburn_data::{ROAD_CLASSES, SceneConfig};
use leanburn_nn::models::{BevGridConfig, LiftSplatShootConfig, NUSCENES_PRIORS, SwinTransformer2dConfig};
use serde::Serialize;

use super::objective::BevObjectiveSection;
use crate::shared::{Training, TrainingSection, with_methods};
use crate::yaml::{MANY, PerPlane, Section};

/// How often the classes of synthetic road scenes occur where they are seen, with the scenes' defaults.
const PRIORS: [f64; ROAD_CLASSES.len()] = [0.44, 0.02, 0.14, 0.02, 0.015];

/// A model that maps the ground, and its training.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct BevSection {
    /// What makes features of images.
    pub backbone: BackboneSection,
    /// Depths at which a pixel may lie, `[from, to, step]` in metres. Default: [1, 50, 1].
    pub depth: [f64; 3],
    /// Layers of what is seen from above, `[from, to, step]` in metres below the cameras' owner. Default: [-10, 10, 20], one layer.
    pub height: [f64; 3],
    /// Channels of the view from above. Default: 64.
    pub bev_channels: usize,
    /// Whether the view has one more channel that says how much was lifted into each cell. Default: false.
    pub out_depth: bool,
    /// Channels of the head's first bottlenecks; each further layer has half. Default: 128.
    pub channels: usize,
    /// Blocks of each layer of the head. Default: [4, 4].
    pub layers: Vec<usize>,
    /// By what each layer enlarges the view: the cells of the view are so much larger than those of the map. Default: [1, 2].
    pub strides: Vec<usize>,
    /// Groups of the head's norms. Default: 16.
    pub norm_num_groups: usize,
    /// How often each class occurs. Default: as in synthetic road scenes, or as in nuScenes where scenes are read from a folder.
    pub priors: Option<Vec<f64>>,
    /// How it is trained.
    pub training: Training<BevObjectiveSection>,
}

/// A Swin transformer; the defaults are Swin-T's.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct BackboneSection {
    /// Channels of the first stage; each stage doubles them. Default: 96.
    pub embed_dim: usize,
    /// Blocks of each stage. Default: [2, 2, 6, 2].
    pub depths: Vec<usize>,
    /// Heads of each stage. Default: [3, 6, 12, 24].
    pub num_heads: Vec<usize>,
    /// Height and width of a window. Default: 7.
    pub window_size: [usize; 2],
    /// Height and width of the patches that the first stage has as positions. Default: 4.
    pub patch_size: usize,
    /// Channels inside of a block's two linear layers, as a multiple of its own. Default: 4.
    pub mlp_ratio: usize,
}

impl Default for BackboneSection {
    fn default() -> Self {
        let SwinTransformer2dConfig { embed_dim, depths, num_heads, window_size, patch_size, mlp_ratio, .. } =
            SwinTransformer2dConfig::new();
        Self { embed_dim, depths, num_heads, window_size, patch_size, mlp_ratio }
    }
}

with_methods! { BackboneSection {
    with_embed_dim => embed_dim: usize,
    with_depths => depths: Vec<usize>,
    with_num_heads => num_heads: Vec<usize>,
    with_window_size => window_size: [usize; 2],
    with_patch_size => patch_size: usize,
    with_mlp_ratio => mlp_ratio: usize,
} }

impl BackboneSection {
    fn read(section: &mut Section<'_>) -> Self {
        let default = Self::default();
        section.alias("embed_dims", "embed_dim");
        Self {
            embed_dim: section.number("embed_dim", default.embed_dim, 1..=MANY),
            depths: section.number("depths", default.depths, 1..=MANY),
            num_heads: section.number("num_heads", default.num_heads, 1..=MANY),
            window_size: section.number("window_size", PerPlane(default.window_size), 1..=MANY).0,
            patch_size: section.number("patch_size", default.patch_size, 1..=MANY),
            mlp_ratio: section.number("mlp_ratio", default.mlp_ratio, 1..=MANY),
        }
    }

    /// The configuration of the backbone.
    pub fn model(&self) -> SwinTransformer2dConfig {
        SwinTransformer2dConfig::new()
            .with_embed_dim(self.embed_dim)
            .with_depths(self.depths.clone())
            .with_num_heads(self.num_heads.clone())
            .with_window_size(self.window_size)
            .with_patch_size(self.patch_size)
            .with_mlp_ratio(self.mlp_ratio)
    }
}

impl Default for BevSection {
    fn default() -> Self {
        let BevGridConfig { y, depth, .. } = BevGridConfig::new();
        Self {
            backbone: BackboneSection::default(),
            depth,
            height: y,
            bev_channels: 64,
            out_depth: false,
            channels: 128,
            layers: vec![4, 4],
            strides: vec![1, 2],
            norm_num_groups: 16,
            priors: None,
            training: Training::default(),
        }
    }
}

with_methods! { BevSection {
    with_backbone => backbone: BackboneSection,
    with_depth => depth: [f64; 3],
    with_height => height: [f64; 3],
    with_bev_channels => bev_channels: usize,
    with_out_depth => out_depth: bool,
    with_channels => channels: usize,
    with_layers => layers: Vec<usize>,
    with_strides => strides: Vec<usize>,
    with_norm_num_groups => norm_num_groups: usize,
    with_priors => priors: Option<Vec<f64>>,
    with_training => training.common: TrainingSection,
    with_objective => training.objective: BevObjectiveSection,
} }

impl BevSection {
    pub(super) fn read_keys(section: &mut Section<'_>) -> Self {
        let default = Self::default();
        section.alias("bev_feature_channels", "bev_channels");
        Self {
            backbone: section.section("backbone", BackboneSection::read),
            depth: section.get("depth", default.depth),
            height: section.get("height", default.height),
            bev_channels: section.number("bev_channels", default.bev_channels, 1..=MANY),
            out_depth: section.get("out_depth", default.out_depth),
            channels: section.number("channels", default.channels, 1..=MANY),
            layers: section.number("layers", default.layers, 1..=MANY),
            strides: section.number("strides", default.strides, 1..=MANY),
            norm_num_groups: section.number("norm_num_groups", default.norm_num_groups, 1..=MANY),
            priors: section.get("priors", default.priors),
            training: section.section("training", |section| Training::read(section, BevObjectiveSection::read)),
        }
    }

    /// By how much the cells of the view are larger than those of the map.
    pub(super) fn upsampling(&self) -> usize {
        self.strides.iter().fold(1, |all, stride| all.saturating_mul(*stride))
    }

    /// How often each class of these scenes occurs.
    pub fn priors(&self, scenes: &SceneConfig) -> Vec<f64> {
        let usual = if scenes.data_root.is_some() { &NUSCENES_PRIORS[..] } else { &PRIORS };
        self.priors.clone().unwrap_or_else(|| usual.to_vec())
    }

    /// The configuration of the model for these scenes: the view has their ground, and their map its cells, as often as the head enlarges
    /// them.
    pub fn model(&self, scenes: &SceneConfig) -> LiftSplatShootConfig {
        let ([x, z], step) = ([scenes.map.x, scenes.map.z], scenes.map.cell * self.upsampling() as f64);
        let range = |[from, to]: [f64; 2]| [from, to, step];
        let grid = BevGridConfig::new().with_x(range(x)).with_z(range(z)).with_y(self.height).with_depth(self.depth);
        LiftSplatShootConfig::new(scenes.image_size)
            .with_backbone(self.backbone.model())
            .with_grid(grid)
            .with_bev_channels(self.bev_channels)
            .with_out_depth(self.out_depth)
            .with_priors(self.priors(scenes))
            .with_head_channels(self.channels)
            .with_head_layers(self.layers.clone())
            .with_head_strides(self.strides.clone())
            .with_norm_num_groups(self.norm_num_groups)
            .with_diffusion(self.training.objective.diffusion_weight > 0.0)
    }
}
