//! Training of the model.

use std::sync::Arc;

use burn::tensor::{Int, Tensor};
use leanburn_common::Camera;
use leanburn_nn::diffusion::{BetaSchedule, DiffusionProcess, DiffusionProcessConfig};
use leanburn_nn::losses::{OccupancyCriterion, expected_depth_loss, l2_loss};
use leanburn_nn::models::{BevView, LiftSplatShoot};
use leanburn_nn::numerics::widen;
use leanburn_ops::random;
use leanburn_ops::recording::without_autodiff;
use leanburn_train::{AnyLearner, Learner, Losses, MainModel, Precision, StepPosition, Workload};

use super::batch::SceneViews;

/// A model that maps the ground, and its optimizer.
#[derive(Debug)]
pub struct BevWorkload {
    model: Learner<LiftSplatShoot>,
    criterion: OccupancyCriterion,
    /// How noise is added to maps, and the weight of removing it.
    diffusion: Option<(DiffusionProcess, f64)>,
    /// Weight of the depths' loss.
    depth_weight: f64,
    precision: Precision,
}

impl BevWorkload {
    /// Puts the parts together. With a weight above 0 the model must have a diffusion head.
    pub fn new(
        model: Learner<LiftSplatShoot>,
        criterion: OccupancyCriterion,
        diffusion_weight: f64,
        precision: Precision,
    ) -> Self {
        let process = || DiffusionProcessConfig::new().with_schedule(BetaSchedule::LINEAR).init();
        let diffusion = (diffusion_weight > 0.0).then(|| (process(), diffusion_weight));
        Self { model, criterion, diffusion, depth_weight: 0.0, precision }
    }

    /// The same, with a loss of the depths that pixels are lifted to; scenes must have depths.
    pub fn with_depth_weight(self, depth_weight: f64) -> Self {
        Self { depth_weight, ..self }
    }

    /// The logits of maps by the trained weights, in f32, `[batch_size, classes, 1, rows, columns]`.
    pub fn logits(&self, images: Tensor<5>, cameras: &[Vec<Camera>]) -> Tensor<5> {
        let images = self.precision.cast(without_autodiff(images));
        widen(view(&self.model.trained(), images, cameras).logits)
    }

    /// How far the noise is from what the diffusion head takes for it: the map's logits are given, and do not learn from it.
    fn denoising(&self, process: &DiffusionProcess, logits: &Tensor<5>, features: Tensor<5>) -> Tensor<1> {
        let (map, device) = (widen(logits.clone().detach()), logits.device());
        let noise = random::normal(map.dims(), &device);
        let share: Tensor<1> = random::uniform([map.dims()[0]], &device);
        let times = (share * process.num_train_timesteps() as f64).floor();
        let noisy = process.add_noise(map, noise.clone(), times.clone());
        l2_loss(self.model.module().noise(self.precision.cast(noisy), features, times), noise)
    }

    /// How far the pixels that are lifted are expected from where they are, in metres.
    fn depth(&self, logits: Tensor<5>, depth: Tensor<5>) -> Tensor<1> {
        let config = self.model.module().config();
        let nearest = |places: Vec<f64>| {
            let places: Vec<i32> = places.into_iter().map(|place| place.round() as i32).collect();
            Tensor::<1, Int>::from_ints(places.as_slice(), &depth.device())
        };
        let [rows, columns] = config.lifted_pixels().map(nearest);
        expected_depth_loss(logits, &config.grid.depths(), depth.select(3, rows).select(4, columns))
    }
}

fn view(model: &LiftSplatShoot, images: Tensor<5>, cameras: &[Vec<Camera>]) -> BevView {
    model.forward(images, &Arc::new(model.config().cells(cameras)))
}

impl Workload for BevWorkload {
    type Batch = SceneViews;

    fn learners(&mut self) -> Vec<&mut dyn AnyLearner> {
        vec![&mut self.model]
    }

    fn loss(&mut self, _learner: usize, batch: &SceneViews, _position: StepPosition) -> Option<Losses> {
        let images = self.precision.cast(batch.images.clone());
        let BevView { logits, features, depth_logits } = view(self.model.module(), images, &batch.cameras);
        let classes = logits.dims()[1];
        let (labels, seen) = (batch.map.clone().narrow(1, 0, classes), batch.map.clone().narrow(1, classes, 1));
        let denoising =
            self.diffusion.as_ref().map(|(process, weight)| (self.denoising(process, &logits, features), weight));
        let map = self.criterion.forward(logits, labels, seen);
        let (mut total, mut reported) = (map.clone(), vec![("map", map)]);
        let depth = batch.depth.clone().filter(|_| self.depth_weight > 0.0);
        let depth = depth.map(|depth| (self.depth(depth_logits, depth), &self.depth_weight));
        for (name, part) in [("denoising", denoising), ("depth", depth)] {
            if let Some((loss, weight)) = part {
                reported.push((name, loss.clone()));
                total = total + loss * *weight;
            }
        }
        Some(Losses::of(total, reported))
    }
}

impl MainModel for BevWorkload {
    type Model = LiftSplatShoot;

    fn model(&self) -> &Learner<LiftSplatShoot> {
        &self.model
    }

    fn model_mut(&mut self) -> &mut Learner<LiftSplatShoot> {
        &mut self.model
    }
}
