//! Values of a whole volume, as a model takes them and gives them.

use burn::tensor::{Device, Tensor, TensorData};
use leanburn_data::Affine;

/// Values `[channels, depth, height, width]` as a batch of one.
pub fn tensor(data: Vec<f32>, shape: [usize; 4], device: &Device) -> Tensor<5> {
    let [channels, depth, height, width] = shape;
    Tensor::from_data(TensorData::new(data, [1, channels, depth, height, width]), device)
}

/// What `model` makes of values of any extent: padded to multiples of what it takes, and cropped again.
pub fn through(
    data: &[f32],
    shape: [usize; 4],
    multiples: [usize; 3],
    model: impl FnOnce(Vec<f32>, [usize; 4]) -> Tensor<5>,
) -> Vec<f32> {
    let (padded, padded_shape) = pad(data, shape, multiples);
    let output = model(padded, padded_shape);
    let [_, channels, depth, height, width] = output.dims();
    crop(&values(output), [channels, depth, height, width], [shape[1], shape[2], shape[3]])
}

/// The values of a tensor, in memory.
pub fn values<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().convert::<f32>().try_to_vec().expect("the values were just made f32")
}

/// The volume with its edge repeated until each axis is a multiple of its entry of `multiples`.
pub fn pad(data: &[f32], shape: [usize; 4], multiples: [usize; 3]) -> (Vec<f32>, [usize; 4]) {
    let [channels, from @ ..] = shape;
    let to = [0, 1, 2].map(|axis| from[axis].next_multiple_of(multiples[axis]));
    if from == to {
        return (data.to_vec(), shape);
    }
    let mut padded = Vec::with_capacity(channels * to.iter().product::<usize>());
    for channel in 0..channels {
        for x in 0..to[0] {
            for y in 0..to[1] {
                let (x, y) = (x.min(from[0] - 1), y.min(from[1] - 1));
                let start = ((channel * from[0] + x) * from[1] + y) * from[2];
                let row = &data[start..start + from[2]];
                padded.extend_from_slice(row);
                padded.extend(std::iter::repeat_n(row[from[2] - 1], to[2] - from[2]));
            }
        }
    }
    (padded, [channels, to[0], to[1], to[2]])
}

/// The affine of a grid of voxels of a size in millimetres, the first one at the origin.
pub fn grid([x, y, z]: [f64; 3]) -> Affine {
    [[x, 0.0, 0.0, 0.0], [0.0, y, 0.0, 0.0], [0.0, 0.0, z, 0.0], [0.0, 0.0, 0.0, 1.0]]
}

/// The affine of a grid whose voxels are `factors` times as large along the axes: its first voxel's centre moves with them.
pub fn scale_affine(affine: &Affine, factors: [f64; 3]) -> Affine {
    let mut scaled = *affine;
    for row in scaled.iter_mut().take(3) {
        let shift: f64 = row[..3].iter().zip(factors).map(|(step, factor)| step * (factor - 1.0) / 2.0).sum();
        row[3] += shift;
        row[..3].iter_mut().zip(factors).for_each(|(step, factor)| *step *= factor);
    }
    scaled
}

/// The first `to` voxels of each axis.
fn crop(data: &[f32], shape: [usize; 4], to: [usize; 3]) -> Vec<f32> {
    let [channels, from @ ..] = shape;
    let mut cropped = Vec::with_capacity(channels * to.iter().product::<usize>());
    for channel in 0..channels {
        for x in 0..to[0] {
            for y in 0..to[1] {
                let start = ((channel * from[0] + x) * from[1] + y) * from[2];
                cropped.extend_from_slice(&data[start..start + to[2]]);
            }
        }
    }
    cropped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_coarser_grid_covers_the_same_space() {
        let affine = [[2.0, 0.0, 0.0, -9.0], [0.0, 1.0, 0.0, 5.0], [0.0, 0.0, 3.0, 0.0], [0.0, 0.0, 0.0, 1.0]];
        let coarse = scale_affine(&affine, [4.0, 1.0, 2.0]);
        // the corner before the first voxel stays: centre minus half a voxel
        for axis in 0..3 {
            let corner = |affine: &Affine| affine[axis][3] - affine[axis][axis] / 2.0;
            assert_eq!(corner(&coarse), corner(&affine));
        }
        assert_eq!(scale_affine(&coarse, [0.25, 1.0, 0.5]), affine);
    }

    #[test]
    fn padding_repeats_the_edge_and_cropping_undoes_it() {
        let data: Vec<f32> = (0..2 * 3 * 2 * 5).map(|value| value as f32).collect();
        let (padded, shape) = pad(&data, [2, 3, 2, 5], [2, 4, 8]);
        assert_eq!(shape, [2, 4, 4, 8]);
        assert_eq!(padded[4..8], [4.0; 4]);
        assert_eq!(crop(&padded, shape, [3, 2, 5]), data);
    }
}
