//! Self-attention inside the windows of a volume.

use burn::config::Config;
use burn::module::{Module, Param};
use burn::tensor::{Device, Tensor};
use leanburn_common::{Validation, ValidationError, panic_if_invalid};
use leanburn_ops::random::Distribution;
use leanburn_ops::{Activation, conv3d, norm_act_conv3d, window_attention3d};

use super::initial;
use super::linear::{Linear, LinearConfig};
use crate::validation::Rules;

/// Configuration of [`WindowAttention`].
#[derive(Config, Debug)]
pub struct WindowAttentionConfig {
    /// Channels of input and output.
    pub channels: usize,
    /// Heads, a divisor of the channels.
    pub num_heads: usize,
    /// Depth, height and width of a window.
    pub window: [usize; 3],
    /// Whether the windows begin half a window from the first voxel.
    #[config(default = false)]
    pub is_shifted: bool,
}

impl WindowAttentionConfig {
    /// Everything that is wrong with the configuration.
    #[must_use]
    pub fn validate(&self) -> Vec<ValidationError> {
        let mut validation = Validation::default();
        validation.counts([("channels", self.channels), ("num_heads", self.num_heads)]);
        validation.window("window", self.window);
        validation.groups("num_heads", self.num_heads, "channels", &[self.channels]);
        validation.errors()
    }

    /// Makes the layer, the table of biases normal with a deviation of 0.02.
    ///
    /// # Panics
    ///
    /// Panics with the [errors](Self::validate) of the configuration if there are any.
    pub fn init(&self, device: &Device) -> WindowAttention {
        panic_if_invalid("WindowAttention", &self.validate());
        let rows = self.window.iter().map(|length| 2 * length - 1).product();
        let distribution = Distribution::Normal { mean: 0.0, deviation: 0.02 };
        WindowAttention {
            relative_position_bias_table: initial::drawn(distribution, [rows, self.num_heads], device),
            qkv: LinearConfig::new(self.channels, 3 * self.channels).init(device),
            proj: LinearConfig::new(self.channels, self.channels).init(device),
            num_heads: self.num_heads,
            window: self.window,
            shift: if self.is_shifted { self.window.map(|length| length / 2) } else { [0; 3] },
        }
    }
}

/// Self-attention inside windows, with a bias for each relative position; see [`window_attention3d`].
///
/// Source: [Swin Transformer](https://arxiv.org/abs/2103.14030). Equal to MONAI's `WindowAttention` with the padding, the shift and
/// the mask of its block.
///
/// # Memory
///
/// Saved for backward: the input, queries, keys, values and what the attention gives, five volumes. Positions that the windows have
/// outside of the volume are not in memory: their keys and values are biases.
#[derive(Module, Debug)]
pub struct WindowAttention {
    relative_position_bias_table: Param<Tensor<2>>,
    qkv: Linear,
    proj: Linear,
    num_heads: usize,
    window: [usize; 3],
    shift: [usize; 3],
}

impl WindowAttention {
    /// The attention of `x`, added to `residual`; all of them are `[batch_size, channels, depth, height, width]`.
    pub fn forward(&self, x: Tensor<5>, residual: Tensor<5>) -> Tensor<5> {
        let scale = ((x.dims()[1] / self.num_heads) as f64).powf(-0.5);
        let projections = self.qkv.convolutions::<3>();
        let [_, of_keys, of_values] = projections.each_ref().map(|projection| projection.bias.clone());
        let [query, key, value] = projections.map(|projection| conv3d(x.clone(), projection));
        let attention = leanburn_ops::WindowAttention {
            num_heads: self.num_heads,
            window: self.window,
            shift: self.shift,
            scale,
            table: self.relative_position_bias_table.val(),
            // The reference pads with zeros before this layer.
            padding: [of_keys, of_values],
        };
        drop(x);
        let h = window_attention3d(query, key, value, attention);
        norm_act_conv3d(h, None, Activation::None, self.proj.convolution(), Some(residual))
    }

    /// Row of the table of biases for each query and each key of a window: `window^2` rows, the keys fastest.
    ///
    /// PyTorch's modules have it as a buffer, `relative_position_index`, and their strict loading asks for it.
    pub(crate) fn relative_positions(&self) -> Vec<i64> {
        relative_positions(self.window)
    }
}

fn relative_positions([depth, height, width]: [usize; 3]) -> Vec<i64> {
    let code = |index: usize| {
        let [d, h, w] = [index / (height * width), index / width % height, index % width];
        (d * (2 * height - 1) + h) * (2 * width - 1) + w
    };
    let tokens = depth * height * width;
    let middle = code(tokens - 1);
    (0..tokens * tokens).map(|pair| (middle + code(pair / tokens) - code(pair % tokens)) as i64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_positions_begin_in_the_middle() {
        // Of a window of 2 x 1 x 2: rows 0 to 8 of the table, 4 for a position and itself.
        assert_eq!(relative_positions([2, 1, 2])[..8], [4, 3, 1, 0, 5, 4, 2, 1]);
    }
}
