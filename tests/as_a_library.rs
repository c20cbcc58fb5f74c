//! What a user of the library does, with one dependency: train a typed configuration, plan and fit it, fit a model of one's
//! own, observe a session, stop it and go on.

use std::path::Path;

use leanburn::burn::nn::conv::{Conv3d, Conv3dConfig};
use leanburn::burn::{nn::PaddingConfig3d, prelude::*, tensor::activation::silu};
use leanburn::prelude::*;

#[global_allocator]
static HEAP: CountingAllocator = CountingAllocator;

/// A small autoencoder on synthetic heads.
fn config() -> SystemConfig {
    let training = TrainingSection::default().with_max_steps(6).with_checkpoint_interval(2).with_visualize_interval(0);
    let model = AutoencoderSection::new(vec![8]).with_norm_num_groups(2).with_training(training.with_batch_size(4));
    let phantom = PhantomConfig { count: 4, shape: [16; 3], ..PhantomConfig::default() };
    SystemConfig::new(model).with_data(DataConfig {
        phantom: Some(phantom),
        patch_size: Some([16; 3]),
        ..DataConfig::default()
    })
}

#[derive(Default)]
struct Curve(Vec<f64>);

impl Observer for Curve {
    fn stepped(&mut self, report: &StepReport) -> Observed {
        self.0.push(report.losses["reconstruction"]);
        Ok(())
    }
}

fn a_configuration_is_planned_and_fitted() -> Result<(), Box<dyn std::error::Error>> {
    let planner = Planner::cpu();
    let needed = config().plan(&planner)?.needed;
    let fitted = config().fit(&planner.clone().within(needed.share(0.75)))?;
    assert!(fitted.peak <= needed.share(0.75) && fitted.class == Class::Lossless);
    assert!(fitted.config.plan(&planner)?.needed <= fitted.peak);
    assert!(config().plan(&Planner::card("rtx-4090")?)?.fits() == Some(true));
    assert!(matches!(config().fit(&planner), Err(SystemError::NoBudget)));
    Ok(())
}

fn a_session_is_observed_stopped_and_resumed() -> Result<(), SystemError> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("session");
    let _ = std::fs::remove_dir_all(&folder);
    let (mut whole, mut first, mut rest) = (Curve::default(), Curve::default(), Curve::default());
    Session::new(config())?.in_folder(folder.join("whole")).with_observer(&mut whole).run()?;
    let stopped = || Ok::<_, SystemError>(Session::new(config())?.in_folder(folder.join("stopped")));
    stopped()?.stop_after(4).with_observer(&mut first).run()?;
    let outcome = stopped()?.resume(true).with_observer(&mut rest).run()?;
    assert_eq!((outcome.steps, first.0.len(), rest.0.len()), (6, 4, 2));
    assert_eq!([first.0, rest.0].concat(), whole.0, "bit for bit");
    assert!(outcome.folder.weights().is_file());
    Ok(())
}

/// Four convolutions of Burn's own, each a segment.
struct Mine(Learner<Vec<Conv3d>>, ResidencyPolicy);

impl Workload for Mine {
    type Batch = Tensor<5>;

    fn learners(&mut self) -> Vec<&mut dyn AnyLearner> {
        vec![&mut self.0]
    }

    fn loss(&mut self, _learner: usize, scans: &Tensor<5>, _: StepPosition) -> Option<Losses> {
        let forward = |layer: &Conv3d, x: Tensor<5>| silu(layer.forward(x));
        let layers = self.0.module().iter().enumerate();
        let y =
            layers.fold(scans.clone(), |x, (index, layer)| self.1.run(&format!("layer_{index}"), layer, x, forward));
        Some(Losses::of(y.square().mean(), Vec::new()))
    }
}

fn mine(setup: &StepSetup, device: &Device) -> Result<Trainer<Mine>, TrainError> {
    let layer = |_| Conv3dConfig::new([8, 8], [3; 3]).with_padding(PaddingConfig3d::Same).init(device);
    let learner = Learner::new("layers", (0..4).map(layer).collect(), LearnerConfig::default())?;
    let config = TrainerConfig::default().with_accumulation_steps(setup.accumulation_steps);
    Ok(Trainer::new(Mine(learner, setup.residency.clone()), config, device))
}

fn scans(setup: &StepSetup, device: &Device) -> Tensor<5> {
    Tensor::ones([setup.micro_batch, 8, 24, 24, 24], device)
}

fn a_model_of_ones_own_is_fitted_to_budgets() -> Result<(), Box<dyn std::error::Error>> {
    let (options, cpu) = (Planner::cpu().options(4, mine, scans)?, Device::flex().autodiff());
    let run = |setup: &StepSetup| measure(&cpu, 2, |device| mine(setup, device), |device| scans(setup, device));
    run(&StepSetup::new(1, 1))?; // makes what is made once: threads and their buffers
    let (least, most) = (options.all[0].peak, options.all.last().expect("options").peak);
    for share in [0.0, 0.25, 0.5, 0.75, 1.0] {
        let budget = least + (most - least).share(share);
        let measured = run(&options.within(budget)?.setup)?;
        assert!(measured.peak <= budget, "{} of {budget}", measured.peak);
    }
    Ok(())
}

/// One after the other: the heap is counted for the whole process.
#[test]
fn everything_the_command_does_is_a_call() -> Result<(), Box<dyn std::error::Error>> {
    a_configuration_is_planned_and_fitted()?;
    a_session_is_observed_stopped_and_resumed()?;
    a_model_of_ones_own_is_fitted_to_budgets()
}
