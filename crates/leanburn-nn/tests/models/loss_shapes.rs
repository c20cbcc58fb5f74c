//! No loss broadcasts: what it compares has one shape.

use std::panic::{AssertUnwindSafe, catch_unwind};

use burn::prelude::*;
use leanburn_nn::losses::{
    DiceCeLoss, DiceLoss, FeatureLoss3dConfig, FocalLoss, LpipsConfig, VoxelLoss, binary_cross_entropy_loss,
    cross_entropy_loss, kl_divergence, l1_loss, l2_loss,
};

type Loss = Box<dyn Fn(Tensor<5>, Tensor<5>) -> Tensor<1>>;

fn zeros(dims: [usize; 5]) -> Tensor<5> {
    Tensor::zeros(dims, &Device::flex())
}

/// The message of a loss that panics.
#[track_caller]
fn assert_rejects(name: &str, says: &str, loss: impl FnOnce() -> Tensor<1>) {
    let panic = catch_unwind(AssertUnwindSafe(|| drop(loss()))).expect_err(name);
    let found = panic.downcast_ref::<String>().cloned().unwrap_or_default();
    assert!(found.contains(says), "{name}: {found}");
}

#[test]
fn volumes_of_other_shapes_are_rejected() {
    let device = Device::flex();
    let (features, lpips) = (FeatureLoss3dConfig::new().init(&device), LpipsConfig::new().init(&device));
    let losses: [(&str, Loss); 7] = [
        ("l1", Box::new(l1_loss)),
        ("l2", Box::new(l2_loss)),
        ("kl", Box::new(kl_divergence)),
        ("voxels", Box::new(|x, y| VoxelLoss::default().forward(x, y))),
        ("binary cross-entropy", Box::new(binary_cross_entropy_loss)),
        ("features", Box::new(move |x, y| features.forward(x, y))),
        ("lpips", Box::new(move |x, y| lpips.forward(x, y, 0))),
    ];
    for (name, loss) in &losses {
        for other in [[1, 1, 32, 32, 32], [2, 3, 32, 32, 32], [2, 1, 32, 32, 1]] {
            let says = format!("a loss compares tensors of one shape, found [2, 1, 32, 32, 32] and {other:?}");
            assert_rejects(name, &says, || loss(zeros([2, 1, 32, 32, 32]), zeros(other)));
        }
    }
}

#[test]
fn labels_of_another_shape_are_rejected() {
    let logits = || zeros([2, 3, 4, 4, 4]);
    let labels = |batch_size| Tensor::<4, Int>::zeros([batch_size, 4, 4, 4], &Device::flex());
    let says = "labels of these logits are [batch_size, depth, height, width] = [2, 4, 4, 4], found [1, 4, 4, 4]";
    assert_rejects("cross-entropy", says, || cross_entropy_loss(logits(), labels(1)));
    assert_rejects("dice", says, || DiceLoss::new().forward(logits(), labels(1)));
    assert_rejects("dice and cross-entropy", says, || DiceCeLoss::new().forward(logits(), labels(1)));
    assert_rejects("focal", says, || FocalLoss::new().forward(logits(), labels(1)));
}
