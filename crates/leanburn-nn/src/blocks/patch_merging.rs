//! From one stage of a Swin transformer to the next.

use burn::module::{Module, Param};
use burn::tensor::{Device, Int, Tensor, ops::ConvOptions};
use leanburn_ops::{Convolution, conv3d};

use super::{LayerNorm, LayerNormConfig, uniform};

/// The channels of the voxels of a patch, normalised, and mapped to twice as many channels as one of them has.
///
/// # Memory
///
/// Saved for backward: the volume with its patches as channels, and its norm.
#[derive(Module, Debug)]
pub struct PatchMerging {
    reduction: Reduction,
    norm: LayerNorm,
    #[module(skip)]
    patch: [usize; 3],
    #[module(skip)]
    places: &'static [i64],
}

/// A linear map without bias.
#[derive(Module, Debug)]
pub struct Reduction {
    weight: Param<Tensor<2>>,
}

impl PatchMerging {
    /// Merges patches of so many voxels along each axis. `places` is where the parameters have the voxels of a patch, the last axis
    /// fastest; empty if they have them in that order.
    pub(crate) fn new(channels: usize, patch: [usize; 3], places: &'static [i64], device: &Device) -> Self {
        let merged = patch.iter().product::<usize>() * channels;
        Self {
            reduction: Reduction { weight: uniform(merged, [2 * channels, merged], device) },
            norm: LayerNormConfig::new(merged).init(device),
            patch,
            places,
        }
    }

    /// Number of parameters for patches of so many voxels.
    pub(crate) fn num_parameters(channels: usize, voxels: usize) -> usize {
        2 * voxels * channels * (channels + 1)
    }

    /// Merges the patches. An axis that is no multiple of the patch gets zeros at its end.
    ///
    /// # Shapes
    ///
    /// - input: `[batch_size, channels, depth, height, width]`
    /// - output: `[batch_size, 2 channels, ..]`, each axis divided by that of the patch, rounded up
    pub fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        let x = patches_as_channels(padded(x, self.patch), self.patch);
        let merged = x.dims()[1];
        let order = |vector: Tensor<1>| self.in_order(vector.reshape([1, merged])).reshape([merged]);
        let x = self.norm.forward_in_order(x, order);
        let weight = self.in_order(self.reduction.weight.val());
        let [channels_out, channels_in] = weight.dims();
        let options = ConvOptions::new([1; 3], [0; 3], [1; 3], 1);
        conv3d(x, Convolution { weight: weight.reshape([channels_out, channels_in, 1, 1, 1]), bias: None, options })
    }

    /// Parameters `[rows, voxels * channels]` with the voxels in the order that volumes have them in.
    ///
    /// So that a volume is taken apart once, whatever the order of the parameters is.
    fn in_order(&self, parameters: Tensor<2>) -> Tensor<2> {
        if self.places.is_empty() {
            return parameters;
        }
        let (voxels, [rows, columns]) = (self.places.len(), parameters.dims());
        let places = Tensor::<1, Int>::from_data(self.places, &parameters.device());
        parameters.reshape([rows, voxels, columns / voxels]).select(1, places).reshape([rows, columns])
    }
}

/// The volume with zeros behind each axis that is no multiple of the patch's.
fn padded(x: Tensor<5>, patch: [usize; 3]) -> Tensor<5> {
    (0..3).fold(x, |x, axis| {
        let (mut dims, dim) = (x.dims(), axis + 2);
        dims[dim] = dims[dim].next_multiple_of(patch[axis]) - dims[dim];
        if dims[dim] == 0 {
            return x;
        }
        let zeros = Tensor::zeros(dims, (&x.device(), x.dtype()));
        Tensor::cat(vec![x, zeros], dim)
    })
}

/// The voxels of each patch one behind the other along the channels.
fn patches_as_channels(x: Tensor<5>, patch: [usize; 3]) -> Tensor<5> {
    let [batch_size, channels, depth, height, width] = x.dims();
    let size = [depth / patch[0], height / patch[1], width / patch[2]];
    let apart: Tensor<8> = x.reshape([batch_size, channels, size[0], patch[0], size[1], patch[1], size[2], patch[2]]);
    let ordered = apart.permute([0, 3, 5, 7, 1, 2, 4, 6]);
    ordered.reshape([batch_size, patch.iter().product::<usize>() * channels, size[0], size[1], size[2]])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(x: Tensor<5>) -> Vec<f32> {
        x.into_data().try_to_vec().unwrap()
    }

    #[test]
    fn voxels_of_a_patch_become_channels() {
        let device = Device::flex();
        let x = Tensor::<1, Int>::arange(0..32, &device).float().reshape([1, 2, 2, 2, 4]);
        let y = patches_as_channels(x, [2; 3]);
        assert_eq!(y.dims(), [1, 16, 1, 1, 2]);
        // Both patches of the first voxel, channel 0 and channel 1; then those of its neighbour along the width.
        assert_eq!(values(y)[..8], [0.0, 2.0, 16.0, 18.0, 1.0, 3.0, 17.0, 19.0]);
    }

    #[test]
    fn an_axis_that_the_patch_does_not_divide_is_padded() {
        let x = Tensor::<5>::ones([1, 1, 1, 3, 2], &Device::flex());
        assert_eq!(
            values(patches_as_channels(padded(x, [1, 2, 2]), [1, 2, 2])),
            [1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 1.0, 0.0]
        );
    }
}
