//! Losses at several levels of a decoder.
//!
//! Lee et al., [Deeply-supervised nets](https://arxiv.org/abs/1409.5185); the weights are those of
//! [nnU-Net](https://doi.org/10.1038/s41592-020-01008-z): a level counts half as much as the next finer one, all together one.

use burn::tensor::{Int, Tensor};

use super::DiceCeLoss;

/// Weights of levels, the finest first: `1, 1/2, 1/4, ..` divided by their sum.
pub fn deep_supervision_weights(levels: usize) -> Vec<f64> {
    let weights = (0..levels).map(|level| 0.5f64.powi(level as i32)).collect::<Vec<_>>();
    let sum: f64 = weights.iter().sum();
    weights.into_iter().map(|weight| weight / sum).collect()
}

/// The losses of levels, the finest first, as one.
///
/// # Panics
///
/// Panics if there are none.
pub fn deep_supervision_loss(losses: Vec<Tensor<1>>) -> Tensor<1> {
    let weights = deep_supervision_weights(losses.len());
    let weighted = losses.into_iter().zip(weights).map(|(loss, weight)| loss * weight);
    weighted.reduce(|sum, loss| sum + loss).expect("deep supervision of at least one level")
}

impl DiceCeLoss {
    /// The loss at each level, against labels of the finest: on a coarser grid a voxel has the label at its middle, PyTorch's
    /// `nearest-exact`.
    ///
    /// # Shapes
    ///
    /// - `levels`: `[batch_size, classes, ..]` of each level, whose depth, height and width divide those of the labels
    /// - `labels`: `[batch_size, depth, height, width]`, from 0 to `classes - 1`
    /// - outputs: `[1]` each
    ///
    /// # Panics
    ///
    /// As [`forward`](Self::forward), and if the axes of a level do not divide those of the labels.
    pub fn forward_levels(&self, levels: Vec<Tensor<5>>, labels: &Tensor<4, Int>) -> Vec<Tensor<1>> {
        let of_level = |logits: Tensor<5>| {
            let [_, _, extent @ ..] = logits.dims();
            self.forward(logits, coarser(labels.clone(), extent))
        };
        levels.into_iter().map(of_level).collect()
    }
}

/// Labels on a grid of another extent, each from the middle of the voxels that it stands for.
fn coarser(labels: Tensor<4, Int>, extent: [usize; 3]) -> Tensor<4, Int> {
    let [batch_size, from @ ..] = labels.dims();
    if from == extent {
        return labels;
    }
    let is_sound = (0..3).all(|axis| extent[axis] > 0 && from[axis].is_multiple_of(extent[axis]));
    assert!(is_sound, "labels of {from:?} voxels have no coarser grid of {extent:?}: its axes must divide theirs");
    let [depth, height, width] = extent;
    let factors = [0, 1, 2].map(|axis| from[axis] / extent[axis]);
    let cells: Tensor<7, Int> = labels.reshape([batch_size, depth, factors[0], height, factors[1], width, factors[2]]);
    let middle = |cells: Tensor<7, Int>, axis: usize| cells.narrow(2 * axis + 2, factors[axis] / 2, 1);
    (0..3).fold(cells, middle).reshape([batch_size, depth, height, width])
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Device, Tolerance};

    use super::*;

    #[test]
    fn weights_are_halved_and_sum_up_to_one() {
        assert_eq!(deep_supervision_weights(1), [1.0]);
        assert_eq!(deep_supervision_weights(3), [4.0 / 7.0, 2.0 / 7.0, 1.0 / 7.0]);
    }

    /// `torch.nn.functional.interpolate(torch.arange(n).float()[None, None], size=m, mode="nearest-exact")` of each axis.
    #[test]
    fn a_coarser_voxel_has_the_label_at_its_middle() {
        let labels = Tensor::<1, Int>::arange(0..2 * 6 * 4 * 3, &Device::flex()).reshape([2, 6, 4, 3]);
        let found = coarser(labels, [2, 2, 1]);
        let at = |item: i32, [d, h, w]: [i32; 3]| ((item * 6 + d) * 4 + h) * 3 + w;
        let expected = [0, 1].map(|item| [1, 4].map(|d| [1, 3].map(|h| [at(item, [d, h, 1])])));
        found.into_data().assert_eq(&Tensor::<4, Int>::from_data(expected, &Device::flex()).into_data(), false);
    }

    #[test]
    fn a_level_is_a_loss_against_coarser_labels() {
        let device = Device::flex().autodiff();
        let fine = crate::losses::classes::samples::logits(&device);
        let labels = crate::losses::classes::samples::labels(&device); // [2, 2, 3, 4]
        let coarse = Tensor::<1, Int>::arange(0..12, &device).float().reshape([2, 3, 1, 1, 2]).require_grad();
        let losses = DiceCeLoss::new().forward_levels(vec![fine.clone(), coarse.clone()], &labels);
        let of_coarse = labels
            .clone()
            .slice([0..2, 1..2, 1..2, 1..4])
            .reshape([2, 1, 1, 3])
            .select(3, Tensor::<1, Int>::from_data([0i64, 2].as_slice(), &device));
        let expected = [DiceCeLoss::new().forward(fine, labels), DiceCeLoss::new().forward(coarse.clone(), of_coarse)];
        for (loss, expected) in losses.iter().zip(&expected) {
            loss.to_data().assert_approx_eq::<f32>(&expected.to_data(), Tolerance::absolute(1e-6));
        }
        let [_, of_coarse] = expected;
        let gradient = |loss: &Tensor<1>| coarse.grad(&loss.backward()).unwrap();
        let found = gradient(&deep_supervision_loss(losses));
        found.into_data().assert_approx_eq::<f32>(&(gradient(&of_coarse) / 3.0).into_data(), Tolerance::absolute(1e-6));
    }

    #[test]
    #[should_panic = "labels of [2, 3, 4] voxels have no coarser grid of [1, 2, 2]"]
    fn a_level_divides_the_labels() {
        let device = Device::flex();
        let labels = crate::losses::classes::samples::labels(&device);
        DiceCeLoss::new().forward_levels(vec![Tensor::zeros([2, 3, 1, 2, 2], &device)], &labels);
    }
}
