//! Halving of a volume by averaging.

use burn::tensor::Tensor;

/// The mean of each 2x2x2 cube; the last plane of an odd axis is left out.
///
/// # Shapes
///
/// - input: `[batch_size, channels, depth, height, width]`, each axis at least 2
/// - output: `[batch_size, channels, depth / 2, height / 2, width / 2]`, rounded down
///
/// # Memory
///
/// Holds nothing for backward. Workspace: half the input, plus a copy of it where an axis is odd.
pub fn average_pool_by_two(x: Tensor<5>) -> Tensor<5> {
    let [batch_size, channels, depth, height, width] = x.dims();
    let [d, h, w] = [depth / 2, height / 2, width / 2];
    let even = match [depth, height, width] == [2 * d, 2 * h, 2 * w] {
        true => x,
        false => x.slice([0..batch_size, 0..channels, 0..2 * d, 0..2 * h, 0..2 * w]),
    };
    let cubes: Tensor<7> = even.reshape([batch_size * channels, d, 2, h, 2, w, 2]);
    cubes.mean_dim(6).mean_dim(4).mean_dim(2).reshape([batch_size, channels, d, h, w])
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;

    use super::*;

    #[test]
    fn each_cube_is_averaged_and_odd_planes_are_left_out() {
        let device = Device::flex();
        // value = 100 d + 10 h + w over 2 x 3 x 4
        let values: Vec<f32> = (0..24).map(|at| (100 * (at / 12) + 10 * (at / 4 % 3) + at % 4) as f32).collect();
        let x = Tensor::<1>::from_floats(values.as_slice(), &device).reshape([1, 1, 2, 3, 4]);
        let y = average_pool_by_two(x);
        assert_eq!(y.dims(), [1, 1, 1, 1, 2]);
        assert_eq!(y.into_data().try_to_vec::<f32>().unwrap(), [55.5, 57.5]);
    }
}
