//! The depth that a distribution expects.

use burn::tensor::Tensor;
use burn::tensor::activation::softmax;
use leanburn_ops::numerics::widen;

/// The mean absolute difference between depths and their expectations under `softmax(logits)`, in float32; 0 where no depth is known.
///
/// # Shapes
///
/// - `logits`: `[batch_size, bins, cameras, height, width]`, `bins` as many depths
/// - `depth`: `[batch_size, 1, cameras, height, width]`, 0 where it is not known
/// - output: `[1]`
///
/// # Memory
///
/// Saved for backward: some times the logits, which are small.
///
/// # Panics
///
/// Panics if the shapes do not fit.
pub fn expected_depth_loss(logits: Tensor<5>, bins: &[f64], depth: Tensor<5>) -> Tensor<1> {
    let [batch_size, count, cameras, height, width] = logits.dims();
    assert!(count == bins.len(), "expected logits of {} depths, found {count}", bins.len());
    assert!(
        depth.dims() == [batch_size, 1, cameras, height, width],
        "expected one depth for each of {:?} pixels, found {:?}",
        [batch_size, cameras, height, width],
        depth.dims()
    );
    let bins: Vec<f32> = bins.iter().map(|depth| *depth as f32).collect();
    let bins: Tensor<5> = Tensor::<1>::from_floats(bins.as_slice(), &logits.device()).reshape([1, count, 1, 1, 1]);
    let expected = (softmax(widen(logits), 1) * bins).sum_dim(1);
    let depth = widen(depth);
    let is_known = depth.clone().greater_elem(0.0).float();
    let known = is_known.clone().sum().clamp_min(1.0);
    ((expected - depth).abs() * is_known).sum() / known
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;

    use super::*;

    #[test]
    fn pixels_of_unknown_depth_do_not_count() {
        let device = Device::flex();
        let logits = Tensor::<5>::zeros([1, 2, 1, 1, 3], &device);
        let loss = |depths: [f32; 3]| {
            let depth = Tensor::<1>::from_floats(depths, &device).reshape([1, 1, 1, 1, 3]);
            expected_depth_loss(logits.clone(), &[1.0, 3.0], depth).into_scalar::<f32>()
        };
        assert_eq!(loss([2.0, 5.0, 0.0]), 1.5);
        assert_eq!(loss([0.0; 3]), 0.0);
    }
}
