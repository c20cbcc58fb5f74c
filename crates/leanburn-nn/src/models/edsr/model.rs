//! The network itself.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use leanburn_common::panic_if_invalid;
use leanburn_ops::{Activation, Convolution, ResidencyPolicy, conv3d, norm_act_conv3d};

use super::config::EdsrConfig;
use crate::blocks::{Conv2d, Conv2dConfig};
use crate::segmented::{apart, segmented};

/// Super-resolution of planes by residual blocks; see [`EdsrConfig`] for an example.
///
/// # Memory
///
/// Saved for backward: of each block its input and what its first convolution gives, on the coarse grid; of each doubling its input and
/// its output. Segments are `head`, `body_0`, .., `tail_0`, .. and `out`.
#[derive(Module, Debug)]
pub struct Edsr {
    head: Conv2d,
    /// Blocks, and a convolution behind them.
    body: Vec<EdsrLayer>,
    tail: Vec<EdsrTail>,
    last: Conv2d,
    #[module(skip)]
    config: EdsrConfig,
    #[module(skip)]
    residency: ResidencyPolicy,
}

/// A layer on the coarse grid.
#[derive(Module, Debug)]
#[allow(clippy::large_enum_variant, reason = "handles to parameters, small next to the parameters")]
pub enum EdsrLayer {
    /// A residual block.
    Block(EdsrBlock),
    /// The convolution behind the blocks; what the first block takes is added to it.
    Last(Conv2d),
}

/// Convolution, ReLU, convolution, multiplied by a number, plus the input.
#[derive(Module, Debug)]
pub struct EdsrBlock {
    first: Conv2d,
    second: Conv2d,
    #[module(skip)]
    scale: f64,
}

/// A convolution whose channels become places of a finer grid.
#[derive(Module, Debug)]
pub struct EdsrTail {
    conv: Conv2d,
    #[module(skip)]
    factor: usize,
}

impl EdsrConfig {
    /// Makes the model, weights distributed as PyTorch's defaults.
    ///
    /// # Panics
    ///
    /// Panics with the [errors](Self::validate) of the configuration if there are any.
    pub fn init(&self, device: &Device) -> Edsr {
        panic_if_invalid("Edsr", &self.validate());
        let hidden = self.hidden_channels;
        let conv = |channels| Conv2dConfig::new(channels, 3).with_padding(1).init(device);
        let block = |_| EdsrBlock { first: conv([hidden; 2]), second: conv([hidden; 2]), scale: self.res_scale };
        let blocks = (0..self.num_res_blocks).map(|index| EdsrLayer::Block(block(index)));
        let tail = |factor: usize| EdsrTail { conv: conv([hidden, factor * factor * hidden]), factor };
        Edsr {
            head: conv([self.in_channels, hidden]),
            body: blocks.chain([EdsrLayer::Last(conv([hidden; 2]))]).collect(),
            tail: self.factors().into_iter().map(tail).collect(),
            last: conv([hidden, self.out_channels]),
            config: self.clone(),
            residency: ResidencyPolicy::default(),
        }
    }
}

segmented!(Edsr, EdsrConfig);

impl Edsr {
    /// Names of the segments in order of execution.
    pub fn segments(&self) -> Vec<String> {
        let body = (0..self.body.len()).map(body_name);
        let tail = (0..self.tail.len()).map(tail_name);
        [HEAD.to_string()].into_iter().chain(body).chain(tail).chain([OUT.to_string()]).collect()
    }

    /// The fine field of a coarse one.
    ///
    /// # Shapes
    ///
    /// - input: `[batch_size, in_channels, 1, height, width]`
    /// - output: `[batch_size, out_channels, 1, ..]`, height and width times `upscale_factor`
    ///
    /// # Panics
    ///
    /// Panics if the input does not fit; [`check_input`](EdsrConfig::check_input) says why.
    pub fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        if let Err(error) = self.config.check_input(x.dims()) {
            panic!("Edsr: {error}");
        }
        let residency = &self.residency;
        let x = residency.run(HEAD, &self.head, x, Conv2d::forward);
        let h = self.body.iter().enumerate().fold(x.clone(), |h, (index, layer)| {
            let entry = matches!(layer, EdsrLayer::Last(_)).then(|| x.clone());
            residency.run(&body_name(index), layer, (h, entry), |layer, (h, entry)| match layer {
                EdsrLayer::Block(block) => block.forward(h),
                EdsrLayer::Last(last) => norm_act_conv3d(h, None, Activation::None, last.convolution(), entry),
            })
        });
        let h = self
            .tail
            .iter()
            .enumerate()
            .fold(h, |h, (index, layer)| residency.run(&tail_name(index), layer, h, EdsrTail::forward));
        residency.run(OUT, &self.last, h, Conv2d::forward)
    }
}

impl EdsrBlock {
    fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        let x = apart(x);
        let h = conv3d(x.clone(), self.first.convolution());
        // The weights of a convolution are smaller than what it gives.
        let Convolution { weight, bias, options } = self.second.convolution();
        let second = Convolution { weight: weight * self.scale, bias: bias.map(|bias| bias * self.scale), options };
        norm_act_conv3d(h, None, Activation::Relu, second, Some(x))
    }
}

impl EdsrTail {
    fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        let h = conv3d(x, self.conv.convolution());
        let ([batch_size, channels, _, height, width], factor) = (h.dims(), self.factor);
        let channels = channels / (factor * factor);
        h.reshape([batch_size * channels, factor, factor, height, width]).permute([0, 3, 1, 4, 2]).reshape([
            batch_size,
            channels,
            1,
            height * factor,
            width * factor,
        ])
    }
}

const HEAD: &str = "head";
const OUT: &str = "out";

fn body_name(layer: usize) -> String {
    format!("body_{layer}")
}

fn tail_name(layer: usize) -> String {
    format!("tail_{layer}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_named_and_parameters_counted() {
        let config = EdsrConfig::new(2, 1, 4).with_hidden_channels(3).with_num_res_blocks(2);
        let model = config.init(&Device::flex());
        assert_eq!(model.segments(), ["head", "body_0", "body_1", "body_2", "tail_0", "tail_1", "out"]);
        for config in [config.clone(), EdsrConfig { upscale_factor: 3, ..config }] {
            assert_eq!(config.num_parameters(), config.init(&Device::flex()).num_params());
        }
    }
}
