//! From one stage of the transformer to the next.

use burn::module::{Module, Param};
use burn::tensor::{Device, Int, Tensor, ops::ConvOptions};
use leanburn_ops::{Convolution, conv3d};

use super::config::{Merging, PATCH};
use crate::blocks::{LayerNorm, LayerNormConfig, uniform};

/// Voxels of a patch.
const VOXELS: usize = PATCH * PATCH * PATCH;

/// The channels of the eight voxels of a patch, normalised, and mapped to twice as many channels as one of them has.
///
/// # Memory
///
/// Saved for backward: the volume with its patches as channels, and its norm.
#[derive(Module, Debug)]
pub struct PatchMerging {
    reduction: Reduction,
    norm: LayerNorm,
    #[module(skip)]
    order: Merging,
}

/// A linear map without bias.
#[derive(Module, Debug)]
pub struct Reduction {
    weight: Param<Tensor<2>>,
}

impl PatchMerging {
    pub(super) fn new(channels: usize, order: Merging, device: &Device) -> Self {
        let merged = VOXELS * channels;
        Self {
            reduction: Reduction { weight: uniform(merged, [2 * channels, merged], device) },
            norm: LayerNormConfig::new(merged).init(device),
            order,
        }
    }

    /// Merges the patches.
    ///
    /// # Shapes
    ///
    /// - input: `[batch_size, channels, depth, height, width]`, each axis even
    /// - output: `[batch_size, 2 channels, depth / 2, height / 2, width / 2]`
    pub fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        let x = patches_as_channels(x);
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
        let Merging::Merging = self.order else { return parameters };
        // Where the parameters have the voxels 000, 001, 010, .. 111 of depth, height and width.
        let places = Tensor::<1, Int>::from_data([0i64, 3, 2, 6, 1, 5, 4, 7].as_slice(), &parameters.device());
        let [rows, columns] = parameters.dims();
        parameters.reshape([rows, VOXELS, columns / VOXELS]).select(1, places).reshape([rows, columns])
    }
}

/// The voxels of each patch one behind the other along the channels.
fn patches_as_channels(x: Tensor<5>) -> Tensor<5> {
    let [batch_size, channels, depth, height, width] = x.dims();
    let size = [depth / PATCH, height / PATCH, width / PATCH];
    let apart: Tensor<8> = x.reshape([batch_size, channels, size[0], PATCH, size[1], PATCH, size[2], PATCH]);
    let ordered = apart.permute([0, 3, 5, 7, 1, 2, 4, 6]);
    ordered.reshape([batch_size, VOXELS * channels, size[0], size[1], size[2]])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn voxels_of_a_patch_become_channels() {
        let device = Device::flex();
        let x = Tensor::<1, Int>::arange(0..32, &device).float().reshape([1, 2, 2, 2, 4]);
        let y = patches_as_channels(x);
        assert_eq!(y.dims(), [1, 16, 1, 1, 2]);
        let values = y.into_data().try_to_vec::<f32>().unwrap();
        // Both patches of the first voxel, channel 0 and channel 1; then those of its neighbour along the width.
        assert_eq!(values[..8], [0.0, 2.0, 16.0, 18.0, 1.0, 3.0, 17.0, 19.0]);
    }
}
