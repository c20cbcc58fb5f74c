//! The planner's peak and the measured one of steps with streamed levels.

mod common;

use burn::tensor::{Device, Tensor};
use common::{alone, on_new_threads};
use leanburn_nn::losses::AdversarialCriterion;
use leanburn_nn::models::{AutoencoderKlConfig, PatchDiscriminator};
use leanburn_ops::{Residency, ResidencyPolicy, StreamKeep, StreamSettings};
use leanburn_plan::{FlexMemory, Rates, Target, bound};
use leanburn_train::{
    AutoencoderObjective, AutoencoderWorkload, Learner, LearnerConfig, Precision, ReconstructionLoss, TrainError,
    Trainer, TrainerConfig, record_step,
};

#[path = "common/peak.rs"]
mod peak;

use peak::{numbers, planned_and_measured};

/// Channels of the levels, the two finest of which are streamed; without settings all are recomputed.
fn trainer(
    device: &Device,
    channels: &[usize],
    streamed: Option<StreamSettings>,
    precision: Precision,
) -> Result<Trainer<AutoencoderWorkload<PatchDiscriminator>>, TrainError> {
    let policy = match streamed {
        None => ResidencyPolicy::recompute_all(),
        Some(settings) => ResidencyPolicy::recompute_all().with_rule("*coder.level_0", Residency::Stream(settings)),
    };
    leanburn_ops::random::seed(device, 1);
    let levels = channels.len();
    let config =
        AutoencoderKlConfig::new(channels.to_vec(), vec![1; levels], vec![false; levels]).with_norm_num_groups(4);
    let config = config.with_encoder_nonlocal_attn(false).with_decoder_nonlocal_attn(false);
    let learner = Learner::new("autoencoder", config.init(device).with_residency(policy), LearnerConfig::default())?;
    let objective = AutoencoderObjective {
        reconstruction: ReconstructionLoss::L1,
        kl_weight: 1e-6,
        adversarial: AdversarialCriterion::LeastSquares,
        adversarial_weight: 0.1,
        adversarial_start_step: 0,
    };
    let workload = AutoencoderWorkload::new(learner, None, objective, precision);
    Ok(Trainer::new(workload, TrainerConfig::default().with_seed(7), device))
}

#[test]
fn the_planned_peak_of_a_streamed_step_is_the_measured_one() {
    let _alone = alone(); // the heap is counted for the whole process
    let run = |streamed: Option<StreamSettings>, precision: Precision| {
        let batch = |device: &Device| numbers([1, 1, 64, 40, 36], device);
        let small_batch = |device: &Device| -> Tensor<5> { numbers([1, 1, 8, 8, 8], device) };
        let build = |device: &Device| trainer(device, &[8, 16], streamed, precision);
        on_new_threads(1, || planned_and_measured(build, batch, small_batch))
    };
    let case = |streamed: Option<StreamSettings>, precision: Precision| {
        let (planned, measured) = run(streamed, precision);
        let error = planned.as_mib() / measured.as_mib() - 1.0;
        println!(
            "{:8.2} planned {:8.2} measured {:6.2} % {streamed:?} {precision}",
            planned.as_mib(),
            measured.as_mib(),
            100.0 * error
        );
        assert!(bound(planned) >= measured, "{streamed:?}: the plan is exceeded");
        assert!(error.abs() <= 0.03, "{streamed:?} {precision}: {error}");
        measured
    };
    run(None, Precision::F32); // what is allocated once for all
    let recomputed = case(None, Precision::F32);
    let two = case(Some(StreamSettings::default().with_slab_planes(4)), Precision::F32);
    let share = two.as_mib() / recomputed.as_mib();
    assert!(share < 0.6, "{share} of the recomputed peak");
}

/// The autoencoder whose finest levels are most of its peak. Planned only: it would run for minutes.
#[test]
fn a_large_step_is_planned_at_a_fraction_of_the_recomputed_one() {
    let _alone = alone();
    let plan = |streamed: Option<StreamSettings>, precision: Precision| {
        let batch = |device: &Device| Tensor::<5>::zeros([1, 1, 256, 256, 64], device);
        let build = |device: &Device| trainer(device, &[32, 64, 64], streamed, precision);
        let timeline = record_step(Target::Cpu, build, batch).unwrap().timeline(&FlexMemory);
        let (peak, seconds) = (timeline.peak().as_mib(), Rates::TWO_CORES.seconds(&timeline, 1, 1));
        println!("{peak:8.1} MiB {seconds:6.1} s {} events {precision} {streamed:?}", timeline.events.len());
        (peak, seconds)
    };
    let settings = |keep| Some(StreamSettings::default().with_keep(keep));
    let (recomputed, seconds) = plan(None, Precision::F32);
    for (keep, most, slower) in
        [(StreamKeep::Two, 1536.0, 1.7), (StreamKeep::One, 1024.0, 2.1), (StreamKeep::None, 700.0, 2.6)]
    {
        let (peak, streamed) = plan(settings(keep), Precision::F32);
        assert!(peak < most && recomputed > 3200.0, "{keep:?}: {peak} of {recomputed} MiB");
        assert!(streamed < slower * seconds, "{keep:?}: {streamed} s instead of {seconds}");
    }
    let (half, _) = plan(settings(StreamKeep::Two), Precision::Bf16);
    assert!(half < 768.0, "{half} MiB in bf16");
}
