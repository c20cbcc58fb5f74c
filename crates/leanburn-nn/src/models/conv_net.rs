//! A plain residual network of convolutions on planes: what operators are compared with.

use burn::config::Config;
use burn::module::Module;
use burn::tensor::{Device, Tensor};
use leanburn_common::{Validation, ValidationError, panic_if_invalid};
use leanburn_ops::ResidencyPolicy;

use super::shape_error::ShapeError;
use crate::blocks::{ActivationConfig, Conv2d, Conv2dConfig, NormAct, NormActConfig, NormConfig};
use crate::segmented::segmented;
use crate::validation::Rules;
use crate::weights::MonaiWeights;

/// Configuration of [`ConvNet`].
///
/// # Example
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use leanburn_nn::models::ConvNetConfig;
///
/// let model = ConvNetConfig::new(1, 1).with_channels(8).with_num_blocks(2).init(&Device::flex());
/// let field = Tensor::zeros([2, 1, 1, 12, 9], &Device::flex());
/// assert_eq!(model.forward(field).dims(), [2, 1, 1, 12, 9]);
/// ```
#[derive(Config, Debug)]
pub struct ConvNetConfig {
    /// Channels of the input field.
    pub in_channels: usize,
    /// Channels of the output field.
    pub out_channels: usize,
    /// Channels between.
    #[config(default = 64)]
    pub channels: usize,
    /// Residual blocks of two convolutions.
    #[config(default = 8)]
    pub num_blocks: usize,
}

/// More blocks than anybody has.
const MAX_BLOCKS: usize = 256;
/// Groups of the norms, or as many as divide the channels.
const GROUPS: usize = 8;
/// Sides of the kernels.
const KERNEL: usize = 3;

impl ConvNetConfig {
    /// Everything that is wrong with the configuration.
    #[must_use]
    pub fn validate(&self) -> Vec<ValidationError> {
        let mut validation = Validation::default();
        validation.counts([
            ("in_channels", self.in_channels),
            ("out_channels", self.out_channels),
            ("channels", self.channels),
        ]);
        let (blocks, expected) = (self.num_blocks, format!("1 to {MAX_BLOCKS} blocks"));
        validation.check((1..=MAX_BLOCKS).contains(&blocks), "num_blocks", &expected, blocks, "correct this number");
        validation.errors()
    }

    /// Whether the model takes an input of this shape.
    ///
    /// # Errors
    ///
    /// [`ShapeError`] where there are other channels, or the input is no plane.
    pub fn check_input(&self, shape: [usize; 5]) -> Result<(), ShapeError> {
        let [_, channels, found @ ..] = shape;
        if channels != self.in_channels {
            return Err(ShapeError::Channels { expected: self.in_channels, found: channels });
        }
        let [depth, height, width] = found;
        if depth == 1 && height > 0 && width > 0 { Ok(()) } else { Err(ShapeError::Axes { found, axes: 2 }) }
    }

    /// Makes the model, weights distributed as PyTorch's defaults.
    ///
    /// # Panics
    ///
    /// Panics with the [errors](Self::validate) of the configuration if there are any.
    pub fn init(&self, device: &Device) -> ConvNet {
        panic_if_invalid("ConvNet", &self.validate());
        let conv = |channels| Conv2dConfig::new(channels, KERNEL).with_padding(KERNEL / 2).init(device);
        let channels = self.channels;
        let groups = (1..=GROUPS).rev().find(|groups| channels.is_multiple_of(*groups)).unwrap_or(1);
        let norm = || {
            let config = NormActConfig::new(channels).with_norm(NormConfig::Group(groups));
            config.with_activation(ActivationConfig::Silu).init(device)
        };
        let half = |channels| ConvNetHalf { norm: norm(), conv: conv(channels) };
        let block = || ConvNetBlock { first: half([channels; 2]), second: half([channels; 2]) };
        ConvNet {
            input: conv([self.in_channels, channels]),
            blocks: (0..self.num_blocks).map(|_| block()).collect(),
            output: half([channels, self.out_channels]),
            config: self.clone(),
            residency: ResidencyPolicy::default(),
        }
    }
}

/// Group norm, SiLU and a 3x3 convolution.
#[derive(Module, Debug)]
pub struct ConvNetHalf {
    norm: NormAct,
    conv: Conv2d,
}

impl ConvNetHalf {
    fn forward(&self, x: Tensor<5>, residual: Option<Tensor<5>>) -> Tensor<5> {
        self.norm.then_conv3d(x, self.conv.convolution(), residual)
    }
}

/// Two of these, and the input added.
#[derive(Module, Debug)]
pub struct ConvNetBlock {
    first: ConvNetHalf,
    second: ConvNetHalf,
}

impl ConvNetBlock {
    fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        self.second.forward(self.first.forward(x.clone(), None), Some(x))
    }
}

/// A convolution to the channels, residual blocks of group norm, SiLU and 3x3 convolution twice, and a convolution to the output, all on
/// one grid with zeros around it. Source: [Identity Mappings](https://arxiv.org/abs/1603.05027).
///
/// It sees `2 (num_blocks + 1)` positions to each side of a place, whatever the grid: on a finer one less of the field, where an operator sees
/// all of it on every grid.
///
/// # Memory
///
/// Saved for backward: two volumes a block. Segments are the blocks, `block_0`, ..; a recomputed one saves its input.
#[derive(Module, Debug)]
pub struct ConvNet {
    input: Conv2d,
    blocks: Vec<ConvNetBlock>,
    output: ConvNetHalf,
    #[module(skip)]
    config: ConvNetConfig,
    #[module(skip)]
    residency: ResidencyPolicy,
}

segmented!(ConvNet, ConvNetConfig);

impl ConvNet {
    /// Names of the segments in order of execution.
    pub fn segments(&self) -> Vec<String> {
        (0..self.blocks.len()).map(block_name).collect()
    }

    /// The output field.
    ///
    /// # Shapes
    ///
    /// - input: `[batch_size, in_channels, 1, height, width]`
    /// - output: `[batch_size, out_channels, 1, height, width]`
    ///
    /// # Panics
    ///
    /// Panics where [`check_input`](ConvNetConfig::check_input) has an error.
    pub fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        if let Err(error) = self.config.check_input(x.dims()) {
            panic!("ConvNet: {error}");
        }
        let h = self.blocks.iter().enumerate().fold(self.input.forward(x), |h, (index, block)| {
            self.residency.run(&block_name(index), block, h, ConvNetBlock::forward)
        });
        self.output.forward(h, None)
    }
}

fn block_name(index: usize) -> String {
    format!("block_{index}")
}

impl MonaiWeights for ConvNet {
    /// Our own.
    fn monai_name(path: &str) -> String {
        path.to_string()
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Distribution, Int};

    use super::*;
    use crate::validation::keys;

    fn config() -> ConvNetConfig {
        ConvNetConfig::new(2, 1).with_channels(12).with_num_blocks(3)
    }

    #[test]
    fn parameters_are_those_of_its_convolutions_and_norms() {
        let model = config().init(&Device::flex());
        let (input, half, output) = (2 * 9 * 12 + 12, 12 * 9 * 12 + 12 + 24, 12 * 9 + 1 + 24);
        assert_eq!(model.num_params(), input + 6 * half + output);
        assert_eq!(model.segments(), ["block_0", "block_1", "block_2"]);
    }

    #[test]
    fn recomputed_blocks_have_the_same_gradients_and_planes_do_not_meet() {
        let device = Device::flex().autodiff();
        let x = Tensor::random([2, 2, 1, 6, 7], Distribution::Normal(0.0, 1.0), &device);
        let model = config().init(&device);
        let gradient = |model: &ConvNet| {
            let x = x.clone().require_grad();
            let y = model.forward(x.clone());
            let gradients = y.clone().powf_scalar(2.0).sum().backward();
            (y.into_data(), x.grad(&gradients).unwrap().into_data())
        };
        let kept = gradient(&model);
        assert_eq!(kept, gradient(&model.clone().with_residency(ResidencyPolicy::recompute_all())));
        let second = model.forward(x.clone().select(0, Tensor::<1, Int>::from_data([1], &device)));
        assert_eq!(second.dims(), [1, 1, 1, 6, 7]);
        assert!(second.into_data().iter::<f32>().zip(kept.0.iter::<f32>().skip(42)).all(|(a, b)| (a - b).abs() < 1e-5));
    }

    #[test]
    fn errors_are_typed() {
        let wrong = ConvNetConfig::new(0, 0).with_channels(0).with_num_blocks(0);
        assert_eq!(keys(wrong.validate()), ["in_channels", "out_channels", "channels", "num_blocks"]);
        assert!(config().check_input([1, 2, 1, 6, 7]).is_ok() && config().check_input([1, 2, 3, 6, 7]).is_err());
        assert!(config().check_input([1, 1, 1, 6, 7]).is_err());
    }
}
