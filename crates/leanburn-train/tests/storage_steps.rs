//! Saved activations that live elsewhere: planned and measured peaks of whole steps, the same weights, and a step that fails without
//! losing anything. Alone in its binary: it counts the whole heap.

mod common;

#[path = "common/peak.rs"]
mod peak;

use std::fs;

use burn::tensor::Device;
use common::{AutoencoderTrainer, Setup, alone, batches, device, on_new_threads, state};
use leanburn_nn::models::AutoencoderKlConfig;
use leanburn_ops::{ResidencyPolicy, Storage};
use leanburn_plan::bound;
use leanburn_train::{
    AutoencoderObjective, AutoencoderWorkload, Learner, LearnerConfig, Precision, ReconstructionLoss, TrainError,
    Trainer, TrainerConfig,
};
use peak::{numbers, planned_and_measured};

const STORAGES: [Storage; 4] = [Storage::Memory, Storage::Bf16, Storage::Int8, Storage::Offload];

fn trainer(policy: &ResidencyPolicy, precision: Precision, device: &Device) -> Result<AutoencoderTrainer, TrainError> {
    let model = AutoencoderKlConfig::new(vec![8, 16], vec![2, 1], vec![false, false]).with_norm_num_groups(4);
    leanburn_ops::random::seed(device, 1);
    let model = model.init(device).with_residency(policy.clone());
    let autoencoder = Learner::new("autoencoder", model, LearnerConfig::default())?;
    let objective = AutoencoderObjective {
        reconstruction: ReconstructionLoss::L1,
        kl_weight: 1e-6,
        adversarial: leanburn_nn::losses::AdversarialCriterion::LeastSquares,
        adversarial_weight: 0.0,
        adversarial_start_step: 0,
    };
    let workload = AutoencoderWorkload::new(autoencoder, None, objective, precision);
    Ok(Trainer::new(workload, TrainerConfig::default().with_seed(7), device))
}

#[test]
fn planned_peaks_are_the_measured_ones_wherever_activations_live() {
    let _alone = alone();
    let kept = ResidencyPolicy::keep();
    let recomputed = ResidencyPolicy::recompute_all();
    let mixed = recomputed.clone().with_rule("decoder.*", leanburn_ops::Residency::Keep);
    let cases = STORAGES.into_iter().flat_map(|storage| {
        let policies = [&kept, &recomputed, &mixed].map(|policy| policy.clone().with_storage("*", storage));
        policies.map(|policy| (policy, storage, Precision::F32))
    });
    let half = STORAGES.map(|storage| (kept.clone().with_storage("*", storage), storage, Precision::Bf16));
    let compare = |policy: &ResidencyPolicy, precision| {
        let build = |device: &Device| trainer(policy, precision, device);
        let batch = |device: &Device| numbers([1, 1, 24, 28, 32], device);
        let small = |device: &Device| numbers([1, 1, 8, 8, 8], device);
        on_new_threads(1, || planned_and_measured(build, batch, small))
    };
    compare(&kept.clone().with_storage("*", Storage::Offload), Precision::F32); // what is allocated once for all
    let mut wrong = Vec::new();
    let mut of_kept = Vec::new();
    for (policy, storage, precision) in cases.chain(half) {
        let (planned, measured) = compare(&policy, precision);
        let error = planned.as_mib() / measured.as_mib() - 1.0;
        let case = format!("{:?} {} {storage:?} {precision}", policy.default, policy.rules.len());
        println!("{:8.2} planned {:8.2} measured {:6.2} % {case}", planned.as_mib(), measured.as_mib(), 100.0 * error);
        if error.abs() > 0.03 || bound(planned) < measured {
            wrong.push(case);
        }
        if policy.default == kept.default && precision == Precision::F32 {
            of_kept.push(measured);
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(of_kept.is_sorted_by(|more, less| more > less), "each holds less: {of_kept:?}");
}

#[test]
fn offloaded_steps_give_the_weights_of_plain_ones() {
    let _alone = alone();
    let kept = |residency: ResidencyPolicy| {
        let setup =
            Setup { with_discriminator: true, dropout: 0.3, accumulation_steps: 2, residency, ..Setup::default() };
        let (mut trainer, mut batches) = (setup.trainer(), batches(0));
        (0..3).for_each(|_| drop(trainer.step(&mut batches).unwrap()));
        state(&trainer)
    };
    // A level's input is small: larger volumes.
    let recomputed = |residency: ResidencyPolicy| {
        let mut trainer = trainer(&residency, Precision::F32, &device()).unwrap();
        let mut batches = std::iter::repeat_with(|| Ok::<_, TrainError>(numbers([1, 1, 24, 24, 24], &device())));
        (0..2).for_each(|_| drop(trainer.step(&mut batches).unwrap()));
        state(&trainer)
    };
    let trained: [(&dyn Fn(ResidencyPolicy) -> _, _); 2] =
        [(&kept, ResidencyPolicy::keep()), (&recomputed, ResidencyPolicy::recompute_all())];
    for (trained, policy) in trained {
        let plain = trained(ResidencyPolicy::keep());
        assert!(trained(policy.clone().with_storage("*", Storage::Offload)) == plain, "{policy:?}");
        let rounded = || trained(policy.clone().with_storage("*", Storage::Int8));
        let first = rounded();
        assert!(first == rounded(), "rounding is drawn from the seed of the step");
        assert!(first != plain, "{policy:?}");
    }
}

#[test]
fn a_step_whose_activations_find_no_file_is_not_taken() {
    let _alone = alone();
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("scratch");
    fs::create_dir(&folder).unwrap();
    let residency = ResidencyPolicy::keep().with_storage("*", Storage::Offload).with_offload_folder(&folder);
    let setup = Setup { accumulation_steps: 2, residency, ..Setup::default() };
    let trainer = || setup.trainer();
    let (mut plain, mut failing) = (trainer(), trainer());
    let mut batches = [batches(0), batches(0)];
    (0..2).for_each(|_| drop(plain.step(&mut batches[0]).unwrap()));
    failing.step(&mut batches[1]).unwrap();
    let before = state(&failing);
    fs::remove_dir(&folder).unwrap();
    let error = failing.step(&mut common::batches(2)).unwrap_err();
    let message = error.to_string();
    assert!(matches!(error, TrainError::Storage { step: 1, .. }), "{message}");
    assert!(message.starts_with("step 1: cannot write ") && message.contains("scratch"), "{message}");
    assert!(message.ends_with("the step was not taken and the weights are those before it"), "{message}");
    assert!(state(&failing) == before);
    fs::create_dir(&folder).unwrap();
    failing.step(&mut batches[1]).unwrap();
    assert!(state(&failing) == state(&plain), "the run goes on as if nothing had happened");
}
