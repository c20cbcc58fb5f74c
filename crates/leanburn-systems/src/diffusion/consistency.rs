//! Training of a consistency model: pairs of noise levels, and the loss between them.

use burn::tensor::{Device, Tensor};
use leanburn_nn::consistency::{
    ConsistencyLoss, Curriculum, EasyTuning, LevelWeights, NoiseLevelPair, NoiseLevels, heun_step, on_a_line,
};
use leanburn_nn::diffusion::EdmPreconditioning;
use leanburn_nn::models::DiffusionUNet3d;
use leanburn_ops::in_training;
use leanburn_ops::recording::{Pass, constant_beside, in_pass, without_autodiff};
use leanburn_train::Precision;

use super::consistency_section::{ConsistencySection, TrainingMode};
use super::noise::{Question, predict};
use super::scheduler::EdmSection;

/// Which noise levels are compared, and how.
#[derive(Debug)]
pub(super) struct Consistency {
    levels: NoiseLevels,
    draw: Draw,
    loss: ConsistencyLoss,
    /// Steps of the whole training.
    steps: u64,
}

/// How a pair of noise levels is drawn.
#[derive(Debug)]
enum Draw {
    /// Neighbours among so many.
    Neighbours(Curriculum, LevelWeights),
    /// Any level and one below it, in a number of stages.
    Easy(EasyTuning, usize),
}

/// Latents of items, standard normal noise, and two noise levels of each item, the larger one first.
pub(super) type NoisyPair = (Tensor<5>, Tensor<5>, [Tensor<1>; 2]);

/// The networks that a model is compared with, without autodiff.
#[derive(Debug, Clone, Copy)]
pub(super) struct Beside<'a> {
    pub target: &'a DiffusionUNet3d,
    pub teacher: Option<&'a DiffusionUNet3d>,
    pub precision: Precision,
    /// The class of each item, `[batch_size]`, where the networks know classes.
    pub classes: Option<&'a Tensor<1>>,
}

impl Consistency {
    /// That of a valid section, for a training of so many steps.
    pub fn of(section: &ConsistencySection, edm: &EdmSection, steps: u64) -> Self {
        let ConsistencySection { p_mean: mean, p_std: deviation, q, stages, .. } = *section;
        let neighbours = |weights| Draw::Neighbours(section.curriculum(), weights);
        let draw = match section.training_mode {
            TrainingMode::EasyConsistencyTuning => Draw::Easy(EasyTuning { mean, deviation, q }, stages),
            TrainingMode::ImprovedConsistencyTraining => neighbours(LevelWeights::LogNormal { mean, deviation }),
            _ => neighbours(LevelWeights::Uniform),
        };
        let loss = ConsistencyLoss {
            preconditioning: section.preconditioning(edm),
            distance: section.distance(),
            weighting: section.weighting(edm.sigma_data),
        };
        Self { levels: edm.levels(), draw, loss, steps }
    }

    /// A pair of noise levels for each item, drawn at random for a step.
    pub fn draw(&self, step: u64, batch_size: usize, device: &Device) -> [Tensor<1>; 2] {
        match &self.draw {
            Draw::Neighbours(curriculum, weights) => {
                let levels = curriculum.levels(step as usize, self.steps as usize);
                self.levels.pairs(levels, *weights, batch_size, device)
            }
            Draw::Easy(tuning, stages) => tuning.pairs(stage_of(step, self.steps, *stages), batch_size, device),
        }
    }

    /// The pair, at the end of the training, of which a share, from 0 to 1, of all are less noisy.
    pub fn at(&self, share: f64, device: &Device) -> [Tensor<1>; 2] {
        let one = |sigma: f64| Tensor::full([1], sigma, device);
        match &self.draw {
            Draw::Neighbours(curriculum, _) => {
                let sigmas = self.levels.discretised(curriculum.levels(self.steps as usize, self.steps as usize));
                let pair = ((1.0 - share) * (sigmas.len() - 2) as f64).round() as usize;
                [one(sigmas[pair]), one(sigmas[pair + 1])]
            }
            Draw::Easy(tuning, stages) => {
                let high = one(self.levels.at(share));
                [high.clone(), tuning.below(high, stage_of(self.steps, self.steps, *stages))]
            }
        }
    }

    /// The loss of a model, `[1]`. Teacher and target run without autodiff.
    ///
    /// # Memory
    ///
    /// That of the model's forward pass. Teacher and target run before it and save nothing.
    pub fn loss(&self, model: &DiffusionUNet3d, pair: NoisyPair, beside: &Beside<'_>) -> Tensor<1> {
        let (latents, noise, sigmas) = pair;
        let (precision, classes) = (beside.precision, beside.classes);
        let pair = match beside.teacher {
            None => on_a_line(latents, noise, sigmas),
            Some(teacher) => self.taught(teacher, (latents, noise, sigmas), beside),
        };
        // of a step of training, with dropout; the teacher is not
        let target =
            |input, times| in_training(|| constant(beside.target, precision, (input, times, classes.cloned())));
        self.loss.forward(pair, |input, times| predict(model, precision, (input, times, classes.cloned())), target)
    }

    /// Noisy latents, and what a step of the teacher makes of them.
    fn taught(&self, teacher: &DiffusionUNet3d, pair: NoisyPair, beside: &Beside<'_>) -> NoiseLevelPair {
        let (latents, noise, sigmas) = pair;
        let denoiser = EdmPreconditioning::diffusion(self.loss.preconditioning.sigma_data);
        heun_step(latents, noise, sigmas, |input, sigma| {
            denoiser.denoise(input, sigma, |input, times| {
                constant(teacher, beside.precision, (input, times, beside.classes.cloned()))
            })
        })
    }
}

/// What a network without autodiff gives, as a constant beside its input.
fn constant(network: &DiffusionUNet3d, precision: Precision, (input, times, classes): Question) -> Tensor<5> {
    let plain = (without_autodiff(input.clone()), without_autodiff(times), classes.map(without_autodiff));
    constant_beside(in_pass(Pass::Plain, &input.device(), || predict(network, precision, plain)), &input)
}

/// The stage of a step of so many.
fn stage_of(step: u64, steps: u64, stages: usize) -> u32 {
    let stage = u128::from(step) * stages as u128 / u128::from(steps.max(1));
    u32::try_from(stage.min(stages as u128 - 1)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use burn::module::{Module, ModuleMapper, Param};
    use leanburn_nn::models::DiffusionUNet3dConfig;
    use leanburn_ops::random;

    use super::*;

    /// Weights of which none is zero.
    struct Drawn;

    impl ModuleMapper for Drawn {
        fn map_float<const D: usize>(&mut self, weight: Param<Tensor<D>>) -> Param<Tensor<D>> {
            weight.map(|weight| random::normal(weight.dims(), &weight.device()) * 0.2)
        }
    }

    /// Of one noise level and with one network nothing is left to learn: the target drops what the model drops, and the teacher nothing.
    #[test]
    fn a_target_drops_what_the_model_drops_and_a_teacher_nothing() {
        random::scoped(|| {
            let device = Device::flex().autodiff();
            random::seed(&device, 1);
            let config = DiffusionUNet3dConfig::new(1, 1, vec![4], vec![1], vec![false])
                .with_norm_num_groups(2)
                .with_num_head_channels(vec![4])
                .with_dropout(0.4);
            let model = config.init(&device).map(&mut Drawn);
            let target = model.valid();
            let section = ConsistencySection::new(TrainingMode::ConsistencyTraining);
            let consistency = Consistency::of(&section, &EdmSection::default(), 10);
            let draw = || random::normal([1, 1, 4, 4, 4], &device).detach();
            let (latents, noise) = (draw(), draw());
            let pair = |levels: [f64; 2]| {
                let levels = levels.map(|sigma| Tensor::full([1], sigma, &device));
                (latents.clone(), noise.clone(), levels)
            };
            let beside = Beside { target: &target, teacher: None, precision: Precision::F32, classes: None };
            let loss = |levels| consistency.loss(&model, pair(levels), &beside).into_scalar::<f32>();
            assert!(loss([1.5, 1.5]) < 1e-9, "{}", loss([1.5, 1.5]));
            assert!(loss([1.5, 0.5]) > 1e-3);
            let taught = |seed| {
                random::seed(&device, seed);
                consistency.taught(&target, pair([1.5, 0.5]), &beside).low.into_data()
            };
            assert_eq!(taught(1), taught(2));
        });
    }

    #[test]
    fn stages_are_of_equal_length() {
        let at = |steps: u64| (0..=steps).map(|step| stage_of(step, steps, 3)).collect::<Vec<_>>();
        assert_eq!(at(6), [0, 0, 1, 1, 2, 2, 2]);
        assert_eq!(at(1), [0, 2], "after the last step too");
    }
}
