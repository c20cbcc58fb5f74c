//! Training of the model.

use std::sync::Arc;

use burn::tensor::Tensor;
use leanburn_common::Camera;
use leanburn_nn::diffusion::{BetaSchedule, DiffusionProcess, DiffusionProcessConfig};
use leanburn_nn::losses::{OccupancyCriterion, l2_loss};
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
        Self { model, criterion, diffusion, precision }
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
        let BevView { logits, features, .. } = view(self.model.module(), images, &batch.cameras);
        let classes = logits.dims()[1];
        let (labels, seen) = (batch.map.clone().narrow(1, 0, classes), batch.map.clone().narrow(1, classes, 1));
        let denoising =
            self.diffusion.as_ref().map(|(process, weight)| (self.denoising(process, &logits, features), weight));
        let map = self.criterion.forward(logits, labels, seen);
        let mut reported = vec![("map", map.clone())];
        let Some((denoising, weight)) = denoising else { return Some(Losses::of(map, reported)) };
        reported.push(("denoising", denoising.clone()));
        Some(Losses::of(map + denoising * *weight, reported))
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
