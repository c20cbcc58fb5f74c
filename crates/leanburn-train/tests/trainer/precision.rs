//! Half precision trains like single precision.

use leanburn_train::{LossScale, MainModel, Precision};

use crate::common::{Setup, alone, batches, bits, is_finite};

fn losses(precision: Precision, scale: LossScale) -> Vec<f64> {
    let mut trainer = Setup { precision, scale, ..Setup::default() }.trainer();
    let mut batches = batches(0);
    let losses = (0..20).map(|_| trainer.step(&mut batches).unwrap().losses["reconstruction"]).collect();
    assert!(is_finite(&bits(trainer.workload().model().module())));
    losses
}

#[test]
fn losses_agree_with_single_precision() {
    let _alone = alone();
    let single = losses(Precision::F32, LossScale::NONE);
    assert!(single.iter().all(|loss| loss.is_finite()));
    assert!(single[19] < 0.9 * single[0], "it learns: {single:?}");
    for (precision, scale) in [(Precision::Bf16, LossScale::NONE), (Precision::F16, LossScale::DYNAMIC)] {
        let half = losses(precision, scale);
        assert_ne!(half, single, "{precision:?} is used");
        for (step, (half, single)) in half.iter().zip(&single).enumerate() {
            assert!((half / single - 1.0).abs() < 0.05, "{precision:?}, step {step}: {half} {single}");
        }
    }
}
