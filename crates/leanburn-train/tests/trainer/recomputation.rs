//! Recomputation changes nothing that training can see.

use leanburn_ops::{Residency, ResidencyPolicy};

use crate::common::{Setup, alone, batches, state};

fn trained(residency: ResidencyPolicy) -> (Vec<leanburn_train::StepReport>, Vec<Vec<Vec<u32>>>) {
    let setup = Setup {
        with_discriminator: true,
        dropout: 0.3,
        adversarial_start_step: 1,
        accumulation_steps: 2,
        kl_weight: 1e-3,
        residency,
        ..Setup::default()
    };
    let mut trainer = setup.trainer();
    let mut batches = batches(0);
    let reports = (0..4).map(|_| trainer.step(&mut batches).unwrap()).collect();
    (reports, state(&trainer))
}

#[test]
fn weights_and_statistics_after_four_steps_are_bit_equal() {
    let _alone = alone();
    let (reports, weights) = trained(ResidencyPolicy::keep());
    assert_eq!(reports[0].learners.len(), 1);
    assert!(reports[1..].iter().all(|report| report.learners.len() == 2));
    let some = ResidencyPolicy::keep().with_rule("decoder.*", Residency::Recompute);
    for policy in [ResidencyPolicy::recompute_all(), some] {
        let (lean_reports, lean_weights) = trained(policy.clone());
        assert_eq!(lean_reports, reports, "{policy:?}");
        assert!(lean_weights == weights, "weights differ: {policy:?}");
    }
}
