//! A configuration, and a model of one's own of Burn's layers, are fitted into budgets; real steps keep to them.

use leanburn::burn::nn::PaddingConfig3d;
use leanburn::burn::nn::conv::{Conv3d, Conv3dConfig};
use leanburn::burn::{prelude::*, tensor::activation::silu};
use leanburn::prelude::*;

use super::{Told, alone, config};

/// Four convolutions, each a segment.
struct Layers(Learner<Vec<Conv3d>>, ResidencyPolicy);

impl Workload for Layers {
    type Batch = Tensor<5>;

    fn learners(&mut self) -> Vec<&mut dyn AnyLearner> {
        vec![&mut self.0]
    }

    fn loss(&mut self, _learner: usize, scans: &Tensor<5>, _: StepPosition) -> Option<Losses> {
        let forward = |layer: &Conv3d, x: Tensor<5>| silu(layer.forward(x));
        let layers = self.0.module().iter().enumerate();
        let y =
            layers.fold(scans.clone(), |x, (index, layer)| self.1.run(&format!("layer_{index}"), layer, x, forward));
        let loss = y.square().mean();
        Some(Losses::of(loss.clone(), vec![("square", loss)]))
    }
}

fn trainer(setup: &StepSetup, device: &Device) -> Result<Trainer<Layers>, TrainError> {
    seed(device, 7);
    let layer = |_| Conv3dConfig::new([8, 8], [3; 3]).with_padding(PaddingConfig3d::Same).init(device);
    let learner = Learner::new("layers", (0..4).map(layer).collect(), LearnerConfig::default())?;
    let config = TrainerConfig::default().with_accumulation_steps(setup.accumulation_steps);
    Ok(Trainer::new(Layers(learner, setup.residency.clone()), config, device))
}

fn scans(setup: &StepSetup, device: &Device) -> Tensor<5> {
    Tensor::ones([setup.micro_batch, 8, 24, 24, 24], device)
}

#[test]
fn a_configuration_is_fitted_into_a_budget() -> Told {
    let planner = Planner::cpu();
    let needed = config().plan(&planner)?.needed;
    let budget = needed.share(0.75);
    let fitted = config().fit(&planner.clone().within(budget))?;
    assert!(fitted.peak <= budget && fitted.class == Class::Lossless, "{} of {budget}", fitted.peak);
    assert!(fitted.config.plan(&planner)?.needed <= fitted.peak);
    assert!(matches!(config().fit(&planner), Err(SystemError::NoBudget)));
    Ok(())
}

#[test]
fn a_model_of_ones_own_is_fitted_into_a_budget() -> Told {
    let _alone = alone();
    let (options, cpu) = (Planner::cpu().options(4, trainer, scans)?, Device::flex().autodiff());
    let (least, most) = (&options.all[0], options.all.last().expect("there is one that recomputes nothing"));
    assert!(least.peak < most.peak && least.seconds > most.seconds, "{least}; {most}");
    assert_eq!((most.setup.recomputed().count(), least.class), (0, Class::Lossless));

    let run = |setup: &StepSetup| measure(&cpu, 1, |device| trainer(setup, device), |device| scans(setup, device));
    run(&most.setup)?; // makes what is made once: threads and their buffers
    let half = least.peak + (most.peak - least.peak).share(0.5);
    for budget in [least.peak, half, most.peak] {
        let fitted = options.within(budget)?;
        assert_eq!(fitted.setup.effective_batch(), 4);
        let measured = run(&fitted.setup)?;
        assert!(measured.peak > Bytes(0) && measured.peak <= budget, "{fitted}: {measured} of {budget}");
    }
    let none = options.within(least.peak - Bytes(1)).unwrap_err();
    assert_eq!(none.smallest, least.peak);
    Ok(())
}

#[test]
fn what_is_fitted_learns_the_same() -> Told {
    let _alone = alone();
    let cpu = Device::flex().autodiff();
    let plain = StepSetup::new(4, 1);
    let needed = Planner::cpu().plan(|device| trainer(&plain, device), |device| scans(&plain, device))?.needed;
    let fitted = Planner::cpu().within(needed.share(0.6)).fit(4, trainer, scans)?;
    assert!(fitted.setup != plain && fitted.peak <= needed.share(0.6), "{fitted}, plain {needed}");
    let losses = |setup: &StepSetup| -> Result<Vec<f64>, TrainError> {
        let mut trainer = trainer(setup, &cpu)?;
        let mut batches = std::iter::from_fn(|| Some(Ok::<_, TrainError>(scans(setup, &cpu))));
        (0..3).map(|_| Ok(trainer.step(&mut batches)?.losses["square"])).collect()
    };
    let (lean, plain) = (losses(&fitted.setup)?, losses(&plain)?);
    assert!(plain[2] < plain[0], "{plain:?}");
    for (lean, plain) in lean.iter().zip(&plain) {
        assert!((lean - plain).abs() <= 1e-5 * plain, "{lean} and {plain}");
    }
    Ok(())
}
