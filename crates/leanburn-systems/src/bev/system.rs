//! Maps of the ground as a system.

use std::sync::Arc;

use burn::tensor::{Device, Tensor, TensorData};
use image::RgbImage;
use leanburn_common::{Validation, ValidationError};
use leanburn_data::metrics::IntersectionCounts;
use leanburn_data::{SceneConfig, SceneDataset, SceneSample};
use leanburn_train::Learner;

use super::batch::SceneViews;
use super::picture::draw;
use super::section::BevSection;
use super::workload::BevWorkload;
use crate::error::{Result, SystemError};
use crate::evaluation::{Curves, Metrics, PictureLabel};
use crate::recipe::Recipe;
use crate::shared::{Context, Source, TrainingSection, learner, of_section, policy_and_seed};
use crate::system::{ModelChange, System, TrainedOn};
use crate::yaml::Section;

/// Metrics of all classes that there are, of synthetic roads and of nuScenes; both have walkways.
const CLASS_IOU: [&str; 18] = [
    "iou_drivable",
    "iou_crossing",
    "iou_divider",
    "iou_vehicle",
    "iou_drivable_area",
    "iou_ped_crossing",
    "iou_walkway",
    "iou_carpark",
    "iou_car",
    "iou_truck",
    "iou_bus",
    "iou_trailer",
    "iou_construction_vehicle",
    "iou_pedestrian",
    "iou_motorcycle",
    "iou_bicycle",
    "iou_traffic_cone",
    "iou_barrier",
];

/// The metric of a class.
fn iou_of(class: &str) -> &'static str {
    let is_its = |name: &&str| name.strip_prefix("iou_") == Some(class);
    CLASS_IOU.into_iter().find(is_its).expect("each class has one")
}

/// Colours of an image.
const COLOURS: usize = 3;

impl System for BevSection {
    type Batch = SceneViews;
    type Workload = BevWorkload;

    const NAME: &'static str = "bev";
    const SOURCE: Source = Source::Scenes;
    const RECIPES: &'static [Recipe] = &[Recipe {
        name: "bev-synthetic",
        about: "a map of the ground from a camera, on synthetic road scenes: minutes on a CPU",
        text: include_str!("../../recipes/bev-synthetic.yaml"),
    }];
    const PICTURE: PictureLabel = PictureLabel {
        name: "map",
        caption: "what the cameras see, the map, the predicted map, and the best map for all scenes",
    };
    const CURVES: &'static [Curves] = &[
        Curves {
            title: "Losses",
            y_label: "loss",
            log_y: true,
            train: &[("map", "map"), ("noise in maps", "denoising"), ("depth, in metres", "depth")],
            validation: &[],
        },
        Curves {
            title: "Maps",
            y_label: "intersection over union",
            log_y: false,
            train: &[],
            validation: &["miou", "prior_miou"],
        },
        Curves {
            title: "Classes",
            y_label: "intersection over union",
            log_y: false,
            train: &[],
            validation: &CLASS_IOU,
        },
    ];
    const ERRORS: &'static [&'static str] = &[];
    const SMALLER_EVALUATION: &'static str = "a smaller scenes.image_size or scenes.map";

    fn read(section: &mut Section<'_>, _on: &TrainedOn<'_>) -> Self {
        Self::read_keys(section)
    }

    fn validate(&self, context: &Context<'_>) -> Vec<ValidationError> {
        let fields = [
            ("grid.x", "scenes.map.x"),
            ("grid.z", "scenes.map.z"),
            ("grid.y", "bev.height"),
            ("grid.depth", "bev.depth"),
            ("image_size", "scenes.image_size"),
            ("head_channels", "bev.channels"),
            ("head_layers", "bev.layers"),
            ("head_strides", "bev.strides"),
        ];
        let scenes = context.scenes();
        // a map that is not valid is the scenes' error
        let is_ground = scenes.validate().iter().all(|error| !error.key.starts_with("map"));
        let model = if is_ground { self.model(&scenes).validate() } else { Vec::new() };
        let on_priors = |error: &ValidationError| error.key != "priors";
        let model = of_section(model.into_iter().filter(on_priors).collect(), Self::NAME, &fields);
        [model, self.validate_targets(&scenes)].concat()
    }

    fn training(&self) -> &TrainingSection {
        &self.training.common
    }

    fn training_mut(&mut self) -> &mut TrainingSection {
        &mut self.training.common
    }

    fn in_channels(&self) -> usize {
        COLOURS
    }

    fn build(&self, context: &Context<'_>, device: &Device) -> Result<Self::Workload> {
        let (model, training) = (self.model(&context.scenes()), &self.training.common);
        let segments = || Ok(model.init(&Device::flex()).segments());
        let policy = policy_and_seed(context, Self::NAME, training, device, |_| false, segments, Vec::new)?;
        let learner = learner(context, training, training.learning_rate);
        let model = Learner::new("lift_splat_shoot", model.init(device).with_residency(policy), learner)?;
        let objective = &self.training.objective;
        let precision = context.device.resolved_precision();
        let criterion = objective.criterion(&self.priors(&context.scenes()));
        let workload = BevWorkload::new(model, criterion, objective.diffusion_weight, precision);
        Ok(workload.with_depth_weight(objective.depth_weight))
    }

    fn check_sample(&self, name: &str, [channels, ..]: [usize; 4]) -> Result<()> {
        if channels == COLOURS {
            return Ok(());
        }
        Err(SystemError::Input {
            subject: name.to_string(),
            expected: format!("images of {COLOURS} colours"),
            found: channels.to_string(),
            remedy: "use images in colour".into(),
        })
    }

    /// Intersection over union in the cells that are seen, over all scenes that are held out: its mean over the classes, that of each class, and
    /// the mean of the map that fits the training scenes best without looking at them.
    fn evaluate(&self, workload: &Self::Workload, data: &Arc<SceneDataset>, device: &Device) -> Result<Metrics> {
        if data.val_len() == 0 {
            return Ok(Vec::new());
        }
        let [mut counts, mut of_prior] = [(); 2].map(|()| IntersectionCounts::new(data.config().classes().len()));
        for index in 0..data.val_len() {
            let sample = data.val_scene(index)?;
            let [layers, rows, columns] = sample.map_shape;
            let (truth, seen) = sample.map.split_at((layers - 1) * rows * columns);
            counts.add(&predict(workload, &sample, device), truth, seen)?;
            of_prior.add(data.prior()?, truth, seen)?;
        }
        let scores = data
            .config()
            .classes()
            .iter()
            .map(|class| iou_of(class))
            .zip(counts.scores())
            .filter(|(_, score)| !score.is_nan());
        Ok([("miou", counts.mean()), ("prior_miou", of_prior.mean())].into_iter().chain(scores).collect())
    }

    fn picture(&self, workload: &Self::Workload, data: &Arc<SceneDataset>, device: &Device) -> Result<RgbImage> {
        let sample = if data.val_len() > 0 { data.val_scene(0)? } else { data.train_scene(0)? };
        let prediction = predict(workload, &sample, device);
        draw(data, &sample, &[("prediction", &prediction), ("prior", data.prior()?)])
    }

    /// Half of the channels.
    fn smaller(&self) -> Vec<ModelChange<Self>> {
        let embed_dim = self.backbone.embed_dim / 2;
        let backbone = self.backbone.clone().with_embed_dim(embed_dim);
        let is_sound = embed_dim > 0 && backbone.model().validate().is_empty();
        let change = || ModelChange {
            text: format!("{}.backbone.embed_dim = {embed_dim}", Self::NAME),
            cost: "a smaller model: a quarter of the backbone's weights",
            section: self.clone().with_backbone(backbone),
        };
        is_sound.then(change).into_iter().collect()
    }
}

impl BevSection {
    /// Whether there is a share for each class, and there are depths to learn from.
    fn validate_targets(&self, scenes: &SceneConfig) -> Vec<ValidationError> {
        let mut validation = Validation::default();
        let depth = self.training.objective.depth_weight;
        let expected = "depths to learn from where it is above 0";
        validation.check(
            depth == 0.0 || scenes.depth,
            "bev.training.depth_weight",
            expected,
            depth,
            "write scenes.depth: true",
        );
        let priors = self.priors(scenes);
        let is_share = |prior: &f64| *prior > 0.0 && *prior < 1.0;
        validation.check(
            priors.len() == scenes.classes().len() && priors.iter().all(is_share),
            "bev.priors",
            &format!("a share above 0 and below 1 for each of the classes {}", scenes.classes().join(", ")),
            format!("{priors:?}"),
            "leave the key out for the usual shares",
        );
        validation.errors()
    }
}

/// The map of a scene, 0 or 1, `[classes, rows, columns]`.
fn predict(workload: &BevWorkload, sample: &SceneSample, device: &Device) -> Vec<u8> {
    let [colours, cameras, height, width] = sample.images_shape;
    let images = TensorData::new(sample.images.clone(), [1, colours, cameras, height, width]);
    let logits = workload.logits(Tensor::from_data(images, device), std::slice::from_ref(&sample.cameras));
    let logits = logits.into_data().try_to_vec::<f32>().expect("the logits are f32");
    logits.into_iter().map(|logit| u8::from(logit > 0.0)).collect()
}

#[cfg(test)]
mod tests {
    use leanburn_data::{NUSCENES_CLASSES, ROAD_CLASSES};

    use super::*;

    #[test]
    fn every_class_has_a_metric() {
        let names: Vec<_> = ROAD_CLASSES.iter().chain(&NUSCENES_CLASSES).map(|class| iou_of(class)).collect();
        assert!(CLASS_IOU.iter().all(|name| names.contains(name)));
    }
}
