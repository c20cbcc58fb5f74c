//! Training of the U-Net on latents.

use burn::tensor::Tensor;
use leanburn_nn::losses::{Difference, l1_loss, l2_loss};
use leanburn_nn::models::DiffusionUNet3d;
use leanburn_ops::random;
use leanburn_ops::recording::valid;
use leanburn_train::{AnyLearner, Learner, Losses, MainModel, Precision, StepPosition, Workload};

use super::consistency::{Beside, Consistency};
use super::noise::{Noise, Noisy, predict};

/// Mean and deviation of latents, `[batch_size, channels, depth, height, width]` both: what is trained on is drawn anew each time. And the
/// class of each, `[batch_size]`, where the data has classes.
pub type LatentBatch = (Tensor<5>, Tensor<5>, Option<Tensor<1>>);

/// A diffusion model of latents, or a consistency model, and its optimizer.
#[derive(Debug)]
pub struct DiffusionWorkload {
    unet: Learner<DiffusionUNet3d>,
    noise: Noise,
    objective: Objective,
    classes: Option<ClassDropout>,
    precision: Precision,
}

/// Training with and without the class, for classifier-free guidance ([Ho and Salimans](https://arxiv.org/abs/2207.12598)).
#[derive(Debug, Clone, Copy)]
pub(super) struct ClassDropout {
    /// The number that stands for no class.
    pub none: usize,
    /// How often the class is left out.
    pub probability: f64,
}

impl ClassDropout {
    /// The classes of items, some of them left out at random.
    fn draw(self, classes: Tensor<1>) -> Tensor<1> {
        let keep = random::uniform(classes.dims(), &classes.device()).greater_equal_elem(self.probability).float();
        (classes - self.none as f64) * keep + self.none as f64
    }
}

/// What the U-Net is trained for.
#[derive(Debug)]
pub(super) enum Objective {
    /// To say what the noise is.
    Denoising(Difference),
    /// To say the same of less noise.
    Consistency(Consistency),
}

impl DiffusionWorkload {
    pub(super) fn new(
        unet: Learner<DiffusionUNet3d>,
        noise: Noise,
        (objective, classes): (Objective, Option<ClassDropout>),
        precision: Precision,
    ) -> Self {
        Self { unet, noise, objective, classes, precision }
    }

    pub(super) fn noise(&self) -> &Noise {
        &self.noise
    }

    /// The loss between what the network gives and what it should; none of a consistency model.
    pub(super) fn denoising(&self) -> Option<Difference> {
        match self.objective {
            Objective::Denoising(difference) => Some(difference),
            Objective::Consistency(_) => None,
        }
    }

    pub(super) fn precision(&self) -> Precision {
        self.precision
    }

    /// The loss of the trained weights on latents with standard normal noise, of which a share of all noise levels have less; all without
    /// autodiff.
    pub(super) fn loss_at(
        &self,
        unet: &DiffusionUNet3d,
        (latents, classes): (Tensor<5>, Option<Tensor<1>>),
        noise: Tensor<5>,
        share: f64,
    ) -> Tensor<1> {
        let device = latents.device();
        let classes = classes.filter(|_| self.classes.is_some());
        match &self.objective {
            Objective::Denoising(difference) => {
                let level = Tensor::full([1], self.noise.at(share), &device);
                self.denoising_loss(unet, self.noise.add(latents, noise, level), classes, *difference)
            }
            Objective::Consistency(consistency) => {
                let teacher = self.unet.teacher();
                let beside = Beside { target: unet, teacher, precision: self.precision, classes: classes.as_ref() };
                consistency.loss(unet, (latents, noise, consistency.at(share, &device)), &beside)
            }
        }
    }

    fn denoising_loss(
        &self,
        unet: &DiffusionUNet3d,
        noisy: Noisy,
        classes: Option<Tensor<1>>,
        difference: Difference,
    ) -> Tensor<1> {
        let Noisy { input, times, target } = noisy;
        mean_difference(difference, predict(unet, self.precision, (input, times, classes)), target)
    }
}

/// The loss of what a network gives, or says linearly.
pub(super) fn mean_difference(difference: Difference, prediction: Tensor<5>, target: Tensor<5>) -> Tensor<1> {
    match difference {
        Difference::L1 => l1_loss(prediction, target),
        Difference::L2 => l2_loss(prediction, target),
    }
}

impl Workload for DiffusionWorkload {
    type Batch = LatentBatch;

    fn learners(&mut self) -> Vec<&mut dyn AnyLearner> {
        vec![&mut self.unet]
    }

    fn loss(&mut self, _learner: usize, batch: &LatentBatch, position: StepPosition) -> Option<Losses> {
        let (mean, deviation, classes) = batch;
        let (shape, device) = (mean.dims(), mean.device());
        let latents = mean.clone() + deviation.clone() * random::normal(shape, &device);
        let noise = random::normal(shape, &device);
        let classes = self.classes.zip(classes.clone()).map(|(dropout, classes)| dropout.draw(classes));
        let model = self.unet.module();
        let (name, loss) = match &self.objective {
            Objective::Denoising(difference) => {
                let noisy = self.noise.add(latents, noise, self.noise.draw(shape, &device));
                ("denoising", self.denoising_loss(model, noisy, classes, *difference))
            }
            Objective::Consistency(consistency) => {
                let sigmas = consistency.draw(position.step, shape[0], &device);
                // the same tensors, without autodiff: nothing is copied, and nothing saved
                let itself = self.unet.target().is_none().then(|| valid(model));
                let target = itself.as_ref().or(self.unet.target()).expect("there is one or the other");
                let (teacher, classes) = (self.unet.teacher(), classes.as_ref());
                let beside = Beside { target, teacher, precision: self.precision, classes };
                ("consistency", consistency.loss(model, (latents, noise, sigmas), &beside))
            }
        };
        Some(Losses::of(loss.clone(), vec![(name, loss)]))
    }
}

impl MainModel for DiffusionWorkload {
    type Model = DiffusionUNet3d;

    fn model(&self) -> &Learner<DiffusionUNet3d> {
        &self.unet
    }

    fn model_mut(&mut self) -> &mut Learner<DiffusionUNet3d> {
        &mut self.unet
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;

    use super::*;

    #[test]
    fn classes_are_left_out_as_often_as_asked() {
        let device = Device::flex();
        let drawn = |probability: f64| {
            random::seed(&device, 5);
            let classes = ClassDropout { none: 7, probability }.draw(Tensor::full([4000], 2.0, &device));
            let classes: Vec<f32> = classes.into_data().try_to_vec().unwrap();
            assert!(classes.iter().all(|class| [2.0, 7.0].contains(class)));
            classes.iter().filter(|class| **class == 7.0).count()
        };
        assert_eq!([drawn(0.0), drawn(1.0)], [0, 4000]);
        assert!(drawn(0.3).abs_diff(1200) < 120);
    }
}
