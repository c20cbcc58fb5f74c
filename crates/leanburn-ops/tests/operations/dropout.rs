//! Dropout: a product with a mask that the seed decides.

use burn::prelude::*;
use burn::tensor::TensorData;
use leanburn_kernels::dropout::DropoutMask;
use leanburn_ops::{dropout, dropout3d, random};

use crate::case::{Case, Inputs};

/// `x` times the mask of the first operation after `random::seed(.., 7)`.
fn expected(x: &Tensor<5>, probability: f64, run: usize) -> Tensor<5> {
    let key = random::derive(random::derive(7, &[]), &[0]);
    let mask = DropoutMask::new(key, probability, run);
    let kept = mask.kept(x.shape().num_elements() / run).into_iter();
    let factors: Vec<f64> = kept.flat_map(|kept| vec![f64::from(kept) / (1.0 - probability); run]).collect();
    x.clone() * Tensor::from_data(TensorData::new(factors, x.dims()), (&x.device(), x.dtype()))
}

#[test]
fn values_are_multiplied_by_their_mask() {
    for (volume, probability) in [([2, 3, 5, 6, 7], 0.3), ([1, 2, 17, 16, 20], 0.9), ([1, 1, 1, 1, 1], 0.5)] {
        let case = Case { volumes: vec![volume], single_precision_constants: true, ..Case::default() };
        case.check(
            move |(x, _, _): Inputs| {
                random::seed(&x[0].device(), 7);
                dropout(x[0].clone(), probability)
            },
            move |(x, _, _): Inputs| expected(&x[0], probability, 1),
        );
    }
}

#[test]
fn channels_are_multiplied_by_their_mask() {
    let volume = [3, 7, 2, 3, 5];
    let case = Case { volumes: vec![volume], single_precision_constants: true, ..Case::default() };
    case.check(
        |(x, _, _): Inputs| {
            random::seed(&x[0].device(), 7);
            dropout3d(x[0].clone(), 0.4)
        },
        |(x, _, _): Inputs| expected(&x[0], 0.4, 2 * 3 * 5),
    );
}
